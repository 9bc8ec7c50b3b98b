"""The iterations of all loops that prefetch fetch each line of the operands, each about as many.

Nests are compiled for the host here, with prefetches that write down their addresses.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from tests.lowering.support import gemm
from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels.llvm import GLOBAL, I64, constant, index
from tl_dpnp.kernels.targets import TARGETS
from tl_dpnp.lowering.emission import Ahead, NestArguments, emit_nest
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.realization import realize
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.vectors import vector_schedule
from tl_dpnp.target.catalog import AVX2, ZEN4
from tl_dpnp.target.core import CACHE_LINE

_MOST = 1 << 16
_LAYOUT = SubgroupLayout()
#: What the default schedules are for: vectors that the host, on which they run, has registers for.
_HOST = ZEN4 if llvm.get_host_cpu_features().get("avx512f") else AVX2
#: What is called fma on the device.
_FMA = r"""define spir_func \1 \2(\1 %a, \1 %b, \1 %c) {
  %p = fmul \1 %a, %b
  %s = fadd \1 %p, %c
  ret \1 %s
}"""


def fetched_lines(
    schedule: Schedule, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, streams: bool = False,
    once: bool = True,
) -> list[Counter[tuple[int, bool]]]:
    """Run a gemm of f32, and return how often each line of the next A, B and C was fetched, and whether to use it once.

    Those of the present A, B and C have negative numbers.  With `streams`, the operands exceed all caches.  The core
    keeps what is to be used `once`.
    """
    m, n, k = sizes
    module = ir.Module("nest")
    module.triple = next(iter(TARGETS))
    log = ir.GlobalVariable(module, ir.ArrayType(I64, _MOST), "log")
    total = ir.GlobalVariable(module, I64, "total")
    log.initializer, total.initializer = ir.Constant(log.value_type, None), constant(I64, 0)

    def write_down(_: object, builder: ir.IRBuilder, pointer: ir.Value, once: bool = False) -> None:
        place = builder.load(total)
        address = builder.or_(builder.and_(builder.ptrtoint(pointer, I64), index(-2)), index(int(once)))
        builder.store(address, builder.gep(log, [index(0), place]))
        builder.store(builder.add(place, index(1)), total)

    monkeypatch.setattr(type(TARGETS[module.triple]), "prefetch_line", write_down)
    pointer = ir.FloatType().as_pointer(GLOBAL)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 3), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    # Apart from one another: what is fetched behind the end of one must not count as a part of another.
    block = np.ones((3, _MOST), np.float32)
    arrays = [part[:2 * size] for part, size in zip(block, (m * k, k * n, m * n), strict=True)]
    distances = {name: (index(array.nbytes // 2), array.nbytes // 2) for name, array in zip("ABC", arrays, strict=True)}
    always, streaming = (constant(ir.IntType(1), flag) for flag in (True, streams))
    arguments = NestArguments(
        dict(zip("ABC", function.args, strict=True)), {}, {}, Ahead(always, distances, streaming, once=once))
    emit_nest(builder, realize(schedule.nest, _LAYOUT).nest, arguments, _LAYOUT, 16)
    builder.ret_void()

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = str(module).replace(module.triple, llvm.get_default_triple())
    parsed = llvm.parse_assembly(re.sub(r"declare spir_func (.*?) (@\".*fma.*?\")\(.*", _FMA, text))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten())
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(engine.get_function_address("run"))(
        *(array.ctypes.data for array in arrays))
    np.testing.assert_array_equal(arrays[2][:m * n], k)
    count = ctypes.c_int64.from_address(engine.get_global_value_address("total")).value
    addresses = (ctypes.c_int64 * count).from_address(engine.get_global_value_address("log"))
    starts = [array.ctypes.data + array.nbytes // 2 for array in arrays]
    return [
        Counter(((address - start) // CACHE_LINE, bool(address % 2)) for address in addresses
                if start - size <= address < start + size)
        for start, (_, size) in zip(starts, distances.values(), strict=True)
    ]


def _of_two_loops(schedule: Schedule) -> None:
    halves = schedule.split("m", 8)
    schedule.unroll(halves.outer)
    schedule.prefetch("k")


def _of_a_loop_in_another(schedule: Schedule) -> None:
    schedule.reorder("n", "m")
    schedule.prefetch("n")
    schedule.prefetch("m")


@pytest.mark.parametrize("script", [_of_two_loops, _of_a_loop_in_another, None])
@pytest.mark.parametrize("sizes", [(40, 20, 20), (35, 9, 35), (17, 1, 40)])
def test_each_line_of_the_operands_is_fetched(
    script: Callable[[Schedule], None] | None, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    contraction = gemm(*sizes)
    schedule = vector_schedule(contraction, _HOST) if script is None else Schedule(contraction.nest)
    if script is not None:
        script(schedule)
    m, n, k = sizes
    for found, size in zip(fetched_lines(schedule, sizes, monkeypatch), (m * k, k * n, m * n), strict=True):
        assert set(found) == {(line, False) for line in range(-(-4 * size // CACHE_LINE))}


def test_no_part_of_the_default_schedule_fetches_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one loop that fetches everything, and others that fetch it again, lines would be fetched twice or more."""
    first, *_ = fetched_lines(vector_schedule(gemm(120, 9, 120), _HOST), (120, 9, 120), monkeypatch)
    assert max(first.values()) <= 2
    assert first.total() < 1.7 * len(first)


@pytest.mark.parametrize(("streams", "once"), [(False, True), (True, True), (True, False)])
def test_what_is_read_in_order_is_fetched_shortly_before_its_turn(
    streams: bool, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it exceeds all caches: 4 KB ahead, the first of the next operand by the last iterations.

    It is fetched as what is used once by cores that keep it until its turn.
    """
    first, second, _ = fetched_lines(vector_schedule(gemm(64, 1, 64), _HOST), (64, 1, 64), monkeypatch, streams, once)
    whole, ahead = 64 * 64 * 4 // CACHE_LINE, 4096 // CACHE_LINE
    lines = range(ahead - whole, ahead) if streams else range(whole)
    assert first == Counter({(line, streams and once): 1 for line in lines})
    assert {line for line, is_once in second if not is_once} == set(range(4))


def test_what_is_read_across_memory_is_fetched_for_a_later_work_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of A, one after the other, are not what lies one after the other in memory."""
    contraction = gemm(64, 1, 64)
    schedule = Schedule(contraction.nest)
    schedule.prefetch("m")
    first, *_ = fetched_lines(schedule, (64, 1, 64), monkeypatch, streams=True)
    assert set(first) == {(line, False) for line in range(64 * 64 * 4 // CACHE_LINE)}


def test_a_loop_that_prefetches_stays_among_loops_of_known_ranges():
    schedule = Schedule(gemm(None, 4, 8).nest)
    schedule.reorder("n", "m")
    schedule.prefetch("n")
    with pytest.raises(ScheduleError, match="n prefetches, but the range of m is not known"):
        schedule.reorder("m", "n")
