"""The micro-kernels of a function: what the body of a kernel calls for each linear-algebra instruction."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from llvmlite import ir

from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.amx.tiles import configure, release
from tl_dpnp.kernels.intrinsics import memory_pointer
from tl_dpnp.kernels.llvm import CACHE_LINE, GLOBAL, I1, I64, LOCAL, PRIVATE, Intrinsic, index
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.contraction import OUTPUT
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.emission import Ahead, NestArguments, emit_nest, fetch_whole
from tl_dpnp.lowering.kernel_call import KernelCall
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.memory import LOCAL_ALIGNMENT, size_in_bytes
from tl_dpnp.lowering.nest import Nest, loops_of
from tl_dpnp.lowering.plan import BEYOND_ALL, BEYOND_ONE
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedules import Scheduled
from tl_dpnp.lowering.streaming import staged_result
from tl_dpnp.lowering.tile_engine import palette_of, whole_tile_kernel
from tl_dpnp.lowering.tiling import vector_width
from tl_dpnp.lowering.warp_product import emit_warp_product
from tl_dpnp.scalars import INDEX, U32

__all__ = ["MicroKernels"]

#: A result whose operands and itself are larger than so many times the result is not worth storing past the caches.
_MOST_OPERANDS = 16
#: Bytes of a lane's widest access on GPUs.
_VECTOR = 16
_FALSE, _TRUE = ir.Constant(I1, 0), ir.Constant(I1, 1)


class MicroKernels:
    """Makes the micro-kernels of one function."""

    def __init__(
        self,
        layout: SubgroupLayout,
        device: DeviceDescription,
        engine: MatrixEngine,
        kernels: Sequence[Scheduled],
        local_memory: int,
        products: Sequence[WarpProduct | PaddedProduct | None] = (),
        direct: Sequence[str] = (),
        palette: Palette | None = None,
        read_only: Container[str] = (),
    ) -> None:
        self.layout = layout
        self.device = device
        self.engine = engine
        self.kernels = {id(kernel.operation): kernel for kernel in kernels}
        self.local_memory = local_memory
        self.products = {id(kernel.operation): product for kernel, product in zip(kernels, products, strict=False)}
        self.direct = direct
        #: The shapes of tiles that are configured around all calls.
        self.palette = palette
        #: The memrefs in memory that the function does not write to.
        self.read_only = read_only
        #: The schedules of the micro-kernels made so far for operands from memory, where they have others for these.
        self.beyond: list[Schedule] = []

    @property
    def most_ahead(self) -> int:
        """Bytes of the operands of a later work-group that the nearest cache has room for beside the present ones."""
        return self.device.caches[0] // 2 if self.device.caches else 0

    def __call__(self, operation: ops.LinearAlgebra, memrefs: Sequence[MemrefDescriptor]) -> KernelCall:
        kernel, product = self.kernels[id(operation)], self.products.get(id(operation))
        contraction, realized = kernel.contraction, kernel.realized
        elements = [ops.memref_type(v).element for v in (*operation.inputs, operation.output)]
        scalars = {"alpha": operation.alpha, "beta": operation.beta}
        operands = tuple(scalars[scalar.name] for scalar in contraction.scalars)
        names = _buffer_names(len(elements))
        width = vector_width(contraction, self.device.vector_bytes)
        fetched = {
            buffer: size_in_bytes(memref.type)
            for buffer, memref in zip(names, memrefs, strict=True)
            if memref.can_be_fetched and self.device.is_cpu
        }
        alone = self.layout.lanes * self.layout.subgroups == 1
        constant = frozenset(
            name for name, memref, value in zip(names, memrefs, operation.inputs, strict=False)
            if value.name in self.read_only and memref.ahead is None and memref.space == GLOBAL
        )
        on_tiles = whole_tile_kernel(realized.nest) is not None
        if on_tiles and sum(fetched.values()) > self.most_ahead:
            fetched = {}
        prefetches = bool(fetched) and (on_tiles or any(loop.prefetch for loop in loops_of(realized.nest.body)))
        beyond = kernel.beyond if prefetches and {"A", "C"} <= fetched.keys() else None
        if beyond is not None:
            self.beyond.append(beyond.schedule)
        streaming = (beyond or kernel).realized.nest
        staged = None
        if alone and self.device.vector_bytes == CACHE_LINE and not on_tiles:
            staged = staged_result(streaming)
        if sum(fetched.values()) > _MOST_OPERANDS * fetched.get("C", 0):
            staged = None
        parameters = (
            *(INDEX for _ in elements),
            *(INDEX for _ in contraction.dimensions),
            *(scalar.type for scalar in contraction.scalars),
            *(INDEX for _ in (["wanted", *fetched] if prefetches else [])),
        )
        scratch_space = PRIVATE if alone else LOCAL
        first = self.local_memory - realized.scratch

        def emit(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            given = iter(arguments)
            pointers = {
                buffer: memory_pointer(builder, element, memref.space, next(given), self.local_memory)
                for buffer, element, memref in zip(names, elements, memrefs, strict=True)
            }
            dimensions = {dimension: next(given) for dimension in contraction.dimensions}
            values = {scalar.name: next(given) for scalar in contraction.scalars}
            if product is not None:
                emit_warp_product(builder, product, operation, memrefs, pointers, values)
                return
            for name, offset in realized.offsets.items():
                element, place = realized.nest.buffers[name].element, index(first + offset)
                pointers[name] = memory_pointer(builder, element, scratch_space, place, self.local_memory)
            words = None
            if realized.scratch and not realized.offsets:
                words = memory_pointer(builder, U32, LOCAL, index(first), self.local_memory)
            ahead = None
            if prefetches:
                level = next(given)
                wanted, streams = (
                    builder.icmp_signed(">=", level, index(least)) for least in (BEYOND_ONE, BEYOND_ALL))
                every = {buffer: (next(given), size) for buffer, size in fetched.items()}
                # To fetch what is then stored past the caches would read it for nothing.
                own = None if staged is None else staged.buffer.name
                read = {buffer: each for buffer, each in every.items() if buffer != own}
                stored = (staged, every[own][0]) if staged is not None and own in every else None
                ahead = Ahead(wanted, read, streams, stored)
                if on_tiles:
                    fetch_whole(builder, every, pointers, OUTPUT)
                    ahead = None
            alignments = {buffer: memref.alignment for buffer, memref in zip(names, memrefs, strict=True)}
            if not alone:
                alignments.update((name, math.gcd(first + offset, LOCAL_ALIGNMENT))
                                  for name, offset in realized.offsets.items())

            def emit_one(nest: Nest, known: Mapping[str, int], ahead: Ahead | None) -> None:
                given_to_nest = NestArguments(dict(pointers), dimensions, values, ahead, known, words, constant)
                own = None if self.engine.emulates_tiles else palette_of(nest)
                if own is not None and own != self.palette:
                    configure(builder, own)
                emit_nest(builder, nest, given_to_nest, self.layout, width, self.engine)
                if own is not None and own != self.palette:
                    release(builder)

            def nest(known: Mapping[str, int]) -> None:
                if beyond is None or ahead is None:
                    emit_one(realized.nest, known, ahead)
                    return
                with builder.if_else(ahead.streams) as (then, otherwise):
                    with then:
                        emit_one(beyond.realized.nest, known, replace(ahead, wanted=_TRUE, streams=_TRUE))
                    with otherwise:
                        emit_one(realized.nest, known, Ahead(ahead.wanted, every, _FALSE))

            if operation.output.name not in self.direct:
                nest(alignments)
                return
            address = builder.ptrtoint(pointers["C"], I64)
            is_aligned = builder.icmp_unsigned("==", builder.urem(address, index(_VECTOR)), index(0))
            with builder.if_else(is_aligned) as (then, otherwise):
                with then:
                    nest({**alignments, "C": _VECTOR})
                with otherwise:
                    nest(alignments)

        intrinsic = Intrinsic(contraction.nest.name, parameters, None, emit, operation.span)
        dimensions = tuple(contraction.dimensions.values())
        return KernelCall(intrinsic, dimensions, operands, contraction.nest.description, prefetches)


def _buffer_names(count: int) -> tuple[str, ...]:
    """Return the names of the buffers of a nest: the inputs, then the output."""
    return (*"AB"[: count - 1], "C")
