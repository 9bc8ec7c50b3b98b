"""Points 5, 7 and 10: views, temporaries, atomics, and groups whose elements differ."""

from __future__ import annotations

import numpy as np

from tests.semantics.support import DTYPES, Group, Target, memref, whole

# --- 5: views alias, temporaries share -------------------------------------------------------------------------------


def check_views_alias(target: Target, where: str) -> None:
    """What one view writes, the others read: subview, expand and fuse, of an argument or of a temporary."""
    x, out = whole(5, 6, 8), np.zeros((6, 8), np.float32, order="F")
    matrix, split = memref("f32", 6, 8), memref("f32", 2, 3, 8)
    copy = f"axpby.n 1.0, %a, 0.0, %t : f32, {matrix}, f32, {matrix}"
    begin, m = ("", "%a") if where == "argument" else (f"%t = alloca -> {matrix}\n{copy}", "%t")
    block, line = "memref<f32x3x4,strided<1,6>>", "memref<f32x3,strided<2>>"
    target.run(f"""func @f(%a: {matrix}, %out: {matrix}) {{
        {begin}
        %flat = fuse {m}[0, 1] : {matrix}
        %split = expand {m}[0 -> 2 x 3] : {matrix}
        %upper = subview {m}[0:3, 0:4] : {matrix}
        %lower = subview {m}[3:3, 4:4] : {matrix}
        %odd = subview %split[1, :, 5] : {split}
        %even = subview %split[0, :, 7] : {split}
        store 100.0, %flat[7] : memref<f32x48>
        %old = load {m}[1, 1] : {matrix}
        %new = arith.add %old, 1.0 : f32
        store %new, %split[0, 2, 0] : {split}
        axpby.n 2.0, %upper, 1.0, %lower : f32, {block}, f32, {block}
        axpby.n 1.0, %odd, 1.0, %even : f32, {line}, f32, {line}
        axpby.n 1.0, {m}, 0.0, %out : f32, {matrix}, f32, {matrix}
    }}""", x, out, group_size=1)
    expected = whole(5, 6, 8)
    expected[1, 1] = 100  # element 7 of the fused modes
    expected[4, 0] = 101  # 0 + 2 · 2
    expected[3:6, 4:8] += 2 * expected[0:3, 0:4]
    expected[0::2, 7] += expected[1::2, 5]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, expected if where == "argument" else whole(5, 6, 8))


def check_temporaries_do_not_disturb(target: Target) -> None:
    """Temporaries that live at the same time are apart, whatever their types; one after another they are reused.

    The odd sizes put a careless placement of the wider types at addresses that their alignment forbids; a placement
    that lets living temporaries overlap changes the values that are read at the end.
    """
    sizes = {"i8": 13, "f64": 7, "i16": 5, "f32": 33, "i1": 3, "i64": 9}
    texts, outs, parameters = [], [], []
    for number, (element, size) in enumerate(sizes.items()):
        t = memref(element, size)
        one = {"f64": "1.0", "f32": "1.0", "i1": "true"}.get(element, "1")
        outs.append(np.zeros(size, DTYPES.get(element, "bool")))
        parameters.append(f"%o{number}: {t}")
        texts.append((f"%t{number} = alloca -> {t}\nforeach %i{number} = 0, {size} {{\n"
                      f"store {one}, %t{number}[%i{number}] : {t}\n}}",
                      f"foreach %k{number} = 0, {size} {{\n%v{number} = load %t{number}[%k{number}] : {t}\n"
                      f"store %v{number}, %o{number}[%k{number}] : {t}\n}}"))
    together = "\n".join([begin for begin, _ in texts] + [end for _, end in texts])
    in_turn = "\n".join(begin + "\n" + end for begin, end in texts)
    nested = "\n".join([begin for begin, _ in texts] + [end for _, end in reversed(texts)])
    for body in (together, in_turn, nested):
        for out in outs:
            out[...] = 0
        target.run(f"func @f({', '.join(parameters)}) {{\n{body}\n}}", *outs, group_size=1)
        for out in outs:
            np.testing.assert_array_equal(out, np.ones_like(out))


def local_memory(target: Target, apart: bool) -> int:
    """Return the local memory of a kernel with four temporaries, ended one by one or all at the end."""
    t = memref("f32", 16, 16)
    copy = f": f32, {t}, f32, {t}"
    body, ends = [], []
    for number in range(4):
        body.append(f"%t{number} = alloca -> {t}\naxpby.t 1.0, %x, 0.0, %t{number} {copy}\n"
                    f"axpby.t 1.0, %t{number}, 1.0, %y {copy}")
        (body if apart else ends).append(f"lifetime_stop %t{number}")
    uses = "" if apart else "\n".join(f"axpby.n 1.0, %t{n}, 1.0, %y {copy}" for n in range(4))
    lines = "\n".join([*body, uses, *ends])
    kernel = target.compile(f"func @f(%x: {t}, %y: {t}) {{\n{lines}\n}}")
    return kernel.lower().plan.local_memory


# --- 7: atomics ------------------------------------------------------------------------------------------------------


def check_atomic(target: Target, element: str) -> None:
    """Many work-groups update the same memory; a lost or doubled update changes the result, for every kind of beta.

    beta 1: each adds its own multiple. beta 2: x → 2 x + 1 over and over, the same in any order, but only if each
    read-modify-write is whole. beta 0: what is left was stored by one of the work-groups, NaN is not.
    """
    groups, size = 24, 19
    dtype, number = DTYPES[element], (lambda n: f"{n}.0") if element.startswith("f") else str
    ones, added, doubled = np.ones(size, dtype), np.zeros(size, dtype), np.zeros(size, dtype)
    exchanged = np.full(size, np.nan if element.startswith("f") else 77, dtype)
    by_value = np.zeros(size, dtype)
    ids = np.arange(groups, dtype=dtype)
    v, i = memref(element, size), memref(element, groups)
    types = f": {element}, {v}, {element}, {v}"
    target.run(f"""func @f(%ones: {v}, %ids: {i}, %added: {v}, %doubled: {v}, %exchanged: {v}, %by_value: {v},
                          %one: {element}) {{
        %g = group_id
        %id = load %ids[%g] : {i}
        axpby.n.atomic %id, %ones, {number(1)}, %added {types}
        %few = cmp.lt %g, 6 : index
        if %few {{
            axpby.n.atomic {number(1)}, %ones, {number(2)}, %doubled {types}
        }}
        axpby.n.atomic %id, %ones, {number(0)}, %exchanged {types}
        axpby.n.atomic {number(1)}, %ones, %one, %by_value {types}
    }}""", ones, ids, added, doubled, exchanged, by_value, 1, group_size=groups)
    np.testing.assert_array_equal(added, np.full(size, groups * (groups - 1) // 2, dtype))
    np.testing.assert_array_equal(doubled, np.full(size, 2**6 - 1, dtype))
    assert np.isin(exchanged, ids).all()
    np.testing.assert_array_equal(by_value, np.full(size, groups, dtype))


def check_atomic_instructions(target: Target) -> None:
    """Every instruction adds atomically across work-groups."""
    groups = 16
    a, b, x, y = whole(1, 9, 5), whole(2, 5, 7), whole(3, 9), whole(4, 9)
    outs = [np.zeros(shape, np.float32, order="F") for shape in [(9, 7), (9,), (9, 9), (9,), (9,), ()]]
    ta, tb, tx, to, tc, ts = (memref("f32", *shape) for shape in [(9, 5), (5, 7), (9,), (9, 7), (9, 9), ()])
    target.run(f"""func @f(%a: {ta}, %b: {tb}, %x: {tx}, %y: {tx}, %z: {memref("f32", 5)},
                          %o0: {to}, %o1: {tx}, %o2: {tc}, %o3: {tx}, %o4: {tx}, %o5: {ts}) {{
        gemm.n.n.atomic 1.0, %a, %b, 1.0, %o0 : f32, {ta}, {tb}, f32, {to}
        gemv.n.atomic 1.0, %a, %z, 1.0, %o1 : f32, {ta}, {memref("f32", 5)}, f32, {tx}
        ger.atomic 1.0, %x, %y, 1.0, %o2 : f32, {tx}, {tx}, f32, {tc}
        hadamard.atomic 1.0, %x, %y, 1.0, %o3 : f32, {tx}, {tx}, f32, {tx}
        sum.n.atomic 1.0, %a, 1.0, %o4 : f32, {ta}, f32, {tx}
        sum.n.atomic 1.0, %x, 1.0, %o5 : f32, {tx}, f32, {ts}
    }}""", a, b, x, y, b[:, 0].copy(), *outs, group_size=groups)
    formulas = [a @ b, a @ b[:, 0], np.outer(x, y), x * y, a.sum(axis=1), x.sum()]
    for actual, formula in zip(outs, formulas, strict=True):
        np.testing.assert_array_equal(actual, groups * formula)


# --- 10: each element of a group has its own size and stride ---------------------------------------------------------


def check_group_elements_differ(target: Target) -> None:
    """Sizes and strides are each element's own, with an offset too, and also where one element is empty."""
    shapes, gaps, moved = [(3, 4), (17, 2), (1, 9), (0, 3), (33, 5), (6, 1)], [0, 5, 1, 0, 2, 7], 4
    buffers, arrays, expected, vectors = [], [], [], []
    for number, ((rows, columns), gap) in enumerate(zip(shapes, gaps, strict=True)):
        buffer = whole(number, rows + gap + 1, columns + 3)
        flat = buffer.reshape(-1, order="A")
        base = np.ndarray((rows, columns), np.float32, flat, 4 * 1, (4, 4 * (rows + gap + 1)))
        true = np.ndarray((rows, columns), np.float32, flat, 4 * (1 + moved), (4, 4 * (rows + gap + 1)))
        buffers.append(buffer)
        arrays.append(base)
        vectors.append(np.zeros(columns, np.float32))
        expected.append((2 * true.copy() + number, true.sum(axis=0, dtype=np.float32)))
    untouched = [buffer.copy(order="F") for buffer in buffers]
    matrix, vector = memref("f32", "?", "?"), memref("f32", "?")
    text = """func @f(%g: group<MATRIX, offset: OFFSET>, %s: group<VECTOR>) {
        %id = group_id
        %number = cast %id : index -> f32
        %x = load %g[%id] : group<MATRIX, offset: OFFSET>
        %sums = load %s[%id] : group<VECTOR>
        sum.t 1.0, %x, 0.0, %sums : f32, MATRIX, f32, VECTOR
        %rows = size %x[0] : MATRIX
        %columns = size %x[1] : MATRIX
        foreach %i = 0, %rows {
            for %j = 0, %columns {
                %v = load %x[%i, %j] : MATRIX
                %w = math.fma %v, 2.0, %number : f32
                store %w, %x[%i, %j] : MATRIX
            }
        }
    }""".replace("MATRIX", matrix).replace("VECTOR", vector)
    for offset in (str(moved), "?"):
        for buffer, old in zip(buffers, untouched, strict=True):
            buffer[...] = old
        group = arrays if offset != "?" else Group(arrays, moved)
        target.run(text.replace("OFFSET", offset), group, vectors)
        for number, (array, total, (wanted, wanted_sum)) in enumerate(zip(arrays, vectors, expected, strict=True)):
            np.testing.assert_array_equal(total, wanted_sum)
            rows, columns = shapes[number]
            beside = untouched[number].copy(order="F")
            seen = np.ndarray((rows, columns), np.float32, beside.reshape(-1, order="A"), 4 * (1 + moved),
                              array.strides)
            seen[...] = wanted
            np.testing.assert_array_equal(buffers[number], beside)


