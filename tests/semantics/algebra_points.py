"""Points 1 and 3: the output that beta 0 leaves unread, and sums."""

from __future__ import annotations

import numpy as np

from tests.semantics.support import DTYPES, Target, memref, typed, whole

# --- 1: a constant beta of 0 does not read the output ----------------------------------------------------------------

#: Instruction → shapes of its inputs and of its output, and its formula.
ALGEBRA = {
    "gemm.n.n": ([(19, 5), (5, 7)], (19, 7), lambda a, b: a @ b),
    "gemm.t.t": ([(5, 19), (7, 5)], (19, 7), lambda a, b: a.T @ b.T),
    "gemv.n": ([(19, 5), (5,)], (19,), lambda a, b: a @ b),
    "gemv.t": ([(5, 19), (5,)], (19,), lambda a, b: a.T @ b),
    "ger": ([(19,), (7,)], (19, 7), np.outer),
    "hadamard": ([(35,), (35,)], (35,), lambda a, b: a * b),
    "axpby.n": ([(19, 7)], (19, 7), lambda a: a),
    "axpby.t": ([(7, 19)], (19, 7), lambda a: a.T),
    "sum.n": ([(19, 7)], (19,), lambda a: a.sum(axis=1)),
    "sum.t": ([(7, 19)], (19,), lambda a: a.sum(axis=0)),
}
LOW_ORDER = {
    "axpby.n": [((35,), (35,), lambda a: a), ((), (), lambda a: a)],
    "sum.n": [((35,), (), lambda a: a.sum())],
}


def check_beta_zero(target: Target, instruction: str, element: str, atomic: bool) -> None:
    """NaN and infinity in the output are gone afterwards, also through `.atomic` and in temporary memory."""
    shapes, output, formula = ALGEBRA[instruction]
    cases = [(shapes, output, formula)] + [([a], b, f) for a, b, f in LOW_ORDER.get(instruction, [])]
    name, dot, rest = instruction.partition(".")
    spelling = f"{name}{dot}{rest}{'.atomic' if atomic else ''}"
    for shapes, output, formula in cases:
        inputs = [whole(seed, *shape, dtype=DTYPES[element]) for seed, shape in enumerate(shapes)]
        out, copy = np.full(output, np.nan, DTYPES[element], order="F"), np.zeros(output, DTYPES[element], order="F")
        out.reshape(-1, order="A")[::3] = np.inf
        types = [memref(element, *shape) for shape in (*shapes, output)]
        names = [f"%a{position}" for position in range(len(inputs))]
        parameters = typed([*names, "%out", "%copy"], [*types, types[-1]])
        head = f"{spelling} 2.0, {', '.join(names)}, 0.0,"
        tail = f": {element}, {', '.join(types[:-1])}, {element}, {types[-1]}"
        target.run(f"""func @f({parameters}) {{
            {head} %out {tail}
            %tmp = alloca -> {types[-1]}
            {head} %tmp {tail}
            axpby.n 1.0, %tmp, 0.0, %copy : {element}, {types[-1]}, {element}, {types[-1]}
        }}""", *inputs, out, copy, group_size=1)
        np.testing.assert_array_equal(out, 2 * formula(*inputs))
        np.testing.assert_array_equal(copy, 2 * formula(*inputs))


# --- 3: sum ----------------------------------------------------------------------------------------------------------


def check_sum(target: Target, element: str) -> None:
    """Matrix to vector and vector to order 0, with and without .t, square and not, static and dynamic."""
    dtype = DTYPES[element]
    scale, keep = ("2", "3") if element.startswith("i") else ("2.0", "3.0")
    for rows, columns in [(5, 5), (7, 33), (33, 7), (1, 9), (40, 1)]:
        for dynamic in (False, True):
            matrix = whole(rows, rows, columns, dtype=dtype)
            by_row, by_column, total = (whole(seed, *shape, dtype=dtype)
                                        for seed, shape in enumerate([(rows,), (columns,), ()]))
            expected = (2 * matrix.sum(axis=1, dtype=dtype) + 3 * by_row,
                        2 * matrix.sum(axis=0, dtype=dtype) + 3 * by_column,
                        2 * matrix[:, 0].sum(dtype=dtype) + 3 * total + 5 * matrix[:, 0].sum(dtype=dtype))
            r, c = ("?", "?") if dynamic else (rows, columns)
            a, x, y, z = memref(element, r, c), memref(element, r), memref(element, c), memref(element)
            more = "5" if element.startswith("i") else "5.0"
            one = "1" if element.startswith("i") else "1.0"
            target.run(f"""func @f(%a: {a}, %x: {x}, %y: {y}, %z: {z}) {{
                sum.n {scale}, %a, {keep}, %x : {element}, {a}, {element}, {x}
                sum.t {scale}, %a, {keep}, %y : {element}, {a}, {element}, {y}
                %v = subview %a[:, 0] : {a}
                sum.n {scale}, %v, {keep}, %z : {element}, {x}, {element}, {z}
                sum.t {more}, %v, {one}, %z : {element}, {x}, {element}, {z}
            }}""", matrix, by_row, by_column, total, group_size=1)
            for actual, wanted in zip((by_row, by_column, total), expected, strict=True):
                np.testing.assert_array_equal(actual, wanted.astype(dtype))
