"""Points 2, 4, 6 and 9: what the work-items of a work-group, and the work-groups of a launch, do."""

from __future__ import annotations

import numpy as np

from tests.semantics.support import DTYPES, Target, memref, whole

# --- 2: foreach runs its range and nothing else ----------------------------------------------------------------------


def check_foreach_range(target: Target) -> None:
    """Every iteration once, for trip counts around the multiples of every number of lanes.

    An extra iteration writes behind `stop`, or, if its index is clamped, adds to an element a second time; the
    array is longer than any range, so both are seen.
    """
    limit, ranges = 96, [(start, start + count) for start in (0, 3)
                         for count in (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65)]
    for variable_type in ("index", "i32"):
        counts = np.zeros((limit, len(ranges)), np.int32, order="F")
        starts, stops = (np.array(bounds, DTYPES.get(variable_type, "int64")) for bounds in zip(*ranges, strict=True))
        bounds, matrix = memref(variable_type, len(ranges)), memref("i32", limit, len(ranges))
        cast = "%k = cast %i : i32 -> index" if variable_type == "i32" else "%k = arith.add %i, 0 : index"
        target.run(f"""func @f(%starts: {bounds}, %stops: {bounds}, %counts: {matrix}) {{
            %g = group_id
            %start = load %starts[%g] : {bounds}
            %stop = load %stops[%g] : {bounds}
            foreach %i = %start, %stop : {variable_type} {{
                {cast}
                %old = load %counts[%k, %g] : {matrix}
                %new = arith.add %old, 1 : i32
                store %new, %counts[%k, %g] : {matrix}
            }}
        }}""", starts, stops, counts, group_size=len(ranges))
        expected = np.zeros_like(counts)
        for column, (start, stop) in enumerate(ranges):
            expected[start:stop, column] = 1
        np.testing.assert_array_equal(counts, expected)


# --- 4: barriers -----------------------------------------------------------------------------------------------------

# Each program lets every work-item read what other work-items write (through transposition or reversal), so that one
# sub-group that runs ahead to the next barrier reads old values or overwrites what others still need.
N = 37
SQUARE = memref("f32", N, N)
COPY = f": f32, {SQUARE}, f32, {SQUARE}"


def reversal(source: str, target: str) -> str:
    """Return a foreach that writes each element of `target` from the opposite one of `source`, plus 1."""
    vector = memref("f32", N)
    return f"""foreach %i = 0, {N} {{
        %j = arith.sub {N - 1}, %i : index
        %old = load {source}[%j] : {vector}
        %new = arith.add %old, 1.0 : f32
        store %new, {target}[%i] : {vector}
    }}"""


#: Name → body over %x, %y (square) and %u, %v (vectors), and what it makes of them.
BARRIERS = {
    "read after write": (
        f"axpby.t 1.0, %x, 0.0, %y {COPY}\n axpby.t 2.0, %y, 0.0, %x {COPY}",
        lambda x, y, u, v: (2 * x, x.T, u, v),
    ),
    "write after read": (
        f"axpby.t 1.0, %x, 0.0, %y {COPY}\n axpby.n 5.0, %z, 0.0, %x {COPY}",
        lambda x, y, u, v: (0 * x + 5, x.T, u, v),
    ),
    "write after write": (
        # As a vector, then as a matrix: different work-items write the same element.
        f"""%a = fuse %z[0, 1] : {SQUARE}
        %b = fuse %y[0, 1] : {SQUARE}
        axpby.n 1.0, %a, 0.0, %b : f32, {memref("f32", N * N)}, f32, {memref("f32", N * N)}
        axpby.t 3.0, %x, 0.0, %y {COPY}""",
        lambda x, y, u, v: (x, 3 * x.T, u, v),
    ),
    "accumulation": (
        f"axpby.t 1.0, %x, 1.0, %y {COPY}\n axpby.t 1.0, %y, 1.0, %x {COPY}\n axpby.t 1.0, %x, 1.0, %y {COPY}",
        lambda x, y, u, v: ((x2 := x + (y1 := y + x.T).T), y1 + x2.T, u, v),
    ),
    "local memory": (
        f"""%t = alloca -> {SQUARE}
        axpby.t 1.0, %x, 0.0, %t {COPY}
        axpby.t 1.0, %t, 0.0, %y {COPY}
        axpby.n 1.0, %z, 0.0, %t {COPY}
        axpby.n 1.0, %t, 1.0, %x {COPY}""",
        lambda x, y, u, v: (x + 1, x, u, v),
    ),
    "through views": (
        f"""%f = fuse %y[0, 1] : {SQUARE}
        %e = expand %f[0 -> {N} x {N}] : {memref("f32", N * N)}
        axpby.t 1.0, %x, 0.0, %e {COPY}
        axpby.t 1.0, %y, 0.0, %x {COPY}""",
        lambda x, y, u, v: (x, x.T, u, v),
    ),
    "back edge": (
        # The transposition of one iteration must wait for the one before, and for its copy back.
        f"""for %k = 0, 5 {{
            axpby.t 1.0, %x, 0.0, %y {COPY}
            axpby.n 2.0, %y, 0.0, %x {COPY}
        }}""",
        lambda x, y, u, v: (32 * x.T, 16 * x.T, u, v),
    ),
    "back edge of one instruction": (
        f"""for %k = 0, 4 {{
            %even = arith.and %k, 1 : index
            %first = cmp.eq %even, 0 : index
            if %first {{
                axpby.t 1.0, %x, 1.0, %y {COPY}
            }} else {{
                axpby.t 1.0, %y, 1.0, %x {COPY}
            }}
        }}""",
        lambda x, y, u, v: (*_alternate(x, y), u, v),
    ),
    "into and out of if": (
        f"""%g = group_id
        %zero = cmp.eq %g, 0 : index
        axpby.t 1.0, %x, 0.0, %y {COPY}
        if %zero {{
            axpby.t 1.0, %y, 1.0, %x {COPY}
        }}
        axpby.t 1.0, %x, 0.0, %y {COPY}""",
        lambda x, y, u, v: (2 * x, 2 * x.T, u, v),
    ),
    "between foreach": (
        f"{reversal('%u', '%v')}\n{reversal('%v', '%u')}",
        lambda x, y, u, v: (x, y, u + 2, u[::-1] + 1),
    ),
    "foreach and instruction": (
        f"""{reversal('%u', '%v')}
        gemv.t 1.0, %x, %v, 0.0, %u : f32, {SQUARE}, {memref("f32", N)}, f32, {memref("f32", N)}
        {reversal('%u', '%v')}""",
        lambda x, y, u, v: (x, y, (w := x.T @ (u[::-1] + 1)), w[::-1] + 1),
    ),
    "foreach in a loop": (
        f"for %n = 0, 4 {{\n{reversal('%u', '%v')}\n"
        f"axpby.n 1.0, %v, 0.0, %u : f32, {memref('f32', N)}, f32, {memref('f32', N)}\n}}",
        lambda x, y, u, v: (x, y, u + 4, u + 4),
    ),
    "scalar load and store": (
        # The element is loaded by all work-items before one of them overwrites it, and after all have written.
        f"""axpby.t 1.0, %x, 0.0, %y {COPY}
        %last = load %y[{N - 1}, {N - 2}] : {SQUARE}
        store %last, %y[0, 0] : {SQUARE}
        axpby.t 1.0, %y, 0.0, %x {COPY}""",
        lambda x, y, u, v: (*_corner(x), u, v),
    ),
}


def _alternate(x, y):
    for step in range(4):
        x, y = (x, y + x.T) if step % 2 == 0 else (x + y.T, y)
    return x, y


def _corner(x):
    y = x.T.copy()
    y[0, 0] = y[N - 1, N - 2]
    return y.T, y


def check_barriers(target: Target, name: str) -> None:
    """One program with a hazard between collective instructions."""
    body, formula = BARRIERS[name]
    x, y = whole(0, N, N), whole(1, N, N)
    u, v = whole(2, N), whole(3, N)
    expected = formula(x.copy(), y.copy(), u.copy(), v.copy())
    vector = memref("f32", N)
    target.run(f"func @f(%x: {SQUARE}, %y: {SQUARE}, %u: {vector}, %v: {vector}, %z: {SQUARE}) {{\n{body}\n}}",
               x, y, u, v, np.ones((N, N), np.float32, order="F"), group_size=1)
    for actual, wanted in zip((x, y, u, v), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


# --- 6: a replicated store stores one value --------------------------------------------------------------------------


def check_replicated_store(target: Target) -> None:
    """An increment outside foreach happens once, whatever the number of work-items.

    Were it done by each work-item, or loaded by one after another had stored, the counter would run ahead.
    """
    counter, matrix = np.zeros(3, np.int64), memref("i64", 3)
    target.run(f"""func @f(%c: {matrix}, %n: index) {{
        %g = group_id
        %old = load %c[%g] : {matrix}
        %new = arith.add %old, 1 : i64
        store %new, %c[%g] : {matrix}
        for %i = 0, %n {{
            %o = load %c[%g] : {matrix}
            %even = arith.rem %i, 2 : index
            %take = cmp.eq %even, 0 : index
            if %take {{
                %w = arith.add %o, 10 : i64
                store %w, %c[%g] : {matrix}
            }}
        }}
    }}""", counter, 7, group_size=3)
    np.testing.assert_array_equal(counter, [41, 41, 41])


# --- 9: group ids ----------------------------------------------------------------------------------------------------


def check_group_ids(target: Target) -> None:
    """group_id runs from 0 to group_size − 1, given by hand, by a group's length, by a mode; 0 launches nothing."""
    for count in (0, 1, 2, 7, 64, 200):
        by_hand = np.full((2, max(count, 1) + 3), -1, np.int64, order="F")
        wide = memref("index", 2, "?")
        target.run(f"""func @f(%x: {wide}) {{
            %g = group_id
            %n = group_size
            %i = arith.add %g, 0 : index
            store %g, %x[0, %i] : {wide}
            store %n, %x[1, %i] : {wide}
        }}""", by_hand, group_size=count)
        np.testing.assert_array_equal(by_hand[0], [*range(count), *[-1] * (by_hand.shape[1] - count)])
        np.testing.assert_array_equal(by_hand[1], [*[count] * count, *[-1] * (by_hand.shape[1] - count)])
        group, mode = [np.full((), -1, np.int64) for _ in range(count)], np.full(count, -1, np.int64)
        scalar, vector = memref("index"), memref("index", "?")
        target.run(f"""func @f(%x: group<{scalar}>, %y: {vector}) {{
            %g = group_id
            %n = group_size
            %m = load %x[%g] : group<{scalar}>
            store %g, %m[] : {scalar}
            store %n, %y[%g] : {vector}
        }}""", group, mode)
        np.testing.assert_array_equal([int(element) for element in group], range(count))
        np.testing.assert_array_equal(mode, [count] * count)
