"""The staged form of a kernel: persistent work-groups, whose operands are copied to local memory ahead of their use.

A batch of small products is bound by memory, and a GPU reaches its bandwidth only with many bytes under way.  In this
form a block of threads runs several work-groups of the language at a time, each by a *team* of its threads, and then
the next ones, until all are done.  What belongs to a work-group, its slice of a batch or its element of a group, goes
through a ring of *stages* in local memory: while the teams compute in one stage, the operands of later work-groups are
copied to others, and results are copied back.

A function can run so if all that it does is linear algebra on such slices, on temporaries, and on memrefs that it only
reads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.kernels.register_product import RegisterProduct
from tl_dpnp.kernels.ring import Ring
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Call, Expression, add, multiply
from tl_dpnp.lowering.division import Parts
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.lowering.mappings.mapping import LoopMapping, Mapping
from tl_dpnp.lowering.mappings.persistent.frame import TEAM, memref_in_stage, write_persistent_loop
from tl_dpnp.lowering.mappings.persistent.operands import (
    COPY_ALIGNMENT,
    MOST_RESIDENT,
    MOST_RESIDENT_OF_CHAIN,
    STAGE_ALIGNMENT,
    PipelinedOperand,
    ResidentOperand,
    find_operands,
    find_residents,
    one_after_another,
    place_operands,
    up,
)
from tl_dpnp.lowering.mappings.persistent.problems import chain_of, problem_of
from tl_dpnp.lowering.mappings.persistent.teams import (
    Team,
    Work,
    chain_on_tensor_cores,
    even_tiles,
    narrow_product_on_tensor_cores,
    product_on_tensor_cores,
    ragged_tiles,
    size_along,
)
from tl_dpnp.lowering.memory import Placement, size_in_bytes
from tl_dpnp.lowering.sole_product import sole_product
from tl_dpnp.lowering.tactics.chains import ChainPlan, plans_of
from tl_dpnp.lowering.tactics.narrow_batches import batch_of
from tl_dpnp.lowering.tactics.registers import OVERRUN, best_plan, plan_of_warps, product_in_registers
from tl_dpnp.lowering.tactics.team_products import TeamProduct
from tl_dpnp.lowering.tactics.warps import chain_products, instructions_of, resident_stride
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import Precision
from tl_dpnp.target.device import Device

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter

__all__ = ["Persistent", "find_staging"]


#: Teams of a block: its largest third dimension (CUDA C++ Programming Guide, "Technical Specifications per Compute
#: Capability"); and warps of a block that computes a product on tensor cores, and a chain of them, at least.
_TEAMS, _WARPS, _WARPS_OF_CHAIN = 64, 4, 8
#: Bytes between the operands of teams that would use the same banks of shared memory.
_PAD = 32
#: Bytes that device memory is written by, and rows that are neighbours in what the lanes of a warp store.
_SECTOR, _BLOCK = 32, 8


@dataclass(frozen=True, kw_only=True)
class Persistent(LoopMapping):
    """How a function runs in the staged form; see the module.

    `layout` is that of a team; a block has `teams` of them.  A stage takes `stage` bytes, the results that are not read
    `results`, at `places` in turns: at two, one is written while the other is copied back.  What comes before them in
    local memory are the temporaries of the teams, `temporaries` bytes for each, and the barriers of the ring.
    """

    form: ClassVar[Form] = "staged"
    purpose = "linear algebra on slices of batches and elements of groups, on CUDA devices from Hopper on, without"
    operands: tuple[PipelinedOperand, ...]
    residents: tuple[ResidentOperand, ...]
    stage: int
    results: int
    temporaries: int
    stages: int
    places: int = 2

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Persistent | None:
        device, options = analysis.device, analysis.options
        if not device.copy_engine or options.debug:
            return None
        found = find_staging(analysis.function, device, analysis.temporaries, not options.schedules, options.precision)
        if found is not None and found.cycles is None and not found.instructions and (
                batch_of(sole_product(analysis.function)) is not None):
            # What has no room beside its results is computed without tensor cores, slower than in any other form.
            return replace(found, cycles=math.inf)
        return found

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.lanes * self.layout.subgroups * self.teams

    @property
    def teams_share_warps(self) -> bool:
        """Whether each team lies in one warp and waits for no other, and warps are whole."""
        team = self.layout.lanes * self.layout.subgroups
        return 32 % team == 0 and self.threads % 32 == 0 and not self.is_joined

    @property
    def is_joined(self) -> bool:
        """Whether teams compute products together."""
        return any(isinstance(product, PaddedProduct) and product.is_joined for product in self.products)

    @property
    def instructions(self) -> str:
        """What computes the products on tensor cores."""
        return ", ".join(dict.fromkeys(product.row.name for product in self.products
                                       if isinstance(product, WarpProduct | PaddedProduct)))

    @property
    def remarks(self) -> tuple[str, ...]:
        return (f"tensor cores compute: {self.instructions}",) if self.instructions else ()

    def memref(self, value: ops.Value) -> MemrefDescriptor | None:
        return memref_in_stage(self, value)

    def temporary(self, placement: Placement) -> tuple[Expression, int]:
        # Where the temporaries of the first team are, and the distance to those of the next one.
        first, pitch = placement.offset, self.temporaries
        if self.is_joined:
            first, pitch = self.teams * placement.offset, placement.size
        return add(first, multiply(TEAM, pitch)), math.gcd(pitch, 64)

    def pack(self, writer: BodyWriter, fetch: Callable[[Sequence[PipelinedOperand]], Call]) -> bool:
        """Write what lays operands out for the products, if that is done; the stage is free afterwards.

        `fetch` returns what fills it with further operands of the turn.
        """
        return False

    def phase(self, turn: Expression) -> Expression:
        """Return how often stages were filled before a turn."""
        return turn

    def write_groups(self, writer: BodyWriter) -> None:
        write_persistent_loop(self, writer)

    @property
    def barrier(self) -> Intrinsic:
        return self.ring.team_barrier() if self.teams_share_warps else intrinsics.barrier()

    @property
    def barriers(self) -> int:
        """Where the barriers of the ring are in local memory, in bytes."""
        return self.teams * self.temporaries

    @property
    def first_stage(self) -> int:
        """Where the first stage is in local memory."""
        return up(self.barriers + 8 * self.stages, STAGE_ALIGNMENT)

    @property
    def first_result(self) -> int:
        """Where the results that are not read are in local memory."""
        return self.first_stage + self.stages * self.stage

    @property
    def first_resident(self) -> int:
        """Where the operands that stay are in local memory."""
        return up(self.first_result + self.places * self.results, STAGE_ALIGNMENT)

    @property
    def local_memory(self) -> int:
        """Bytes of local memory of a block."""
        overrun = any(isinstance(product, RegisterProduct) and product.shifted for product in self.products)
        return overrun * OVERRUN + max(
            (self.first_resident + operand.offset + operand.bytes for operand in self.residents),
            default=self.first_resident)

    @property
    def ring(self) -> Ring:
        """The ring as its emitters see it."""
        layout = self.layout
        return Ring(self.stages, self.stage, self.barriers, self.first_stage, self.places, self.results,
                    self.first_result, self.teams, layout.lanes, layout.subgroups, self.local_memory,
                    self.stages == 2 and _in_place(self.operands))

    @property
    def loaded(self) -> list[PipelinedOperand]:
        """The operands that are copied to a stage, the first time where there are several."""
        return [operand for operand in self.operands if operand.is_read and operand.fill == 0]

    @property
    def stored(self) -> list[PipelinedOperand]:
        """The operands that are copied back."""
        return [operand for operand in self.operands if operand.is_written]

    def __str__(self) -> str:
        return self._described("staged form")

    def _described(self, form: str) -> str:
        layout = self.layout
        how = [self.instructions, *(str(product) for product in self.products if isinstance(product, RegisterProduct))]
        by = f", by {', '.join(filter(None, how))}" if any(how) else ""
        return (f"{form}{by}: {self.teams} teams of {layout.lanes} x {layout.subgroups} work-items, {self.stages} "
                f"stages of {self.stage} bytes, {self.places} of {self.results} bytes for results")


def find_staging(
    function: ops.Function, device: Device, temporaries: int, unscheduled: bool = True,
    precision: Precision = "highest", parts: Parts | None = None, is_few: bool = False,
) -> Persistent | None:
    """Return how a canonical function runs in the staged form on a device, or None where it cannot.

    `temporaries` are the bytes of local memory that a work-group takes for itself; only in an `unscheduled`
    function products run on tensor cores, those of f32 with the loss that `precision` allows, or in registers.
    Where it `is_few`, and work-groups may be `parts`, blocks end after those of one work-group.
    """
    operands = find_operands(function, parts)
    if operands is None or not any(isinstance(operation, ops.LinearAlgebra) for operation in function.body.walk()):
        return None
    staged = {operand.parameter for operand in operands}
    several = len(instructions_of(function)) > 1
    kept = dict.fromkeys(find_residents(function, staged, most) for most in (
        (MOST_RESIDENT_OF_CHAIN, MOST_RESIDENT) if several else (MOST_RESIDENT,)))
    for residents in kept:
        work = Work(function, device, tuple(operands), residents, temporaries, precision,
                    (1 if parts is None else parts.count) if is_few else 0)
        found = next(found for way in (_WAYS if unscheduled else _WAYS[-1:]) if (found := way(work)) is not None)
        staging = _of_team(work, found) if isinstance(found, Team) else found
        if staging is not None:
            return staging
    return None


def _chain_by_warps(work: Work) -> Persistent | None:
    """Return how warps compute the products of a function one after another; None if it is not worth it.

    Where few teams have room, each has more warps, but those of few work-groups that compute one product.
    """
    team = chain_on_tensor_cores(work)
    found = None if team is None else _of_team(work, team)
    least = _WARPS_OF_CHAIN if len(instructions_of(work.function)) > 1 else 0 if work.few else _WARPS
    while found is not None and team is not None and team.warps is not None and 2 * team.warps * found.teams <= least:
        team = _twice(team)
        more = _of_team(work, team)
        if more is None:
            break
        found = more
    return found


def _twice(team: Team) -> Team:
    """Return a team of warps with twice as many."""
    assert team.warps is not None
    return replace(team, warps=2 * team.warps, layout=SubgroupLayout(team.layout.lanes, 1, 2 * team.warps))


def _of_team(work: Work, team: Team) -> Persistent | None:
    """Return the blocks of such teams, None where one has no room."""
    function, operands, threads, numbers = work.function, list(work.operands), team.threads, work.device.persistent
    if threads > min(numbers.threads, work.device.max_work_group_size):
        return None
    # Accesses of several teams of a warp go to the same banks if teams are a multiple of 128 bytes apart; but what goes
    # in and out had better go in one copy.
    in_place = _in_place(operands)
    # One stage to compute in and one to fill.  Results that are in there leave from a third one, or have three places
    # of their own, which take less, unless so much is computed that to wait for them costs nothing, and more teams are
    # worth more, or there is no room.
    leaving = (2, 3) if team.on_tensor_cores else (3, 2)
    rings = [leaving, (2, 2)] if in_place and not work.is_intense else [(2, 2)]
    pad = _PAD if 32 // threads * work.word >= 16 and not in_place else 0
    most = max(1, min(team.most_threads // threads, _TEAMS))
    # What threads store themselves leaves local memory for more blocks.  Other teams might have no work-group.
    by_threads = numbers.large if most == 1 and not team.on_tensor_cores else math.inf
    if work.few and team.on_tensor_cores and work.word * _BLOCK >= _SECTOR:
        by_threads = 0  # nobody waits for what a warp stores itself
    direct = tuple(name for operand in operands if operand.is_plain_result and operand.elements >= by_threads
                   for name in operand.values)
    operands = [operand for operand in operands if not set(operand.values) & set(direct)]
    step = 32 // math.gcd(32, threads)
    counts = [*range(most // step * step, 0, -step), *range(min(most, step - 1), 0, -1)]
    if work.few:
        rings, pad, counts = [(1, 1)], 0, work.teams_of_few(threads)
    for (stages, places), teams in itertools.product(rings, counts):
        # What memory does not bound has more of its own in local memory.
        line = COPY_ALIGNMENT if work.is_intense else STAGE_ALIGNMENT
        placed, stage, results = place_operands(_placed_apart(operands, places), teams, pad, line)
        products: tuple[TeamProduct | None, ...] = team.products
        kept = work.residents
        if team.warps is not None:
            joined = 1 if work.few else teams
            chain = chain_products(function, work.precision, team.warps, joined, _pitches(function, placed),
                                   {operand.parameter for operand in work.residents})
            products, kept = chain, _with_gaps(function, work.residents, chain)
        staging = Persistent(
            operands=placed, residents=kept, layout=team.layout, teams=teams, stage=stage, results=results,
            temporaries=up(work.temporaries, 64) + pad, stages=stages, products=products, direct=direct,
            places=places)
        if staging.local_memory <= work.device.local_memory:
            return staging
    return None


def _narrow_product(work: Work) -> Persistent | None:
    """Return how the one product of operands of 16 bits that is all of a function runs: the fastest of three ways.

    Teams have as few warps as have room for the sums, or, where results take part of that room, twice as many, or they
    are threads.  None for other functions, and for calls of few products, whose warps wait for one product.
    """
    gemm, unit = product_in_registers(work.function), work.device.multiprocessor
    team = None if work.few else narrow_product_on_tensor_cores(work)
    if team is None or gemm is None or unit is None:
        return None
    found: list[tuple[float, Persistent]] = []
    for each in (team, _twice(team)) if _in_place(work.operands) else (team,):
        by_warps = _of_team(work, each)
        if by_warps is None:
            continue
        problem, (product,) = problem_of(gemm, by_warps.operands, by_warps.residents), by_warps.products
        if problem is None or not isinstance(product, PaddedProduct) or product.is_joined:
            return None
        cycles, registers = plan_of_warps(
            problem, product, by_warps.teams, unit, by_warps.local_memory, by_warps.ring.waits)
        found.append((cycles, replace(by_warps, cycles=cycles, registers=registers)))
    by_threads = _in_registers(work) if found else None
    if by_threads is not None and by_threads.cycles is not None:
        found.append((unit.padded.advantage * by_threads.cycles, by_threads))
    return min(found, key=lambda each: each[0], default=(0.0, None))[1]


def _in_registers(work: Work) -> Persistent | None:
    """Return how threads compute the one product of a function in registers; None where that is not all it does."""
    device, operands = work.device, work.operands
    gemm, unit = product_in_registers(work.function), device.multiprocessor
    if gemm is None or unit is None:
        return None
    in_place = _in_place(operands)
    found: list[tuple[float, Persistent]] = []
    # In a ring of three stages results leave while others are filled; in one of two, copies and products take turns.
    # Results that have one place wait in registers until those of the turn before have left it.  What they are added to
    # comes to a stage, or to a third place of theirs: two stages and those are smaller than three stages.
    rings = ((1, 1),) if work.few else ((2, 2), (3, 2), (2, 3)) if in_place else ((2, 2), (2, 1))
    for stages, places in rings:
        def staging(
            teams: int, product: RegisterProduct | None = None, stages: int = stages, places: int = places
        ) -> Persistent:
            placed, stage, results = place_operands(_placed_apart(operands, places), teams, 0)
            layout = SubgroupLayout() if product is None else SubgroupLayout(product.down, 1, product.across)
            if product is not None and places == 1 and not work.few:
                product = replace(product, waits=True)
            return Persistent(operands=placed, residents=work.residents, layout=layout, teams=teams, stage=stage,
                              results=results, temporaries=0, stages=stages, products=(product,), places=places)

        problem = problem_of(gemm, staging(1).operands, work.residents)
        if problem is None:
            return None
        # Where there are few work-groups, a multiprocessor has one of them, or parts of it, and nothing else to do; its
        # block has all parts if each has few threads.
        limits = (work.threads_of_few, None) if work.few else (None,)
        plans = (best_plan(problem, replace(unit, blocks=1) if work.few else unit,
                           lambda teams, of=staging: of(teams).local_memory + OVERRUN,  # type: ignore[misc]
                           device.local_memory, staging(1).ring.waits, places, *((1, limit) if work.few else ()))
                 for limit in limits)
        plan = next(filter(None, plans), None)
        if plan is not None:
            counts = work.teams_of_few(plan.product.threads) if work.few else [plan.teams]
            blocks = (staging(teams, plan.product) for teams in counts)
            block = next(each for each in blocks if each.local_memory <= device.local_memory)
            found.append((plan.cycles, block if work.few else replace(block, cycles=plan.cycles)))
    return min(found, key=lambda each: each[0], default=(0.0, None))[1]


def _chain_in_registers(work: Work) -> Persistent | None:
    """Return how threads compute the products of a function one after another; None where it does something else."""
    unit, operands = work.device.multiprocessor, work.operands
    if unit is None or work.few:
        return None
    best: Persistent | None = None
    least = math.inf
    rings = (3, 2) if _in_place(operands) else (2,)
    for stages, pad in itertools.product(rings, (0, _PAD)):
        def staging(
            teams: int, plan: ChainPlan | None = None, stages: int = stages, pad: int = pad
        ) -> Persistent:
            placed, stage, results = place_operands(operands, teams, 0)
            layout = SubgroupLayout() if plan is None else SubgroupLayout(plan.threads, 1, 1)
            return Persistent(operands=placed, residents=work.residents, layout=layout, teams=teams, stage=stage,
                              results=results, temporaries=up(work.temporaries, 64) + pad, stages=stages,
                              products=() if plan is None else plan.products)

        one = staging(1)
        chain = chain_of(work.function, one.operands, work.residents, one.temporaries)
        if chain is None or (len(chain.problems) == 1 and chain.times == (1,)):
            return None
        for plan in plans_of(chain, unit, lambda teams, of=staging: of(teams).local_memory,  # type: ignore[misc]
                             work.device.local_memory, one.ring.waits, least):
            best, least = staging(plan.teams, plan), plan.cycles
    return best


#: How the instructions of a function are computed: the first that is for it, the last where the user schedules some.
_WAYS: tuple[Callable[[Work], Team | Persistent | None], ...] = (
    product_on_tensor_cores, _narrow_product, _chain_by_warps, _in_registers, _chain_in_registers,
    ragged_tiles, even_tiles)


def _pitches(function: ops.Function, operands: Sequence[PipelinedOperand]) -> dict[str, int]:
    """Return the distance between what neighbouring teams have of a value, for operands and temporaries."""
    pitches = {name: operand.pitch for operand in operands for name in operand.values}
    allocated = (operation.result for operation in function.body if isinstance(operation, ops.Alloca))
    return pitches | {value.name: size_in_bytes(ops.memref_type(value)) for value in allocated}


def _with_gaps(
    function: ops.Function, residents: Sequence[ResidentOperand], products: tuple[PaddedProduct | None, ...]
) -> tuple[ResidentOperand, ...]:
    """Return what stays in local memory with its columns as far apart as is best for the products that read it."""
    placed = []
    for operand in residents:
        stride = resident_stride(function, operand.parameter, products)
        gap = 0 if stride is None else stride - size_along(operand.type, 0)
        placed.append(replace(operand, gap=gap))
    return one_after_another(placed)


def _placed_apart(operands: Sequence[PipelinedOperand], places: int) -> list[PipelinedOperand]:
    """Return the operands, what is written apart from the stages where that has three places."""
    return [replace(operand, apart=places > 2 and operand.is_written) for operand in operands]


def _in_place(operands: Sequence[PipelinedOperand]) -> bool:
    """Whether results are computed where operands are in a stage."""
    return any(operand.is_read and not operand.in_results and operand.is_written for operand in operands)


