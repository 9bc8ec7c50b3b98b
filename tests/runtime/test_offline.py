"""Code for Intel GPUs, compiled offline and read."""

import re
from dataclasses import replace

import pytest

import tl_dpnp
from tests.runtime.support import needs_tools
from tests.strategies.matrices import MatrixProgram
from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.kernels.dpas.functions import DpasFunction, _inner_name
from tl_dpnp.kernels.dpas.probe import probe_module
from tl_dpnp.kernels.dpas.rows import rows
from tl_dpnp.kernels.targets import new_module, target_for
from tl_dpnp.runtime.offline import dpas_table, tools
from tl_dpnp.runtime.offline.assembly import inner_loop, main_part, mix, parse, straight_run
from tl_dpnp.runtime.offline.binary import read_binary
from tl_dpnp.runtime.offline.program import compile_offline
from tl_dpnp.runtime.offline.targets import TARGETS, target_named
from tl_dpnp.runtime.sycl.compilation import translate
from tl_dpnp.runtime.sycl.machine_code import build_options
from tl_dpnp.target.catalog import DPAS


@needs_tools
@pytest.mark.parametrize("name", TARGETS)
def test_every_reachable_dpas_becomes_the_instruction(name):
    target = TARGETS[name]
    reports = dpas_table.check_rows(target)
    assert [report.row for report in reports] == list(rows(target.description.dpas_lanes))
    faults = {str(report.row): report.faults for report in reports if report.faults}
    assert not faults
    assert sum(report.unreachable is None for report in reports) == {"pvc": 217, "dg2": 190}[name]


@needs_tools
def test_the_wrong_execution_size_is_found():
    """The compiler accepts names of the other generation and makes something else of them, or refuses."""
    narrow = TARGETS["dg2"]
    faulty = [row for row in rows(16) if row.name == "dpas_f32_bf16_bf16_8x16x16"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpas_table, "rows", lambda size: faulty)
        (report,) = dpas_table.check_rows(narrow)
    assert "0 dpas" in report.faults


def test_a_missing_tool_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"ocloc is needed .* Debian's package intel-opencl-icd"):
        tools.compile_binary(b"", "pvc")
    assert set(tools.missing_tools()) == set(tools.TOOLS)


@needs_tools
def test_what_the_tools_refuse_is_an_error():
    with pytest.raises(LoweringError, match="ocloc"):
        tools.compile_binary(b"nothing", "pvc")
    with pytest.raises(LoweringError, match="not valid SPIR-V"):
        tools.validate_spirv(b"nothing")
    tools.validate_spirv(translate(str(new_module("empty", target_for("opencl")))))


@needs_tools
def test_the_version_is_asked_for_without_changing_the_directory(monkeypatch):
    """The process has one directory for all of its threads."""
    monkeypatch.setattr("os.chdir", lambda path: pytest.fail(f"changed to {path}"))
    assert tools.version("ocloc")


def test_where_k_is_one_step_the_loop_of_another_path_is_not_taken_for_that_of_the_kernel():
    """Two DPAS between a jump and where it leads, and a loop of loads with one."""
    text = """/* [0000] */ (W&f0.0) jmpi L64
/* [0010] */ dpas.8x8 (16|M0) r10:f r10:f r20:bf r30.0:bf
/* [0020] */ dpas.8x8 (16|M0) r10:f r10:f r20:bf r30.0:bf
/* [0030] */ jmpi L112
/* [0040] */ send.ugm (16|M0) r20 r8 null:0 0x0 0x04100580
/* [0050] */ dpas.8x8 (16|M0) r10:f r10:f r20:bf r30.0:bf
/* [0060] */ (W&f0.0) jmpi L64
/* [0070] */ nop
"""
    instructions = parse(text)
    assert mix(inner_loop(instructions)) == {"send": 1, "dpas": 1, "jmpi": 1}
    assert mix(straight_run(instructions)) == {"dpas": 2}


def test_the_loop_of_a_product_is_one_that_has_the_dpas_of_its_tile():
    """The first loop has the larger share of DPAS, but no multiple of what a tile of two blocks takes."""
    dpas, move = ("dpas.8x8 (16|M0) r10:f r10:f r20:tf32 r30.0:tf32", "mov (32|M0) r20.0<1>:tf32 r20.0<1;1,0>:f")
    lines = [dpas, "(W&f0.0) jmpi L0", dpas, dpas, move, move, "(W&f0.0) jmpi L32", "nop"]
    instructions = parse("\n".join(f"/* [{16 * place:04X}] */ {line}" for place, line in enumerate(lines)))
    assert mix(inner_loop(instructions)) == mix(inner_loop(instructions, {4})) == {"dpas": 1, "jmpi": 1}
    assert mix(inner_loop(instructions, {2, 3})) == {"dpas": 2, "mov": 2, "jmpi": 1}


def test_a_panel_without_a_loop_is_straight_code_up_to_its_last_dpas():
    """The loop of tiles packs and stores as well; the one behind is of another path, whose tile is as large."""
    dpas, move = ("dpas.8x8 (16|M0) r10:f r10:f r20:bf r30.0:bf", "mov (32|M0) r20.0<1>:ud r20.0<1;1,0>:ud")
    back = "(W&f0.0) jmpi L{}"
    tiles = [move, move, "(W) sync.bar 0x0", move, *[dpas] * 4, back.format(0)]
    lines = [*tiles, dpas, dpas, back.format(16 * len(tiles)), "nop"]
    instructions = parse("\n".join(f"/* [{16 * place:04X}] */ {line}" for place, line in enumerate(lines)))
    assert main_part(instructions, {2}) == (instructions[3:8], True)
    assert main_part(instructions[:9], {2}) == (instructions[3:8], True)
    # Four are no multiple of a tile's three, and no straight code has more than the loop.
    assert main_part(instructions, {3})[1] is main_part(instructions[9:], {2})[1] is False


@needs_tools
def test_a_short_panel_is_multiplied_without_a_loop():
    found = tl_dpnp.compile(gemm("i8", "i32", 104, 233, 82, "tt"), cache=False).resources(device="pvc")
    assert found.is_straight
    assert found.dpas_share > 0.4


@needs_tools
@pytest.mark.parametrize(("a", "shape"), [("f16", (131, 110, 183)), ("i8", (121, 110, 250)), ("f32", (117, 104, 128))])
def test_panels_of_uneven_lines_are_multiplied_without_a_loop(a, shape):
    """As many DPAS along k as have their addresses in registers beside the sums and what moves elements."""
    kernel = tl_dpnp.compile(gemm(a, "i32" if a == "i8" else "f32", *shape), precision="default", cache=False)
    program = kernel.compile_offline("pvc")
    assert "_ab_staged_or_" in program.schedule
    assert program.resources.is_straight
    assert program.resources.scratch == program.halved == 0
    assert program.resources.dpas_share > 0.5


@needs_tools
def test_a_product_that_rounds_has_the_loop_of_its_tile():
    """Where messages cannot load operands, tiles of 2 x 2 blocks have a larger share of DPAS."""
    found = tl_dpnp.compile(
        gemm("f32", "f32", 88, 84, 88), precision="default", cache=False).resources(device="pvc").loop
    assert found["dpas"] % 18 == 0
    assert found["mov"] > found["dpas"]


@needs_tools
def test_a_product_of_one_step_has_no_loop():
    short, long = (tl_dpnp.compile(gemm("bf16", "f32", 32, 16, k), cache=False).resources(device="pvc")
                   for k in (16, 256))
    assert short.is_straight
    assert "k is short, without a loop: straight code of" in str(short)
    assert not long.is_straight
    assert "inner loop of" in str(long)
    assert short.loop["dpas"]


def test_other_devices_are_refused():
    with pytest.raises(UnsupportedError, match="only for pvc, dg2"):
        target_named("gen9")


def gemm(a, c, m=64, n=32, k=128, transposes="nn", gap=0):
    first = (k, m) if transposes[0] == "t" else (m, k)
    second = (n, k) if transposes[1] == "t" else (k, n)
    kinds = [f"memref<{name}x{rows}x{columns},strided<1,{rows + gap}>>"
             for name, (rows, columns) in ((a, first), (a, second), (c, (m, n)))]
    one = "1" if c == "i32" else "1.0"
    return (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {one},"
            f" %A, %B, {one}, %C : {c}, {kinds[0]}, {kinds[1]}, {c}, {kinds[2]} }}")


@pytest.mark.drawn(by=lambda device, **case: (device, repr(case)))
@needs_tools
@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize(
    ("a", "c", "sizes", "precision", "texts"),
    [
        ("bf16", "f32", {}, None, ("bf", "bf")),
        ("bf16", "f32", {"transposes": "tt"}, None, ("bf", "bf")),
        ("f16", "f32", {"transposes": "nt"}, None, ("hf", "hf")),
        ("f16", "f16", {"m": 37, "n": 21, "k": 53}, None, ("hf", "hf")),
        ("i8", "i32", {"transposes": "tn"}, None, ("b", "b")),
        ("u8", "i32", {"m": 1, "n": 70, "k": 3}, None, ("ub", "ub")),
        ("f32", "f32", {}, "high", ("bf", "bf")),
        ("f32", "f32", {"m": 33}, "default", None),
    ],
)
def test_products_have_dpas_in_the_inner_loop(device, a, c, sizes, precision, texts):
    program = tl_dpnp.compile(gemm(a, c, **sizes), precision=precision, cache=False).compile_offline(device)
    loop = inner_loop(parse(program.assembly))
    texts = texts or {"pvc": ("tf32", "tf32"), "dg2": ("bf", "bf")}[device]
    found = {entry.types[2:] for entry in loop if entry.name == "dpas"}
    assert found == {texts}
    assert program.resources.spilled == program.resources.scratch == 0
    assert program.resources.dpas_clocks
    assert program.resources.loaded


@needs_tools
@pytest.mark.parametrize("device", TARGETS)
def test_products_of_cooperative_matrices_have_dpas(device):
    """Sub-groups take their turns, between barriers of the work-group."""
    a, b, c = (f"coopmatrix<{type}x16x16,matrix_{use}>" for type, use in (("bf16", "a"), ("bf16", "b"), ("f32", "acc")))
    lanes = TARGETS[device].description.dpas_lanes
    source = f"""func @f(%x: memref<bf16x16x16>, %z: memref<f32x16x32>)
                 attributes{{subgroup_size={lanes}, work_group_size=[{2 * lanes}, 1]}} {{
        foreach_tile (%i) = (0), (32) as (%n) <= (16) {{
            %A = cooperative_matrix_load %x[0, 0] : {a}
            %B = cooperative_matrix_load %x[0, 0] : {b}
            %C = constant 0 : {c}
            %D = cooperative_matrix_mul_add %A, %B, %C : {c}
            cooperative_matrix_store %D, %z[0, %i]
        }}
    }}"""
    entries = parse(tl_dpnp.compile(source, cache=False).compile_offline(device).assembly)
    assert {"dpas", "sync"} <= {entry.name for entry in entries}


def tiled_product(factor, total, depth, first=""):
    """Return a product in cooperative matrices, a tile for each work-group, and the same by one instruction.

    The first factor may be transposed in memory.
    """
    place = "%k, %i" if first else "%i, %k"
    a, b, c = (f"memref<{type}x?x?>" for type in (factor, factor, total))
    sums = f"coopmatrix<{total}x64x32,matrix_acc>"
    tiles = f"""func @f(%A: {a}, %B: {b}, %C: {c}) {{
        %x = group_id.x : index  %y = group_id.y : index  %rows = constant 64 : index  %columns = constant 32 : index
        %depth = constant {depth} : index  %0 = constant 0 : index  %terms = size %B[0] : index
        %i = mul %x, %rows : index  %j = mul %y, %columns : index  %zero = constant 0 : {sums}
        parallel {{
            %sum = for %k = %0, %terms, %depth init(%c=%zero) -> ({sums}) {{
                %a = cooperative_matrix_load{first}.both_checked %A[{place}] : coopmatrix<{factor}x64x{depth},matrix_a>
                %b = cooperative_matrix_load.both_checked %B[%k, %j] : coopmatrix<{factor}x{depth}x32,matrix_b>
                %d = cooperative_matrix_mul_add %a, %b, %c : {sums}
                yield (%d)
            }}
            cooperative_matrix_store.both_checked %sum, %C[%i, %j]
        }}
    }}"""
    return tiles, f"func @f(%A: {a}, %B: {b}, %C: {c}) {{ gemm{first or '.n'}.n 1, %A, %B, 0, %C }}"


@needs_tools
@pytest.mark.parametrize(("factor", "total", "depth", "first"), [
    ("bf16", "f32", 32, ""), ("f16", "f32", 32, ""), ("i8", "i32", 64, ""), ("f16", "f32", 32, ".t"),
])
def test_cooperative_matrices_keep_the_matrix_engine_as_busy_as_gemm_does(factor, total, depth, first):
    """Sums, which the loop carries, stay in the registers that DPAS adds to, and loads are large blocks."""
    tiles, gemm = (tl_dpnp.compile(source, cache=False).compile_offline("pvc").resources
                   for source in tiled_product(factor, total, depth, first))
    assert tiles.loop["dpas"] == 32
    assert tiles.scratch == tiles.spilled == 0
    assert tiles.dpas_share >= 0.9 * gemm.dpas_share


@needs_tools
def test_random_programs_on_cooperative_matrices_compile():
    for seed in range(2):
        assert parse(tl_dpnp.compile(MatrixProgram(seed).source, cache=False).compile_offline("pvc").assembly)


@needs_tools
@pytest.mark.parametrize(
    ("a", "c", "transposes", "messages", "share"),
    [
        ("bf16", "f32", "nn", ("d16v", "d16.a64"), 0.6), ("f16", "f32", "tn", ("d32t", "d16.a64"), 0.5),
        ("i8", "i32", "nn", ("d8v", "d8.a64"), 0.6), ("u8", "i32", "tn", ("d32t", "d8.a64"), 0.5),
        ("f16", "f32", "tt", ("d16v", "d16.a64"), 0.6),
    ],
)
def test_loads_of_blocks_keep_the_matrix_engine_busy(a, c, transposes, messages, share):
    """Matrices in ordinary memory, on Xe-HPC."""
    kernel = tl_dpnp.compile(gemm(a, c, 256, 192, 512, transposes), cache=False)
    program = kernel.compile_offline("pvc")
    assert program.resources.registers == 256
    assert program.resources.spilled == program.resources.scratch == 0
    assert "bound by instructions that are issued; the engines of a core load 192 of the" in str(program.resources)
    assert program.resources.dpas_share >= share
    assert program.resources.busy_share >= 0.85
    for message in messages:
        assert f"load_block2d.ugm.{message}" in program.assembly
    # Where lanes are columns of C, elements are stored one by one.
    assert ("store_block2d.ugm.d32" in program.assembly) == (transposes != "tt")


@needs_tools
@pytest.mark.parametrize(
    ("a", "transposes", "moves", "share"),
    [
        ("bf16", "nt", 32, 0.35), ("f16", "nt", 32, 0.35), ("u8", "nt", 32, 0.32), ("f32", "nn", 48, 0.3),
        ("f32", "nt", 48, 0.25), ("f32", "tn", 48, 0.28), ("f32", "tt", 48, 0.28),
    ],
)
def test_blocks_are_split_or_rounded_in_registers(a, transposes, moves, share):
    """A transposed B of 8 or 16 bits comes as words of several columns; f32 become tf32.  32 elements take a move."""
    result = "i32" if a == "u8" else "f32"
    kernel = tl_dpnp.compile(gemm(a, result, 256, 192, 512, transposes), precision="default", cache=False)
    resources = kernel.resources(device="pvc")
    assert resources.scratch == resources.spilled == 0
    assert resources.loop["mov"] * 32 <= resources.loop["dpas"] * moves
    assert resources.dpas_share >= share
    assert resources.busy_share >= 0.7


@needs_tools
def test_sizes_known_at_run_time_change_nothing_in_the_loop():
    kind, result = "memref<bf16x?x?>", "memref<f32x?x?>"
    text = (f"func @f(%A: {kind}, %B: {kind}, %C: {result}) {{ gemm.n.n 1.0, %A, %B, 1.0, %C : f32, {kind}, {kind},"
            f" f32, {result} }}")
    resources = tl_dpnp.compile(text, cache=False).resources(device="pvc")
    assert resources.scratch == resources.spilled == 0
    assert resources.dpas_share >= 0.6


@needs_tools
@pytest.mark.parametrize(
    ("device", "a", "transposes", "precision", "gap", "busy"),
    [
        ("dg2", "bf16", "nn", None, 0, 0.85), ("dg2", "i8", "nt", None, 0, 0.8), ("dg2", "f32", "nn", "high", 0, 0.85),
        # Messages of blocks need columns that are multiples of 8 bytes apart.
        ("pvc", "bf16", "nt", None, 2, 0.8), ("pvc", "u8", "nt", None, 4, 0.8), ("pvc", "f32", "tn", "high", 0, 0.8),
        ("pvc", "f32", "nn", "default", 1, 0.8),
    ],
)
def test_operands_that_are_slow_to_load_are_packed_in_local_memory(device, a, transposes, precision, gap, busy):
    result = "i32" if a in ("i8", "u8") else "f32"
    kernel = tl_dpnp.compile(gemm(a, result, 256, 192, 512, transposes, gap), precision=precision, cache=False)
    resources = kernel.resources(device=device)
    assert "_staged" in kernel.lower(device).schedule
    assert resources.scratch == resources.spilled == 0
    assert resources.local_memory > 0
    assert resources.busy_share >= busy


@needs_tools
@pytest.mark.parametrize(("m", "packed"), [(128, "b"), (130, "ab"), (125, "ab")])
def test_tiles_whose_operands_are_packed_are_stored_by_messages(m, packed):
    """A tile takes one for each of its blocks, and two where columns are odd multiples of 4 bytes, as 125 f32 are."""
    program = tl_dpnp.compile(gemm("bf16", "f32", m, 96, 99), cache=False).compile_offline("pvc")
    # Where messages do not load there are other loops, and another tile.
    found = re.search(rf"_tile_(\d)x(\d)x\d+_{packed}_staged_or_(\d)x(\d)x\d+_staged", program.schedule)
    assert found is not None
    own, other = (int(found[first]) * int(found[first + 1]) for first in (1, 3))
    assert program.assembly.count("store_block2d") == (own + other) * (1 + m % 2)


@pytest.mark.drawn(count=3)
@needs_tools
@pytest.mark.parametrize(("a", "transposes", "shape"), [
    # C is stored by elements: the places of all of them were computed in front of the sums.
    ("bf16", "tt", (397, 208, 352)), ("bf16", "tt", (480, 200, 320)), ("bf16", "tt", (280, 432, 356)),
    # What packs elements, where addresses do not allow messages, had as large a tile.
    ("f16", "tt", (259, 207, 375)), ("bf16", "tt", (262, 356, 511)), ("f16", "nn", (501, 261, 296)),
    ("u8", "tt", (344, 321, 128)), ("bf16", "nn", (478, 135, 65)),
])
def test_tiles_need_not_be_halved_for_what_is_around_their_loops(a, transposes, shape):
    kernel = tl_dpnp.compile(gemm(a, "i32" if a == "u8" else "f32", *shape, transposes), cache=False)
    program = kernel.compile_offline("pvc")
    assert program.halved == program.resources.scratch == 0


@needs_tools
@pytest.mark.parametrize(("a", "tile", "shape"), [
    ("bf16", "dpas_f32_bf16_bf16_8x16x16_tile_1x8x2", (96, 160, 152)),
    ("bf16", "dpas_f32_bf16_bf16_8x16x16_tile_2x3x1", (88, 64, 176)),
    ("u8", "dpas_i32_u8_u8_8x16x32_tile_1x6x1", (112, 152, 120)),
])
def test_a_small_tile_that_messages_load_takes_no_scratch_where_they_cannot(a, tile, shape):
    kernel = tl_dpnp.compile(gemm(a, "i32" if a == "u8" else "f32", *shape),
                             schedule={"gemm_0": lambda s: s.tensorize("m", tile)}, cache=False)
    assert kernel.compile_offline("pvc").resources.scratch == 0


@needs_tools
@pytest.mark.parametrize(
    ("a", "transposes", "shape", "packed", "share"),
    [
        ("bf16", "nn", (424, 282, 361), "b", 0.6), ("bf16", "nn", (122, 256, 264), "a", 0.5),
        ("u8", "nn", (72, 242, 492), "b", 0.5), ("u8", "nn", (247, 256, 359), "ab", 0.5),
    ],
)
def test_operands_that_messages_load_are_not_packed_with_the_other_one(a, transposes, shape, packed, share):
    kernel = tl_dpnp.compile(gemm(a, "i32" if a == "u8" else "f32", *shape, transposes), cache=False)
    program = kernel.compile_offline("pvc")
    assert f"_{packed}_staged_or_" in program.schedule
    assert program.resources.scratch == program.resources.spilled == program.halved == 0
    assert program.resources.dpas_share >= share
    what = "loads of blocks that are packed" if packed == "ab" else f"packed there, of {packed.upper()}"
    assert what in kernel.diagnostics(2, device="pvc")


@needs_tools
def test_a_tile_that_takes_scratch_memory_is_made_smaller(monkeypatch):
    """A default that is too large for the registers; one that is given stays as it is."""
    monkeypatch.setitem(DPAS, 16, replace(DPAS[16], packed_f32=((4, 4),), registers=1000))
    text = gemm("f32", "f32", 256, 192, 512)
    kernel = tl_dpnp.compile(text, precision="high", cache=False)
    program = kernel.compile_offline("pvc")
    assert "_tile_4x4x3_from_f32_by_3_staged" in kernel.lower("pvc").schedule
    assert "_tile_2x2x3_from_f32_by_3_staged" in program.schedule
    assert program.resources.scratch == 0
    assert "tiles were halved 2 times: larger ones took" in kernel.diagnostics(device="pvc")
    name = "dpas_f32_bf16_bf16_8x16x16_tile_4x4x1_from_f32_by_3_staged"
    given = {"gemm_0": lambda plain: plain.tensorize("m", name)}
    kernel = tl_dpnp.compile(text, precision="high", schedule=given, cache=False)
    assert kernel.resources(device="pvc").scratch > 0


@needs_tools
@pytest.mark.parametrize("device", TARGETS)
def test_chains_groups_and_dynamic_sizes_have_dpas_in_the_inner_loop(device):
    chain = """func @f(%A: group<memref<f16x?x48,strided<1,?>>>, %B: memref<f16x48x64>, %D: memref<f16x64x33>,
                       %C: group<memref<f32x40x33>>) {
      %g = group_id
      %d = load %A[%g] : group<memref<f16x?x48,strided<1,?>>>
      %a = subview %d[0:40,:] : memref<f16x?x48,strided<1,?>>
      %c = load %C[%g] : group<memref<f32x40x33>>
      %t = alloca -> memref<f16x40x64>
      gemm.n.n 1.0, %a, %B, 0.0, %t : f16, memref<f16x40x48,strided<1,?>>, memref<f16x48x64>, f16, memref<f16x40x64>
      gemm.n.n 1.0, %t, %D, 1.0, %c : f32, memref<f16x40x64>, memref<f16x64x33>, f32, memref<f32x40x33> }"""
    kind = "memref<i8x?x?>"
    dynamic = (f"func @f(%A: {kind}, %B: {kind}, %C: memref<i32x?x?>) {{ gemm.t.n 1, %A, %B, 1, %C : i32, {kind},"
               f" {kind}, i32, memref<i32x?x?> }}")
    for text in (chain, dynamic):
        resources = tl_dpnp.compile(text, cache=False).resources(device=device)
        assert resources.loop["dpas"]
        assert resources.scratch == 0
        assert resources.local_memory > 0


def test_the_driver_is_asked_for_the_registers_of_large_tiles():
    device = TARGETS["pvc"].description
    large = tl_dpnp.compile(gemm("bf16", "f32", 256, 192, 512)).lower("pvc").plan
    small = tl_dpnp.compile(gemm("f32", "f32", 16, 16, 8, "nt")).lower("pvc").plan
    assert build_options(large, device) == "-ze-opt-large-register-file"
    assert build_options(large, replace(device, backend="opencl")) == "-cl-intel-256-GRF-per-thread"
    assert build_options(small, device) == build_options(large, tl_dpnp.devices()[0]) == ""


@needs_tools
def test_a_small_register_file_spills_what_the_tile_needs():
    resources = tl_dpnp.compile(gemm("bf16", "f32", 256, 192, 512), cache=False).resources(device="pvc", registers=128)
    assert resources.registers == 128
    assert resources.scratch > 0
    assert "128 registers are too few for the kernel" in str(resources)


def test_register_files_have_two_sizes():
    kernel = tl_dpnp.compile(gemm("bf16", "f32", 16, 16, 8), cache=False)
    for registers in (0, 64, 512, "256"):
        with pytest.raises(tl_dpnp.TLTypeError, match="registers= takes 128 or 256, not "):
            kernel.compile_offline("pvc", registers=registers)


@needs_tools
def test_diagnostics_say_what_bounds_a_kernel_on_a_device():
    text = tl_dpnp.compile(gemm("bf16", "f32", transposes="tn"), cache=False).diagnostics(device="dg2")
    assert "@f for dg2: compiled, not run" in text
    assert "gemm_0 is on the matrix engine: dpas_f32_bf16_bf16_8x8x16" in text
    assert "operands by way of local memory" in text
    assert "bound by instructions that are issued" in text
    text = tl_dpnp.compile(gemm("f32", "f32"), cache=False).diagnostics(device="pvc")
    assert "gemm_0 is not on the matrix engine" in text


@needs_tools
def test_diagnostics_on_a_device_have_the_levels_of_others():
    kernel = tl_dpnp.compile(gemm("bf16", "f32"), cache=False)
    texts = [kernel.diagnostics(level, device="dg2") for level in (1, 2, 3, 4)]
    parts = ["for dg2: compiled, not run", "schedules:", "kernel:", "IR, "]
    for level, text in enumerate(texts, 1):
        assert [part in text for part in parts] == [True] * level + [False] * (4 - level)
        assert text.startswith(texts[0])
    assert "tensorize(" in texts[1]


@needs_tools
def test_a_signature_and_a_device_are_an_error():
    kernel = tl_dpnp.compile(gemm("bf16", "f32"), cache=False)
    signature = next(iter(kernel.inspect_source()))
    with pytest.raises(tl_dpnp.TLTypeError, match="leave the signature away"):
        kernel.resources(signature, device="pvc")
    assert kernel.resources(device="pvc").instructions


@needs_tools
@pytest.mark.parametrize("transposes", ["nn", "nt"])
def test_a_dpas_of_other_types_is_found(transposes, monkeypatch):
    monkeypatch.setattr("tl_dpnp.kernels.dpas.functions._opencl_name",
                        lambda row: "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_sDv8_iDv8_f")
    faults = r"it has \d+ dpas of dpas_f32_bf16\S+ instead of \d+; it has a dpas of other types"
    with pytest.raises(LoweringError, match=faults):
        tl_dpnp.compile(gemm("bf16", "f32", transposes=transposes), cache=False).compile_offline("pvc")


@needs_tools
def test_device_binaries_are_cached(monkeypatch):
    kernel = tl_dpnp.compile(gemm("bf16", "f32"))
    first = kernel.compile_offline("dg2")
    monkeypatch.setattr("tl_dpnp.runtime.offline.program.compile_binary", None)
    assert kernel.compile_offline("dg2").binary == first.binary


@needs_tools
@pytest.mark.parametrize(("transposes", "k"), [("nn", 128), ("nt", 128), ("nn", 160), ("tn", 224)])
def test_a_dropped_dpas_is_found(transposes, k, monkeypatch):
    """The compiler takes a call of an unknown function of its own away, without an error.

    Of the two paths of a product that loads blocks, one alone calls such functions.  The other one does two iterations
    in one of its loop, and a last one behind it where k has an odd number of them.
    """
    monkeypatch.setattr("tl_dpnp.kernels.dpas.functions._opencl_name", lambda row: "__builtin_IB_sub_group16_fdpas_x")
    kernel = tl_dpnp.compile(gemm("bf16", "f32", k=k, transposes=transposes), cache=False)
    with pytest.raises(LoweringError, match=r"made something else of the kernel: it has \d+ dpas of dpas_f32_bf16"):
        kernel.compile_offline("pvc")


@needs_tools
@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize("which", [min, max])
def test_a_single_dpas_that_is_missing_is_found(which, gap, monkeypatch):
    """By messages of blocks, by a function, and by way of local memory."""
    def without_one(text):
        lines = text.splitlines(keepends=True)
        place = which(number for number, line in enumerate(lines) if "dpas." in line)
        return "".join(lines[:place] + lines[place + 1 :])

    kernel = tl_dpnp.compile(gemm("bf16", "f32", k=160, gap=gap))
    whole = kernel.compile_offline("pvc")
    assert kernel.compile_offline("pvc") == whole  # now of the cache
    original = tools.disassemble
    monkeypatch.setattr("tl_dpnp.runtime.offline.program.disassemble", lambda *arguments: {
        name: without_one(text) for name, text in original(*arguments).items()})
    with pytest.raises(LoweringError, match=r"it has \d+ dpas of dpas_f32_bf16\S+ instead of \d+$"):
        kernel.compile_offline("pvc")


@needs_tools
def test_an_undefined_function_is_found(monkeypatch):
    monkeypatch.setattr("tl_dpnp.kernels.dpas.functions._opencl_name", lambda row: "_Z7unknownDv8_f")
    with pytest.raises(LoweringError, match="nothing defines _Z7unknownDv8_f"):
        tl_dpnp.compile(gemm("bf16", "f32"), cache=False).compile_offline("pvc")


def test_a_kernel_for_cpus_is_not_compiled_for_a_gpu():
    kernel = tl_dpnp.compile(gemm("f32", "f32"), cache=False)
    with pytest.raises(UnsupportedError, match="lowered to the vector form"):
        compile_offline(kernel.lower(), "pvc")
    with pytest.raises(UnsupportedError, match="does not compute with f64"):
        tl_dpnp.compile(gemm("f64", "f64"), cache=False).resources(device="dg2")


@needs_tools
@pytest.mark.parametrize("name", ["bf8", "hf8", "i1", "u1"])
def test_rows_are_out_of_reach_because_the_compiler_drops_their_functions(name, monkeypatch):
    (row,) = (row for row in rows(16) if row.source1.name == row.source2.name == name and row.repeat == 8)
    monkeypatch.setattr("tl_dpnp.kernels.dpas.emit.function_of", lambda row: DpasFunction(_inner_name(row), True))
    code = read_binary(tools.compile_binary(translate(probe_module([row], emulated=False)), "pvc")).code
    instructions = parse(tools.disassemble(code, "xehpc")[row.name])
    assert not [entry for entry in instructions if entry.name in ("dpas", "call")]
