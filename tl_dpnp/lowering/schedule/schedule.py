"""Schedules: a loop nest and the primitives that were applied to it.

The names of the primitives are TensorIR's (Feng et al., ASPLOS 2023).  Loops are addressed by the name of their
variable and stages by the name of their buffer.  `Schedule.split` names its parts ``m.0`` and ``m.1``; loops and
stages that a primitive copies get a prime.  A primitive that is not legal raises `ScheduleError`, which names the
nest, the primitive, the loop and the rule, and leaves the schedule as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.nest import Loop, Nest, loops_of, stages_of, variables_of
from tl_dpnp.lowering.schedule import legality, loops, reductions, stages, tensorization
from tl_dpnp.lowering.schedule.draft import Draft
from tl_dpnp.lowering.schedule.loops import Binding, Split, Tail
from tl_dpnp.lowering.schedule.reductions import Decomposed
from tl_dpnp.lowering.schedule.stages import CacheScope
from tl_dpnp.lowering.schedule.step import Step

__all__ = ["Schedule"]

_Result = TypeVar("_Result")
#: The version of the format of `Schedule.to_json`.
_FORMAT = 1


class Schedule:
    """A loop nest and the primitives that were applied to it; printing gives the script of both.

    Schedules are values: two are equal if they applied equal primitives to equal nests.  `Kernel.schedules` gives
    those of a kernel; `fresh` starts again from the plain nest, and ``compile(..., schedule=...)`` takes the result.
    """

    def __init__(self, nest: Nest) -> None:
        self._plain = nest
        self._nest = nest
        self._steps: list[Step] = []
        #: Every name that a loop or a buffer has or had: names are never used twice.
        self._names = {*variables_of(nest.body), *nest.buffers}

    # --- values ------------------------------------------------------------------------------------------------------

    @property
    def nest(self) -> Nest:
        """The nest as it is now."""
        return self._nest

    @property
    def name(self) -> str:
        """The name of the instruction's kernel, such as gemm_0."""
        return self._plain.name

    @property
    def trace(self) -> tuple[Step, ...]:
        """The primitives that were applied, in order."""
        return tuple(self._steps)

    def __str__(self) -> str:
        return "\n".join([*(f"# {step}" for step in self._steps), str(self._nest)])

    def __repr__(self) -> str:
        return f"<Schedule of {self.name}: {len(self._steps)} primitives>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self._plain == other._plain and self._steps == other._steps

    __hash__ = None  # type: ignore[assignment]  # it changes

    def fresh(self) -> Schedule:
        """Return a schedule of the plain nest, with nothing applied."""
        return Schedule(self._plain)

    def copy(self) -> Schedule:
        """Return a schedule that can be changed without changing this one."""
        other = self.fresh()
        other._nest, other._steps, other._names = self._nest, [*self._steps], {*self._names}
        return other

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as JSON-serialisable data: what it schedules, and its steps."""
        return {
            "format": _FORMAT, "nest": self._plain.description, "steps": [step.to_json() for step in self._steps]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str, like: Schedule | Nest) -> Schedule:
        """Apply saved steps to the plain nest of `like`.

        `data` is what `to_json` returned, or its text.  Raises ScheduleError for data of another nest or another
        format, and for steps that are not legal.
        """
        plain = like._plain if isinstance(like, Schedule) else like
        try:
            given = json.loads(data) if isinstance(data, str) else data
        except json.JSONDecodeError as error:
            raise ScheduleError(f"{plain.name}: the schedule is not JSON: {error}") from None
        if not isinstance(given, Mapping) or given.get("format") != _FORMAT or not isinstance(given.get("steps"), list):
            raise ScheduleError(f"{plain.name}: this is no schedule of format {_FORMAT}")
        if given.get("nest") != plain.description:
            raise ScheduleError(
                f"{plain.name}: the schedule is for {given.get('nest')}, but the operation is {plain.description}"
            )
        schedule = cls(plain)
        for entry in given["steps"]:
            schedule.apply(Step.from_json(entry))
        return schedule

    def apply(self, step: Step) -> None:
        """Apply a primitive that is given as a value, such as one of another schedule's `trace`."""
        if step.primitive not in _PRIMITIVES:
            raise ScheduleError(f"{self.name}: there is no primitive {step.primitive}; there are "
                                f"{', '.join(_PRIMITIVES)}")
        try:
            getattr(self, step.primitive)(*step.positional, **dict(step.named))
        except TypeError as error:
            raise ScheduleError(f"{self.name}: {step}: {error}") from None

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of all loops, in the order of the script."""
        return tuple(loop.variable for loop in loops_of(self._nest.body))

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of all stages, in the order of the script."""
        return tuple(dict.fromkeys(stage.buffer for stage in stages_of(self._nest.body)))

    def loops_of(self, stage: str) -> tuple[str, ...]:
        """Return the names of the loops of a stage's copy, outermost first."""
        return tuple(loop.variable for loop in loops_of(Draft(self._nest, (), "").stage(stage).body))

    def range_of(self, loop: str) -> range | None:
        """Return the iterations of a loop, or None where they are known only at run time."""
        return Draft(self._nest, (), "").loop(loop).static_range

    def is_static(self, loop: str) -> bool:
        """Return whether the ranges of a loop and of those around it are known at compile time."""
        draft = Draft(self._nest, (), "")
        path = draft.path_to(draft.loop(loop).variable)
        return all(entry.static_range is not None for entry in path if isinstance(entry, Loop))

    # --- loops -------------------------------------------------------------------------------------------------------

    def split(self, loop: str, factor: int, tail: Tail = "remainder") -> Split:
        """Split a loop into an outer loop and an inner one of `factor` iterations (TensorIR: ``split``).

        Where `factor` does not divide the range, ``tail="remainder"`` runs the rest in a copy of the loop after
        the full part, which then needs no predicate; ``tail="guard"`` keeps one nest and guards the inner loop.
        Refused for a loop that is not serial any more, and with a remainder for a factor beyond the range.
        """
        step = Step("split", (loop, factor), (("tail", tail),))
        return self._apply(step, lambda d: loops.split(d, loop, factor, tail))

    def fuse(self, outer: str, inner: str) -> str:
        """Make one loop of two that are perfectly nested, and return its name (TensorIR: ``fuse``).

        The variables of both are computed from the new one.  Both must be serial, of known range, and both or neither
        a reduction.
        """
        return self._apply(Step("fuse", (outer, inner)), lambda d: loops.fuse(d, outer, inner))

    def reorder(self, *order: str) -> None:
        """Nest perfectly nested loops in the given order, outermost first (TensorIR: ``reorder``).

        Refused where a loop in between holds more than a loop, or where a guard or a computed variable would come
        before a loop that it needs.
        """
        self._apply(Step("reorder", order), lambda d: loops.reorder(d, *order))

    def unroll(self, loop: str) -> None:
        """Replace a loop of known range by copies of its body (TensorIR: ``unroll``)."""
        self._apply(Step("unroll", (loop,)), lambda d: loops.unroll(d, loop))

    def vectorize(self, loop: str) -> None:
        """Run the iterations of a loop of known range as lanes of vectors (TensorIR: ``vectorize``).

        Every assignment in the loop must use it in exactly one index of its target, or what a fused loop computes
        from it, and no guard may depend on it.  A reduction may be vectorized that adds elements of registers, as
        `rfactor` leaves them.  Two vectorized loops inside one another are a copy, squares of which are transposed in
        registers, or the inner one sets or adds up lanes of registers, of which each lane of the outer one has some.
        Where sums in registers stand in two such loops, of which the outer one holds nothing but the inner one, vectors
        have lanes of both: all of the inner one for each of the outer one.
        """
        self._apply(Step("vectorize", (loop,)), lambda d: loops.vectorize(d, loop))

    def bind(self, loop: str, kind: Binding) -> None:
        """Deal the iterations of a loop out to work-items (TensorIR: ``bind``).

        ``lanes``: the lanes of the sub-group, one iteration each; ``rows``, ``columns``: the sub-groups of the
        work-group along its first and second mode; ``subgroups``: all its sub-groups; ``virtual``: TensorIR's virtual
        threads, whose iterations one work-item runs interleaved, statement by statement.  In the vector form there is
        one work-item, which runs ``rows``, ``columns`` and ``subgroups`` one after the other.

        Refused for reductions, and for bindings inside one another that share the same position.
        """
        self._apply(Step("bind", (loop, kind)), lambda d: loops.bind(d, loop, kind))

    def prefetch(self, loop: str) -> None:
        """Fetch the operands of a later work-group into the cache, spread over the iterations of a serial loop.

        Where several loops prefetch, they share the operands: each iteration of each of them fetches as much.  What a
        single one runs through in the order of memory is fetched shortly before its turn in calls whose arrays exceed
        all caches, where it need not stay.  It changes nothing where the kernel does not know the next operands.  The
        loop and those around it must have known ranges, so that each iteration knows its share.
        """
        self._apply(Step("prefetch", (loop,)), lambda d: loops.prefetch(d, loop))

    def load_ahead(self, loop: str) -> None:
        """Read local memory for the next iteration of an unrolled loop before this one is computed.

        The registers that it takes are known as double buffers: those of one iteration are filled while those of the
        other are used.  The loops inside must be unrolled or vectorized, without guards and copies.
        """
        self._apply(Step("load_ahead", (loop,)), lambda d: loops.load_ahead(d, loop))

    def decompose_reduction(self, reduction: str, above: str) -> Decomposed:
        """Move a reduction outside the perfectly nested loops from `above` inwards (TensorIR: same name).

        What stands before and after the reduction is split off into copies of those loops: the initialisation
        before it and the final assignment after it.  The result names the loops of the copies.
        """
        return self._apply(
            Step("decompose_reduction", (reduction,), (("above", above),)),
            lambda d: reductions.decompose_reduction(d, reduction, above),
        )

    def rfactor(self, loop: str) -> Decomposed:
        """Sum each iteration of a reduction loop apart from the others, and add these sums (TensorIR: same name).

        The loop is no reduction any more, so that it can be vectorized.  The result names its copies: that which sets
        the sums to zero and that which adds them up.  Floating-point sums come out in another order.  Refused for
        loops of unknown range, after the reduction was decomposed, and for guarded loops that add more than products of
        what depends on them: lanes beyond the guard add 0.
        """
        return self._apply(Step("rfactor", (loop,)), lambda d: reductions.rfactor(d, loop))

    # --- stages ------------------------------------------------------------------------------------------------------

    def cache_read(self, buffer: str, scope: CacheScope, within: str | None = None) -> str:
        """Read a copy of a buffer instead of it, and return the copy's name, ``A_local`` (TensorIR: ``cache_read``).

        The copy is made in ``local`` memory, which the work-group shares, or in the ``registers`` of each work-item,
        before everything else; `compute_at` moves it to where less of it is needed.  With `within`, only what that
        loop reads is redirected, and the copy stands in front of the loop.  A copy may be copied again.
        """
        named = () if within is None else (("within", within),)
        return self._apply(
            Step("cache_read", (buffer, scope), named), lambda d: stages.cache_read(d, buffer, scope, within)
        )

    def cache_write(self, buffer: str, scope: CacheScope) -> str:
        """Write a copy of the output instead of it, and return the copy's name (TensorIR: ``cache_write``).

        The copy is written back after everything else; `reverse_compute_at` moves that to where the copy is complete.
        Atomic updates are made when it is written back.
        """
        return self._apply(Step("cache_write", (buffer, scope)), lambda d: stages.cache_write(d, buffer, scope))

    def compute_at(self, stage: str, loop: str) -> None:
        """Make the copy of a stage in each iteration of a loop, of what that iteration needs (TensorIR: same name).

        The region comes from bounds inference and is cut at the end of the operand.  Refused where the loop does not
        hold all that reads the copy, and after the loops of the copy were scheduled.
        """
        self._apply(Step("compute_at", (stage, loop)), lambda d: stages.compute_at(d, stage, loop))

    def reverse_compute_at(self, stage: str, loop: str) -> None:
        """Write a copy back in each iteration of a loop (TensorIR: same name).

        The loop must hold all that writes the copy, and one iteration must write its region without gaps.
        """
        self._apply(Step("reverse_compute_at", (stage, loop)), lambda d: stages.reverse_compute_at(d, stage, loop))

    def double_buffer(self, stage: str, buffers: int = 2) -> None:
        """Fill a stage for the next iteration of its loop while this one computes from the other half of its buffer.

        Known from tensor expressions as ``double_buffer``.  In the sub-group form it saves one of two barriers.  The
        loop stays in order: it cannot be split, fused, reordered or bound any more.  With more `buffers` than two, up
        to 8, they are a ring, of which all but one are filled ahead: asynchronous copies have longer to arrive.
        """
        named = () if buffers == 2 else (("buffers", buffers),)
        self._apply(Step("double_buffer", (stage,), named), lambda d: stages.double_buffer(d, stage, buffers))

    def copy_async(self, stage: str) -> None:
        """Copy an operand to local memory without its elements passing through registers, for CUDA devices.

        The copy (MLIR's nvgpu: ``device_async_copy``) goes on until the barrier in front of what reads it: with
        `double_buffer`, for all of an iteration or more.  4, 8 or 16 bytes are copied at a time, as vectors and
        run-time addresses allow; what is smaller goes through registers after all.  Give it after `double_buffer` or
        before.
        Refused for what is not copied from an operand to local memory.
        """
        self._apply(Step("copy_async", (stage,)), lambda d: stages.copy_async(d, stage))

    def storage_align(self, stage: str, mode: int, factor: int, offset: int = 0) -> None:
        """Make a mode's stride in a stage's buffer `offset` more than a multiple of `factor` (TensorIR: same name).

        Padding spreads what lanes access at the same time over the banks of local memory.  A factor of 1 takes the
        padding away.
        """
        self._apply(
            Step("storage_align", (stage, mode, factor, offset)),
            lambda d: stages.storage_align(d, stage, mode, factor, offset),
        )

    def transform_layout(self, stage: str, *order: int) -> None:
        """Lay the modes of a stage's buffer out from the fastest to the slowest (TensorIR: ``transform_layout``).

        ``transform_layout("A_local", 1, 0)`` stores A transposed, so that accesses along its second mode are
        consecutive.
        """
        self._apply(
            Step("transform_layout", (stage, *order)), lambda d: stages.transform_layout(d, stage, *order)
        )

    def block_layout(self, stage: str, mode: int, factor: int) -> None:
        """Store blocks of `factor` elements along a mode of a stage's buffer, for all of its other modes in turn.

        ``block_layout("B_registers", 0, 4)`` stores four rows of all columns, then the next four rows, as the layout
        NCHW4c of convolutions does.  A mode more, the last one, is for blocks.  Every access must say by its loops
        which block it means: `split` those of the copy and those that read it by `factor` before.  Padding of the mode
        is taken away.
        """
        self._apply(Step("block_layout", (stage, mode, factor)), lambda d: stages.block_layout(d, stage, mode, factor))

    # --- engines -----------------------------------------------------------------------------------------------------

    def tensorize(self, loop: str, instruction: str) -> None:
        """Compute a loop and what it holds by one instruction of an engine (TensorIR: ``tensorize``).

        The loop must match the meaning of the instruction: its extents, its element types and its accesses.  The
        instructions are listed in `tl_dpnp.kernels.instructions`.  A whole nest that is a product can be a micro-kernel
        of DPAS, by its name (`tl_dpnp.kernels.dpas.micro_kernel`).  Raises UnsupportedError, with the reason, for a
        form of DPAS that no function of the compiler leads to.

        A form of ``mma.sync`` for floating-point numbers (`tl_dpnp.kernels.mma.rows`) computes what the 32 lanes of a
        warp have of a tile: inside a loop over lanes that deals row g and columns 2 t and 2 t + 1 to lane 4 g + t,
        `loop` runs over the blocks of 8 rows if there are two, and holds the loops over the two columns and the sum.
        Operands of f32 are rounded to tf32 for forms of tf32.
        """
        self._apply(
            Step("tensorize", (loop, instruction)), lambda d: tensorization.tensorize(d, loop, instruction)
        )

    def _apply(self, step: Step, change: Callable[[Draft], _Result]) -> _Result:
        draft = Draft(self._nest, self._names, str(step))
        result = change(draft)
        legality.check(draft)
        self._nest, self._names = draft.nest, draft.names
        self._steps.append(step)
        return result


#: The primitives that a saved schedule may name.
_PRIMITIVES = (
    "split", "fuse", "reorder", "unroll", "vectorize", "bind", "prefetch", "load_ahead", "decompose_reduction",
    "rfactor", "cache_read", "cache_write", "compute_at", "reverse_compute_at", "double_buffer", "copy_async",
    "storage_align", "transform_layout", "block_layout", "tensorize",
)
