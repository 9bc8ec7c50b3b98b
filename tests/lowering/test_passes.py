"""The passes over the IR: canonical form, placement of temporaries, barriers, work-group size."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from tests.lowering.support import CPU, GPU
from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.language import ops, parse, print_function
from tl_dpnp.lowering.analysis import analyse
from tl_dpnp.lowering.barriers import insert_barriers
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.choice import base_mapping
from tl_dpnp.lowering.memory import local_memory, place_temporaries


def function(text: str) -> ops.Function:
    """Return the first function of a module."""
    return parse(dedent(text)).functions[0]


def body(text: str) -> str:
    """Wrap instructions in a function with two vectors and two matrices."""
    return f"""func @f(%x: memref<f32x16>, %y: memref<f32x16>, %s: memref<f32>, %A: memref<f32x16x16>, %n: index) {{
    {text}
}}"""


def canonical(text: str) -> list[str]:
    """Return the lines of the canonical form of a body, without the frame."""
    printed = print_function(canonicalize(function(body(text))), "0.3")
    return [line.strip() for line in printed.splitlines()[1:-1]]


# --- canonical form --------------------------------------------------------------------------------------------------


def test_constants_are_folded_and_dead_code_is_dropped():
    assert canonical("""
        %a = arith.add 3, 4 : index
        %b = arith.mul %a, 2 : index
        %unused = arith.mul %n, 5 : index
        store 1.0, %x[%b] : memref<f32x16>""") == ["store 1.0, %x[14] : memref<f32x16>"]


def test_the_size_of_a_static_mode_is_a_constant():
    assert canonical("""
        %a = size %A[1] : memref<f32x16x16>
        %b = arith.sub %a, 1 : index
        store 1.0, %x[%b] : memref<f32x16>""") == ["store 1.0, %x[15] : memref<f32x16>"]


def test_a_known_branch_replaces_its_if():
    assert canonical("""
        %c = cmp.lt 1, 2 : index
        %v = if %c -> (f32) { yield 2.0 : f32 } else { yield 3.0 : f32 }
        store %v, %x[0] : memref<f32x16>""") == ["store 2.0, %x[0] : memref<f32x16>"]


def test_a_loop_without_iterations_is_dropped():
    assert canonical("for %i = 5, 5 { store 1.0, %x[%i] : memref<f32x16> }") == []


def test_integers_fold_as_they_wrap():
    assert canonical("""
        %a = arith.add 100, 100 : i8
        %b = cast %a : i8 -> index
        %c = arith.neg %b : index
        %d = arith.sub %c, 50 : index
        store 1.0, %x[%d] : memref<f32x16>""") == ["store 1.0, %x[6] : memref<f32x16>"]


def test_integers_that_have_no_spelling_are_left_to_run_time():
    lines = canonical("""
        %a = arith.sub 0, 1 : u64
        %b = cast %a : u64 -> index
        store 1.0, %x[%b] : memref<f32x16>""")
    assert lines[0] == "%a = arith.sub 0, 1 : u64"


def test_division_by_zero_is_left_to_run_time():
    assert "arith.div" in canonical("""
        %m = arith.mul %n, 0 : index
        %a = arith.div %n, %m : index
        store 1.0, %x[%a] : memref<f32x16>""")[1]


def test_names_that_two_loops_share_become_different():
    lines = canonical("""
        for %i = 0, %n { store 1.0, %x[%i] : memref<f32x16> }
        for %i = 0, %n { store 2.0, %y[%i] : memref<f32x16> }""")
    assert lines[0] == "for %i = 0, %n {"
    assert lines[3] == "for %i_1 = 0, %n {"
    assert lines[4] == "store 2.0, %y[%i_1] : memref<f32x16>"


# --- barriers --------------------------------------------------------------------------------------------------------


def with_barriers(text: str) -> list[str]:
    """Return the first word of each line after the pass."""
    given = canonicalize(function(body(text)))
    printed = print_function(insert_barriers(given, place_temporaries(given, 1 << 20)), "0.3")
    return [line.strip().split()[0].split(".")[0] for line in printed.splitlines()[1:-1]]


AXPBY = "axpby.n 1.0, {0}, 0.0, {1} : f32, memref<f32x16>, f32, memref<f32x16>"


def test_read_after_write_is_ordered():
    program = AXPBY.format("%x", "%y") + "\nsum.n 1.0, %y, 0.0, %s : f32, memref<f32x16>, f32, memref<f32>"
    assert with_barriers(program) == ["axpby", "barrier", "sum"]


def test_write_after_read_is_ordered():
    program = "sum.n 1.0, %y, 0.0, %s : f32, memref<f32x16>, f32, memref<f32>\n" + AXPBY.format("%x", "%y")
    assert with_barriers(program) == ["sum", "barrier", "axpby"]


def test_reads_need_no_barrier():
    two = "\n".join(f"axpby.n 1.0, %x, 0.0, %t{i} : f32, memref<f32x16>, f32, memref<f32x16>" for i in range(2))
    allocas = "%t0 = alloca -> memref<f32x16>\n%t1 = alloca -> memref<f32x16>\n"
    uses = "\nsum.n 1.0, %t0, 1.0, %s : f32, memref<f32x16>, f32, memref<f32>\n" \
           "axpby.n 1.0, %t1, 0.0, %y : f32, memref<f32x16>, f32, memref<f32x16>"
    assert with_barriers(allocas + two + uses) == ["%t0", "%t1", "axpby", "axpby", "barrier", "sum", "axpby"]


def test_views_of_the_same_memory_are_ordered():
    assert with_barriers("""
        %a = subview %A[:, 3] : memref<f32x16x16>
        %b = subview %A[3, :] : memref<f32x16x16>
        %c = fuse %A[0, 1] : memref<f32x16x16>
        axpby.n 1.0, %x, 0.0, %a : f32, memref<f32x16>, f32, memref<f32x16>
        axpby.n 1.0, %b, 0.0, %y : f32, memref<f32x16,strided<16>>, f32, memref<f32x16>
        foreach %i = 0, 256 { store 0.0, %c[%i] : memref<f32x256> }""") == [
        "%a", "%b", "%c", "axpby", "barrier", "axpby", "barrier", "foreach", "store", "}"]


def test_the_back_edge_of_a_loop_is_ordered():
    """The last instruction of an iteration conflicts with the first of the next one."""
    assert with_barriers(f"""
        for %i = 0, %n {{
            {AXPBY.format("%x", "%y")}
            gemv.n 1.0, %A, %y, 0.0, %x : f32, memref<f32x16x16>, memref<f32x16>, f32, memref<f32x16>
        }}""") == ["for", "barrier", "axpby", "barrier", "gemv", "}"]


def test_accesses_in_a_branch_are_ordered_with_those_after_it():
    assert with_barriers(f"""
        %c = cmp.lt %n, 3 : index
        if %c {{ {AXPBY.format("%x", "%y")} }}
        sum.n 1.0, %y, 0.0, %s : f32, memref<f32x16>, f32, memref<f32>""") == [
        "%c", "if", "axpby", "}", "barrier", "sum"]


def test_foreach_is_ordered_as_a_whole():
    assert with_barriers("""
        foreach %i = 0, 16 { store 1.0, %y[%i] : memref<f32x16> }
        foreach %j = 0, 16 {
            %v = load %y[%j] : memref<f32x16>
            store %v, %x[%j] : memref<f32x16>
        }""") == ["foreach", "store", "}", "barrier", "foreach", "%v", "store", "}"]


def test_a_replicated_load_is_ordered_with_the_store_after_it():
    assert with_barriers("""
        %v = load %x[0] : memref<f32x16>
        %w = arith.add %v, 1.0 : f32
        store %w, %x[0] : memref<f32x16>""") == ["%v", "%w", "barrier", "store"]


def test_a_barrier_of_the_user_is_honoured_and_serves():
    assert with_barriers(AXPBY.format("%x", "%y") + "\nbarrier\n" + AXPBY.format("%y", "%x")) == [
        "axpby", "barrier", "axpby"]


def test_temporaries_that_share_memory_are_ordered():
    """%b is placed where %a was; its first write must not overtake the last read of %a."""
    assert with_barriers(f"""
        %a = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%a")}
        {AXPBY.format("%a", "%y")}
        lifetime_stop %a
        %b = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%b")}
        sum.n 1.0, %b, 0.0, %s : f32, memref<f32x16>, f32, memref<f32>""") == [
        "%a", "axpby", "barrier", "axpby", "lifetime_stop", "%b", "barrier", "axpby", "barrier", "sum"]


# --- placement of temporaries ----------------------------------------------------------------------------------------


def placements(text: str) -> dict[str, tuple[int, int]]:
    placed = place_temporaries(function(body(text)), 1 << 20)
    return {name: (entry.offset, entry.size) for name, entry in placed.items()}


@pytest.mark.parametrize(("element", "size"), [("i8", 8), ("i16", 12), ("f32", 20)])
def test_local_memory_has_whole_words(element, size):
    """Atomic instructions access the word that an element of 16 bits is in, which may be the last one."""
    placed = place_temporaries(function(f"""func @f(%x: memref<{element}>) {{
        %a = alloca -> memref<{element}x5,local>
        %v = load %a[4] : memref<{element}x5,local>
        store %v, %x[] : memref<{element}>
    }}"""), 1 << 20)
    assert local_memory([*placed.values()]) == size


def test_lifetimes_that_do_not_overlap_share_memory():
    found = placements(f"""
        %a = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%a")}
        {AXPBY.format("%a", "%y")}
        %b = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%b")}
        {AXPBY.format("%b", "%y")}""")
    assert found == {"a": (0, 64), "b": (0, 64)}


def test_a_use_through_a_view_keeps_a_temporary_alive():
    found = placements(f"""
        %a = alloca -> memref<f32x16>
        %v = subview %a[:] : memref<f32x16>
        {AXPBY.format("%x", "%v")}
        %b = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%b")}
        {AXPBY.format("%v", "%y")}""")
    assert found["a"][0] != found["b"][0]


def test_a_use_in_a_loop_lasts_until_its_end():
    """%b is written after %a's last use in the text, but %a is read again in the next iteration."""
    found = placements(f"""
        %a = alloca -> memref<f32x16>
        {AXPBY.format("%x", "%a")}
        for %i = 0, %n {{
            {AXPBY.format("%a", "%y")}
            %b = alloca -> memref<f32x16>
            {AXPBY.format("%x", "%b")}
            {AXPBY.format("%b", "%y")}
        }}""")
    assert found["a"][0] != found["b"][0]


def test_temporaries_are_aligned_to_the_widest_vector():
    found = placements("""
        %a = alloca -> memref<i8x3>
        %b = alloca -> memref<f64x5>
        foreach %i = 0, 3 { store 1, %a[%i] : memref<i8x3> }
        foreach %i = 0, 3 { store 1.0, %b[%i] : memref<f64x5> }
        foreach %i = 0, 3 { store 1, %a[%i] : memref<i8x3> }""")
    assert all(offset % 64 == 0 for offset, _ in found.values())


def test_too_much_local_memory_names_each_temporary():
    given = function(body(f"%big = alloca -> memref<f32x16x100>\n%v = subview %big[:, 0] : memref<f32x16x100>\n"
                          f"{AXPBY.format('%x', '%v')}"))
    with pytest.raises(UnsupportedError, match=r"take 6400 bytes.*has 4096(.|\n)*%big of type memref<f32x16x100>"):
        place_temporaries(given, 4096)


# --- work-group ------------------------------------------------------------------------------------------------------

EMPTY = function("func @f() {}")


def chosen(given, device, form=None):
    return base_mapping(analyse(given, device, LoweringOptions(form=form)))


def test_a_cpu_gets_the_vector_form():
    assert chosen(EMPTY, CPU).form == "vector"


def test_a_gpu_gets_the_subgroup_form():
    mapping = chosen(EMPTY, GPU)
    assert (mapping.form, mapping.layout.lanes) == ("subgroup", 16)


def test_attributes_decide():
    mapping = chosen(replace(EMPTY, work_group_size=(32, 3), subgroup_size=8), CPU)
    assert mapping.form == "subgroup"
    assert (mapping.layout.lanes, mapping.layout.rows, mapping.layout.columns) == (8, 4, 3)


def test_a_work_group_size_alone_constrains_the_subgroup_size():
    mapping = chosen(replace(EMPTY, work_group_size=(24, 1)), CPU)
    assert (mapping.layout.lanes, mapping.layout.rows) == (8, 3)


@pytest.mark.parametrize(
    ("attributes", "form", "message"),
    [
        ({"subgroup_size": 8}, None, "subgroup_size.8. is not supported"),
        ({"work_group_size": (24, 1)}, None, "no sub-group size of .* divides"),
        ({"work_group_size": (1024, 2)}, None, "2048 work-items; .* allows 1024"),
        ({"work_group_size": (16, 1)}, "vector", "one work-item, but the function has attributes"),
    ],
)
def test_what_the_device_cannot_do_is_an_error(attributes, form, message):
    with pytest.raises(LoweringError, match=message):
        chosen(replace(EMPTY, **attributes), GPU, form)


# --- carried values --------------------------------------------------------------------------------------------------


def test_a_loop_that_never_runs_gives_the_values_that_it_begins_with():
    assert canonical("""
        %a = for %i = 4, 4 init(%b=1.0) -> (f32) { yield (2.0) }
        store %a, %x[0]""") == ["store 1.0, %x[0] : memref<f32x16>"]


def test_the_results_of_a_loop_may_have_the_names_of_what_it_carries():
    given = function(body("""
        %a = load %x[0] : f32
        %r = for %i = 0, 4 init(%r=%a) -> (f32) {
            %t = for %j = 0, 4 init(%t=%r) -> (f32) { %u = add %t, %r : f32 yield (%u) }
            yield (%t)
        }
        store %r, %x[0]"""))
    renamed = canonicalize(given)
    names = [value.name for each in renamed.body.walk() for value in (*each.results, *each.loop_variables)]
    assert len(set(names)) == len(names)
    _, outer, store = renamed.body
    (inner, outer_yield) = outer.body
    assert store.value == outer.outputs[0]
    assert outer_yield.values == inner.outputs
    assert inner.initial == outer.carried
    assert inner.body.operations[0].operands == (inner.carried[0], outer.carried[0])
