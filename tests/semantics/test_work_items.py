"""Regions that each work-item runs for itself: devices compute what the interpreter does, whatever sizes they have."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from tests.semantics.support import DTYPES, TARGETS, fortran, whole
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret

N = 160  # more than the work-items of any target
PLACE = """
    %lane = subgroup_local_id : i32
    %subgroup = subgroup_linear_id : i32
    %size = subgroup_size : i32
    %before = mul %subgroup, %size : i32
    %number = add %before, %lane : i32
    %p = cast %number : index
"""
COUNT = """
    %lanes = subgroup_size : i32
    %rows = num_subgroups.x : i32
    %columns = num_subgroups.y : i32
    %subgroups = mul %rows, %columns : i32
    %count = mul %lanes, %subgroups : i32
"""


def check(target, source, *arrays, **options):
    """Run a program on a target and on the interpreter, whose work-group has the same sizes."""
    (function,) = parse(source)
    if target.layout is not None:
        function = replace(function, work_group_size=target.layout[1], subgroup_size=target.layout[2])
    expected, found = copy.deepcopy(arrays), copy.deepcopy(arrays)
    interpret(function, expected, options.get("group_size") or 1, order_seed=0)
    target.run(source, *found, **options)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return expected


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_places(target):
    words = ["subgroup_id.x", "subgroup_id.y", "subgroup_id.z", "subgroup_linear_id", "subgroup_local_id",
             "num_subgroups.x", "num_subgroups.y", "num_subgroups.z", "subgroup_size"]
    body = "".join(f"%r{n} = {word} : i32 store %r{n}, %x[%p, {n}]\n" for n, word in enumerate(words))
    source = f"func @f(%x: memref<i32x{N}x9>) {{ parallel {{ {PLACE} {body} }} }}"
    check(target, source, fortran(np.zeros((N, 9), "i4")))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("type", [*DTYPES, "c32"])
def test_reductions(target, type):
    dtype = DTYPES.get(type, "complex64")
    words = [f"{kind}_{word}" for kind in ("reduce", "inclusive_scan", "exclusive_scan")
             for word in (["add"] if type == "c32" else ["add", "max", "min"])]
    body = "".join(f"%r{n} = subgroup_{word} %v : {type} store %r{n}, %y[%p, {n}]\n" for n, word in enumerate(words))
    x = (whole(0, N) + (5 if dtype.startswith("u") else 0)).astype(dtype)
    check(target, f"""func @f(%x: memref<{type}x{N}>, %y: memref<{type}x{N}x9>) {{
        parallel {{ {PLACE} %v = load %x[%p] : {type} {body} }}
    }}""", x, fortran(np.zeros((N, 9), dtype)))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_zeros_keep_their_signs(target):
    x = np.full(N, -0.0, "f4")
    check(target, f"""func @f(%x: memref<f32x{N}>) {{ parallel {{ {PLACE}
        %v = load %x[%p] : f32
        %a = subgroup_reduce_add %v : f32
        %b = subgroup_inclusive_scan_add %a : f32
        %c = div 1.0, %b : f32
        store %c, %x[%p]
    }} }}""", x)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_is_not_a_number_loses(target):
    x = np.where(np.arange(N) % 5 == 0, np.nan, np.arange(N) % 7).astype("f4")
    check(target, f"""func @f(%x: memref<f32x{N}>) {{ parallel {{ {PLACE}
        %v = load %x[%p] : f32
        %a = subgroup_reduce_max %v : f32
        %b = subgroup_inclusive_scan_min %v : f32
        %c = add %a, %b : f32
        %is_number = equal %b, %b : bool
        if %is_number {{ store %c, %x[%p] }} else {{ store -1.0, %x[%p] }}
    }} }}""", x)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("lane", ["0", "7", "%last"])
def test_broadcast(target, lane):
    check(target, f"""func @f(%x: memref<f32x{N}>) {{ parallel {{ {PLACE}
        %v = load %x[%p] : f32
        %last = sub %size, 1 : i32
        %w = subgroup_broadcast %v, {lane} : f32
        %s = add %v, %w : f32
        store %s, %x[%p]
    }} }}""", whole(0, N))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_barrier_is_where_all_have_stored(target):
    """Views, truth values and loops go across it; the memory is global, local, and of the own work-group."""
    check(target, f"""func @f(%x: memref<f32x{N}x3>, %y: memref<f32x{N}x3>) {{
        %g = group_id.x : index
        %t = alloca : memref<f32x{N},local>
        {COUNT}
        %last = sub %count, 1 : i32
        parallel {{ {PLACE}
            %column = subview %x[0:?, %g] : memref<f32x{N}>
            %mirrored = sub %last, %number : i32
            %q = cast %mirrored : index
            %is_odd = rem %number, 2 : i32
            %odd = equal %is_odd, 1 : bool
            %r = for %k = 0, 3 init(%r=0.0) -> (f32) {{
                %v = load %column[%p] : f32
                store %v, %t[%p]
                barrier.local
                %w = load %t[%q] : f32
                %s = add %r, %w : f32
                barrier.local
                %u = if %odd -> (f32) {{ %u = mul %s, 2.0 : f32 yield (%u) }} else {{ yield (%s) }}
                store %u, %column[%p]
                barrier.global
                %z = load %column[%q] : f32
                %a = add %z, %u : f32
                barrier.global
                yield (%a)
            }}
            store %r, %y[%p, %g]
        }}
    }}""", whole(1, N, 3), fortran(np.zeros((N, 3), "f4")), group_size=3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("uniform", [True, False])
def test_branches_and_loops_in_which_sub_groups_meet(target, uniform):
    """Where sub-groups differ, those that take another branch, or leave a loop earlier, do not take part."""
    condition = "less_than %n, 3" if uniform else "less_than %subgroup, 2"
    stop = "%n" if uniform else "%subgroup"
    check(target, f"""func @f(%n: i32, %x: memref<i32x{N}>, %y: memref<i32x{N}>) {{
        %four = constant 4 : i32
        {COUNT}
        %c = less_than %n, %four : bool
        parallel {{ {PLACE}
            %v = load %x[%p] : i32
            %d = {condition} : bool
            %a, %b = if {'%c' if uniform else '%d'} -> (i32, i32) {{
                %s = subgroup_reduce_add %v : i32
                %e = if %d -> (i32) {{
                    %m = subgroup_reduce_max %s : i32
                    yield (%m)
                }} else {{
                    %m = subgroup_exclusive_scan_add %v : i32
                    yield (%m)
                }}
                yield (%s, %e)
            }} else {{
                %s = subgroup_inclusive_scan_min %v : i32
                yield (%v, %s)
            }}
            %one = constant 1 : i32
            %h, %i = for %k = %one, {stop}, %one init(%h=%a, %i=%b) -> (i32, i32) {{
                %s = subgroup_reduce_min %i : i32
                %t = for %l = %one, %k init(%t=%s) -> (i32) {{
                    %u = subgroup_inclusive_scan_add %t : i32
                    %w = rem %u, 100 : i32
                    yield (%w)
                }}
                %w = add %t, %k : i32
                yield (%w, %h)
            }}
            %r = sub %h, %i : i32
            store %r, %y[%p]
        }}
    }}""", 3, whole(2, N, dtype="int32"), np.zeros(N, "i4"))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_names_repeat_in_regions_that_follow_one_another(target):
    check(target, f"""func @f(%x: memref<f32x{N}>) {{
        parallel {{ {PLACE}
            if true {{ %v = load %x[%p] : f32 %s = subgroup_reduce_add %v : f32 store %s, %x[%p] }}
            if true {{ %v = cast %lane : i64 %s = subgroup_reduce_max %v : i64 %t = cast %s : f32
                       %o = load %x[%p] : f32 %u = add %o, %t : f32 store %u, %x[%p] }}
        }}
        parallel {{ {PLACE}
            %v = load %x[%p] : f32 %s = subgroup_exclusive_scan_add %v : f32 store %s, %x[%p]
        }}
    }}""", whole(3, N))


TILES = """foreach_tile (%i, %j) = (%a, 0), (%b, 5) as (%m, %n) <= (48, 2) {{
    %lane = subgroup_local_id : i32
    %size = subgroup_size : i32
    %first = cast %lane : index
    %step = cast %size : index
    %ii = cast %i : index
    %mm = cast %m : index
    {meeting}
    for %u = %first, %mm, %step {{ for %v = 0, %n {{
        %k = add %ii, %u : index
        %l = add %j, %v : index
        %o = load %x[%k, %l] : f32
        %s = add %o, %value : f32
        store %s, %x[%k, %l]
    }} }}
}}"""


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("bounds", [(0, 150), (3, 40), (100, 101), (7, 7), (9, 2)])
@pytest.mark.parametrize("meeting", [
    "%value = cast %i : f32",
    "%t = add %i, %lane : i32 %s0 = subgroup_reduce_add %t : i32 %s1 = rem %s0, 17 : i32 %value = cast %s1 : f32",
], ids=["alone", "together"])
def test_tiles(target, bounds, meeting):
    source = f"func @f(%a: i32, %b: i32, %x: memref<f32x150x5>) {{ {TILES.format(meeting=meeting)} }}"
    check(target, source, *bounds, whole(4, 150, 5))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_work_items_and_the_work_group_take_turns(target):
    """What surrounds a region sees what it wrote, and the other way round."""
    check(target, f"""func @f(%A: memref<f32x16x16>, %B: memref<f32x16x16>, %C: memref<f32x16x16>) {{
        %t = alloca : memref<f32x16x16,local>
        {COUNT}
        %step = cast %count : index
        %end = constant 16 : index
        for %k = 0, 2 {{
            gemm 1.0, %A, %B, 0.0, %t
            parallel {{ {PLACE}
                for %i = %p, %end, %step {{ for %j = 0, 16 {{
                    %v = load %t[%i, %j] : f32
                    %o = load %C[%j, %i] : f32
                    %s = add %v, %o : f32
                    store %s, %C[%j, %i]
                }} }}
            }}
            axpby.t 1.0, %C, 0.0, %A
        }}
    }}""", whole(5, 16, 16), whole(6, 16, 16), whole(7, 16, 16))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_atomic_updates_are_those_of_each_work_item(target):
    check(target, f"""func @f(%x: memref<i32x2>) {{ parallel {{ {PLACE}
        %v = subgroup_reduce_add 1 : i32
        %o = atomic_add %v, %x[0] : i32
        barrier.global
        %n = atomic_load %x[0] : i32
        %m = atomic_max %n, %x[1] : i32
    }} }}""", np.zeros(2, "i4"))
