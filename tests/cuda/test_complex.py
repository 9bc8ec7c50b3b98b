"""Complex numbers on CUDA devices: what is compiled without a GPU, and on one the interpreter's numbers, or NumPy's."""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest

import tl_dpnp
from tests.campaigns.programs import WITH_COMPLEX
from tests.cuda.exporters import Exporter
from tests.cuda.programs import LAYOUTS, OnDevice, disagreements, with_layout
from tests.differential.complex_cases import (
    DTYPES,
    PARTS,
    PRODUCTS,
    check_arithmetic,
    check_casts_branches_and_carried_values,
    check_linear_algebra,
    check_parts_and_complex_numbers_at_the_end_of_loops,
    whole,
)
from tests.semantics import complex_points
from tests.strategies.programs import random_program
from tl_dpnp.language import ops
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.cuda.driver_adapter import device_count

#: Random programs in each layout on a device, in parts that run side by side, and times eight products.
PARTS_OF_PROGRAMS = 5
PROGRAMS = int(os.environ.get("TL_DPNP_TEST_CUDA_PROGRAMS", "100"))
DRAWN = int(os.environ.get("TL_DPNP_TEST_CUDA_PRODUCTS", "12"))
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
types = pytest.mark.parametrize("type_", DTYPES)


@dataclass(frozen=True)
class Interpreter:
    """The interpreter as a target."""

    def run(self, source, *arguments, group_size=None):
        tl_dpnp.compile(source, target="reference")(*arguments, group_size=group_size)


def only(views):
    (view,) = views.values()
    return view


def product(type_, m, n, k, transposes="n.n", alpha="1", beta="0", ways="bbb"):
    """Return C[g] := alpha op(A[g]) op(B[g]) + beta C[g] of complex numbers, and the shapes of A, B and C.

    A matrix comes in a batch (b), in a group (g), or is one that all work-groups read (s).
    """
    shapes = [(m, k)[:: -1 if transposes[0] == "t" else 1], (k, n)[:: -1 if transposes[2] == "t" else 1], (m, n)]
    kinds = [f"memref<{type_}x{rows}x{columns}>" for rows, columns in shapes]
    parameters, lines, operands = [], ["%g = group_id"], []
    for name, kind, way in zip("ABC", kinds, ways, strict=True):
        taken = {"b": f"{kind[:-1]}x?>", "g": f"group<{kind}>", "s": kind}[way]
        parameters.append(f"%{name}: {taken}")
        operands.append(f"%{name}" if way == "s" else f"%{name.lower()}")
        if way != "s":
            lines.append(f"%{name.lower()} = {'subview' if way == 'b' else 'load'} %{name}"
                         f"[{'%g' if way == 'g' else ':,:,%g'}] : {taken}")
    a, b, c = operands
    lines.append(f"gemm.{transposes} {alpha}, {a}, {b}, {beta}, {c} : {type_}, {kinds[0]}, {kinds[1]}, {type_}, "
                 f"{kinds[2]}")
    return "\n".join([f"func @f(%k: {type_}, {', '.join(parameters)}) {{", *lines, "}"]), shapes


# --- without a GPU ---------------------------------------------------------------------------------------------------


@types
def test_numbers_are_pairs_in_memory_and_two_arguments(type_):
    part, bits = PARTS[type_], PARTS[type_][1:]
    source = f"""func @f(%k: {type_}, %x: memref<{type_}x?>, %y: memref<{part}x?>) {{
        %g = group_id
        %a = load %x[%g] : memref<{type_}x?>
        %b = arith.mul %a, %k : {type_}
        %c = arith.div %b, %a : {type_}
        store %c, %x[%g] : memref<{type_}x?>
        %m = abs %c : {part}
        store %m, %y[%g] : memref<{part}x?>
    }}"""
    ptx = only(tl_dpnp.compile(source, target="cuda", cache=False).inspect_ptx())
    for place, kind in enumerate((part, part, "u64")):
        assert re.search(rf"\.param \.{kind} \S*_param_{place}\b", ptx)
    for instruction in (f"ld.global.v2.f{bits}", f"st.global.v2.f{bits}", f"fma.rn.f{bits}", f"div.rn.f{bits}"):
        assert instruction in ptx
    assert "call" not in ptx


@types
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_powers_are_made_of_the_functions_of_devices(type_, function):
    source = f"""func @f(%x: memref<{type_}x?>) {{
        %g = group_id
        %a = load %x[%g] : memref<{type_}x?>
        %b = {function} %a : {type_}
        store %b, %x[%g] : memref<{type_}x?>
    }}"""
    ptx = only(tl_dpnp.compile(source, target="cuda", cache=False).inspect_ptx())
    assert ("ex2.approx" if type_ == "c32" else "fma.rn.f64") in ptx
    assert f"st.global.v2.{PARTS[type_]}" in ptx


@types
@pytest.mark.parametrize("beta", ["0", "1", "%r"])
def test_atomic_updates_are_of_the_parts(type_, beta):
    source, part = atomic(type_, beta), PARTS[type_]
    ptx = only(tl_dpnp.compile(source, target="cuda", cache=False).inspect_ptx())
    word = "b" + part[1:]
    expected = {"0": f"atom.global.exch.{word}", "1": f"red.relaxed.gpu.global.add.{part}",
                "%r": f"atom.global.cas.{word}"}[beta]
    assert ptx.count(expected) >= 2


def atomic(type_, beta):
    """Return work-groups that add to one memref, with a factor of a real type, or `%k`."""
    part = type_ if "%k" in beta else PARTS[type_]
    return f"""func @f(%k: {type_}, %r: {PARTS[type_]}, %a: memref<{type_}x7x?>, %c: memref<{type_}x7>) {{
        %g = group_id
        %x = subview %a[:, %g] : memref<{type_}x7x?>
        axpby.n.atomic [0, 2], %x, {beta}, %c : {type_}, memref<{type_}x7>, {part}, memref<{type_}x7>
    }}"""


def test_atomic_products_are_refused_where_parts_do_not_do():
    assert "atom.global.cas.b64" in only(tl_dpnp.compile(atomic("c32", "%k"), target="cuda").inspect_ptx())
    with pytest.raises(tl_dpnp.UnsupportedError, match="no atomic operations of 128 bits") as raised:
        tl_dpnp.compile(atomic("c64", "%k"), target="cuda").inspect_ptx()
    assert raised.value.diagnostics[0].span.line == 4


#: A product of real matrices and complex ones.
MIXED = """func @f(%A: memref<f32x8x8x?>, %B: memref<c32x8x8x?>, %C: memref<c32x8x8x?>) {
    %g = group_id
    %a = subview %A[:,:,%g] : memref<f32x8x8x?>
    %b = subview %B[:,:,%g] : memref<c32x8x8x?>
    %c = subview %C[:,:,%g] : memref<c32x8x8x?>
    gemm.n.n 1, %a, %b, 0, %c : c32, memref<f32x8x8>, memref<c32x8x8>, c32, memref<c32x8x8>
}"""


@pytest.mark.parametrize("source", [product("c32", 12, 9, 7, "t.n", "%k", "[0, 1]")[0],
                                    product("c64", 12, 9, 7, "n.t", "%k", "[0, 1]")[0], MIXED])
def test_small_products_run_staged(source):
    kernel = tl_dpnp.compile(source, target="cuda", cache=False)
    lowered = kernel.lower(H200)
    assert (lowered.plan.form, lowered.remarks) == ("staged", ())
    assert ("in registers" in only(kernel.inspect_source())) == (source != MIXED)
    assert "cp.async.bulk.shared::cluster.global.mbarrier" in only(kernel.inspect_ptx())
    assert only(kernel.resources()).stack == 0


@types
@pytest.mark.parametrize("size", [96, 200])
def test_products_without_room_run_in_the_blocked_form(type_, size):
    """The tiled form is for real numbers."""
    source, _ = product(type_, size, size, size, "t.n", "%k", "%k")
    lowered = tl_dpnp.compile(source, target="cuda").lower(H200)
    assert lowered.plan.form == "blocked"
    assert LaunchPlan.from_json(lowered.plan.to_json()) == lowered.plan
    for form in ("tiled", "staged"):
        with pytest.raises(tl_dpnp.LoweringError, match=f"cannot run in the {form} form on NVIDIA H200"):
            tl_dpnp.compile(source, target="cuda", form=form).lower(H200)


@pytest.mark.parametrize("ways", ["ggg", "sgb"])
def test_products_of_groups_without_room_run_in_the_sub_group_form(ways):
    source, _ = product("c64", 96, 96, 96, ways=ways)
    assert tl_dpnp.compile(source, target="cuda").lower(H200).plan.form == "subgroup"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_compile(layout):
    for seed in range(4):
        function = with_layout(random_program(seed, WITH_COMPLEX), layout)
        kernel = tl_dpnp.compile(ops.Module((function,)), target="cuda", cache=False, debug=seed == 3)
        assert ".visible .entry tl_kernel" in only(kernel.inspect_ptx())


def test_numbers_at_odd_parts_are_refused():
    kernel = tl_dpnp.compile("func @f(%x: memref<c32x?>) {\n}", target="cuda")
    memory = np.zeros(33, "float32")
    odd = 1 if memory.ctypes.data % 8 == 0 else 0
    with pytest.raises(tl_dpnp.TLTypeError, match="an array of complex64 whose address is no multiple of 8 bytes"):
        kernel(Exporter(memory[odd : odd + 32].view("complex64")))


# --- on a device -----------------------------------------------------------------------------------------------------


@on_device
@types
@pytest.mark.parametrize("loop", ["foreach", "for"])
def test_arithmetic(type_, loop):
    check_arithmetic(OnDevice(), Interpreter(), type_, loop, nan_has_sign=False)


@on_device
@types
def test_casts_branches_and_carried_values(type_):
    check_casts_branches_and_carried_values(OnDevice(), Interpreter(), type_)


@on_device
@pytest.mark.parametrize(("instruction", "elements"), PRODUCTS,
                         ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_linear_algebra(instruction, elements):
    check_linear_algebra(OnDevice(), instruction, elements)


@on_device
@types
def test_parts_and_complex_numbers_at_the_end_of_loops(type_):
    check_parts_and_complex_numbers_at_the_end_of_loops(OnDevice(), type_)


@on_device
@pytest.mark.parametrize("facts", complex_points.TYPES, ids=["c32", "c64"])
def test_functions(facts):
    target = OnDevice()
    complex_points.check_the_modulus(target, *facts)
    complex_points.check_a_power_is_finite_where_its_modulus_alone_is_not(target, *facts)
    for function in ("exp", "exp2", "native_exp2"):
        complex_points.check_powers(target, *facts, function)
    for function in ("exp", "exp2"):
        complex_points.check_special_values(target, *facts, function)


@on_device
@pytest.mark.parametrize(("type_", "beta"), [
    ("c32", "1"), ("c32", "%r"), ("c32", "%k"), ("c64", "1"), ("c64", "%r")])
def test_atomic_updates(type_, beta):
    """With a complex factor in one work-group: those of several are in any order."""
    groups = 1 if beta == "%k" else 64
    a, c = whole(np.random.default_rng(0), (7, groups), type_), np.ones(7, DTYPES[type_])
    OnDevice().run(atomic(type_, beta), 1j, 1.0, a, c)
    np.testing.assert_array_equal(c, (1j if beta == "%k" else 1) + 2j * a.sum(1))


@on_device
@types
def test_a_running_sum(type_):
    a, c = whole(np.random.default_rng(0), (40, 3), type_), np.zeros((40, 3), DTYPES[type_], order="F")
    OnDevice().run(f"func @f(%a: memref<{type_}x40x3>, %c: memref<{type_}x40x3>) {{ cumsum [0, 1], %a, 0, 0, %c }}",
                   a, c, group_size=1)
    np.testing.assert_array_equal(c, 1j * a.cumsum(0))


@on_device
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", range(PARTS_OF_PROGRAMS))
def test_random_programs_agree_with_the_interpreter(layout, first):
    failures = []
    for seed in range(first, PROGRAMS, PARTS_OF_PROGRAMS):
        found = disagreements(random_program(seed, WITH_COMPLEX), layout, debug=seed % 4 == 0)
        if found:
            failures.append("\n".join([f"random_program({seed}, WITH_COMPLEX)", *found]))
    assert not failures, "\n\n".join(failures[:5])


@on_device
@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_products_agree_with_numpy(seed):
    """Of whole numbers, in the form that they have by default, in batches, in groups, and with one matrix for all."""
    for number in range(8 * seed, 8 * seed + 8):
        draw, rng = random.Random(number), np.random.default_rng(number)
        m, n, k = (draw.randint(1, draw.choice((8, 20, 64))) for _ in range(3))
        type_, transposes = draw.choice([*DTYPES]), draw.choice(("n.n", "t.n", "n.t", "t.t"))
        alpha, beta = draw.choice((("1", 1), ("%k", 2 - 1j))), draw.choice((("0", 0), ("1", 1), ("[0, 1]", 1j)))
        ways = draw.choice("bbgs") + draw.choice("bbgs") + draw.choice("bbg")
        batch = draw.randint(1, 300)
        source, shapes = product(type_, m, n, k, transposes, alpha[0], beta[0], ways)
        a, b, c = (whole(rng, (*shape, *([] if way == "s" else [batch])), type_)
                   for shape, way in zip(shapes, ways, strict=True))
        left, right = (x if x.ndim == 3 else x[..., None] for x in (a, b))
        left, right = (x.swapaxes(0, 1) if letter == "t" else x
                       for x, letter in zip((left, right), transposes.split("."), strict=True))
        expected = alpha[1] * np.einsum("mkg,kng->mng", left, right) + beta[1] * c
        results = c.copy(order="F")
        parts = [[np.asfortranarray(array[..., g]) for g in range(batch)] if way == "g" else array
                 for array, way in zip((a, b, results), ways, strict=True)]
        OnDevice().run(source, 2 - 1j, *parts, group_size=batch)
        got = np.stack(parts[2], axis=-1) if ways[2] == "g" else results
        np.testing.assert_array_equal(got, expected, str((number, m, n, k, type_, transposes, alpha, beta, ways)))


@on_device
def test_tensors_of_pytorch_and_scalars_in_repeated_calls():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    for type_, dtype in (("c32", torch.complex64), ("c64", torch.complex128)):
        source = f"""func @f(%a: {type_}, %n: i32, %x: memref<{type_}x?>, %y: memref<{type_}x?>) {{
            axpby.n %a, %x, 1, %y : {type_}, memref<{type_}x?>, {type_}, memref<{type_}x?>
        }}"""
        kernel, plain = (tl_dpnp.compile(text, target="cuda", cache=False) for text in (
            source, source.replace(f"%a: {type_}, ", "").replace("axpby.n %a", "axpby.n [0, 1]")))
        x, y = torch.full((9,), 1 + 2j, dtype=dtype, device="cuda"), torch.zeros(9, dtype=dtype, device="cuda")
        for factor in (2, 0.5j, np.complex64(1 - 1j)):
            kernel(factor, 3, x, y)
        assert y.tolist() == [(3 - 0.5j) * (1 + 2j)] * 9
        y.zero_()
        for _ in range(4):
            plain(3, x, y)
        assert y.tolist() == [4j * (1 + 2j)] * 9
        for wrong in (x.conj(), x.conj().clone().conj()):
            with pytest.raises(tl_dpnp.TLTypeError, match=r"resolve_conj\(\)"):
                plain(3, wrong, y)
        plain(3, x.conj().resolve_conj(), y)
        assert y.tolist() == [4j * (1 + 2j) + 1j * (1 - 2j)] * 9
        own = x.clone()
        for _ in range(3):
            plain(3, own, y)
        own.data = x.conj()
        with pytest.raises(tl_dpnp.TLTypeError, match=r"resolve_conj\(\)"):
            plain(3, own, y)


@on_device
def test_arrays_of_cupy():
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    kernel = tl_dpnp.compile("""func @f(%x: memref<c32x?>, %y: memref<c64x?>) {
        axpby.n [0, 1], %x, 1, %y : c64, memref<c32x?>, c64, memref<c64x?>
    }""", target="cuda", cache=False)
    x, y = cupy.arange(5).astype("complex64"), cupy.zeros(5, "complex128")
    for _ in range(4):
        kernel(x, y)
    assert y.tolist() == [4j * number for number in range(5)]
    odd = cupy.zeros(11, "float32")[1:].view("complex64")
    with pytest.raises(tl_dpnp.TLTypeError, match="no multiple of 8 bytes"):
        kernel(odd, y)
