"""Products and chains whose sizes, types, transposes and places are drawn by a seed, for the staged form."""

from __future__ import annotations

import random

from tests.cuda.staged_programs import Case

__all__ = ["MOST", "drawn_axes", "drawn_chain", "drawn_product", "drawn_sandwich"]

#: The largest size that is drawn.
MOST = 64
#: Elements of half of the banks of shared memory.
_BANKS = 16
_DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16"}
#: How a matrix of each work-group is passed: in a batch, in a group, or as one that all of them read.
_BATCH, _GROUP, _SHARED = "batch", "group", "shared"


def drawn_product(seed: int) -> Case:
    """Return C[g] := alpha op(A[g]) op(B[g]) + beta C[g]; A and B, and in groups C, are passed in one of three ways."""
    draw = random.Random(seed)
    most = draw.choice((8, 20, MOST))
    m, n, k = (draw.randint(1, most) for _ in range(3))
    # Lines along such sums begin in the same banks of shared memory.
    k = draw.choice((k, k, max(_BANKS, k // _BANKS * _BANKS)))
    element = draw.choice(("f32", "f32", "f64", "f16"))
    result = draw.choice(("f16", "f32")) if element == "f16" else element
    transposes = draw.choice(("n.n", "t.n", "n.t", "t.t"))
    alpha, beta = draw.choice((1.0, 2.0)), draw.choice((0.0, 1.0, -2.0))
    ways = [draw.choice((_BATCH, _BATCH, _GROUP, _SHARED)) for _ in range(2)]
    ways.append(draw.choice((_BATCH, _BATCH, _GROUP)))
    shapes = [(m, k)[:: -1 if transposes[0] == "t" else 1], (k, n)[:: -1 if transposes[2] == "t" else 1], (m, n)]
    elements = (element, element, result)
    types = [f"memref<{name}x{rows}x{columns}>" for name, (rows, columns) in zip(elements, shapes, strict=True)]
    parameters, lines, operands = [], ["%g = group_id"], []
    for name, type_, way in zip("ABC", types, ways, strict=True):
        whole = {_BATCH: f"{type_[:-1]}x?>", _GROUP: f"group<{type_}>", _SHARED: type_}[way]
        parameters.append(f"%{name}: {whole}")
        operands.append(f"%{name}" if way == _SHARED else f"%{name.lower()}")
        if way != _SHARED:
            place = f"subview %{name}[:,:,%g]" if way == _BATCH else f"load %{name}[%g]"
            lines.append(f"%{name.lower()} = {place} : {whole}")
    a, b, c = operands
    lines.append(f"gemm.{transposes} {alpha}, {a}, {b}, {beta}, {c} : "
                 f"{result}, {types[0]}, {types[1]}, {result}, {types[2]}")
    source = f"func @drawn({', '.join(parameters)}) {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}"
    return Case(f"drawn{seed}_{m}x{n}x{k}_{element}_{transposes}_beta{beta:g}_{'_'.join(ways)}", source,
                tuple(shape if way == _SHARED else (*shape, None) for shape, way in zip(shapes, ways, strict=True)),
                tuple(_DTYPES[name] for name in elements),
                tuple(place for place, way in enumerate(ways) if way == _GROUP))


def drawn_chain(seed: int) -> Case:
    """Return D[g] += A[g] B[g] op(C) for batches of any sizes and a matrix C that all work-groups read."""
    draw = random.Random(f"chain {seed}")
    m, n, k, j = (draw.randint(1, 24) for _ in range(4))
    element = draw.choice(("f32", "f64"))
    transpose = draw.choice("nt")
    a, b, d, t = (f"memref<{element}x{rows}x{columns}>" for rows, columns in ((m, k), (k, j), (m, n), (m, j)))
    last = (j, n) if transpose == "n" else (n, j)
    c = f"memref<{element}x{last[0]}x{last[1]}>"
    source = f"""func @chain(%A: {a[:-1]}x?>, %B: {b[:-1]}x?>, %C: {c}, %D: {d[:-1]}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : {a[:-1]}x?>
      %b = subview %B[:,:,%g] : {b[:-1]}x?>
      %d = subview %D[:,:,%g] : {d[:-1]}x?>
      %t = alloca -> {t}
      gemm.n.n 1.0, %a, %b, 0.0, %t : {element}, {a}, {b}, {element}, {t}
      gemm.n.{transpose} 1.0, %t, %C, 1.0, %d : {element}, {t}, {c}, {element}, {d}
    }}"""
    return Case(f"chain{seed}_{m}x{n}x{k}x{j}_{element}", source, ((m, k, None), (k, j, None), last, (m, n, None)),
                (_DTYPES[element],) * 4)


def drawn_sandwich(seed: int) -> Case:
    """Return D[g] := beta D[g] + op(X) A[g] X for a batch A and a matrix X that all work-groups read."""
    draw = random.Random(f"sandwich {seed}")
    n, m = (draw.randint(1, 32) for _ in range(2))
    element, beta = draw.choice(("f32", "f64")), draw.choice((0.0, 1.0))
    transpose = draw.choice("nt")
    a, t, d = (f"memref<{element}x{rows}x{columns}>" for rows, columns in ((n, n), (n, m), (m, m)))
    given = (n, m) if transpose == "n" else (m, n)
    x = f"memref<{element}x{given[0]}x{given[1]}>"
    other = "t" if transpose == "n" else "n"
    source = f"""func @sandwich(%A: {a[:-1]}x?>, %X: {x}, %D: {d[:-1]}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : {a[:-1]}x?>
      %d = subview %D[:,:,%g] : {d[:-1]}x?>
      %t = alloca -> {t}
      gemm.n.{transpose} 1.0, %a, %X, 0.0, %t : {element}, {a}, {x}, {element}, {t}
      gemm.{other}.n 1.0, %X, %t, {beta}, %d : {element}, {x}, {t}, {element}, {d}
    }}"""
    return Case(f"sandwich{seed}_{n}x{m}_{element}_{transpose}_beta{beta:g}", source,
                ((n, n, None), given, (m, m, None)), (_DTYPES[element],) * 3)


def drawn_axes(seed: int) -> Case:
    """Return matrices along each of the three axes of a batch of tensors, the middle one by a loop over slices."""
    draw = random.Random(f"axes {seed}")
    (a, b, c), (p, q, r) = ([draw.randint(1, 9) for _ in "abc"] for _ in range(2))
    element, beta = draw.choice(("f32", "f64")), draw.choice((0.0, 2.0))

    def memref(*sizes: int) -> str:
        return f"memref<{element}x{'x'.join(map(str, sizes))}>"

    u, s, t, v = memref(a, b, c), memref(p, b, c), memref(p, q, c), memref(p, q, r)
    flat, after, before, long = memref(a, b * c), memref(p, b * c), memref(p * q, c), memref(p * q, r)
    source = f"""func @axes(
      %U: {u[:-1]}x?>, %P: {memref(p, a)}, %Q: {memref(q, b)}, %R: {memref(r, c)}, %V: {v[:-1]}x?>
    ) {{
      %g = group_id
      %u = subview %U[:,:,:,%g] : {u[:-1]}x?>
      %v = subview %V[:,:,:,%g] : {v[:-1]}x?>
      %s = alloca -> {s}
      %t = alloca -> {t}
      %u0 = fuse %u[1,2] : {u}
      %s0 = fuse %s[1,2] : {s}
      %t2 = fuse %t[0,1] : {t}
      %v2 = fuse %v[0,1] : {v}
      gemm.n.n 1.0, %P, %u0, 0.0, %s0 : {element}, {memref(p, a)}, {flat}, {element}, {after}
      for %k = 0, {c} {{
        %x = subview %s[:,:,%k] : {s}
        %y = subview %t[:,:,%k] : {t}
        gemm.n.t 1.0, %x, %Q, 0.0, %y : {element}, {memref(p, b)}, {memref(q, b)}, {element}, {memref(p, q)}
      }}
      gemm.n.t 1.0, %t2, %R, {beta}, %v2 : {element}, {before}, {memref(r, c)}, {element}, {long}
    }}"""
    shapes = ((a, b, c, None), (p, a), (q, b), (r, c), (p, q, r, None))
    return Case(f"axes{seed}_{a}x{b}x{c}_{p}x{q}x{r}_{element}_beta{beta:g}", source, shapes, (_DTYPES[element],) * 5)
