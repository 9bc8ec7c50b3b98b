"""Which regions have their matrices in the registers of sub-groups with DPAS, and which matrices share registers."""

from __future__ import annotations

import re

import pytest

from tl_dpnp.language import parse
from tl_dpnp.lowering import lower, unrolled_sums
from tl_dpnp.lowering.canonicalize import rename_uniquely
from tl_dpnp.lowering.coalescing import holder_of, places_in
from tl_dpnp.lowering.column_orders import column_of, split_columns
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.dpas_fragments import deferred_loads
from tl_dpnp.lowering.fragment_choice import regions_of
from tl_dpnp.lowering.index_multiples import multiples_in
from tl_dpnp.lowering.matrix_spreads import spreads_in
from tl_dpnp.runtime.offline.targets import TARGETS

C = "coopmatrix<f32x32x16,matrix_acc>"
#: What is said of a region in registers, with an instruction.
KEPT = ("the matrices of parallel in line 6 are in registers, multiplied by {}, in local memory where messages "
        "cannot move blocks")


def product(inside="", behind="", a="bf16x32x32", b="bf16x32x16", c="f32x32x16", letters="nn", x="?x?", y="?x?",
            z="?x?", at="%i, %k", carried="%d", attributes=""):
    """Return a function that sums up products in a loop, with other instructions behind the product and the loop."""
    types = [type.partition("x")[0] for type in (a, b, c)]
    return f"""func @f(%x: memref<{types[0]}x{x}>, %y: memref<{types[1]}x{y}>, %z: memref<{types[2]}x{z}>, %p: index)
            {attributes} {{
        %g = group_id.x : index  %w = constant 32 : index  %i = mul %g, %w : index  %first = constant 0 : index
        %one = constant 1 : index  %j = add %i, %one : index  %last = size %x[1] : index  %n = sub %last, %p : index
        %step = constant 32 : index  %Z = constant 0 : coopmatrix<{c},matrix_acc>
        parallel {{
            %C = for %k = %first, %last, %step init(%c=%Z) -> (coopmatrix<{c},matrix_acc>) {{
                %A = cooperative_matrix_load.{letters[0]}.both_checked %x[{at}] : coopmatrix<{a},matrix_a>
                %B = cooperative_matrix_load.{letters[1]}.both_checked %y[%k, %i] : coopmatrix<{b},matrix_b>
                %d = cooperative_matrix_mul_add %A, %B, %c : coopmatrix<{c},matrix_acc>
                {inside}
                yield ({carried})
            }}
            {behind}
            cooperative_matrix_store.both_checked %C, %z[%i, %i]
        }}
    }}"""


def lowered(source, device="pvc", **options):
    (function,) = parse(source)
    return lower(function, TARGETS[device].description, LoweringOptions(**options))


@pytest.mark.parametrize(("options", "row"), [
    ({}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"letters": "tn", "at": "%k, %i"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"a": "f16x16x16", "b": "f16x16x8", "c": "f32x16x8"}, "dpas_f32_f16_f16_8x16x16"),
    ({"a": "i8x16x32", "b": "u8x32x8", "c": "i32x16x8"}, "dpas_i32_u8_i8_8x16x32"),
    # What the region cannot know is found out at run time.
    ({"at": "%i, %n"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"at": "%k, %p", "letters": "tn"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"behind": "%E = cooperative_matrix_scale 2.0, %C : coopmatrix<f32x32x16,matrix_acc>"
                "%F = add %E, %C : coopmatrix<f32x32x16,matrix_acc>"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"letters": "nt", "a": "i8x16x32", "b": "u8x32x8", "c": "i32x16x8", "at": "%i, %k"}, "dpas_i32_u8_i8_8x16x32"),
    # Rows are reduced to columns, and columns spread over rows.
    ({"behind": "%R = cooperative_matrix_reduce_add.row %C : coopmatrix<f32x32x1,matrix_acc>"
                "%E = cast %R : coopmatrix<f32x32x1,matrix_a>  %F = constant 2 : coopmatrix<f32x1x16,matrix_b>"
                f"%G = cooperative_matrix_mul_add %E, %F, %C : {C} %H = cooperative_matrix_load.t %z[%i, %i] : {C}"
                "cooperative_matrix_store.t %G, %z[%i, %i]"}, "dpas_f32_bf16_bf16_8x16x16"),
    # So are columns, and rows; what a work-item holds decides a branch.
    ({"behind": "%R = cooperative_matrix_reduce_max.column %C : coopmatrix<f32x1x16,matrix_acc>"
                "%E = cast %R : coopmatrix<f32x1x16,matrix_b>  %F = constant 1 : coopmatrix<f32x32x1,matrix_a>"
                f"%G = cooperative_matrix_mul_add %F, %E, %C : {C}"
                "%S = cooperative_matrix_reduce_max.row %R : coopmatrix<f32x1x1,matrix_acc>"
                "%e = cooperative_matrix_extract %S[0] : f32  %m = subgroup_reduce_max %e : f32"
                "%t = less_than %m, 9 : bool"
                f"%H = if %t -> ({C}) {{ yield (%G) }} else {{ yield (%C) }}"
                "cooperative_matrix_store %H, %z[%i, %i]"}, "dpas_f32_bf16_bf16_8x16x16"),
    # The result of a product is the first factor of another one.
    ({"behind": "%E = cast %C : coopmatrix<bf16x32x16,matrix_a>"
                "%F = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x16x16,matrix_b>"
                f"%G = cooperative_matrix_mul_add %E, %F, %C : {C}"}, "dpas_f32_bf16_bf16_8x16x16"),
    # Or the second one; so are those that are constant, or computed of what was loaded.
    ({"behind": "%E = cast %C : coopmatrix<bf16x32x16,matrix_b>"
                "%F = cooperative_matrix_load %x[%i, %i] : coopmatrix<bf16x32x32,matrix_a>"
                f"%G = cooperative_matrix_mul_add %F, %E, %C : {C}"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"behind": "%E = constant 2 : coopmatrix<bf16x32x16,matrix_b>"
                "%F = cooperative_matrix_load %x[%i, %i] : coopmatrix<bf16x32x32,matrix_a>"
                f"%G = cooperative_matrix_mul_add %F, %E, %C : {C}"}, "dpas_f32_bf16_bf16_8x16x16"),
    ({"behind": "%D = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x32x16,matrix_b>"
                "%E = add %D, %D : coopmatrix<bf16x32x16,matrix_b>"
                "%F = cooperative_matrix_load %x[%i, %i] : coopmatrix<bf16x32x32,matrix_a>"
                f"%G = cooperative_matrix_mul_add %F, %E, %C : {C}"}, "dpas_f32_bf16_bf16_8x16x16"),
])
def test_products_on_dpas_keep_their_matrices_in_registers(options, row):
    remark, *_ = lowered(product(**options)).remarks
    assert remark == KEPT.format(row)


@pytest.mark.parametrize(("options", "moved"), [
    ({}, 2),
    # Messages that transpose load 16 rows of 8 words each.
    ({"letters": "tn", "at": "%k, %i"}, 5), ({"letters": "nt"}, 3),
    # What does not move, or in both modes at once, has no header that is changed.
    ({"at": "%i, %n"}, 1), ({"at": "%k, %k"}, 1),
    # 227 registers are taken, and A would need 15 more.
    ({"letters": "tn", "at": "%k, %i", "a": "bf16x64x64", "b": "bf16x64x16", "c": "f32x64x16"}, 2),
    ({"letters": "tn", "at": "%k, %i", "a": "bf16x64x64", "b": "bf16x64x8", "c": "f32x64x8"}, 18),
    # A branch does not run in each iteration.
    ({"inside": f"""%e = if %test -> ({C}) {{
        %E = cooperative_matrix_load %y[%k, %i] : coopmatrix<bf16x32x16,matrix_b>
        %F = cooperative_matrix_mul_add %A, %E, %d : {C} yield (%F) }} else {{ yield (%d) }}""", "carried": "%e"}, 2),
    # Indices that the loop computes.
    ({"inside": "%q = add %k, %w : index %E = cooperative_matrix_load %y[%q, %i] : coopmatrix<bf16x32x16,matrix_b>"
                f"%e = cooperative_matrix_mul_add %A, %E, %d : {C}", "carried": "%e"}, 2),
])
def test_headers_of_factors_that_a_loop_moves_are_changed_in_place(options, moved, monkeypatch):
    monkeypatch.setattr(unrolled_sums, "_STEPS", ())
    source = product(**options).replace("parallel {", "%test = cmp.lt %g, %p : index parallel {")
    assert headers_moved(lowered(source).llvm) == moved


def headers_moved(llvm):
    """Return how many headers additions change in place, two of which may share one."""
    return llvm.count('"add (M1_NM,1)') + 2 * llvm.count("<0;16,1>")


LOOP = re.compile(r"= for %\w+ = (\S+), (\S+), (\S+) init.*?\n(.*?)yield", re.DOTALL)


def loops_of(source):
    """Return where loops of the region in registers start and end, their steps, and the shapes of what they load."""
    canonical = lowered(source).passes.stages()["canonical"]
    region = canonical[: canonical.index("} else {")]
    known = dict(re.findall(r"(%\w+) = constant (\d+) : index", region))
    return [(known.get(start, start), known.get(stop, stop), int(known[step]),
             re.findall(r"cooperative_matrix_load.* : coopmatrix<[a-z]+\d+x(\d+x\d+)", body))
            for start, stop, step, body in LOOP.findall(region)]


@pytest.mark.parametrize(("options", "steps", "shapes"), [
    ({}, 4, ["32x128", "128x16"]), ({"letters": "tn", "at": "%k, %i"}, 2, ["32x64", "64x16"]),
    ({"a": "i8x32x32", "b": "u8x32x16", "c": "i32x32x16"}, 8, ["32x256", "256x16"]),
    # Sums and factors take registers.
    ({"a": "bf16x64x32", "c": "f32x64x16"}, 2, ["64x64", "64x16"]),
])
def test_sums_are_unrolled_and_the_rest_is_done_in_a_loop_behind(options, steps, shapes):
    first, second = loops_of(product(**options))
    assert (first[0], first[2], first[3]) == ("0", 32 * steps, shapes)
    assert second[0] == first[1]
    assert (second[2], second[3]) == (32, [options.get("a", "bf16x32x32").partition("x")[2],
                                          options.get("b", "bf16x32x16").partition("x")[2]])


@pytest.mark.parametrize(("sizes", "loops"), [
    ({"x": "64x256", "y": "256x64"}, [("0", "256", 128)]),
    ({"x": "64x300", "y": "300x64"}, [("0", "256", 128), ("256", "300", 32)]),
    ({"x": "64x72", "y": "72x64"}, [("0", "64", 64), ("64", "72", 32)]),
    ({"x": "64x40", "y": "40x64"}, [("0", "40", 32)]),
])
def test_where_the_sum_is_known_there_is_no_loop_without_an_iteration(sizes, loops):
    source = product(**sizes).replace("%last = size %x[1] : index",
                                      f"%last = constant {sizes['x'].partition('x')[2]} : index")
    assert [loop[:3] for loop in loops_of(source)] == loops


@pytest.mark.parametrize("options", [
    {"a": "bf16x64x32", "c": "f32x64x32", "b": "bf16x32x32"},  # registers
    {"inside": f"%e = max %d, %c : {C}", "carried": "%e"}, {"inside": f"%e = max %d, %c : {C}"},
    {"at": "%i, %n"}, {"at": "%k, %i"},  # the first factor does not move along the sum
    {"a": "bf16x32x16", "b": "bf16x16x16"},  # steps leave some out
    {"carried": "%c"},
    {"inside": f"%E = cooperative_matrix_load %y[%i, %k] : coopmatrix<bf16x32x16,matrix_b>"
               f"%e = cooperative_matrix_mul_add %A, %E, %d : {C}", "carried": "%e"},
])
def test_other_loops_are_left_as_they_are(options):
    (loop,) = loops_of(product(**options))
    assert loop[2] == 32


def test_loops_of_several_sums_and_inside_of_others_are_unrolled():
    source = f"""func @f(%x: memref<bf16x?x?>, %y: memref<bf16x?x?>, %z: memref<f32x?x?>) {{
        %last = size %x[1] : index  %Z = constant 0 : {C}
        parallel {{ for %i = 0, 64, 32 {{
            %C, %D = for %k = 0, %last, 16 init(%c=%Z, %d=%Z) -> ({C}, {C}) {{
                %A = cooperative_matrix_load.both_checked %x[%i, %k] : coopmatrix<bf16x32x16,matrix_a>
                %B = cooperative_matrix_load.both_checked %y[%k, %i] : coopmatrix<bf16x16x16,matrix_b>
                %c1 = cooperative_matrix_mul_add %A, %B, %c : {C}
                %E = cooperative_matrix_load.both_checked %y[%k, 0] : coopmatrix<bf16x16x16,matrix_b>
                %d1 = cooperative_matrix_mul_add %A, %E, %d : {C}
                yield (%c1, %d1)
            }}
            %S = add %C, %D : {C}
            cooperative_matrix_store.both_checked %S, %z[%i, %i]
        }} }}
    }}"""
    canonical = lowered(source).passes.stages()["canonical"]
    assert "coopmatrix<bf16x32x64,matrix_a>" in canonical
    assert canonical.count("coopmatrix<bf16x64x16,matrix_b>") == 2


@pytest.mark.parametrize(("options", "reason"), [
    ({"c": "f32x32x12", "b": "bf16x32x12"}, "%Z is 32 x 12, no whole blocks of 16 x 8"),
    ({"a": "bf16x32x8", "b": "bf16x8x16"},
     "dpas_f32_bf16_bf16_8x16x16 does not divide a product of 32 x 8 and 8 x 16"),
    ({"a": "f32x32x32", "b": "f32x32x16"}, "DPAS sums no products of f32 and f32 in f32"),
    ({"a": "bf16x128x32", "c": "f32x128x32", "b": "bf16x32x32"}, "they would need 323 registers, and there are 240"),
    ({"attributes": "attributes{subgroup_size=32}"}, "its sub-groups have 32 work-items, and DPAS has 16 lanes"),
    ({"behind": "%E = cooperative_matrix_load.t %x[%i, %i] : coopmatrix<bf16x32x16,matrix_acc>"},
     "the rows of coopmatrix<bf16x32x16,matrix_acc> do not follow one another in %x"),
    ({"behind": "%R = cast %C : coopmatrix<bf16x32x16,matrix_acc>"
                "%S = cooperative_matrix_reduce_add.row %R : coopmatrix<bf16x32x1,matrix_acc>"},
     "%S is 32 x 1, no whole blocks of 16 x 8"),
    # What columns are multiplied by is not known.
    ({"behind": "%R = cooperative_matrix_reduce_add.row %C : coopmatrix<f32x32x1,matrix_acc>"
                "%E = cast %R : coopmatrix<f32x32x1,matrix_a> %v = load %z[%i, %i] : f32"
                "%F = cooperative_matrix_construct %v : coopmatrix<f32x1x16,matrix_b>"
                f"%G = cooperative_matrix_mul_add %E, %F, %C : {C}"},
     "DPAS sums no products of f32 and f32 in f32"),
    ({"behind": "%v = load %z[%i, %i] : f32  %F = cooperative_matrix_construct %v : coopmatrix<f32x1x12,matrix_acc>"},
     "%F is 1 x 12, no whole blocks of 16 x 8"),
    ({"behind": "%R = cooperative_matrix_reduce_add.column %C : coopmatrix<f32x1x16,matrix_acc>"
                "cooperative_matrix_store %R, %z[%i, %i]"}, "a single row is in %z"),
    ({"at": "%j, %k"}, "an index of %x is not known to be a multiple of 2"),
    ({"x": "31x?"}, "%x has strides or sizes that loads of blocks do not take"),
    ({"x": "31x?,strided<2,?>"}, "neither rows nor columns of %x are known to be contiguous"),
    ({"inside": "%m = sub %k, %p : index  %E = cooperative_matrix_load %z[%m, %i] : coopmatrix<f32x32x16,matrix_acc>"},
     "the region computes an index of %z that may be negative"),
    ({"inside": "%E = add %A, %A : coopmatrix<bf16x32x32,matrix_a>"}, "%A is a factor, and not only multiplied"),
    ({"behind": "%R = cast %C : coopmatrix<bf16x32x16,matrix_acc>"
                "%S = cooperative_matrix_reduce_add.column %R : coopmatrix<bf16x1x16,matrix_acc>"},
     "cooperative_matrix_reduce_add of bf16 has no form for registers"),
    ({"behind": "%q = cast %i : i64 %r = subgroup_reduce_max %q : i64"},
     "subgroup_reduce_max of i64 has no form for registers"),
    ({"inside": "%v = load %z[%i, %i] : f32"}, "it stores elements, and reads or writes them one by one"),
    ({"behind": "%E = cast %C : coopmatrix<bf16x32x16,matrix_acc> %t = greater_than %i, %first : bool "
                "%F = if %t -> (coopmatrix<bf16x32x16,matrix_acc>) { yield (%E) } else { yield (%E) }"},
     "%F, which has components of bf16, is passed on"),
    ({"a": "i8x32x32", "b": "i8x32x16", "c": "i32x32x16",
      "behind": "%E = cast %C : coopmatrix<i8x32x16,matrix_b>"
                "%F = cooperative_matrix_load %x[%i, %i] : coopmatrix<i8x32x32,matrix_a>"
                "%G = cooperative_matrix_mul_add %F, %E, %C : coopmatrix<i32x32x16,matrix_acc>"},
     "%E has components of i8"),
    ({"inside": "barrier"}, "barrier has no form for registers"),
])
def test_others_are_in_local_memory_and_say_why(options, reason):
    remark, *_ = lowered(product(**options)).remarks
    assert remark == f"the matrices of parallel in line 6 are in local memory: {reason}"


@pytest.mark.parametrize(("device", "options", "reason"), [
    ("dg2", {}, "sub-groups of 8 have no messages that move blocks"),
    ("pvc", {"debug": True}, "debug=True checks each access"),
])
def test_devices_and_options_that_keep_matrices_in_local_memory(device, options, reason):
    remark, *_ = lowered(product(), device, **options).remarks
    assert remark.endswith(f"in local memory: {reason}")


def test_run_time_decides_between_registers_and_local_memory():
    """What the region is in registers for are arrays that messages can access, and offsets that are not negative."""
    text = lowered(product(at="%k, %p", letters="tn")).stages["barriers"]
    assert "%blocks_fit = blocks_fit (%x, %y, %z), (%p), (%last)" in text
    kept, _, phases = text.partition("if %blocks_fit {")[2].partition("} else {")
    assert "parallel" in kept
    assert "alloca" not in kept
    assert "parallel" not in phases
    assert "gemm" in phases


def places(**options):
    (function,) = parse(product(**options))
    (region,) = regions_of(rename_uniquely(function))
    return places_in(region.body, {})


def test_a_sum_stays_where_it_is_over_a_loop():
    assert len(set(map(places().get, (holder_of("c"), "c", "d", "C")))) == 1


@pytest.mark.parametrize(("options", "apart"), [
    # What was there before is used after the product.
    ({"inside": f"%e = add %c, %d : {C}"}, ("c", "d")),
    # The sum is needed after another one began with it.
    ({"inside": f"%e = cooperative_matrix_mul_add %A, %B, %d : {C} %h = add %d, %e : {C}"}, ("d", "e")),
    # Another product goes on with what the loop has carried.
    ({"inside": f"%e = cooperative_matrix_mul_add %A, %B, %c : {C}", "carried": "%e"}, ("c", "d")),
    ({"behind": f"%D = cooperative_matrix_mul_add %L, %M, %C : {C} %E = add %C, %D : {C}".replace("%L", "%A1").replace(
        "%M", "%B1"), "inside": ""}, None),
])
def test_sums_that_live_at_one_time_have_registers_of_their_own(options, apart):
    if apart is None:
        loads = ("%A1 = cooperative_matrix_load %x[%i, %i] : coopmatrix<bf16x32x32,matrix_a> "
                 "%B1 = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x32x16,matrix_b> ")
        options, apart = {"behind": loads + options["behind"]}, ("C", "D")
    found = places(**options)
    assert found[apart[0]] != found[apart[1]]


def test_only_what_products_and_loops_change_is_in_registers_of_its_own():
    """Sums of two matrices, and of what is spread, are values."""
    found = places(inside=f"%e = add %c, %d : {C} %u = add %e, %d : {C} "
                          f"%v = cooperative_matrix_mul_add %A, %B, %u : {C}",
                   behind=f"%E = add %C, %C : {C}")
    assert set(found) == {holder_of("c"), "c", "d", "C", "u", "v"}
    assert found["u"] == found["v"]


def test_what_a_branch_gives_is_in_the_registers_of_what_another_region_yields():
    """Regions of a branch do not run both: what the first one yields does not live in the second one."""
    source = f"""func @f(%x: memref<bf16x?x?>, %y: memref<bf16x?x?>, %p: bool) {{ %Z = constant 0 : {C} parallel {{
        %A = cooperative_matrix_load %x[0, 0] : coopmatrix<bf16x32x32,matrix_a>
        %B = cooperative_matrix_load %y[0, 0] : coopmatrix<bf16x32x16,matrix_b>
        %c = cooperative_matrix_mul_add %A, %B, %Z : {C}
        %C = if %p -> ({C}) {{ yield (%c) }} else {{
            %d = cooperative_matrix_mul_add %A, %B, %Z : {C}
            %e = cooperative_matrix_mul_add %A, %B, %d : {C} yield (%e) }}
    }} }}"""
    (function,) = parse(source)
    (region,) = regions_of(rename_uniquely(function))
    found = places_in(region.body, {})
    assert len({found[name] for name in "cCde"}) == 1


def test_a_product_leaves_what_it_is_added_to_where_it_is():
    """DPAS reads it from there: there is no move, but for the sums that the loop begins with."""
    behind = f"%E = cooperative_matrix_mul_add %L, %M, %C : {C} %F = add %C, %E : {C}"
    loads = ("%L = cooperative_matrix_load %x[%i, %i] : coopmatrix<bf16x32x32,matrix_a> "
             "%M = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x32x16,matrix_b> ")
    llvm = lowered(product(behind=loads + behind)).llvm
    assert len(re.findall(r"dpas\S* \(M1,16\) \$0\.0 \$[34]\.0", llvm)) == 4


def test_what_loops_carry_crosswise_has_registers_of_its_own():
    source = f"""func @f(%x: memref<f32x?x?>) {{ %a = constant 0 : index %b = constant 9 : index parallel {{
        %C = cooperative_matrix_load %x[0, 0] : {C}
        %P, %Q = for %i = %a, %b init(%p=%C, %q=%C) -> ({C}, {C}) {{ yield (%q, %p) }}
    }} }}"""
    (function,) = parse(source)
    (region,) = regions_of(rename_uniquely(function))
    found = places_in(region.body, {})
    # The second holder is written when the first one is already the other's value.
    assert found["p"] != found[holder_of("p")] or found["q"] != found[holder_of("q")]
    assert found[holder_of("p")] != found[holder_of("q")]


def test_what_indices_are_multiples_of():
    (function,) = parse("""func @f(%p: index, %q: i32, %x: memref<f32x?x?>) {
        %g = group_id.x : index  %w = constant 24 : index  %i = mul %g, %w : index  %e = constant 8 : index
        %j = add %i, %e : index  %m = sub %i, %e : index  %r = rem %i, %p : index  %h = div %i, %p : index
        %s = mul %p, %e : index  %v = cast %q : index  %u = add %v, %i : index
        parallel { for %k = %j, %p, %w { %a = add %k, %s : index  %b = sub %a, %e : index
                   %c = constant 0 : coopmatrix<f32x16x8,matrix_acc> } }
    }""")
    (region,) = regions_of(function)
    known = multiples_in(function, region.body)
    found = {name: (known[name].number, sorted(value.name for value in known[name].assumes)) for name in "ijrhsvukam"}
    assert found == {
        "i": (24, []), "j": (8, []), "r": (1, []), "h": (1, ["p"]), "s": (8, ["p"]), "v": (1, ["v"]), "u": (1, ["v"]),
        "k": (8, []), "a": (8, ["p"]), "m": (1, ["m"]),
    }
    assert "b" not in known


def orders(source):
    """Return the matrices whose even columns come before odd ones."""
    (function,) = parse(source)
    (region,) = regions_of(function)
    return set(split_columns(function, region.body, spreads_in(function)))


@pytest.mark.parametrize(("options", "expected"), [
    ({}, set()),  # the columns of the second factor do not follow one another
    ({"letters": "nt"}, set()),  # messages store the sum
    ({"letters": "nt", "store": ".t"}, {"B", "c", "d", "C"}),
    ({"letters": "nt", "store": ".t", "behind": f"%E = neg %C : {C} %e = cast %E : coopmatrix<bf16x32x16,matrix_acc>"},
     {"B", "c", "d", "C", "E", "e"}),
    # A sum is no factor, and no sum of a factor whose columns are in their order.
    ({"letters": "nt", "store": ".t", "behind": f"""%e = cast %C : coopmatrix<bf16x32x16,matrix_a>
      %F = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x16x16,matrix_b>
      %E = cooperative_matrix_mul_add %e, %F, %Z : {C}"""}, set()),
    ({"letters": "nt", "store": ".t", "behind": f"""%D = cooperative_matrix_load %x[%i, %i] :
      coopmatrix<bf16x32x32,matrix_a> %F = cooperative_matrix_load %y[%i, %i] : coopmatrix<bf16x32x16,matrix_b>
      %E = cooperative_matrix_mul_add %D, %F, %C : {C}"""}, set()),
    ({"letters": "nt", "store": ".t", "b": "bf16x32x24", "c": "f32x32x24"}, set()),  # no groups of 16 columns
    ({"letters": "nt", "store": ".t", "a": "i8x32x32", "b": "i8x32x16", "c": "i32x32x16"}, set()),  # no gain
    # A row that columns are reduced to has their order, and so has what it is spread over.
    ({"letters": "nt", "store": ".t", "behind": f"""%m = cooperative_matrix_reduce_max.column %C :
      coopmatrix<f32x1x16,matrix_acc> %r = cast %m : coopmatrix<f32x1x16,matrix_b>
      %o = constant 1 : coopmatrix<f32x32x1,matrix_a> %E = cooperative_matrix_mul_add %o, %r, %Z : {C}"""},
     {"B", "c", "d", "C", "m", "r", "E"}),
    # What a column is spread over has the order of the sum; the column has none.
    ({"letters": "nt", "store": ".t", "behind": f"""%m = cooperative_matrix_reduce_max.row %C :
      coopmatrix<f32x32x1,matrix_acc> %r = cast %m : coopmatrix<f32x32x1,matrix_a>
      %o = constant 1 : coopmatrix<f32x1x16,matrix_b> %E = cooperative_matrix_mul_add %r, %o, %C : {C}"""},
     {"B", "c", "d", "C", "E"}),
])
def test_columns_are_in_the_order_that_takes_fewest_moves(options, expected):
    options = dict(options)
    store = options.pop("store", "")
    source = product(**options).replace("cooperative_matrix_store.both", f"cooperative_matrix_store{store}.both")
    assert orders(source) == expected


def test_even_columns_come_before_odd_ones_of_sixteen():
    assert [column_of(place, is_split=False) for place in range(40)] == [*range(40)]
    own = [column_of(place, is_split=True) for place in range(32)]
    assert own[:16] == [*range(0, 16, 2), *range(1, 16, 2)]
    assert own[16:] == [16 + column for column in own[:16]]


#: A product of factors that take 128 registers each, which do not fit beside another matrix of 64.
LARGE = """func @f(%x: memref<bf16x?x?>, %y: memref<bf16x?x?>, %z: memref<f32x?x?>) {{ parallel {{
    %c = cooperative_matrix_load %z[0, 0] : coopmatrix<f32x32x32,matrix_acc>
    %A = cooperative_matrix_load %x[0, 0] : coopmatrix<bf16x32x128,matrix_a>
    %B = cooperative_matrix_load.{} %y[0, 0] : coopmatrix<bf16x128x32,matrix_b>
    {}
    %d = cooperative_matrix_mul_add %A, %B, %c : coopmatrix<f32x32x32,matrix_acc>
    {}
    cooperative_matrix_store %d, %z[0, 0]
}} }}"""
AGAIN = "%e = cooperative_matrix_mul_add %A, %B, %d : coopmatrix<f32x32x32,matrix_acc>"
REPEATED = """%n = size %x[0] : index  %0 = constant 0 : index  %e = for %i = %0, %n init(%f=%d) ->
    (coopmatrix<f32x32x32,matrix_acc>) {
    %g = cooperative_matrix_mul_add %A, %B, %f : coopmatrix<f32x32x32,matrix_acc> yield (%g) }"""


@pytest.mark.parametrize(("letter", "before", "behind", "parts"), [
    # Messages of the first factor are 32 of its columns, of the second one 32 rows and columns that follow one another,
    # or 16 x 16, twice while they are taken apart.
    ("n", "", "", {"A": 32, "B": 32}),
    ("t", "", "", {"A": 32, "B": 16}),
    ("n", "%t = size %x[0] : index", "", {"A": 32, "B": 32}),
    ("n", "", AGAIN, {"A": 32, "B": 32}),
    ("n", "", REPEATED, {"A": 32, "B": 32}),
    # What is loaded must not have changed where it is multiplied.
    ("n", "cooperative_matrix_store %c, %z[32, 32]", "", {}),
    ("n", "", REPEATED.replace("yield", "cooperative_matrix_store %f, %z[32, 32] yield"), {}),
])
def test_factors_that_do_not_fit_are_loaded_by_parts(letter, before, behind, parts):
    source = LARGE.format(letter, before, behind)
    (function,) = parse(source)
    (region,) = regions_of(function)
    assert deferred_loads(region.body, spreads_in(function)) == parts
    assert ("are in registers" if parts else "they would need") in lowered(source).remarks[0]


def test_factors_that_fit_are_loaded_where_the_program_loads_them():
    source = LARGE.replace("128", "64").format("n", "", "")
    (function,) = parse(source)
    (region,) = regions_of(function)
    assert deferred_loads(region.body, spreads_in(function)) == {}
    assert "are in registers" in lowered(source).remarks[0]


@pytest.mark.parametrize(("precision", "how"), [
    ("highest", 'gemm_0 is not on the matrix engine: it sums products of f32 and f32 in f32; precision="high" or '
                '"default" would allow it'),
    ("high", "gemm_0 is on the matrix engine: dpas_f32_bf16_bf16_8x16x16"),
    ("default", "gemm_0 is on the matrix engine: dpas_f32_tf32_tf32_8x16x8"),
])
def test_what_computes_products_of_f32_is_said(precision, how):
    """DPAS has none: they are computed by way of local memory, by what `precision` allows."""
    found = lowered(product(a="f32x32x32", b="f32x32x16"), precision=precision).remarks
    assert found[0].endswith("are in local memory: DPAS sums no products of f32 and f32 in f32")
    assert found[1].startswith(how)
