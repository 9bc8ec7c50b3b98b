"""The micro-kernels of a function: what the body of a kernel calls for each linear-algebra instruction."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from llvmlite import ir

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.amx.tiles import configure, release
from tl_dpnp.kernels.intrinsics import memory_pointer
from tl_dpnp.kernels.llvm import GLOBAL, I1, I64, LOCAL, PRIVATE, Intrinsic, constant, index, select
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.contraction import OUTPUT
from tl_dpnp.lowering.emission import Ahead, NestArguments, emit_nest
from tl_dpnp.lowering.emission.facts import has_near_elements
from tl_dpnp.lowering.emission.variables import Narrowest
from tl_dpnp.lowering.instructions import whole_instruction
from tl_dpnp.lowering.kernel_call import KernelCall
from tl_dpnp.lowering.mappings.mapping import LoopMapping
from tl_dpnp.lowering.memory import LOCAL_ALIGNMENT, size_in_bytes
from tl_dpnp.lowering.nest import Dimension, Nest, Synchronize, loops_of
from tl_dpnp.lowering.nest_products import packed_memory, palette_of, whole_product
from tl_dpnp.lowering.plan import EXCEEDS_ALL, EXCEEDS_ONE
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedules import Scheduled
from tl_dpnp.lowering.streaming import StreamedResult, streamed_result
from tl_dpnp.lowering.tile_cycles import vector_width
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, U32

__all__ = ["MicroKernels"]

#: A result whose operands and itself are larger than so many times the result is not worth storing past the caches.
_MOST_OPERANDS = 16
#: Operands of products on tiles are fetched for a later work-group if so many of them fit into the caches of a core.
_LEAST_IN_CACHES = 8
#: Bytes of a lane's widest access on GPUs.
_VECTOR = 16
_FALSE, _TRUE = ir.Constant(I1, 0), ir.Constant(I1, 1)
#: The distance to the next operand, and its size, in bytes.
Fetched = tuple[ir.Value, int]


@dataclass
class MicroKernels:
    """Makes the micro-kernels of one function.

    `palette` are the shapes of tiles that are configured around all calls, `read_only` the memrefs in memory that the
    function does not write to.  `out_of_cache` are the schedules of the micro-kernels made so far for operands from
    memory, where they have others for these.
    """

    analysis: Analysis
    mapping: LoopMapping
    kernels: Sequence[Scheduled]
    local_memory: int
    palette: Palette | None = None
    read_only: Container[str] = ()
    out_of_cache: list[Schedule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device, self.engine, self.layout = self.analysis.device, self.analysis.engine, self.mapping.layout
        self.by_operation = {id(kernel.operation): kernel for kernel in self.kernels}
        self.products = {id(kernel.operation): product
                         for kernel, product in zip(self.kernels, self.mapping.products, strict=False)}

    def have_room(self, kernel: Scheduled, fetched: Mapping[str, int]) -> bool:
        """Whether the nearest cache has room for a product on tiles and for what a later work-group reads.

        `fetched` are the bytes of the operands.  What is packed of them counts, too.
        """
        product, tiles = whole_product(kernel.realized.nest), whole_instruction(kernel.realized.nest, TileKernel)
        if product is None or tiles is None:
            return False
        read = sum(size for name, size in fetched.items() if name != OUTPUT)
        taken = sum(fetched.values()) + read + packed_memory(product, tiles)
        return taken <= (self.device.caches[0] if self.device.caches else 0)

    def __call__(self, operation: ops.LinearAlgebra, memrefs: Sequence[MemrefDescriptor]) -> KernelCall:
        kernel = self.by_operation[id(operation)]
        contraction, on_tiles = kernel.contraction, whole_instruction(kernel.realized.nest, TileKernel) is not None
        fetched = {
            buffer: size_in_bytes(memref.type)
            for buffer, memref in zip(_buffer_names(operation), memrefs, strict=True)
            if memref.can_be_fetched and self.device.is_cpu
        }
        if on_tiles and _LEAST_IN_CACHES * sum(fetched.values()) > self.device.core_cache:
            fetched = {}
        prefetches = bool(fetched) and (
            on_tiles or any(loop.prefetch for loop in loops_of(kernel.realized.nest.body)))
        out_of_cache = kernel.out_of_cache if prefetches and {"A", "C"} <= fetched.keys() else None
        if out_of_cache is not None:
            self.out_of_cache.append(out_of_cache.schedule)
        alone = self.layout.lanes * self.layout.subgroups == 1
        streamed = None
        if alone and self.device.core.stores_lines:
            streamed = streamed_result((out_of_cache or kernel).realized.nest)
        if sum(fetched.values()) > _MOST_OPERANDS * fetched.get("C", 0):
            streamed = None
        parameters = (
            *(INDEX for _ in memrefs),
            *(INDEX for _ in contraction.dimensions),
            *(scalar.type for scalar in contraction.scalars),
            *(INDEX for _ in (["wanted", *fetched] if prefetches else [])),
        )
        micro_kernel = _MicroKernel(self, kernel, out_of_cache, memrefs, fetched if prefetches else {}, streamed)
        waits = not alone and (kernel.realized.scratch > 0 or Synchronize() in kernel.realized.nest.body)
        intrinsic = Intrinsic(contraction.nest.name, parameters, None, micro_kernel.emit, operation.span, waits)
        scalars = {"alpha": operation.alpha, "beta": operation.beta}
        operands = tuple(scalars[scalar.name] for scalar in contraction.scalars)
        dimensions = tuple(contraction.dimensions.values())
        return KernelCall(intrinsic, dimensions, operands, contraction.nest.description, prefetches)


@dataclass(frozen=True)
class _MicroKernel:
    """The code of one instruction.

    `out_of_cache` is what computes it instead where operands are in memory, `fetched` are the bytes of the operands of
    a later work-group that are prefetched meanwhile, and `streamed` is the result that may be stored past the caches.
    """

    maker: MicroKernels
    kernel: Scheduled
    out_of_cache: Scheduled | None
    memrefs: Sequence[MemrefDescriptor]
    fetched: Mapping[str, int]
    streamed: StreamedResult | None

    @property
    def _first(self) -> int:
        """Where the copies of the nest start in local memory."""
        return self.maker.local_memory - self.kernel.realized.scratch

    @property
    def _is_alone(self) -> bool:
        """Whether one work-item computes it."""
        return self.maker.layout.lanes * self.maker.layout.subgroups == 1

    def emit(self, builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
        """Emit it for the arguments: operands, sizes, scalars, and where to prefetch."""
        operation, contraction, realized = self.kernel.operation, self.kernel.contraction, self.kernel.realized
        names, local_memory, given = _buffer_names(operation), self.maker.local_memory, iter(arguments)
        pointers = {
            buffer: memory_pointer(builder, ops.memref_type(value).element, memref.space, next(given), local_memory)
            for buffer, value, memref in zip(names, (*operation.inputs, operation.output), self.memrefs, strict=True)
        }
        dimensions = {dimension: next(given) for dimension in contraction.dimensions}
        values = {scalar.name: next(given) for scalar in contraction.scalars}
        if "alpha" in values:
            values["alpha"] = self._without_empty_sum(builder, values["alpha"], dimensions)
        product = self.maker.products.get(id(operation))
        if product is not None:
            from tl_dpnp.lowering.tactics.team_products import emit_team_product  # which CUDA devices need

            emit_team_product(builder, product, operation, self.memrefs, pointers, values)
            return
        for name, offset in realized.offsets.items():
            element, place = realized.nest.buffers[name].element, index(self._first + offset)
            space = PRIVATE if self._is_alone else LOCAL
            pointers[name] = memory_pointer(builder, element, space, place, local_memory)
        words = None
        if realized.scratch and not realized.offsets:
            words = memory_pointer(builder, U32, LOCAL, index(self._first), local_memory)
        ahead: Ahead | None = None
        every: dict[str, Fetched] = {}
        if self.fetched:
            ahead, every = self._ahead(builder, given)
            if whole_instruction(realized.nest, TileKernel) is not None:
                ahead = ahead._replace(buffers=every, have_room=self.maker.have_room(self.kernel, self.fetched))
        constant = frozenset(
            name for name, memref, value in zip(names, self.memrefs, operation.inputs, strict=False)
            if value.name in self.maker.read_only and memref.ahead is None and memref.space == GLOBAL
        )
        alignments = {buffer: memref.alignment for buffer, memref in zip(names, self.memrefs, strict=True)}
        if not self._is_alone:
            alignments.update((name, math.gcd(self._first + offset, LOCAL_ALIGNMENT))
                              for name, offset in realized.offsets.items())
        multiples = {name: self.memrefs[position].multiples[mode]
                     for name, (position, what, mode) in contraction.dimensions.items()
                     if what == "stride" and self.memrefs[position].multiples}
        to_nest = NestArguments(pointers, dimensions, values, ahead, alignments, words, constant, multiples)
        if operation.output.name not in self.maker.mapping.direct:
            self._emit_nests(builder, to_nest, every)
            return
        address = builder.ptrtoint(pointers["C"], I64)
        is_aligned = builder.icmp_unsigned("==", builder.urem(address, index(_VECTOR)), index(0))
        with builder.if_else(is_aligned) as (then, otherwise):
            with then:
                self._emit_nests(builder, replace(to_nest, alignments={**alignments, "C": _VECTOR}), every)
            with otherwise:
                self._emit_nests(builder, to_nest, every)

    def _without_empty_sum(
        self, builder: ir.IRBuilder, alpha: ir.Value, dimensions: Mapping[str, ir.Value]
    ) -> ir.Value:
        """Return alpha, or 0 where a sum is empty: it adds nothing, and infinity and NaN times 0 are NaN."""
        depth = self.kernel.contraction.depth
        if not isinstance(depth, Dimension) or ops.scalar_type(self.kernel.operation.alpha).is_integer:
            return alpha
        is_empty = builder.icmp_signed("==", dimensions[depth.name], index(0))
        return select(builder, is_empty, constant(alpha.type, 0), alpha)

    def _ahead(self, builder: ir.IRBuilder, given: Iterator[ir.Value]) -> tuple[Ahead, dict[str, Fetched]]:
        """Return what is prefetched and stored past the caches, and all that may be prefetched."""
        level = next(given)
        wanted, streams = (
            builder.icmp_signed(">=", level, index(least)) for least in (EXCEEDS_ONE, EXCEEDS_ALL))
        every = {buffer: (next(given), size) for buffer, size in self.fetched.items()}
        # To fetch what is then stored past the caches would read it for nothing.
        own = None if self.streamed is None else self.streamed.buffer.name
        read = {buffer: each for buffer, each in every.items() if buffer != own}
        stored = (self.streamed, every[own][0]) if self.streamed is not None and own in every else None
        return Ahead(wanted, read, streams, stored, once=self.maker.device.core.keeps_what_is_used_once), every

    def _emit_nests(
        self, builder: ir.IRBuilder, arguments: NestArguments, every: Mapping[str, Fetched]
    ) -> None:
        """Emit the nest, and that for operands from memory beside it where there is one."""
        nest, ahead = self.kernel.realized.nest, arguments.ahead
        if self.out_of_cache is None or ahead is None:
            self._emit_nest(builder, nest, arguments)
            return
        with builder.if_else(ahead.streams) as (then, otherwise):
            with then:
                always = ahead._replace(wanted=_TRUE, streams=_TRUE)
                self._emit_nest(builder, self.out_of_cache.realized.nest, replace(arguments, ahead=always))
            with otherwise:
                self._emit_nest(builder, nest, replace(arguments, ahead=Ahead(ahead.wanted, every, _FALSE)))

    def _emit_nest(self, builder: ir.IRBuilder, nest: Nest, arguments: NestArguments) -> None:
        maker = self.maker
        own = None if maker.engine.emulates_tiles else palette_of(nest)
        if own is not None and own != maker.palette:
            configure(builder, own)
        width = vector_width(self.kernel.contraction, maker.device.core)
        core, alone, element = maker.device.core, self._is_alone, self.kernel.contraction.element
        emit_nest(builder, nest, arguments, maker.layout, width, maker.engine, masks=core.masks and alone,
                  joins_parts=core.joins_parts and alone, near=partial(has_near_elements, width=width, core=core),
                  narrowest=Narrowest(min(width, max(1, core.narrowest_bytes // element.bytes)),
                                      has_scalars=not element.is_complex))
        if own is not None and own != maker.palette:
            release(builder)


def _buffer_names(operation: ops.LinearAlgebra) -> tuple[str, ...]:
    """Return the names of the buffers of a nest: the inputs, then the output."""
    return (*"AB"[: len(operation.inputs)], "C")
