"""A ring of stages in shared memory that NVIDIA's copy engine fills and empties, for the staged form of a kernel.

Copies of whole multiples of 16 bytes at multiples of 16 go through the engine (bulk copies, Hopper and later); others
are made by the threads.  What follows one another in global memory lies in a stage as far behind a multiple of 128
bytes as there (`_Run`), so that the engine copies whole lines, and all but what shares 16 bytes with other operands.
A stage is full when its barrier completes its phase; the threads that gave a stage to the engine for copying it back
wait until it has been read before they, or after a barrier others, write to it again.
Source: PTX ISA 9.0, sections 9.7.9.25.4 (cp.async.bulk) and 9.7.13.15 (mbarrier), and 8.6 (Proxies).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from llvmlite import ir

from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, LOCAL, Intrinsic, counted_loop, if_then, index, int32
from tl_dpnp.kernels.ring_slots import (
    ALIGNMENT,
    Kept,
    Slot,
    greatest,
    is_taken,
    least,
    offset_of,
    shift_of,
    size_of,
    start_of,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm, special_register
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX

__all__ = ["Kept", "Ring", "Slot"]

_VOID = ir.VoidType()
_WARP = 32
#: Bytes before and behind the whole 16 bytes of a run, at most.
_BETWEEN = 30
#: Gives for the number of a word, in 32 bits, which one it is in global and in local memory.
_Places = Callable[[ir.Value], tuple[ir.Value, ir.Value]]


@dataclass(frozen=True)
class _Run:
    """Operands that follow one another in global memory, `size` bytes from `start`, and at `place` in local memory.

    Where it `fits`, the engine copies `inner` bytes, from `skipped` bytes behind the start on, which may be negative.
    The address has 64 bits, the others 32: there is less local memory than that.
    """

    slot: Slot
    start: ir.Value
    place: ir.Value
    size: ir.Value
    fits: ir.Value
    skipped: ir.Value
    inner: ir.Value


@dataclass(frozen=True)
class Ring:
    """The ring of a block of `teams` of `lanes` x `columns` threads, or of fewer if it `is_open`: the launch says that.

    It has `stages` of `stage` bytes from `first` on, and `results` of `result` bytes from `first_result` on for what is
    not read; `barriers` is the place of its barriers.  All places are in bytes of local memory.  A ring that `waits`
    fills a stage again only when the results of the turn before have left it; one of a single stage has one turn.
    """

    stages: int
    stage: int
    barriers: int
    first: int
    results: int
    result: int
    first_result: int
    teams: int
    lanes: int
    columns: int
    local_memory: int
    waits: bool = False
    is_open: bool = False

    # --- intrinsics --------------------------------------------------------------------------------------------------

    def setup(self, loaded: Sequence[Slot]) -> Intrinsic:
        """``ring_setup()``: prepare the barriers; all threads call it once."""
        arrivals = any(slot.is_merged for slot in loaded) + self.teams * any(not slot.is_merged for slot in loaded)
        assert not self.is_open or all(slot.is_merged for slot in loaded)

        def emit(b: ir.IRBuilder, _: object) -> None:
            def initialize() -> None:
                for stage in range(self.stages):
                    barrier = b.add(self._base(b), ir.Constant(I32, self.barriers + 8 * stage))
                    asm(b, f"mbarrier.init.shared::cta.b64 [$0], {max(1, arrivals)};", "r,~{memory}", _VOID, [barrier])
                asm(b, "fence.mbarrier_init.release.cluster;", "~{memory}", _VOID, [])
                asm(b, "fence.proxy.async.shared::cta;", "~{memory}", _VOID, [])

            if_then(b, b.icmp_unsigned("==", self._thread(b), index(0)), initialize)
            target_of(b).barrier(b)

        return Intrinsic("ring_setup", (), None, emit)

    def keep(self, operands: Sequence[Kept]) -> Intrinsic:
        """``ring_keep(addresses...)``: copy operands to their places for good."""
        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
            threads = self._threads(b)
            for kept, address in zip(operands, a, strict=True):
                def places(number: ir.Value, kept: Kept = kept) -> tuple[ir.Value, ir.Value]:
                    column = b.udiv(number, int32(kept.bytes // kept.word // kept.columns))
                    return number, b.add(number, b.mul(column, int32(kept.gap)))

                self._copy(b, kept.word, int32(kept.place), address, int32(kept.bytes // kept.word), self._thread(b),
                           threads, True, places if kept.gap else None)

        return Intrinsic("ring_keep", (INDEX,) * len(operands), None, emit)

    def first_group(self) -> Intrinsic:
        """``ring_first()``: the first work-group of this block's first turn."""
        return Intrinsic(
            "ring_first", (), INDEX, lambda b, _: b.mul(target_of(b).group_index(b, 0), self._team_count(b))
        )

    def step(self) -> Intrinsic:
        """``ring_step()``: how many work-groups all blocks run in a turn."""
        return Intrinsic(
            "ring_step", (), INDEX, lambda b, _: b.mul(special_register(b, "nctaid.x"), self._team_count(b))
        )

    def team(self) -> Intrinsic:
        """``ring_team()``: the number of this thread's team."""
        return Intrinsic("ring_team", (), INDEX, lambda b, _: special_register(b, "tid.z"))

    def place(self) -> Intrinsic:
        """``ring_stage(turn)``: where the stage of a turn is in local memory, in bytes."""
        return Intrinsic("ring_stage", (INDEX,), INDEX, lambda b, a: self._place(b, a[0], False))

    def result_place(self) -> Intrinsic:
        """``ring_result(turn)``: where the results of a turn that are not read are in local memory, in bytes."""
        return Intrinsic("ring_result", (INDEX,), INDEX, lambda b, a: self._place(b, a[0], True))

    def _place(self, b: ir.IRBuilder, turn: ir.Value, is_result: bool) -> ir.Value:
        count, size, first = (
            (self.results, self.result, self.first_result) if is_result else (self.stages, self.stage, self.first)
        )
        return b.add(index(first), b.mul(self._in_turns(b, turn, count), index(size)))

    def _in_turns(self, b: ir.IRBuilder, turn: ir.Value, count: int) -> ir.Value:
        """Return which of `count` places a turn has.

        Turns fit in 32 bits, since each has a work-group of its own in memory; 64 bits are slow to divide.
        """
        return b.zext(b.urem(b.trunc(turn, I32), int32(count)), I64)

    def shift(self, slot: Slot) -> Intrinsic:
        """``ring_shift(address, first)``: how far behind its place the operand of a batch lies in a turn, in bytes."""
        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value:
            return shift_of(b, slot, start_of(b, slot, *a))

        return Intrinsic("ring_shift", (INDEX, INDEX), INDEX, emit)

    def team_barrier(self) -> Intrinsic:
        """``team_barrier()``: a barrier for teams that lie in one warp each."""
        def emit(b: ir.IRBuilder, _: object) -> None:
            asm(b, "bar.warp.sync 0xffffffff;", "~{memory}", _VOID, [])

        return Intrinsic("team_barrier", (), None, emit)

    def fetch(self, slots: Sequence[Slot]) -> Intrinsic:
        """``ring_fetch(turn, first, groups, sources...)``: start to fill the stage of a turn, if there is work for it.

        A source is the address of a batch, or that of a table and an offset in bytes.
        """
        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
            turn, first, groups, *sources = a
            if self.waits:
                asm(b, "cp.async.bulk.wait_group.read 0;", "~{memory}", _VOID, [])
                target_of(b).barrier(b)
            if_then(b, b.icmp_signed("<", first, groups), lambda: self._fetch(b, turn, first, groups, slots, sources))

        return Intrinsic("ring_fetch", (INDEX,) * (3 + _words(slots)), None, emit)

    def wait(self) -> Intrinsic:
        """``ring_wait(turn)``: wait until the stage of a turn is full."""
        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
            parity = b.and_(b.udiv(b.trunc(a[0], I32), int32(self.stages)), int32(1))
            text = "{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n@!p bra W; }"
            asm(b, text, "r,r,~{memory}", _VOID, [self._barrier(b, a[0]), parity])

        return Intrinsic("ring_wait", (INDEX,), None, emit)

    def flush(self, slots: Sequence[Slot]) -> Intrinsic:
        """``ring_flush(turn, first, groups, targets...)``: wait for all threads, and start to copy results back."""
        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
            turn, first, groups, *targets = a
            asm(b, "cp.async.bulk.wait_group.read 0;", "~{memory}", _VOID, [])
            asm(b, "fence.proxy.async.shared::cta;", "~{memory}", _VOID, [])
            target_of(b).barrier(b)
            self._flush(b, turn, first, groups, slots, targets)
            asm(b, "cp.async.bulk.commit_group;", "~{memory}", _VOID, [])

        return Intrinsic("ring_flush", (INDEX,) * (3 + _words(slots)), None, emit)

    def drain(self) -> Intrinsic:
        """``ring_drain()``: wait until the last results have left local memory."""
        def emit(b: ir.IRBuilder, _: object) -> None:
            asm(b, "cp.async.bulk.wait_group.read 0;", "~{memory}", _VOID, [])

        return Intrinsic("ring_drain", (), None, emit)

    # --- copies ------------------------------------------------------------------------------------------------------

    def _fetch(
        self, b: ir.IRBuilder, turn: ir.Value, first: ir.Value, groups: ir.Value, slots: Sequence[Slot],
        sources: Sequence[ir.Value],
    ) -> None:
        barrier, teams = self._barrier(b, turn), self._team_count(b)
        valid = self._valid(b, first, groups)
        given = iter(sources)
        merged = [(slot, next(given)) for slot in slots if slot.is_merged]

        def copy(runs: Sequence[_Run], have_edges: bool) -> None:
            def copy_inner() -> None:
                _expect(b, barrier, _sum(b, [self._is_copied(b, run) for run in runs], [run.inner for run in runs]))
                for run in runs:
                    if_then(b, self._is_copied(b, run), partial(_copy_in, b, *self._inner(b, run), barrier))

            if_then(b, b.icmp_unsigned("==", self._thread(b), int32(0)), copy_inner)
            for run in runs if have_edges else ():
                self._edges(b, run, True)

        def copy_merged() -> None:
            def copy_any() -> None:
                copy([self._run(b, turn, slot, base, first, valid, groups) for slot, base in merged], True)

            if isinstance(turn, ir.Constant) or self.is_open or not all(slot.is_plain for slot, _ in merged):
                copy_any()  # the first turn of a block comes once
                return
            around = max(-(-ALIGNMENT // slot.bytes) for slot, _ in merged)
            ahead, rest = index(around), b.sub(groups, first)
            is_amid = b.and_(b.icmp_signed(">=", first, ahead), b.icmp_signed(">=", rest, b.add(teams, ahead)))
            with b.if_else(is_amid) as (amid, at_an_end):
                with amid:
                    copy([self._run_amid(b, turn, slot, base, first) for slot, base in merged], False)
                with at_an_end:
                    copy_any()

        if merged:
            if_then(b, b.icmp_unsigned("<", self._thread(b), int32(_WARP)), copy_merged)
        for slot, base in merged:
            self._unfit(b, turn, slot, base, first, valid, True)
        single = [slot for slot in slots if not slot.is_merged]
        if not single:
            return
        team, member = special_register(b, "tid.z"), self._member(b)
        present = b.icmp_signed("<", b.trunc(team, I32), valid)
        addresses = self._addresses(b, single, given, b.add(first, team), present)
        fits = [b.and_(present, is_taken(b, address, slot))
                for slot, address in zip(single, addresses, strict=True)]

        def copy_own() -> None:
            _expect(b, barrier, _sum(b, fits, [int32(slot.bytes) for slot in single]))
            for slot, address, fit in zip(single, addresses, fits, strict=True):
                place = b.add(self._slot(b, turn, slot), b.trunc(b.mul(team, index(slot.pitch)), I32))
                size = int32(slot.bytes)
                if_then(b, fit, partial(_copy_in, b, place, address, size, barrier))

        if_then(b, b.icmp_unsigned("==", member, int32(0)), copy_own)
        for slot, address, fit in zip(single, addresses, fits, strict=True):
            alone = b.and_(present, b.not_(fit))
            if_then(b, alone, partial(self._by_team, b, turn, slot, address, True))

    def _flush(
        self, b: ir.IRBuilder, turn: ir.Value, first: ir.Value, groups: ir.Value, slots: Sequence[Slot],
        targets: Sequence[ir.Value],
    ) -> None:
        valid = self._valid(b, first, groups)
        given = iter(targets)
        merged = [(slot, next(given)) for slot in slots if slot.is_merged]

        def copy_merged() -> None:
            for slot, base in merged:
                run = self._run(b, turn, slot, base, first, valid)
                place, address, size = self._inner(b, run)
                mine = b.and_(self._is_copied(b, run), b.icmp_unsigned("==", self._thread(b), int32(0)))
                if_then(b, mine, partial(_copy_out, b, address, place, size))
                self._edges(b, run, False)

        if merged:
            if_then(b, b.icmp_unsigned("<", self._thread(b), int32(_WARP)), copy_merged)
        for slot, base in merged:
            self._unfit(b, turn, slot, base, first, valid, False)
        single = [slot for slot in slots if not slot.is_merged]
        if not single:
            return
        team, member = special_register(b, "tid.z"), self._member(b)
        present = b.icmp_signed("<", b.trunc(team, I32), valid)
        for slot, address in zip(single, self._addresses(b, single, given, b.add(first, team), present), strict=True):
            fit = is_taken(b, address, slot)
            place = b.add(self._slot(b, turn, slot), b.trunc(b.mul(team, index(slot.pitch)), I32))
            mine = b.and_(b.and_(present, fit), b.icmp_unsigned("==", member, int32(0)))
            size = int32(slot.bytes)
            if_then(b, mine, partial(_copy_out, b, address, place, size))
            alone = b.and_(present, b.not_(fit))
            if_then(b, alone, partial(self._by_team, b, turn, slot, address, False))

    def _addresses(
        self, b: ir.IRBuilder, slots: Sequence[Slot], given: Iterator[ir.Value], group: ir.Value, present: ir.Value
    ) -> list[ir.Value]:
        """Return the address of each operand of a team's work-group; of the first one where there is no such group."""
        result = []
        number = b.select(present, group, index(0))
        for slot in slots:
            base = next(given)
            if slot.in_table:
                table = b.inttoptr(base, I64.as_pointer(GLOBAL))
                base = b.add(b.load(b.gep(table, [number]), align=8), next(given))
            else:
                base = b.add(base, b.mul(number, index(slot.bytes)))
            result.append(base)
        return result

    def _run(
        self, b: ir.IRBuilder, turn: ir.Value, slot: Slot, base: ir.Value, first: ir.Value, valid: ir.Value,
        groups: ir.Value | None = None,
    ) -> _Run:
        """Return what a turn copies of an operand; from what has `groups` work-groups more may be read than it is."""
        offset, size = offset_of(b, slot, first), size_of(b, slot, first, valid)
        start = b.add(base, offset)
        place, fits = self._run_place(b, turn, slot, start), is_taken(b, start, slot)
        if not slot.has_edges:
            return _Run(slot, start, place, size, fits, int32(0), size)
        # Whole 16 bytes lie around the run, or within it; those around it are read if they are the array's own.
        low, most = b.trunc(start, I32), int32(ALIGNMENT - 1)
        before, behind = b.and_(low, most), b.and_(b.neg(b.add(low, size)), most)
        skipped, last = b.and_(b.neg(low), most), b.sub(size, b.and_(b.add(low, size), most))
        if groups is not None:
            limit = offset_of(b, replace(slot, skip=0), groups)
            is_inside = b.icmp_unsigned(">=", offset, b.zext(before, I64))
            skipped = b.select(is_inside, b.neg(before), skipped)
            end = b.add(offset, b.zext(b.add(size, behind), I64))
            last = b.select(b.icmp_unsigned("<=", end, limit), b.add(size, behind), last)
        return _Run(slot, start, place, size, fits, skipped, b.sub(last, skipped))

    def _run_amid(self, b: ir.IRBuilder, turn: ir.Value, slot: Slot, base: ir.Value, first: ir.Value) -> _Run:
        """Return what a turn copies where all teams have a work-group, and 16 bytes before and behind are the array's.

        Nearly all turns are such ones, whose run has no edges.
        """
        start = start_of(b, slot, base, first)
        place, fits, size = self._run_place(b, turn, slot, start), is_taken(b, start, slot), self.teams * slot.bytes
        if not slot.has_edges:
            return _Run(slot, start, place, int32(size), fits, int32(0), int32(size))
        before = b.and_(b.trunc(start, I32), int32(ALIGNMENT - 1))
        inner = b.and_(b.add(before, int32(size + ALIGNMENT - 1)), int32(-ALIGNMENT))
        return _Run(slot, start, place, int32(size), fits, b.neg(before), inner)

    def _inner(self, b: ir.IRBuilder, run: _Run) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return the place in shared memory, the address and the size of what the engine copies of a run."""
        place = b.add(self._base(b), b.add(run.place, run.skipped))
        return place, b.add(run.start, b.sext(run.skipped, I64)), run.inner

    def _is_copied(self, b: ir.IRBuilder, run: _Run) -> ir.Value:
        """Return whether the engine copies any of a run."""
        return b.and_(run.fits, b.icmp_signed(">", run.inner, int32(0)))

    def _edges(self, b: ir.IRBuilder, run: _Run, inwards: bool) -> None:
        """Copy by the first warp what is before and behind the engine's part of a run."""
        if not run.slot.has_edges:
            return
        word, none = run.slot.word, int32(0)
        last = b.add(run.skipped, run.inner)

        def edges() -> None:
            before = greatest(b, least(b, run.skipped, run.size), none)
            behind = greatest(b, least(b, last, run.size), before)
            count = b.udiv(before, int32(word))
            both = b.add(count, b.udiv(b.sub(run.size, behind), int32(word)))
            gap = b.udiv(b.sub(behind, before), int32(word))

            def places(number: ir.Value) -> tuple[ir.Value, ir.Value]:
                place = b.add(number, b.select(b.icmp_signed("<", number, count), none, gap))
                return place, place

            threads = self._threads(b)
            threads = least(b, int32(_WARP), threads) if self.is_open else int32(min(_WARP, threads.constant))
            self._copy(b, word, run.place, run.start, both, self._thread(b), threads, inwards, places,
                       at_once=not self.is_open and threads.constant * word >= _BETWEEN)

        whole = b.and_(b.icmp_signed("<=", run.skipped, none), b.icmp_signed(">=", last, run.size))
        if_then(b, b.and_(run.fits, b.not_(whole)), edges)

    def _unfit(
        self, b: ir.IRBuilder, turn: ir.Value, slot: Slot, base: ir.Value, first: ir.Value, valid: ir.Value,
        inwards: bool,
    ) -> None:
        """Copy by all threads what the engine does not take; elements are at multiples of their size."""
        if slot.unit <= slot.word:
            return
        start = start_of(b, slot, base, first)

        def copy() -> None:
            words = b.udiv(size_of(b, slot, first, valid), int32(slot.word))
            self._copy(b, slot.word, self._run_place(b, turn, slot, start), start, words,
                       self._thread(b), self._threads(b), inwards)

        if_then(b, b.not_(is_taken(b, start, slot)), copy)

    def _run_place(self, b: ir.IRBuilder, turn: ir.Value, slot: Slot, start: ir.Value) -> ir.Value:
        place = b.trunc(b.add(self._place(b, turn, slot.is_result), index(slot.offset)), I32)
        return b.add(place, b.trunc(shift_of(b, slot, start), I32)) if slot.shifts else place

    def _by_team(self, b: ir.IRBuilder, turn: ir.Value, slot: Slot, address: ir.Value, inwards: bool) -> None:
        place = b.add(b.add(self._place(b, turn, slot.is_result), index(slot.offset)),
                      b.mul(special_register(b, "tid.z"), index(slot.pitch)))
        self._copy(b, slot.word, b.trunc(place, I32), address, int32(slot.bytes // slot.word), self._member(b),
                   int32(self.lanes * self.columns), inwards)

    def _copy(
        self, b: ir.IRBuilder, word: int, place: ir.Value, address: ir.Value, count: ir.Value, thread: ir.Value,
        threads: ir.Value, inwards: bool, places: _Places | None = None, at_once: bool = False,
    ) -> None:
        """Copy so many words between a place in local memory and an address in global memory, dealt out to threads.

        For the number of a word, `places` gives which one that is in global and in local memory.  With `at_once` there
        are no more of them than threads.
        """
        type_ = ir.IntType(8 * word)
        outside = b.inttoptr(address, type_.as_pointer(GLOBAL))
        inside = b.gep(target_of(b).local_memory(b, self.local_memory), [b.zext(place, I64)])
        inside = b.bitcast(inside, type_.as_pointer(LOCAL))

        def copy(number: ir.Value) -> None:
            distant, local = (number, number) if places is None else places(number)
            distant, local = b.gep(outside, [b.zext(distant, I64)]), b.gep(inside, [b.zext(local, I64)])
            source, target = (distant, local) if inwards else (local, distant)
            b.store(b.load(source, align=word), target, align=word)

        def body(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            copy(number)
            return []

        if at_once:
            if_then(b, b.icmp_signed("<", thread, count), partial(copy, thread))
        else:
            counted_loop(b, thread, count, threads, [], body, unrolled=places is None)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _base(self, b: ir.IRBuilder) -> ir.Value:
        """Return the address of local memory in shared memory's own space."""
        return b.ptrtoint(target_of(b).local_memory(b, self.local_memory), I32)

    def _barrier(self, b: ir.IRBuilder, turn: ir.Value) -> ir.Value:
        number = b.trunc(self._in_turns(b, turn, self.stages), I32)
        return b.add(self._base(b), b.add(int32(self.barriers), b.mul(number, int32(8))))

    def _slot(self, b: ir.IRBuilder, turn: ir.Value, slot: Slot) -> ir.Value:
        """Return where the operands of a slot start in a turn, as an address of shared memory."""
        return b.add(self._base(b), b.trunc(b.add(self._place(b, turn, slot.is_result), index(slot.offset)), I32))

    def _valid(self, b: ir.IRBuilder, first: ir.Value, groups: ir.Value) -> ir.Value:
        """Return how many teams have a work-group in a turn."""
        rest = b.sub(groups, first)
        teams = self._team_count(b)
        return b.trunc(least(b, rest, teams), I32)

    def _team_count(self, b: ir.IRBuilder) -> ir.Value:
        """Return how many teams this block has."""
        return special_register(b, "ntid.z") if self.is_open else index(self.teams)

    def _threads(self, b: ir.IRBuilder) -> ir.Value:
        """Return how many threads this block has, in 32 bits."""
        team = self.lanes * self.columns
        return b.mul(int32(team), b.trunc(self._team_count(b), I32)) if self.is_open else int32(team * self.teams)

    def _member(self, b: ir.IRBuilder) -> ir.Value:
        """Return the number of this thread in its team, in 32 bits."""
        row, column = (b.trunc(special_register(b, name), I32) for name in ("tid.x", "tid.y"))
        return b.add(row, b.mul(column, int32(self.lanes)))

    def _thread(self, b: ir.IRBuilder) -> ir.Value:
        """Return the number of this thread in its block, in 32 bits."""
        team = b.trunc(special_register(b, "tid.z"), I32)
        return b.add(self._member(b), b.mul(team, int32(self.lanes * self.columns)))


def _words(slots: Sequence[Slot]) -> int:
    """Return the number of integers that say where operands are."""
    return sum(2 if slot.in_table else 1 for slot in slots)


def _sum(b: ir.IRBuilder, conditions: Sequence[ir.Value], sizes: Sequence[ir.Value]) -> ir.Value:
    """Return the sum of those sizes, in 32 bits, whose condition holds."""
    total: ir.Value = int32(0)
    for condition, size in zip(conditions, sizes, strict=True):
        total = b.add(total, b.select(condition, size, int32(0)))
    return total


def _expect(b: ir.IRBuilder, barrier: ir.Value, size: ir.Value) -> None:
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    asm(b, text, "r,r,~{memory}", _VOID, [barrier, size])


def _copy_in(b: ir.IRBuilder, place: ir.Value, address: ir.Value, size: ir.Value, barrier: ir.Value) -> None:
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    asm(b, text, "r,l,r,r,~{memory}", _VOID, [place, address, size, barrier])


def _copy_out(b: ir.IRBuilder, address: ir.Value, place: ir.Value, size: ir.Value) -> None:
    asm(b, "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", "l,r,r,~{memory}", _VOID,
        [address, place, size])
