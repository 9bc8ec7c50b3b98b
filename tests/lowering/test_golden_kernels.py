"""Generated kernels, read by people: the body and the schedules of short functions, in golden files."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tests.lowering.support import CPU
from tl_dpnp.language import parse
from tl_dpnp.lowering import LoweringOptions, lower

SOURCES = {
    "fused_sample": """
        func @fused(%alpha: f32, %A: group<memref<f32x16x8>>, %B: memref<f32x8x8>, %C: memref<f32x8x16>,
                    %D: memref<f32x16x16x?>) {
          %0 = group_id
          %1 = load %A[%0] : group<memref<f32x16x8>>
          %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
          %tmp0 = alloca -> memref<f32x16x8>
          gemm.n.t 1.0, %1, %B, 0.0, %tmp0 : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
          gemm.n.n %alpha, %tmp0, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
        }""",
    "dynamic_sizes": """
        func @f(%A: group<memref<f64x?x?>, offset: ?>, %x: memref<f64x?>, %y: memref<f64x?x?>) {
          %g = group_id
          %a = load %A[%g] : group<memref<f64x?x?>, offset: ?>
          %v = subview %y[:, %g] : memref<f64x?x?>
          gemv.t -1.0, %a, %x, 0.5, %v : f64, memref<f64x?x?>, memref<f64x?>, f64, memref<f64x?>
        }""",
    "scalar_code": """
        func @f(%x: memref<i8x?>, %limit: i8, %count: index) {
          foreach %i = 0, %count {
            %v = load %x[%i] : memref<i8x?>
            %small = cmp.lt %v, %limit : i8
            %w = if %small -> (i8) {
              %d = arith.div %v, 3 : i8
              yield %d : i8
            } else { yield -1 : i8 }
            store %w, %x[%i] : memref<i8x?>
          }
          store 7, %x[0] : memref<i8x?>
        }""",
}


@pytest.mark.parametrize("form", ["vector", "subgroup"])
@pytest.mark.parametrize("name", SOURCES)
def test_generated_kernel(name: str, form: str, golden: Callable[[str, str], None]) -> None:
    (function,) = parse(dedent(SOURCES[name]))
    lowered = lower(function, CPU, LoweringOptions(form=form))
    golden(f"{name}.{form}.txt", f"{lowered.source}\n{lowered.schedule}\n")


def test_generated_kernel_with_bounds_checks(golden: Callable[[str, str], None]) -> None:
    (function,) = parse(dedent(SOURCES["scalar_code"]))
    lowered = lower(function, CPU, LoweringOptions(form="subgroup", debug=True))
    checks = "".join(f"check {n}: line {c.line}: {c.message}\n" for n, c in enumerate(lowered.plan.checks))
    golden("scalar_code.debug.txt", f"{lowered.source}\n{checks}")


def test_no_text_of_the_user_enters_the_kernel() -> None:
    source = """func @evil(%import_os: f32, %x: memref<f32x16>) {
        %exec = arith.mul %import_os, 2.0 : f32
        store %exec, %x[3] : memref<f32x16>
    }"""
    (function,) = parse(source)
    text = lower(function, CPU, LoweringOptions()).text
    assert not {"evil", "import_os", "exec"} & set(text.replace("(", " ").replace(",", " ").split())


def test_temporaries_are_not_prefetched() -> None:
    """A view of a temporary may depend on the group id, but its memory is the work-item's own."""
    source = """func @f(%x: memref<f32x16x16x?>) {
        %g = group_id
        %v = subview %x[:, :, %g] : memref<f32x16x16x?>
        %t = alloca -> memref<f32x16x16x4>
        %u = subview %t[:, :, %g] : memref<f32x16x16x4>
        axpby.n 1.0, %v, 0.0, %u : f32, memref<f32x16x16>, f32, memref<f32x16x16>
        gemm.n.n 1.0, %u, %u, 0.0, %v : f32, memref<f32x16x16>, memref<f32x16x16>, f32, memref<f32x16x16>
    }"""
    (function,) = parse(source)
    text = lower(function, CPU, LoweringOptions()).text
    (call,) = (line for line in text.splitlines() if "gemm_" in line)
    assert ", beyond, 8192)" in call, "the output, %v, moves by eight times its size; nothing else is known to move"


def test_elements_of_groups_are_prefetched_where_every_work_group_loads_one() -> None:
    """The next work-items' are as well; but a group that is loaded under a condition may have fewer elements."""
    load = """%v = load %x[%g] : group<memref<f32x16x16>>
        axpby.n 1.0, %v, 1.0, %v : f32, memref<f32x16x16>, f32, memref<f32x16x16>"""
    program = "func @f(%x: group<memref<f32x16x16>>) {{\n%g = group_id\n{}\n}}"
    (everywhere,), (guarded,) = map(parse, (program.format(load), program.format(
        f"%c = cmp.lt %g, 3 : index\nif %c {{ {load} }}")))
    assert "groups - 1" in lower(everywhere, CPU, LoweringOptions()).text
    assert "groups - 1" not in lower(guarded, CPU, LoweringOptions()).text


def test_operands_from_memory_have_a_schedule_of_their_own_where_all_work_groups_have_others() -> None:
    program = """func @f(%a: {}, %b: memref<f32x56x9x?>, %c: memref<f32x56x9x?>) {{
        %g = group_id
        %y = subview %b[:, :, %g] : memref<f32x56x9x?>
        %z = subview %c[:, :, %g] : memref<f32x56x9x?>
        {}gemm.n.n 1.0, {}, %y, 0.0, %z : f32, memref<f32x56x56>, memref<f32x56x9>, f32, memref<f32x56x9>
    }}"""
    (batched,), (shared,) = map(parse, (
        program.format("memref<f32x56x56x?>", "%x = subview %a[:, :, %g] : memref<f32x56x56x?>\n", "%x"),
        program.format("memref<f32x56x56>", "", "%a")))
    names = [schedule.name for schedule in lower(batched, CPU, LoweringOptions()).variants]
    assert names == ["gemm_0_beyond"]
    assert not lower(shared, CPU, LoweringOptions()).variants
