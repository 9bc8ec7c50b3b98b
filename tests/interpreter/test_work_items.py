"""Regions that each work-item runs for itself: who meets whom, and what is an error where they do not."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tl_dpnp.errors import TLError
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret

ATTRIBUTES = "attributes{work_group_size=[8, 2], subgroup_size=4}"  # two sub-groups along x, two along y
PLACE = """
    %lane = subgroup_local_id : i32
    %subgroup = subgroup_linear_id : i32
    %size = subgroup_size : i32
    %before = mul %subgroup, %size : i32
    %number = add %before, %lane : i32
    %p = cast %number : index
"""


def run(body, *arrays, parameters="%x: memref<i32x16>, %y: memref<i32x16>", attributes=ATTRIBUTES, seed=None):
    """Run a body; where no seed says in which order, in several, which must give the same."""
    (function,) = parse(f"func @f({parameters}) {attributes} {{ {body} }}")
    results = []
    for order in (None, 1, 2) if seed is None else (seed,):
        results.append([copy.deepcopy(array) for array in arrays])
        interpret(function, results[-1], order_seed=order, debug=True)
    for others in results[1:]:
        for other, first in zip(others, results[0], strict=True):
            np.testing.assert_array_equal(other, first)
    return results[0]


def numbers():
    """Return an array that counts the work-items, and one for the result."""
    return np.arange(16, dtype=np.int32), np.zeros(16, np.int32)


@pytest.mark.parametrize(("instruction", "expected"), [
    ("subgroup_id.x", [0, 1, 0, 1]), ("subgroup_id.y", [0, 0, 1, 1]), ("subgroup_id.z", [0] * 4),
    ("subgroup_linear_id", [0, 1, 2, 3]), ("num_subgroups.x", [2] * 4), ("num_subgroups.y", [2] * 4),
    ("num_subgroups.z", [1] * 4), ("subgroup_size", [4] * 4),
])
def test_sub_groups_have_places(instruction, expected):
    x, y = numbers()
    _, y = run(f"parallel {{ {PLACE} %r = {instruction} : i32 store %r, %y[%p] }}", x, y)
    np.testing.assert_array_equal(y, np.repeat(expected, 4))


def test_each_work_item_has_its_number_in_the_sub_group():
    _, y = run(f"parallel {{ {PLACE} store %lane, %y[%p] }}", *numbers())
    np.testing.assert_array_equal(y, np.tile(np.arange(4), 4))


@pytest.mark.parametrize(("attributes", "sizes"), [
    ("", (16, 1, 1)), ("attributes{subgroup_size=8}", (8, 1, 1)), ("attributes{work_group_size=[24, 2]}", (8, 3, 2)),
    ("attributes{work_group_size=[3, 1]}", (1, 3, 1)),
])
def test_sizes_follow_where_attributes_leave_them_open(attributes, sizes):
    body = "".join(f"%{n} = {word} : i32 store %{n}, %x[{n}]\n"
                   for n, word in enumerate(["subgroup_size", "num_subgroups.x", "num_subgroups.y"]))
    (x,) = run(body, np.zeros(3, np.int32), parameters="%x: memref<i32x3>", attributes=attributes)
    assert tuple(x) == sizes


def test_a_tile_makes_sub_groups_smaller():
    (x,) = run("%s = subgroup_size : i32 store %s, %x[0] foreach_tile (%i) = (0), (9) as (%n) <= (12) { }",
               np.zeros(1, np.int32), parameters="%x: memref<i32x1>", attributes="")
    assert x[0] == 4


@pytest.mark.parametrize(("instruction", "expected"), [
    ("subgroup_reduce_add", lambda a: [a.sum()] * 4), ("subgroup_reduce_max", lambda a: [a.max()] * 4),
    ("subgroup_reduce_min", lambda a: [a.min()] * 4), ("subgroup_inclusive_scan_add", np.cumsum),
    ("subgroup_inclusive_scan_max", np.maximum.accumulate), ("subgroup_inclusive_scan_min", np.minimum.accumulate),
    ("subgroup_exclusive_scan_add", lambda a: np.cumsum([0, *a[:-1]])),
    ("subgroup_exclusive_scan_max", lambda a: np.maximum.accumulate([-2**31, *a[:-1]])),
    ("subgroup_exclusive_scan_min", lambda a: np.minimum.accumulate([2**31 - 1, *a[:-1]])),
])
def test_reductions(instruction, expected):
    x = np.random.default_rng(0).integers(-9, 9, 16).astype(np.int32)
    _, y = run(f"parallel {{ {PLACE} %v = load %x[%p] : i32 %r = {instruction} %v : i32 store %r, %y[%p] }}",
               x, np.zeros(16, np.int32))
    np.testing.assert_array_equal(y, np.concatenate([expected(x[k : k + 4]) for k in range(0, 16, 4)]))


@pytest.mark.parametrize(("type", "dtype", "least"), [("f32", np.float32, -np.inf), ("f64", np.float64, -np.inf)])
def test_scans_of_floats_begin_with_infinities(type, dtype, least):
    _, y = run(f"parallel {{ {PLACE} %v = load %x[%p] : {type} %r = subgroup_exclusive_scan_max %v : {type} "
               "store %r, %y[%p] }", np.ones(16, dtype), np.zeros(16, dtype),
               parameters=f"%x: memref<{type}x16>, %y: memref<{type}x16>")
    np.testing.assert_array_equal(y, np.tile([least, 1, 1, 1], 4))


def test_sub_groups_meet_each_for_itself():
    """One sub-group comes to an instruction more often than another."""
    x, y = numbers()
    _, y = run(f"""parallel {{ {PLACE}
        %r = for %k = 0, %subgroup : i32 init(%r=%lane) -> (i32) {{
            %s = subgroup_reduce_max %r : i32
            %t = add %s, 1 : i32
            yield (%t)
        }}
        store %r, %y[%p]
    }}""", x, y)
    np.testing.assert_array_equal(y, [0, 1, 2, 3, *[4] * 4, *[5] * 4, *[6] * 4])


def test_a_barrier_is_where_all_have_stored():
    _, y = run(f"""%t = alloca : memref<i32x16,local>
    parallel {{ {PLACE}
        for %k = 0, 3 {{
            %v = load %x[%p] : i32
            store %v, %t[%p]
            barrier.local
            %q = sub 15, %p : index
            %w = load %t[%q] : i32
            %old = load %y[%p] : i32
            %new = add %old, %w : i32
            store %new, %y[%p]
            barrier.local.global
        }}
    }}""", *numbers())
    np.testing.assert_array_equal(y, 3 * np.arange(16)[::-1])


@pytest.mark.parametrize(("body", "message"), [
    ("%c = less_than %lane, 2 : bool if %c { barrier }", "this barrier: work-item . of sub-group . ends without it"),
    ("%c = less_than %lane, 2 : bool if %c { barrier } else { barrier }", "sub-group . waits at another barrier"),
    ("for %k = 0, %lane : i32 { barrier }", "sub-group . ends without it"),
    ("%c = less_than %lane, 2 : bool if %c { barrier } %s = subgroup_reduce_add %lane : i32", "waits at a "),
    ("%c = less_than %lane, 2 : bool if %c { %s = subgroup_reduce_add %lane : i32 }",
     "come to this subgroup_reduce_add: work-item . of sub-group . ends without it"),
    ("for %k = 0, 3 : i32 { %c = less_than %k, %lane : bool if %c { } else { barrier } }", "is in another iteration"),
    ("%s = subgroup_broadcast %lane, 4 : i32", "4 work-items has no work-item 4"),
])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_work_items_that_do_not_meet_are_an_error(body, message, seed):
    with pytest.raises(TLError, match=message) as caught:
        run(f"parallel {{ {PLACE} {body} }}", *numbers(), seed=seed)
    assert caught.value.diagnostics[0].span.line == 8  # that of the instruction, not of the region


@pytest.mark.parametrize(("start", "stop"), [((0, 0), (19, 5)), ((2, 1), (3, 2)), ((0, 3), (19, 3)), ((5, 0), (2, 4))])
@pytest.mark.parametrize("tile", [(4, 1), (8, 2), (20, 7)])
def test_tiles_cover_the_ranges_once(start, stop, tile):
    body = f"""foreach_tile (%i, %j) = {start}, {stop} as (%m, %n) <= ({tile[0]}, {tile[1]}) {{
        %lane = subgroup_local_id : i32
        %size = subgroup_size : i32
        %from = cast %lane : index
        %step = cast %size : index
        for %a = %from, %m, %step {{ for %b = 0, %n {{
            %k = add %i, %a : index
            %l = add %j, %b : index
            %o = load %x[%k, %l] : i32
            %o1 = add %o, 1 : i32
            store %o1, %x[%k, %l]
        }} }}
        %all = subgroup_reduce_add 1 : i32
        %is_first = equal %lane, 0 : bool
        if %is_first {{ %old = atomic_add %all, %y[] : i32 }}
    }}"""
    x, y = run(body, np.zeros((19, 5), np.int32, order="F"), np.zeros((), np.int32),
               parameters="%x: memref<i32x19x5>, %y: memref<i32>")
    expected = np.zeros((19, 5), np.int32)
    expected[start[0] : stop[0], start[1] : stop[1]] = 1
    np.testing.assert_array_equal(x, expected)
    tiles = [max(0, -((first - end) // size)) for first, end, size in zip(start, stop, tile, strict=True)]
    assert y == 4 * tiles[0] * tiles[1]


def test_the_last_tile_of_a_narrow_type_does_not_wrap():
    (x,) = run("""foreach_tile (%i) = (%a), (%b) as (%n) <= (100) {
        %lane = subgroup_local_id : i32
        %is_first = equal %lane, 0 : bool
        %t = add %i, %n : i8
        %is_last = equal %t, %b : bool
        %both = and %is_first, %is_last : bool
        if %both { %k = cast %n : i32 store %k, %x[] }
    }""", np.int8(-120), np.int8(127), np.zeros((), np.int32),
        parameters="%a: i8, %b: i8, %x: memref<i32>")[2:]
    assert x == 47
