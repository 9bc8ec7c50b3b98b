"""Large products in the blocked form: what is chosen without a GPU, and on one that results are right in any layout."""

from __future__ import annotations

import ctypes
import itertools
import random
import re
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.test_tiled import TRANSPOSES, memory_of, only, source
from tests.cuda.test_variants import bound
from tl_dpnp.language.parser import parse
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.mappings.block_tiles import BATCHES, FEW
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.product_plans import BlockPlan
from tl_dpnp.runtime.call.flattening import FlatArguments, Scalar
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import compile_program
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.runtime.cuda.occupancy import warn_of_idle_units
from tl_dpnp.runtime.cuda.ptx import link
from tl_dpnp.runtime.cuda.tiles import append_factors, units_found
from tl_dpnp.scalars import C64, F32

#: Types of operands and results; tf32 is f32 with less precision.
TYPES = [("f32", "f32"), ("f64", "f64"), ("tf32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f16"),
         ("c32", "c32"), ("c64", "c64")]
COMPLEX = ("c32", "c64")
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")


@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("element", ["f32", "f64", "c32", "c64"])
def test_large_products_run_blocked(element, transposes):
    kernel = tl_dpnp.compile(source(element, element, transposes), target="cuda", cache=False)
    plan = kernel.lower(H200).plan
    assert plan.form == "blocked"
    assert LaunchPlan.from_json(plan.to_json()) == plan
    ptx = only(kernel.inspect_ptx())
    size = {"f32": 4, "f64": 8, "c32": 8, "c64": 16}[element]
    copies = ptx.count(f"cp.async.{'cg' if size == 16 else 'ca'}.shared")
    assert copies
    assert sum(ptx.count(f", {size}, {missing}") for missing in ("q;", "lno", "rno")) == copies
    assert ("mma.sync" in ptx) == (element in ("f64", "c64"))
    resources = only(kernel.resources())
    assert resources.local_memory <= H200.local_memory


def _units(_, parts):
    """Multiprocessors of an H200 that clusters find, about."""
    return H200.compute_units // parts * parts if parts < 4 else 120


def test_many_tiles_are_large():
    plan = tl_dpnp.compile(source("f32", "f32"), target="cuda").lower(H200).plan.blocks

    def choice(m, n, k, products=1):
        number, parts = plan.choice(m, n, k, products, _units)
        return plan.shapes[number].rows, plan.shapes[number].columns, parts

    assert choice(8192, 8192, 8192) == (128, 64, 1)
    assert choice(256, 128, 512, 10000)[2] == 1
    assert choice(256, 256, 8192)[2] >= 5
    assert choice(16, 6000, 3000)[0] == 16
    assert choice(16, 6000, 24)[2] == 1


def test_clusters_find_no_more_multiprocessors_than_there_are():
    """However many blocks have room: many products, of which no tile has to be shared, do not get clusters for that."""
    kernel = tl_dpnp.compile(source("f32", "f32", sizes=(167, 136, 248), batched="ABC"), target="cuda", cache=False)
    plan = kernel.lower(H200).plan.blocks
    for resident in (1, 2, 4, 8):
        function = SimpleNamespace(clusters=lambda threads, memory, parts: 132 * resident // parts)  # noqa: B023
        assert all(units_found(shape, parts, function, 132) <= 132 for shape in plan.shapes for parts in range(1, 9))
        assert plan.choice(167, 136, 248, 383, lambda number, parts: units_found(
            plan.shapes[number], parts, function, 132)) == (0, 1)  # noqa: B023


@pytest.mark.parametrize("program", [
    source("f32", "f32", sizes=(32, 32, 32)),  # small
    source("f32", "f32").replace("gemm.n.n", "gemm.n.n.atomic"),
    source("f32", "f64").replace("%alpha: f64", "%alpha: f32"),
])
def test_other_programs_do_not(program):
    assert tl_dpnp.compile(program, target="cuda").lower(H200).plan.form == "subgroup"


def test_other_devices_and_wishes():
    kernel = tl_dpnp.compile(source("f32", "f32"), target="cuda")
    assert kernel.lower(replace(H200, asynchronous_copies=False, copy_engine=False)).plan.form == "subgroup"
    assert kernel.lower(replace(H200, copy_engine=False, architecture="sm_80")).plan.form == "blocked"
    doubles = tl_dpnp.compile(source("f64", "f64"), target="cuda")
    assert doubles.lower(replace(H200, copy_engine=False, architecture="sm_80")).plan.form == "subgroup"
    assert tl_dpnp.compile(source("f32", "f32"), target="cuda", debug=True).lower(H200).plan.form == "subgroup"
    small = tl_dpnp.compile(source("f32", "f32", sizes=(32, 32, 32)), target="cuda", form="blocked")
    assert small.lower(H200).plan.form == "blocked"
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the blocked form on NVIDIA H200"):
        tl_dpnp.compile(source("i32", "i32").replace("1.0", "1").replace("0.0", "0"), target="cuda",
                        form="blocked").lower(H200)


@pytest.mark.parametrize("transposes", ["n.n", "t.t"])
@pytest.mark.parametrize("types", [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f16")],
                         ids="-".join)
def test_the_assembler_takes_them(types, transposes):
    """Few registers go to memory, with what was there before loaded for several elements at once."""
    program = Program(parse(source(*types, transposes, beta="%beta")).functions[0])
    resources = link(compile_program(program, H200, LoweringOptions(form="blocked"), None), H200).resources
    assert resources.stack <= 256


@pytest.mark.parametrize("result", ["f32", "bf16"])
@pytest.mark.parametrize("columns", [192, 64])
def test_sums_and_what_they_are_added_to_have_room_in_registers(columns, result, monkeypatch):
    """What has none goes to local memory, beside operands that leave next to nothing of the L1 cache."""
    monkeypatch.setattr("tl_dpnp.lowering.mappings.blocked._COLUMNS", (columns,))
    program = Program(parse(source("bf16", result, sizes=(157, 177, 84), batched="ABC", beta="1.0")).functions[0])
    compiled = compile_program(program, H200, LoweringOptions(form="blocked"), None)
    assert link(compiled, H200).resources.stack <= 24


@pytest.mark.parametrize("sizes", [(256, 128, 90), (150, 150, 150), (96, 64, 200), (120, 9, 120)])
def test_sums_of_f64_begin_with_what_they_are_added_to(sizes):
    """So it takes no registers of its own; with a factor it does, and is loaded later."""
    def resources_of(beta):
        program = Program(parse(source("f64", "f64", sizes=sizes, batched="ABC", beta=beta)).functions[0])
        compiled = compile_program(program, H200, LoweringOptions(form="blocked"), None)
        return compiled.binary.decode(), link(compiled, H200).resources

    ptx, resources = resources_of("1.0")
    assert "ld.global.f64 d0" in ptx
    assert "ld.global.f64 old" not in ptx
    assert resources.stack <= 24
    other, _ = resources_of("0.5")
    assert "ld.global.f64 d0" not in other
    assert "ld.global.f64 old" in other


@pytest.mark.parametrize(("sizes", "tile"), [
    ((250, 120, 90), (128, 64)), ((90, 250, 100), (96, 64)), ((80, 190, 150), (80, 64)), ((64, 240, 100), (64, 80)),
    ((240, 9, 130), (64, 32)), ((10, 190, 120), (32, 64)),
])
def test_batches_of_f64_have_tiles_that_they_fill(sizes, tile):
    kernel = tl_dpnp.compile(source("f64", "f64", sizes=sizes, batched="ABC"), target="cuda", cache=False)
    plan = kernel.lower(H200).plan
    assert plan.form == "blocked"
    assert (plan.blocks.shapes[0].rows, plan.blocks.shapes[0].columns) == tile
    assert plan.blocks.choice(*sizes, 10000, _units) == (0, 1)
    assert plan.blocks.choice(*sizes, 1, _units) != (0, 1)
    assert LaunchPlan.from_json(plan.to_json()) == plan


def test_pairs_that_are_added_to_stay_in_words_until_they_are_needed():
    """To take them apart, which belongs to a load of two elements, each load would be waited for."""
    kernel = tl_dpnp.compile(source("bf16", "bf16", beta="1.0"), target="cuda", form="blocked")
    ptx = only(kernel.inspect_ptx())
    assert "ld.global.v2.b16" not in ptx
    assert "ld.global.b32 old" in ptx
    assert "ld.global.u16 old" in ptx


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_the_last_element_of_odd_columns_does_not_wait_for_pairs(element):
    """A load to the register of another one is not started before that one has come."""
    kernel = tl_dpnp.compile(source(element, element, beta="1.0"), target="cuda", form="blocked")
    loads = r"ld\.global\.b32 (old\d+), (\S+);\s.*ld\.global\.u16 (old\d+), (\S+);"
    pairs = re.findall(loads, only(kernel.inspect_ptx()))
    assert len(pairs) > 16
    assert all(first != second and place == other for first, place, second, other in pairs)


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_three_blocks_of_large_products_of_f32_have_room(transposes):
    kernel = tl_dpnp.compile(source("f32", "f32", transposes), target="cuda", cache=False)
    unit, resources, blocks = H200.multiprocessor, only(kernel.resources()), kernel.lower(H200).plan.blocks
    assert {shape.resident for shape in blocks.shapes} == {3}
    for shape in blocks.shapes:
        assert shape.resident * 32 * shape.warps * resources.registers <= unit.registers
        assert shape.local_memory <= unit.room(shape.resident)
    assert resources.stack <= 16


def test_kernels_for_known_sizes_have_them_as_numbers():
    """Nothing is read of arguments but what is not known: how many products there are, and where."""
    known = tl_dpnp.compile(source("f32", "f32", sizes=(101, 117, 133), batched="ABC"), target="cuda", form="blocked")
    given = f"(101, 117, 133, products, 0, f32(1.0), f32(0.0), matrix_2, 4, {4 * 101}, {4 * 101 * 133}, matrix_3"
    assert given in only(known.inspect_source())


@pytest.mark.parametrize(("sizes", "tile"), [
    ((256, 64, 100), (128, 64)), ((96, 190, 100), (96, 64)), ((64, 90, 100), (64, 96)), ((128, 80, 200), (128, 80)),
])
def test_batches_of_known_sizes_have_tiles_that_they_fill(sizes, tile):
    kernel = tl_dpnp.compile(source("f32", "f32", sizes=sizes, batched="ABC"), target="cuda", form="blocked")
    plan = kernel.lower(H200).plan
    assert (plan.blocks.shapes[0].rows, plan.blocks.shapes[0].columns) == tile
    assert plan.blocks.choice(*sizes, 10000, _units) == (0, 1)
    assert plan.blocks.choice(*sizes, 1, _units) != (0, 1)
    assert 65536 // (32 * plan.subgroups * plan.registers) >= 2
    assert LaunchPlan.from_json(plan.to_json()) == plan


def test_older_devices_have_no_clusters():
    device = replace(H200, copy_engine=False, warpgroup_products=False, architecture="sm_86", local_memory=99 << 10)
    program = Program(parse(source("f32", "f32", "n.t", beta="%beta")).functions[0])
    compiled = compile_program(program, device, LoweringOptions(), None)
    assert compiled.plan.blocks.most_parts == 1
    assert "cluster" not in compiled.binary.decode()
    assert link(compiled, device).resources.registers <= 255


def test_large_products_in_few_thread_blocks_are_warned_of():
    def call_of(size, groups=1, **options):
        kernel = tl_dpnp.compile(source("f32", "f32", alpha=f"{size}.0"), target="cuda", **options)
        none = dict.fromkeys("ABC", 0)
        return kernel._binding, bound(kernel, dict.fromkeys("ABC", (size, size)), none, none, groups)

    plan = LaunchPlan("kernel", "subgroup")
    message = (r"@product computes products of 512 x 512 x 512 in 1 thread block on 132 multiprocessors, because of "
               r"debug=True, .* call a function that is one gemm without these")
    with pytest.warns(tl_dpnp.OccupancyWarning, match=message):
        warn_of_idle_units(*call_of(512, debug=True), plan, 132)
    with pytest.warns(tl_dpnp.OccupancyWarning, match="513 .* in 33 thread blocks .* its schedule, its form or"):
        warn_of_idle_units(*call_of(513, 33), plan, 132)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_idle_units(*call_of(512, debug=True), plan, 132)  # once
        warn_of_idle_units(*call_of(514, 34), plan, 132)
        warn_of_idle_units(*call_of(100), plan, 132)
        warn_of_idle_units(*call_of(515), LaunchPlan("kernel", "blocked"), 132)


def test_factors_come_as_the_kernel_takes_them():
    flat = FlatArguments([None] * 3, (), (
        Scalar(0, 0, F32, ctypes.c_float), Scalar(1, 1, C64, lambda value: ctypes.c_double(value.real)),
        Scalar(2, 1, C64, lambda value: ctypes.c_double(value.imag))), ())
    for factors, is_complex, expected in (
        ((0, 2.0), False, [0.5, 2.0]), ((1, (3.0, 4.0)), True, [5.0, 3.0, 6.0, 4.0]),
        ((1.0, 0), True, [1.0, 0.5, 0.0, 0.0]),
    ):
        values = []
        scalars = append_factors(values, factors, flat, ctypes.c_double, is_complex)
        filled = FlatArguments(values, (), scalars, ()).filled([0.5, 5 + 6j], ())
        assert [type(value) for value in filled] == [ctypes.c_double] * len(expected)
        assert [value.value for value in filled] == expected


# --- on a device -----------------------------------------------------------------------------------------------------

if device_count():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
              "c32": torch.complex64, "c64": torch.complex128}


@dataclass(frozen=True)
class Layout:
    """How a matrix lies in memory: gaps between columns, places before the first element, elements between rows."""

    pad: int = 0
    displaced: int = 0
    stretch: int = 1

    def place(self, values, element):
        """Return a tensor with these values, in memory of NaN."""
        *batch, rows, columns = values.shape
        distance = self.stretch * rows + self.pad
        count = int(np.prod(batch)) * columns * distance
        memory = torch.full((self.displaced + count,), float("nan"), dtype=DTYPES[element], device="cuda")
        whole = memory[self.displaced :].reshape(*batch, columns, distance)
        matrix = whole[..., : self.stretch * rows : self.stretch].transpose(-1, -2)
        matrix.copy_(torch.from_numpy(np.ascontiguousarray(values)))
        return matrix


def whole(generator, shape, element):
    """Return small whole numbers, of whose products sums are exact."""
    real, imaginary = (generator.integers(-3, 4, shape).astype(np.float32) for _ in range(2))
    return real + 1j * imaginary if element in COMPLEX else real


def normal(generator, shape, element):
    """Return random numbers."""
    real, imaginary = (generator.standard_normal(shape) for _ in range(2))
    return real + 1j * imaginary if element in COMPLEX else real


def plain(element):
    return element.removeprefix("t") if element == "tf32" else element


def compiled(element, program, **options):
    return tl_dpnp.compile(program, target="cuda", precision="default" if element == "tf32" else None, **options)


def strided(program):
    """Let all matrices of a program have any strides."""
    for name in ("A", "B", "C"):
        for element in ("f16", "bf16", "f32", "f64", "c32", "c64"):
            program = program.replace(f"%{name}: memref<{element}x?x?>", f"%{name}: memref<{element}x?x?,strided<?,?>>")
    return program.replace("x?x?>", "x?x?,strided<?,?>>")


def draw(element, result, seed):
    """Return a product of whole numbers whose sizes, layout and factors are drawn, with a kernel for it."""
    given = random.Random(f"{element} {result} {seed}")
    transposes = given.choice(TRANSPOSES)
    m, n, k = (given.choice((given.randint(1, 40), given.randint(65, 300), 16 * given.randint(4, 20))) for _ in "mnk")
    alpha, beta = given.choice((1.0, 0.5, -2.0)), given.choice((0.0, 0.0, 1.0, -0.5))
    any_strides, constant = given.random() < 0.3, given.random() < 0.5
    layouts = [Layout(given.choice((0, 0, 1, 3, 8)), given.choice((0, 0, 1, 2)),
                      given.choice((1, 2)) if any_strides else 1)
               for _ in "ABC"]
    generator = np.random.default_rng(seed)
    shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
    a, b, c = (whole(generator, shape, result) for shape in shapes)
    if result in COMPLEX and not constant:
        alpha, beta = alpha * given.choice((1, 1j, 1 - 2j)), beta * given.choice((1, 2 + 1j))
    factors = {"alpha": str(alpha), "beta": str(beta)} if constant else {"alpha": "%alpha", "beta": "%beta"}
    program = source(plain(element), result, transposes, **factors)
    kernel = compiled(element, strided(program) if any_strides else program, form="blocked")
    return kernel, transposes, (alpha, beta), (a, b, c), layouts


def expected_of(transposes, factors, a, b, c):
    """Return alpha op(A) op(B) + beta C by NumPy, in double precision."""
    a, b = (np.swapaxes(matrix, -1, -2) if flag == "t" else matrix
            for matrix, flag in zip((a, b), transposes[::2], strict=True))
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    product = factors[0] * (a.astype(wide) @ b.astype(wide))
    return product + factors[1] * c if factors[1] else product


def check_drawn(element, result, seed):
    kernel, transposes, factors, matrices, layouts = draw(element, result, seed)
    a, b, c = (layout.place(values, plain(name))
               for layout, values, name in zip(layouts, matrices, (element, element, result), strict=True))
    expected = torch.from_numpy(expected_of(transposes, factors, *matrices)).to(c.dtype)
    if not factors[1] and "%beta" not in kernel.source_text:
        c.fill_(float("nan"))
    kernel(*factors, a, b, c)
    assert torch.equal(c.cpu(), expected), (c.cpu() - expected).abs().max()
    around = memory_of(c)
    assert int(around.isnan().sum()) == around.numel() - c.numel()


@on_device
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("element", "result"), TYPES)
def test_drawn_products(element, result, seed):
    check_drawn(element, result, seed)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("element", "result"), TYPES)
def test_all_tiles(element, result, transposes, monkeypatch):
    program = source(plain(element), result, transposes, "%alpha", "%beta")
    generator = np.random.default_rng(5)
    cases = []
    for m, n, k in ((1030, 517, 203), (1032, 520, 204)):
        shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
        matrices = [whole(generator, shape, result) for shape in shapes]
        expected = torch.from_numpy(expected_of(transposes, (0.5, 2.0), *matrices)).to(DTYPES[result])
        cases.append((matrices, expected))
    count = len(compiled(element, program, form="blocked").lower(H200).plan.blocks.shapes)
    for number, parts in itertools.product(range(count), (1, 2, 3)):
        monkeypatch.setattr(BlockPlan, "choice", lambda *_, chosen=(number, parts): chosen)
        kernel = compiled(element, program, form="blocked")
        for matrices, expected in cases:
            a, b, c = (Layout().place(values, name) for values, name in zip(
                matrices, (plain(element), plain(element), result), strict=True))
            kernel(0.5, 2.0, a, b, c)
            assert torch.equal(c.cpu(), expected), (number, parts)
        assert [signature.form for signature in kernel.signatures] == ["blocked"]


@on_device
@pytest.mark.parametrize(("element", "error"), [
    ("f32", 1e-6), ("f64", 1e-14), ("tf32", 5e-4), ("bf16", 1e-6), ("c32", 1e-6), ("c64", 1e-14)])
def test_batches_and_rounding(element, error):
    result = "f32" if element == "bf16" else plain(element)
    program = source(plain(element), result, "n.t", beta="1.0", batched="ABC")
    kernel = compiled(element, program)
    generator = np.random.default_rng(7)
    a, b, c = (normal(generator, (3, *shape), result) for shape in ((301, 259), (130, 259), (301, 130)))
    given = [Layout(pad).place(matrix, plain(name)).movedim(0, -1) for matrix, pad, name in zip(
        (a, b, c), (0, 3, 1), (element, element, result), strict=True)]
    wide = torch.complex128 if result in COMPLEX else torch.float64
    a, b, c = (matrix.movedim(-1, 0).cpu().to(wide).numpy() for matrix in given)
    expected = expected_of("n.t", (1.0, 1.0), a, b, c)
    kernel(1.0, 1.0, *given)
    got = given[2].movedim(-1, 0).cpu().to(wide).numpy()
    assert np.linalg.norm(got - expected) < error * np.linalg.norm(expected)
    assert [signature.form for signature in kernel.signatures] == ["blocked"]


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("element", "result"), TYPES)
def test_known_sizes(element, result, transposes):
    """Columns of results start at odd places, tiles are ragged, and matrices follow one another without gaps."""
    generator = np.random.default_rng(11)
    for (m, n, k), beta in itertools.product(((65, 131, 66), (97, 70, 33)), (0.0, 1.0)):
        shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
        a, b, c = (whole(generator, (5, *shape), result) for shape in shapes)
        kernel = compiled(element, source(plain(element), result, transposes, beta=str(beta), sizes=(m, n, k),
                                          batched="ABC"), form="blocked")
        expected = torch.from_numpy(expected_of(transposes, (1.0, beta), a, b, c)).to(DTYPES[result])
        given = [Layout().place(values, name).movedim(0, -1) for values, name in (
            (a, plain(element)), (b, plain(element)), (c if beta else np.full_like(c, np.nan), result))]
        kernel(1.0, beta, *given)
        assert torch.equal(given[2].movedim(-1, 0).cpu(), expected), (m, n, k, beta)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("element", "tile"), [
    (element, tile) for element in ("f64", *COMPLEX)
    for tile in dict.fromkeys((*BATCHES[element], *FEW.get(element, ())))
], ids=lambda each: each if isinstance(each, str) else f"{each.rows}x{each.columns}x{each.depth}x{each.stages}")
def test_tiles_of_batches(element, tile, transposes, monkeypatch):
    """Sums begin with C where alpha and beta are 1, in the first block of those that share them."""
    monkeypatch.setattr("tl_dpnp.lowering.mappings.blocked._best_tile", lambda *_: tile)
    generator = np.random.default_rng(13)
    for (m, n, k), factors, parts in itertools.product(((131, 67, 75),), ((1.0, 0.0), (1.0, 1.0), (2.0, 1.0)), (1, 3)):
        monkeypatch.setattr(BlockPlan, "choice", lambda *_, chosen=(0, parts): chosen)
        shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
        a, b, c = (whole(generator, (5, *shape), element) for shape in shapes)
        alpha, beta = map(str, factors)
        kernel = tl_dpnp.compile(source(element, element, transposes, alpha, beta, sizes=(m, n, k), batched="ABC"),
                                 target="cuda", form="blocked", cache=False)
        given = [Layout().place(values, element).movedim(0, -1)
                 for values in (a, b, c if factors[1] else np.full_like(c, np.nan))]
        kernel(*factors, *given)
        expected = torch.from_numpy(expected_of(transposes, factors, a, b, c)).to(DTYPES[element])
        assert torch.equal(given[2].movedim(-1, 0).cpu(), expected), (factors, parts)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_few_products_and_many(transposes, beta):
    generator = np.random.default_rng(17)
    m, n, k = 45, 37, 29
    shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
    kernel = tl_dpnp.compile(source("f64", "f64", transposes, "1.0", str(beta), sizes=(m, n, k), batched="ABC"),
                             target="cuda")
    for groups in (1, 16, 2000):
        a, b, c = (generator.integers(-3, 4, (groups, *shape)).astype(np.float64) for shape in shapes)
        given = [Layout().place(values, "f64").movedim(0, -1)
                 for values in (a, b, c if beta else np.full_like(c, np.nan))]
        kernel(1.0, beta, *given)
        expected = torch.from_numpy(expected_of(transposes, (1.0, beta), a, b, c))
        assert torch.equal(given[2].movedim(-1, 0).cpu(), expected), groups
    assert {signature.form for signature in kernel.signatures} == {"blocked", "staged"}


@on_device
def test_products_that_run_in_few_blocks_are_warned_of():
    kernel = tl_dpnp.compile(source("f32", "f32", alpha="3.0"), target="cuda", form="subgroup")
    a, b = (torch.ones(200, 200, device="cuda").T for _ in "AB")
    with pytest.warns(tl_dpnp.OccupancyWarning, match="products of 200 x 200 x 200 in 1 thread block on"):
        kernel(1.0, 0.0, a, b, torch.empty(200, 200, device="cuda").T)


@on_device
@pytest.mark.parametrize(("element", "narrow"), [("f64", "f32"), ("f64", "f16"), ("c64", "f32"), ("c64", "c32")])
def test_factors_may_be_of_narrower_types_than_sums(element, narrow):
    program = source(element, element, "n.n", "%alpha", "%beta")
    program = program.replace(f"%alpha: {element}", f"%alpha: {narrow}").replace(f" : {element},", f" : {narrow},", 1)
    kernel = tl_dpnp.compile(program, target="cuda")
    generator = np.random.default_rng(19)
    a, b, c = (whole(generator, (90, 90), element) for _ in "ABC")
    alpha = 0.5 - 2j if narrow in COMPLEX else 0.5
    for _ in range(3):  # the later ones by machine code, if it takes them
        given = [Layout().place(values, element) for values in (a, b, c)]
        kernel(alpha, 2.0, *given)
        expected = torch.from_numpy(expected_of("n.n", (alpha, 2.0), a, b, c)).to(DTYPES[element])
        assert torch.equal(given[2].cpu(), expected)
    assert [signature.form for signature in kernel.signatures] == ["blocked"]


@on_device
def test_repeated_calls_and_graphs():
    kernel = tl_dpnp.compile(source("f32", "f32", alpha="%alpha", beta="%beta"), target="cuda")
    a, b = (torch.ones(400, 300, device="cuda").T, torch.ones(200, 400, device="cuda").T)
    for _ in range(4):
        c = torch.ones(200, 300, device="cuda").T
        for _ in range(3):
            kernel(0.5, 1.0, a, b, c)
        assert bool((c == 601).all())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(0.5, 1.0, a, b, c)
    graph.replay()
    assert bool((c == 801).all())
    with tl_dpnp.record() as recorded:
        kernel(0.5, 1.0, a, b, c)
    recorded()
    assert bool((c == 1001).all())
