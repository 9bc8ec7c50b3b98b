"""Kernels of one warp that run one instruction of the engine's tables on words in global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir

from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, LOCAL, Intrinsic, counted_loop, index
from tl_dpnp.kernels.mma import emit
from tl_dpnp.kernels.mma.moves import AsyncCopy, MatrixLoad
from tl_dpnp.kernels.mma.rows import LANES, MmaRow
from tl_dpnp.kernels.mma.warpgroup import THREADS, Panel, WarpgroupRow
from tl_dpnp.kernels.targets import target_for, target_of
from tl_dpnp.kernels.targets.nvvm import asm, special_register
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.emission import emit_body
from tl_dpnp.lowering.body.tree import Argument, Evaluate, Name
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.compiler import CompiledKernel
from tl_dpnp.runtime.cuda.numba_cuda_adapter import build
from tl_dpnp.scalars import INDEX

__all__ = ["compiled", "copy_probe", "load_probe", "mma_probe", "run", "warpgroup_probe"]

_BYTES = 1024


def compiled(
    emitter: Callable[[ir.IRBuilder, Sequence[ir.Value]], None], count: int, threads: int = LANES, shared: int = _BYTES
) -> CompiledKernel:
    """Compile a kernel that passes `count` addresses to an emitter."""
    names = [f"p{number}" for number in range(count)]
    intrinsic = Intrinsic("probe_body", (INDEX,) * count, None, emitter)
    arguments = tuple(Argument(name, INDEX) for name in names)
    llvm = emit_body(arguments, [Evaluate(call(intrinsic, *map(Name, names)))], target_for("cuda"))
    plan = LaunchPlan("tl_kernel", "subgroup", threads, 1, shared)
    lowered = LoweredKernel(plan, arguments, llvm, "", (), {}, (), "a probe")
    return CompiledKernel(plan, build(lowered, H200).binary, "", 0.0, False)


def _words(b: ir.IRBuilder, address: ir.Value, type_: ir.Type, count: int) -> list[ir.Value]:
    """Return pointers to this lane's words in an array of 64-bit words (32, count)."""
    base = b.inttoptr(address, I64.as_pointer(GLOBAL))
    first = b.mul(special_register(b, "tid.x"), index(count))
    return [b.bitcast(b.gep(base, [b.add(first, index(place))]), type_.as_pointer(GLOBAL)) for place in range(count)]


def mma_probe(row: MmaRow, selector: int = 0) -> CompiledKernel:
    """D from A, B, C and, for sparse forms, metadata: each an array of 64-bit words (32, words)."""
    def emitter(b: ir.IRBuilder, addresses: Sequence[ir.Value]) -> None:
        *given, target = addresses
        operands = [
            [b.load(pointer) for pointer in _words(b, address, emit.word_type(row, name), row.words(name))]
            for name, address in zip("abc", given, strict=False)
        ]
        metadata = b.load(_words(b, given[3], I32, 1)[0]) if row.sparse else None
        results = emit.mma(b, row, *operands, metadata=metadata, selector=selector)
        pointers = _words(b, target, emit.word_type(row, "d"), row.words("d"))
        for result, pointer in zip(results, pointers, strict=True):
            b.store(result, pointer)

    return compiled(emitter, 5 if row.sparse else 4)


def _shared(b: ir.IRBuilder) -> ir.Value:
    return b.ptrtoint(target_of(b).local_memory(b, _BYTES), I32)


def load_probe(load: MatrixLoad) -> CompiledKernel:
    """Words (32, count) from the rows of matrices (count, 8, 8) of 16-bit elements, by way of shared memory."""
    def emitter(b: ir.IRBuilder, addresses: Sequence[ir.Value]) -> None:
        source, target = addresses
        lane = special_register(b, "tid.x")
        block = b.bitcast(target_of(b).local_memory(b, _BYTES), I64.as_pointer(LOCAL))
        words = b.inttoptr(source, I64.as_pointer(GLOBAL))
        for turn in range(4):
            place = b.add(lane, index(LANES * turn))
            b.store(b.load(b.gep(words, [place])), b.gep(block, [place]))
        target_of(b).barrier(b)
        row = b.trunc(b.mul(b.urem(lane, index(8 * load.count)), index(16)), I32)
        results = emit.ldmatrix(b, load, b.add(_shared(b), row))
        for result, pointer in zip(results, _words(b, target, I32, load.count), strict=True):
            b.store(result, pointer)

    return compiled(emitter, 2)


def copy_probe(copy: AsyncCopy) -> CompiledKernel:
    """One copy for each lane to shared memory and from there to the result; partial ones read lane mod (bytes + 1)."""
    def emitter(b: ir.IRBuilder, addresses: Sequence[ir.Value]) -> None:
        source, target = addresses
        lane = special_register(b, "tid.x")
        offset = b.mul(lane, index(copy.bytes))
        place = b.add(_shared(b), b.trunc(offset, I32))
        present = b.trunc(b.urem(lane, index(copy.bytes + 1)), I32) if copy.partial else None
        emit.device_async_copy(b, copy, place, b.add(source, offset), present)
        emit.create_group(b)
        emit.wait(b, 0)
        target_of(b).barrier(b)
        block = b.bitcast(target_of(b).local_memory(b, _BYTES), I32.as_pointer(LOCAL))
        words = b.inttoptr(target, I32.as_pointer(GLOBAL))
        for word in range(copy.bytes // 4):
            number = b.add(b.udiv(offset, index(4)), index(word))
            b.store(b.load(b.gep(block, [number])), b.gep(words, [number]))

    return compiled(emitter, 2)


def warpgroup_probe(row: WarpgroupRow, a: Panel, b: Panel, start: int) -> CompiledKernel:
    """D from images of the panels, of which the elements along k from `start` on count, and from the D before.

    Both D are arrays of 64-bit words (128, words).
    """
    shared = a.bytes + b.bytes + 1024

    def emitter(builder: ir.IRBuilder, addresses: Sequence[ir.Value]) -> None:
        *images, before, after = addresses
        thread = special_register(builder, "tid.x")
        block = target_of(builder).local_memory(builder, shared)
        base = builder.and_(builder.add(builder.ptrtoint(block, I64), index(1023)), index(-1024))
        descriptors = []
        for panel, image in zip((a, b), images, strict=True):
            source = builder.inttoptr(image, I32.as_pointer(GLOBAL))
            target = builder.inttoptr(base, I32.as_pointer(LOCAL))

            def copy(place: ir.Value, _: object, ends: tuple[ir.Value, ir.Value] = (source, target)) -> list[ir.Value]:
                start, end = (builder.gep(pointer, [place]) for pointer in ends)
                builder.store(builder.load(start), end)
                return []

            counted_loop(builder, thread, index(panel.bytes // 4), index(THREADS), [], copy)
            address = builder.lshr(builder.and_(base, index(0x3FFFF)), index(4))
            descriptors.append(builder.add(address, index(panel.descriptor + panel.step(start))))
            base = builder.add(base, index(panel.bytes))
        asm(builder, "fence.proxy.async.shared::cta;", "~{memory}", ir.VoidType(), [])
        target_of(builder).barrier(builder)
        type_ = ir.FloatType() if row.c.name == "f32" else I32
        sums = [builder.load(pointer) for pointer in _words(builder, before, type_, row.words)]
        results = emit.warpgroup_mma(builder, row, *descriptors, sums, a.along_k, b.along_k)
        for result, pointer in zip(results, _words(builder, after, type_, row.words), strict=True):
            builder.store(result, pointer)

    return compiled(emitter, 4, THREADS, shared)


def run(kernel: CompiledKernel, *arrays: np.ndarray) -> None:
    """Run a probe on copies of the arrays on device 0; the last one gets the result."""
    from tl_dpnp.runtime.call.flattening import Int64
    from tl_dpnp.runtime.cuda import driver_adapter as driver
    from tl_dpnp.runtime.cuda.platform import describe
    from tl_dpnp.runtime.cuda.ptx import link

    plan = kernel.plan
    function = driver.Function(link(kernel, describe(0)).cubin, plan.entry, 0, plan.local_memory)
    memories = [driver.Memory(0, array.nbytes) for array in arrays]
    for memory, array in zip(memories, arrays, strict=True):
        memory.write(np.ascontiguousarray(array))
    parameters = driver.Parameters([Int64(memory.address) for memory in memories])
    function.launcher(1, (plan.subgroup_size, 1, 1), plan.local_memory, parameters)(0)
    arrays[-1].flat = memories[-1].read(str(arrays[-1].dtype))
