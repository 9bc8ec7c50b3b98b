"""Large products in the tiled form: what is chosen without a GPU, and on one that the results are right."""

from __future__ import annotations

import itertools
import random
import re
import weakref
from dataclasses import replace

import pytest

import tl_dpnp
from tl_dpnp.language.parser import parse
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.mappings.persistent_gemm import find_tiling
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.product_plans import TileChoice, TilePlan
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import compile_program
from tl_dpnp.runtime.cuda import platform as cuda
from tl_dpnp.runtime.cuda import ptx as ptx_module
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.runtime.cuda.ptx import link

on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
TRANSPOSES = ("n.n", "n.t", "t.n", "t.t")


def source(
    element="bf16", result="f32", transposes="n.n", alpha="1.0", beta="0.0", sizes=(None, None, None), batched="",
):
    """Return C := alpha op(A) op(B) + beta C, for batches of those of A, B and C that `batched` names."""
    m, n, k = ("?" if size is None else size for size in sizes)
    shapes = {"A": (k, m) if transposes[0] == "t" else (m, k), "B": (n, k) if transposes[2] == "t" else (k, n),
              "C": (m, n)}
    parameters, views, types = [f"%alpha: {result}", f"%beta: {result}"], [], {}
    for name, shape in shapes.items():
        type_ = f"{result if name == 'C' else element}x{shape[0]}x{shape[1]}"
        if name in batched:
            parameters.append(f"%{name}: memref<{type_}x?>")
            types[name] = f"memref<{type_}>" if None not in sizes else f"memref<{type_},strided<1,?>>"
            if None in sizes:
                parameters[-1] = f"%{name}: memref<{type_}x?,strided<1,?,?>>"
            views.append(f"%v{name} = subview %{name}[:,:,%g] : {parameters[-1].partition(': ')[2]}")
        else:
            types[name] = f"memref<{type_}>"
            parameters.append(f"%{name}: {types[name]}")
    a, b, c = (f"%{'v' if name in batched else ''}{name}" for name in "ABC")
    newline = "\n"
    return f"""func @product({', '.join(parameters)}) {{
      %g = group_id
      {newline.join(views)}
      gemm.{transposes} {alpha}, {a}, {b}, {beta}, {c} : {result}, {types['A']}, {types['B']}, {result}, {types['C']}
    }}"""


def only(views):
    (view,) = views.values()
    return view


@pytest.fixture
def reports(monkeypatch):
    """The reports of the assembler, which tell where it lets instructions wait that need not."""
    found, read = [], ptx_module._log
    monkeypatch.setattr(ptx_module, "_log", lambda *given: found.append(read(*given)) or found[-1])
    return found


@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("element", "result"), [("bf16", "f32"), ("f16", "f16")])
def test_large_products_run_tiled(element, result, transposes, reports):
    kernel = tl_dpnp.compile(source(element, result, transposes), target="cuda", cache=False)
    plan = kernel.lower(H200).plan
    assert plan.form == "tiled"
    assert LaunchPlan.from_json(plan.to_json()) == plan
    ptx = only(kernel.inspect_ptx())
    # The first operand is op(B) transposed, whose depth goes along memory for n; the second op(A).
    flags = f"1, 1, 1, {int(transposes[2] == 't')}, {int(transposes[0] == 'n')};"
    for columns in (64, 128, 192, 256):
        row = rf"wgmma\.mma_async\.sync\.aligned\.m64n{columns}k16\.f32\.{element}\.{element}"
        assert len(re.findall(rf"{row} .*{flags}", ptx)) == (8 if columns == 64 else 4)  # there are two shapes
    for instruction in ("cp.async.bulk.tensor.2d.shared::cluster.global", "cp.async.bulk.tensor.2d.global.shared::cta",
                        "mbarrier.try_wait.parity", "fence.proxy.async", ".target sm_90a"):
        assert instruction in ptx
    assert len(re.findall(r"\.param \.align 64 \.b8 \S+\[128\]", ptx)) == 3
    assert ("stmatrix" in ptx) == (result == "f16")
    resources = only(kernel.resources())
    assert resources.stack == 0
    assert resources.registers <= 224
    assert resources.local_memory <= H200.local_memory
    assert [re.findall("serialized.*", report) for report in reports] == [[]]


@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("beta", ["0.0", "%beta"])
def test_products_of_tf32_run_tiled(transposes, beta, reports):
    kernel = tl_dpnp.compile(source("f32", "f32", transposes, beta=beta), target="cuda", precision="default",
                             cache=False)
    plan = kernel.lower(H200).plan
    assert plan.form == "tiled"
    assert LaunchPlan.from_json(plan.to_json()) == plan
    assert plan.tiles.depth == 32
    ptx = only(kernel.inspect_ptx())
    # What lies along the sum is read from shared memory; of two others one goes to registers, and one is transposed.
    left = r"a\d+" if transposes != "t.n" else "da"
    for columns in (64, 128, 192, 256) if transposes == "t.n" else (64, 128, 192):
        row = rf"wgmma\.mma_async\.sync\.aligned\.m64n{columns}k8\.f32\.tf32\.tf32 {{d0, [^}}]*}}, {{?{left}"
        assert len(re.findall(row, ptx)) == (8 if columns == 64 else 4)
    assert ("st.shared.v4.b32" in ptx) == (transposes == "n.t")
    resources = only(kernel.resources())
    assert (resources.stack, resources.local_memory <= H200.local_memory) == (0, True)
    assert [re.findall("serialized.*", report) for report in reports] == [[]]
    exact = tl_dpnp.compile(source("f32", "f32", transposes), target="cuda")
    assert exact.lower(H200).plan.form == "blocked"
    older = replace(H200, warpgroup_products=False)
    assert kernel.lower(older).plan.form == "blocked"


def test_alpha_and_beta_are_in_the_kernel_where_they_are_needed():
    def ptx(**factors):
        return only(tl_dpnp.compile(source(**factors), target="cuda", cache=False).inspect_ptx())

    assert "mul.f32" not in ptx() + ptx(beta="1.0")
    assert "mul.f32" in ptx(alpha="%alpha")
    assert "ld.shared.v2.f32" in ptx(beta="%beta")
    assert "ld.shared.v2.f32" not in ptx(alpha="2.0")


def test_the_sizes_choose_the_tile_and_what_blocks_share():
    plan = tl_dpnp.compile(source(), target="cuda").lower(H200).plan.tiles
    assert [(shape.rows, shape.columns) for shape in plan.shapes] == [
        *((128, columns) for columns in (256, 192, 128, 64)), (64, 64)]

    def choice(m, n, k, products=1, clusters=True):
        found = plan.choice(m, n, k, products, lambda _, cluster: 132 if clusters or cluster == 1 else 0)
        return plan.shapes[found.shape].columns, found.parts, found.together

    # Large matrices have large tiles, whose blocks load the same columns, and those with few tiles and long sums share.
    assert [choice(size, size, size)[::2] for size in (2048, 4096, 8192)] == [(256, 2)] * 3
    assert choice(8192, 8192, 8192, clusters=False) == (256, 1, 1)
    assert choice(64, 64, 64) == (64, 1, 1)
    assert choice(128, 8192, 512)[2] == 1
    for m, n, k in ((4096, 64, 4096), (256, 256, 8192)):
        assert choice(m, n, k)[1] > 1
        assert choice(m, n, k, clusters=False)[1:] == (1, 1)
    assert [choice(128, 128, 128, 1000)[0], choice(256, 256, 256, 1000)[0]] == [128, 256]


def test_sums_that_blocks_share_have_room():
    for result in ("f32", "bf16"):
        for device in (H200, replace(H200, warpgroup_products=False),
                       replace(H200, warpgroup_products=False, local_memory=99 << 10)):
            tiling = find_tiling(parse(source(result=result)).functions[0], device)
            for product, shape in zip(tiling.products, tiling.plan.shapes, strict=True):
                assert {1, 2} <= {*shape.parts}
                assert all(map(product.has_room_for, shape.parts))
                assert shape.local_memory <= device.local_memory


@pytest.mark.parametrize("program", [
    source(sizes=(32, 32, 32)),  # small
    source().replace("bf16", "f32"),
    source().replace("gemm.n.n", "gemm.n.n.atomic"),
    source(beta="%beta").replace("%C: memref<f32x?x?>", "%C: memref<f32x?x?,strided<?,?>>").replace(
        "f32, memref<f32x?x?>\n", "f32, memref<f32x?x?,strided<?,?>>\n"),
    source().replace("gemm", "axpby.n 1.0, %C, 1.0, %C : f32, memref<f32x?x?>, f32, memref<f32x?x?>\n gemm"),
])
def test_other_programs_do_not(program):
    assert tl_dpnp.compile(program, target="cuda").lower(H200).plan.form != "tiled"


def test_other_devices_and_wishes():
    kernel = tl_dpnp.compile(source(), target="cuda")
    assert kernel.lower(replace(H200, copy_engine=False, warpgroup_products=False)).plan.form == "subgroup"
    assert tl_dpnp.compile(source(), target="cuda", debug=True).lower(H200).plan.form == "subgroup"
    small = tl_dpnp.compile(source(sizes=(32, 32, 32)), target="cuda", form="tiled")
    assert small.lower(H200).plan.form == "tiled"
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the tiled form on NVIDIA H200"):
        tl_dpnp.compile(source().replace("bf16", "f32"), target="cuda", form="tiled").lower(H200)


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_devices_without_wgmma_multiply_by_warps(transposes):
    for local_memory, tiles in ((H200.local_memory, (256, 192, 128, 64, 64)), (99 << 10, (128, 64, 64))):
        device = replace(H200, warpgroup_products=False, local_memory=local_memory)
        program = Program(parse(source("f16", "f32", transposes, beta="%beta")).functions[0])
        compiled = compile_program(program, device, LoweringOptions(), None)
        found = re.findall(r"m16n8k16_f16_f16_f32: tiles of (?:128|64) x (\d+)", compiled.source)
        assert [*map(int, found)] == [*tiles]
        ptx = compiled.binary.decode()
        assert "wgmma" not in ptx
        assert ptx.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == len(tiles) * 4 * 4 * 8
        flags = {"ldmatrix.sync.aligned.m8n8.x4.trans": (transposes[0] == "n") + (transposes[2] == "t"),
                 "ldmatrix.sync.aligned.m8n8.x4.shared": (transposes[0] == "t") + (transposes[2] == "n")}
        assert {name: ptx.count(name) // 16 // len(tiles) for name in flags} == flags
        resources = link(compiled, H200).resources
        assert resources.stack == 0
        assert resources.local_memory <= local_memory
    assert find_tiling(program.function, replace(device, local_memory=40 << 10)) is None


def test_batches_of_large_products_run_tiled_and_small_ones_staged():
    def form(size):
        program = source(sizes=(size,) * 3, batched="ABC")
        return tl_dpnp.compile(program, target="cuda").lower(H200).plan.form

    assert [form(size) for size in (64, 512)] == ["staged", "tiled"]
    kernel = tl_dpnp.compile(source(batched="AC"), target="cuda", cache=False)
    ptx = only(kernel.inspect_ptx())
    assert "cp.async.bulk.tensor.3d" in ptx
    assert "cp.async.bulk.tensor.2d" in ptx


# --- on a device -----------------------------------------------------------------------------------------------------

if device_count():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(params=["wgmma", "mma.sync", "mma.sync with little memory"])
def engine(request, monkeypatch):
    """Let the device be described as one that multiplies in another way as well."""
    described = cuda.describe(0)
    if request.param != "wgmma":
        memory = 99 << 10 if "little" in request.param else described.local_memory
        other = replace(described, warpgroup_products=False, local_memory=memory)
        monkeypatch.setattr(cuda, "describe", lambda _ordinal: other)
    return request.param


def matrices(element, *shape, seed=0, pad=0, displaced=0):
    """Return a matrix, or a batch of them, of small whole numbers whose first mode goes along memory.

    Its columns are `pad` elements apart and the first element `displaced` from the start of memory.
    """
    generator = torch.Generator(device="cuda").manual_seed(seed)
    full = (*shape[:1:-1], shape[1], shape[0] + pad)
    count = int(torch.tensor(full).prod())
    memory = torch.randint(-3, 4, (count + displaced,), generator=generator, device="cuda").to(DTYPES[element])
    block = memory[displaced:].reshape(full)
    return block.permute(*range(len(full) - 1, -1, -1))[: shape[0]]


def expected_of(a, b, c, transposes, alpha, beta):
    """Return alpha op(A) op(B) + beta C for batches as last modes, or none, exact for small whole numbers."""
    def op(matrix, flag):
        matrix = matrix.float().movedim(-1, 0) if matrix.dim() == 3 else matrix.float()
        return matrix.mT if flag == "t" else matrix

    product = op(a, transposes[0]) @ op(b, transposes[2])
    product = product.movedim(0, -1) if product.dim() == 3 else product
    return (alpha * product + beta * c.float() if beta else alpha * product).to(c.dtype)


def memory_of(tensor):
    """Return all memory that a tensor lies in."""
    return torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def check(kernel, a, b, c, transposes, alpha=1.0, beta=0.0, form="tiled", **more):
    expected = expected_of(a, b, c, transposes, alpha, beta)
    if not beta:
        c.fill_(float("nan"))
    after = memory_of(c).clone()
    torch.as_strided(after, c.shape, c.stride(), c.storage_offset()).copy_(expected)
    for _ in range(2):
        before = c.clone()
        kernel(alpha, beta, a, b, c, **more)
        assert torch.equal(c, expected), (c.float() - expected.float()).abs().max()
        assert torch.equal(memory_of(c), after), "memory around the result has changed"
        c.copy_(before)
    assert {signature.form for signature in kernel.signatures} >= {form}


def operands(element, result, transposes, m, n, k, *batch):
    first, second = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n)
    pads = [-size % 8 for size in (first[0], second[0], m)]
    return (matrices(element, *first, *batch, seed=1, pad=pads[0]),
            matrices(element, *second, *batch, seed=2, pad=pads[1]),
            matrices(result, m, n, *batch, seed=3, pad=pads[2]))


#: Sizes with whole tiles, and with parts of them; of one row or column; with more tiles than blocks.
SIZES = ((256, 128, 64), (512, 768, 320), (200, 331, 75), (8, 2001, 513), (2000, 1, 513), (3072, 3072, 64),
         (3000, 3111, 65), (2040, 2040, 72))


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("element", "result"), [("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16")])
def test_tiles_that_fit_and_others(engine, element, result, transposes):
    for alpha, beta in ((None, None), ("%alpha", "%beta")):
        factors = {} if alpha is None else {"alpha": alpha, "beta": beta}
        kernel = tl_dpnp.compile(source(element, result, transposes, **factors), target="cuda")
        values = () if alpha is None else (0.5, 2.0)
        for sizes in SIZES:
            check(kernel, *operands(element, result, transposes, *sizes), transposes, *values)


def drawn(draw):
    """Return types, transposes, factors and sizes of a product."""
    element, result = draw.choice((("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f32", "f32")))
    transposes = draw.choice(TRANSPOSES)
    most = draw.choice((100, 700))
    sizes = [8 * draw.randrange(1, most // 8), draw.randrange(2, most), draw.randrange(2, 900)]
    return element, result, transposes, draw.choice((0.0, 2.0)), sizes, draw.choice(((), (), (3,)))


def check_all_ways(draw, monkeypatch, element, result, transposes, beta, sizes, batch):
    arrays = operands(element, result, transposes, *sizes, *batch)
    program = source(element, result, transposes, beta=str(beta), batched="ABC" if batch else "")
    chosen = []
    monkeypatch.setattr(TilePlan, "choice", lambda plan, *_: chosen[-1])

    def kernel():
        return tl_dpnp.compile(program, target="cuda", precision="default", form="tiled")

    plan = kernel().lower(cuda.describe(0)).plan.tiles
    panels = -(-sizes[2] // plan.depth)
    for number, shape in enumerate(plan.shapes):
        ways = [TileChoice(number, parts) for parts in shape.parts if parts <= panels]
        ways = draw.sample(ways, min(3, len(ways))) + [TileChoice(number, 1, together) for together in shape.together]
        for way in ways:
            chosen.append(way)
            check(kernel(), *arrays, transposes, beta=beta)


@on_device
@pytest.mark.parametrize("seed", range(10))
def test_all_that_blocks_may_share(engine, seed, monkeypatch):
    draw = random.Random(seed)
    case = drawn(draw)
    if case[0] == "f32" and engine != "wgmma":
        pytest.skip("products of tf32 have no other way")
    check_all_ways(draw, monkeypatch, *case)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_all_that_blocks_may_share_of_tf32(transposes, beta, monkeypatch):
    draw = random.Random(f"{transposes} {beta}")
    sizes = [8 * draw.randrange(19, 87), *(draw.randrange(150, 700) for _ in "nk")]
    check_all_ways(draw, monkeypatch, "f32", "f32", transposes, beta, sizes, draw.choice(((), (3,))))


@on_device
@pytest.mark.parametrize(("element", "precision"), [("bf16", "highest"), ("f32", "default")])
def test_long_sums_of_few_tiles(element, precision):
    for transposes, depth in itertools.product(TRANSPOSES, (8000, 240)):
        kernel = tl_dpnp.compile(source(element, "f32", transposes), target="cuda", precision=precision)
        check(kernel, *operands(element, "f32", transposes, 16, 200, depth), transposes)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_products_of_tf32(transposes):
    for alpha, beta in ((None, None), ("%alpha", "%beta")):
        factors = {} if alpha is None else {"alpha": alpha, "beta": beta}
        kernel = tl_dpnp.compile(source("f32", "f32", transposes, **factors), target="cuda", precision="default")
        values = () if alpha is None else (0.5, 2.0)
        for sizes in (*SIZES, (4096, 2048, 1000)):
            check(kernel, *operands("f32", "f32", transposes, *sizes), transposes, *values)
    for batched, beta in (("ABC", 0.0), ("ABC", 1.0), ("AC", 0.0)):
        batch = tl_dpnp.compile(source("f32", "f32", transposes, beta=str(beta), batched=batched), target="cuda",
                                precision="default")
        a, b, c = operands("f32", "f32", transposes, 300, 450, 200, 7)
        check(batch, a, b if "B" in batched else b[:, :, 3], c, transposes, beta=beta)
    _, b, c = operands("f32", "f32", transposes, 300, 452, 200)
    odd = matrices("f32", *((200, 300) if transposes[0] == "t" else (300, 200)), seed=1, pad=1)  # no 16 bytes apart
    check(kernel, odd, b, c, transposes, 1.0, 1.0, form="blocked")


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_operands_are_rounded_to_the_nearest_tf32(transposes):
    generator = torch.Generator("cuda").manual_seed(3)
    a, b = (torch.rand(size, 64, device="cuda", generator=generator).T for size in (1024, 2048))
    c = torch.zeros(2048, 1024, device="cuda").T
    given = [x if flag == along_k else x.contiguous().T  # the same matrix, whose other mode goes along memory
             for x, flag, along_k in zip((a, b), transposes[::2], "tn", strict=True)]
    kernel = tl_dpnp.compile(source("f32", "f32", transposes), target="cuda", precision="default")
    kernel(1.0, 0.0, *given, c)

    def rounded(x):
        return ((x.view(torch.int32) + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32).double()

    exact = rounded(a).T @ rounded(b)
    assert [signature.form for signature in kernel.signatures] == ["tiled"]
    # Of those that are cut off it would be 5e-4; only ties may be rounded either way.
    assert float((c.double() - exact).norm() / exact.norm()) < 2e-5


@on_device
def test_static_sizes(engine):
    for result, beta in (("f32", 0.0), ("bf16", 2.0), ("f32", 2.0)):
        program = source(result=result, sizes=(600, 520, 200), beta=str(beta))
        kernel = tl_dpnp.compile(program, target="cuda")
        check(kernel, *operands("bf16", result, "n.n", 600, 520, 200), "n.n", beta=beta)


@on_device
def test_batches(engine):
    for batched in ("ABC", "AC"):
        kernel = tl_dpnp.compile(source(batched=batched, beta="1.0"), target="cuda")
        a, b, c = operands("bf16", "f32", "n.n", 300, 450, 200, 7)
        if batched == "AC":
            b = b[:, :, 3]
        check(kernel, a, b, c, "n.n", beta=1.0)
    kernel = tl_dpnp.compile(source("f16", "f16", sizes=(256, 384, 192), batched="ABC"), target="cuda")
    check(kernel, *operands("f16", "f16", "n.n", 256, 384, 192, 5), "n.n")


@on_device
@pytest.mark.parametrize(("element", "result", "rows"), [
    ("bf16", "f32", 197), ("f16", "f16", 196), ("f32", "f32", 198),
])
def test_what_lies_between_columns_of_results_stays(element, result, rows):
    kernel = tl_dpnp.compile(source(element, result, "t.n"), target="cuda", precision="default")
    check(kernel, *operands(element, result, "t.n", rows, 331, 80), "t.n", form="blocked")
    assert [signature.form for signature in kernel.signatures] == ["blocked"]


@on_device
def test_what_tensor_maps_do_not_take_runs_in_another_form():
    kernel = tl_dpnp.compile(source(), target="cuda")
    asked = tl_dpnp.compile(source(), target="cuda", form="tiled")
    a, b, c = operands("bf16", "f32", "n.n", 96, 104, 120)
    odd = matrices("bf16", 96, 120, seed=1, pad=3)  # a stride of 198 bytes
    displaced = matrices("bf16", 96, 120, seed=1, displaced=1)
    check(kernel, a, b, c, "n.n")
    assert [signature.form for signature in kernel.signatures] == ["tiled"]
    for other in (odd, displaced):
        check(kernel, other, b, c, "n.n", form="blocked")
    with pytest.raises(tl_dpnp.TLBindingError, match="strides of %A are no multiples of 16 bytes"):
        asked(1.0, 0.0, odd, b, c)
    with pytest.raises(tl_dpnp.TLBindingError, match="%A does not start at a multiple of 16 bytes"):
        asked(1.0, 0.0, displaced, b, c)
    check(kernel, a, b, c, "n.n")
    # Small products, without a single multiplication, and several work-groups with one result.
    small = operands("bf16", "f32", "n.n", 16, 8, 24)
    check(kernel, *small, "n.n", form="subgroup")
    check(asked, *small, "n.n")
    empty = a[:, :0], b[:0], c
    check(kernel, *empty, "n.n", form="subgroup")
    check(kernel, a, b, c, "n.n", group_size=2)


@on_device
def test_graphs_and_other_arrays():
    kernel = tl_dpnp.compile(source(beta="1.0"), target="cuda")
    a, b, c = operands("bf16", "f32", "n.n", 512, 512, 128)
    once = expected_of(a, b, torch.zeros_like(c), "n.n", 1.0, 0.0)
    for _ in range(3):
        c = torch.zeros_like(c)
        kernel(1.0, 1.0, a, b, c)
    assert torch.equal(c, once)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1.0, 1.0, a, b, c)
        kernel(1.0, 1.0, a, b, c)
    graph.replay()
    assert torch.equal(c, 3 * once)
    event = kernel.submit(1.0, 1.0, a, b, c)
    event.wait()
    assert torch.equal(c, 4 * once)


@on_device
def test_launches_keep_no_arrays():
    kernel = tl_dpnp.compile(source(), target="cuda")
    given = operands("bf16", "f32", "n.n", 512, 512, 128)
    kernel(1.0, 0.0, *given)
    references = [weakref.ref(array) for array in given]
    del given
    assert [reference() for reference in references] == [None] * 3
