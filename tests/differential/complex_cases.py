"""Programs with complex numbers whose results any target is compared with the interpreter in, or with NumPy."""

from __future__ import annotations

import itertools
from typing import Protocol

import numpy as np

DTYPES = {"c32": np.complex64, "c64": np.complex128}
PARTS = {"c32": "f32", "c64": "f64"}


class Target(Protocol):
    """A way to run a program, in place on NumPy arrays."""

    def run(self, source: str, *arguments: object, group_size: int | None = None) -> None:
        """Run the one function in `source`."""


#: Parts of numbers: each kind of them with each other, and as real and imaginary parts.
SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
BINARY, UNARY = ("add", "sub", "mul", "div"), ("neg", "conj")


def special(type_: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of numbers with such parts, and some ordinary ones."""
    rng = np.random.default_rng(0)
    numbers = np.empty(len(SPECIAL) ** 2, DTYPES[type_])
    numbers.real, numbers.imag = np.array(list(itertools.product(SPECIAL, SPECIAL))).T
    first, second = (np.array(each) for each in zip(*itertools.product(numbers, numbers), strict=True))
    ordinary = [rng.standard_normal(99) + 1j * rng.standard_normal(99) for _ in range(2)]
    return tuple(np.concatenate(each).astype(DTYPES[type_]) for each in zip((first, second), ordinary, strict=True))


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    """Compare numbers by their distance, and NaNs and infinities of their parts for themselves."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(got), finite)
        for part in ("real", "imag"):
            np.testing.assert_array_equal(getattr(got, part)[~finite], getattr(expected, part)[~finite])
        distance = np.abs(got[finite] - expected[finite])
        assert (distance <= 8 * np.finfo(expected.dtype).eps * np.abs(expected[finite])).all()


def check_arithmetic(target: Target, reference: Target, type_: str, loop: str, nan_has_sign: bool = True) -> None:
    """All instructions, in vectors and one by one; not every device turns the sign of a NaN."""
    a, b = special(type_)
    size = a.size
    results = [np.zeros(size, a.dtype) for _ in (*BINARY, *UNARY, "cmplx")]
    results += [np.zeros(size, dtype) for dtype in (a.real.dtype, a.real.dtype, bool, bool, bool)]
    names = [f"%r{number}" for number in range(len(results))]
    kinds = [type_] * (len(BINARY) + len(UNARY) + 1) + [PARTS[type_]] * 2 + ["i1"] * 3
    values = [f"arith.{kind} %x, %y : {type_}" for kind in BINARY] + [f"arith.{kind} %x : {type_}" for kind in UNARY]
    values += [f"cmplx %v8, %v7 : {PARTS[type_]} -> {type_}"]
    values += [f"re %x : {type_} -> {PARTS[type_]}", f"im %y : {type_} -> {PARTS[type_]}"]
    values += [f"cmp.eq %x, %y : {type_}", f"cmp.ne %x, %y : {type_}", f"cast %x : {type_} -> i1"]
    lines = [f"%v{number} = {value}" for number, value in enumerate(values)]
    lines.append(lines.pop(6))
    lines += [f"store %v{number}, {name}[%i] : memref<{kind}x{size}>"
              for number, (name, kind) in enumerate(zip(names, kinds, strict=True))]
    parameters = ", ".join(f"{name}: memref<{kind}x{size}>" for name, kind in zip(names, kinds, strict=True))
    source = f"""func @f(%a: memref<{type_}x{size}>, %b: memref<{type_}x{size}>, {parameters}) {{
      {loop} %i = 0, {size} {{
        %x = load %a[%i] : memref<{type_}x{size}>
        %y = load %b[%i] : memref<{type_}x{size}>
        {chr(10).join(lines)}
      }}
    }}"""
    expected = [array.copy() for array in results]
    reference.run(source, a, b, *expected, group_size=1)
    target.run(source, a, b, *results, group_size=1)
    for got, right in zip(results, expected, strict=True):
        assert_close(got, right) if right.dtype.kind == "c" else np.testing.assert_array_equal(got, right)
    for got, right in zip(results[7:9], (a.real, b.imag), strict=True):
        np.testing.assert_array_equal(got, right)
    signed = slice(None) if nan_has_sign else ~np.isnan(a.imag)
    np.testing.assert_array_equal(np.signbit(results[5].imag[signed]), ~np.signbit(a.imag[signed]))
    assert not np.isnan(results[3][:-99]).all()
    np.testing.assert_array_equal(results[6].view(results[7].dtype).reshape(-1, 2), np.array([b.imag, a.real]).T)


def check_casts_branches_and_carried_values(target: Target, reference: Target, type_: str) -> None:
    part, other = PARTS[type_], {"c32": "c64", "c64": "c32"}[type_]
    size = 37
    source = f"""func @f(%n: memref<i32x{size}>, %h: memref<f16x{size}>, %r: memref<{part}x{size}>,
        %z: memref<{other}x{size}>, %bits: memref<i64x{size}>, %k: {type_}, %out: memref<{type_}x{size}x6>) {{
      foreach %i = 0, {size} {{
        %n_i = load %n[%i] : memref<i32x{size}>
        %h_i = load %h[%i] : memref<f16x{size}>
        %r_i = load %r[%i] : memref<{part}x{size}>
        %z_i = load %z[%i] : memref<{other}x{size}>
        %b_i = load %bits[%i] : memref<i64x{size}>
        %n_c = cast %n_i : i32 -> {type_}
        %h_c = cast %h_i : f16 -> {type_}
        %r_c = cast %r_i : {part} -> {type_}
        %z_c = cast %z_i : {other} -> {type_}
        %b_c = bitcast %b_i : i64 -> c32
        %b_d = cast %b_c : c32 -> {type_}
        %p = cmp.ne %n_c, [2, 0] : {type_}
        %chosen = if %p -> ({type_}) {{
          %t = arith.mul %z_c, %k : {type_}
          yield %t : {type_}
        }} else {{
          yield [0.5, -1.5] : {type_}
        }}
        store %n_c, %out[%i, 0] : memref<{type_}x{size}x6>
        store %h_c, %out[%i, 1] : memref<{type_}x{size}x6>
        store %r_c, %out[%i, 2] : memref<{type_}x{size}x6>
        store %z_c, %out[%i, 3] : memref<{type_}x{size}x6>
        store %b_d, %out[%i, 4] : memref<{type_}x{size}x6>
        store %chosen, %out[%i, 5] : memref<{type_}x{size}x6>
      }}
      %total = for %i = 0, {size} init(%s = %k) -> ({type_}) {{
        %z_i = load %z[%i] : memref<{other}x{size}>
        %z_c = cast %z_i : {other} -> {type_}
        %next = arith.add %s, %z_c : {type_}
        yield %next : {type_}
      }}
      store %total, %out[0, 0] : memref<{type_}x{size}x6>
    }}"""
    rng = np.random.default_rng(1)
    whole = rng.integers(-4, 5, (4, size))
    given = [whole[0].astype("i4"), (whole[1] / 2).astype("f2"), whole[2].astype(PARTS[type_].replace("f32", "f4")
             .replace("f64", "f8")), (whole[2] + 1j * whole[3]).astype(DTYPES[other]),
             (whole[2] - 2j * whole[1]).astype(np.complex64).view(np.int64)]
    expected, got = (np.zeros((size, 6), DTYPES[type_], order="F") for _ in range(2))
    reference.run(source, *given, 2 - 1j, expected, group_size=1)
    target.run(source, *given, 2 - 1j, got, group_size=1)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got[:, 4], given[4].view(np.complex64))


#: For each instruction of linear algebra: its operands' shapes for m, n and k, the output last, and NumPy's formula.
ALGEBRA = {
    "gemm.n.n": (("mk", "kn", "mn"), lambda a, b: a @ b), "gemm.t.n": (("km", "kn", "mn"), lambda a, b: a.T @ b),
    "gemm.n.t": (("mk", "nk", "mn"), lambda a, b: a @ b.T), "gemm.t.t": (("km", "nk", "mn"), lambda a, b: a.T @ b.T),
    "gemv.n": (("mk", "k", "m"), lambda a, b: a @ b), "gemv.t": (("km", "k", "m"), lambda a, b: a.T @ b),
    "ger": (("m", "n", "mn"), np.outer), "hadamard": (("mn", "mn", "mn"), np.multiply),
    "sum.n": (("mk", "m"), lambda a: a.sum(1)), "sum.t": (("km", "m"), lambda a: a.sum(0)),
    "axpby.n": (("mn", "mn"), lambda a: a), "axpby.t": (("nm", "mn"), lambda a: a.T),
}
#: alpha and beta, and the types that they have with elements of c64.
FACTORS = [("1", "0", "c64", "c64"), ("[0.5, -1]", "[1, 2]", "c64", "c64"), ("2", "1", "f64", "i32"),
           ("%alpha", "%beta", "c32", "f64")]
ALPHA, BETA = 1.5 - 0.5j, -2.0


#: Each instruction, and the types of its operands.
PRODUCTS = [
    *itertools.product(ALGEBRA, [("c64", "c64", "c64"), ("c32", "c32", "c32"), ("f32", "c32", "c64")]),
    *itertools.product(("gemm.n.n", "gemv.t", "ger", "sum.n"), [("c32", "f16", "c32"), ("f32", "i16", "c64")]),
]


def whole(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    """Return whole numbers of a type."""
    numbers = rng.integers(-4, 5, shape) + (1j * rng.integers(-4, 5, shape) if element in DTYPES else 0)
    return np.asfortranarray(numbers.astype({**DTYPES, "f32": "f4", "f64": "f8", "f16": "f2", "i16": "i2"}[element]))


def check_linear_algebra(target: Target, instruction: str, elements: tuple[str, str, str]) -> None:
    """Each with several factors, with sizes that leave rows, columns and steps over, and with dynamic ones."""
    shapes, formula = ALGEBRA[instruction]
    types = [*elements[: len(shapes) - 1], elements[-1]]
    rng = np.random.default_rng(0)
    sizes = [{"m": 19, "n": 5, "k": 13}, {"m": 16, "n": 16, "k": 16}]
    lines, parameters, arrays, expected = [], ["%alpha: c32", "%beta: f64"], [], []
    for number, (alpha, beta, alpha_type, beta_type) in enumerate(FACTORS):
        if elements[-1] == "c32":
            alpha_type, beta_type = (each.replace("64", "32").replace("i32", "i16") for each in (alpha_type, beta_type))
            beta = beta.replace("%beta", "-2")
        known = sizes[number % 2]
        memrefs = [f"memref<{type_}{''.join(f'x{known[axis]}' for axis in axes)}>"
                   for type_, axes in zip(types, shapes, strict=True)]
        if number == 2:
            memrefs = [f"memref<{type_}{'x?' * len(axes)}>" for type_, axes in zip(types, shapes, strict=True)]
        names = [f"%x{number}{position}" for position in range(len(shapes))]
        parameters += [f"{name}: {memref}" for name, memref in zip(names, memrefs, strict=True)]
        given = [whole(rng, tuple(known[axis] for axis in axes), type_)
                 for type_, axes in zip(types, shapes, strict=True)]
        written = f"{', '.join(names[:-1])}, {beta}, {names[-1]}"
        kinds = f"{alpha_type}, {', '.join(memrefs[:-1])}, {beta_type}, {memrefs[-1]}"
        lines.append(f"{instruction} {alpha}, {written} : {kinds}")
        factors = [{"%alpha": ALPHA, "%beta": BETA}.get(text) or complex(*map(float, text.strip("[]").split(",")))
                   for text in (alpha, beta)]
        wide = [array.astype(np.complex128) for array in given]
        expected.append(factors[0] * formula(*wide[:-1]) + factors[1] * wide[-1])
        arrays += given
    source = f"func @f({', '.join(parameters)}) {{\n{chr(10).join(lines)}\n}}"
    target.run(source, ALPHA, BETA, *arrays, group_size=1)
    for number, right in enumerate(expected):
        np.testing.assert_array_equal(arrays[(number + 1) * len(shapes) - 1], right)


def check_parts_and_complex_numbers_at_the_end_of_loops(target: Target, type_: str) -> None:
    """Vectors of complex numbers have as many floats as those of floats in another loop: both are masked at the end."""
    rng = np.random.default_rng(5)
    size, part = 29, PARTS[type_]
    given = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(DTYPES[type_])
    added, turned = np.zeros(size, given.real.dtype), np.zeros(size, given.dtype)
    source = f"""func @f(%x: memref<{part}x?>, %z: memref<{type_}x?>, %a: memref<{part}x?>,
                         %t: memref<{type_}x?>) {{
        %n = size %x[0] : index
        foreach (%i) = (0), (%n) {{
            %v = load %x[%i] : memref<{part}x?>
            %w = arith.add %v, 1.0 : {part}
            store %w, %a[%i] : memref<{part}x?>
        }}
        foreach (%i) = (0), (%n) {{
            %v = load %z[%i] : memref<{type_}x?>
            %w = arith.conj %v : {type_}
            store %w, %t[%i] : memref<{type_}x?>
        }}
    }}"""
    target.run(source, given.real.copy(), given, added, turned, group_size=1)
    np.testing.assert_array_equal(added, given.real + 1)
    np.testing.assert_array_equal(turned, given.conj())
