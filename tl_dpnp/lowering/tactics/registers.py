"""Threads of a team compute products in registers: which tiles they have, and teams a block, by an estimate."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.register_product import RegisterProduct, place_of_thread
from tl_dpnp.language import ops
from tl_dpnp.lowering.tactics.turns import Turn
from tl_dpnp.lowering.tactics.warps import has_known_strides, instructions_of, sizes_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType
from tl_dpnp.target.multiprocessor import LANES, Multiprocessor, accesses

__all__ = [
    "OVERRUN", "Problem", "RegisterPlan", "best_plan", "counts_of_teams", "instructions_of_thread",
    "is_product_of_numbers", "loads_of_thread", "plan_of_warps", "product_in_registers", "ragged_chain", "registers_of",
]

#: 32-bit registers of the sums of a thread at most, rows or columns of its tile, and registers for all else.
_SUMS, _LONGEST, _OTHERS = 72, 12, 34
#: Bytes of the sums of a thread in a chain of products, and its rows and columns, at most.
_CHAIN_SUMS, _CHAIN_LONGEST = 192, 8
#: Threads of a block at most, its teams (CUDA C++ Programming Guide, "Technical Specifications per Compute
#: Capability"), and bytes of a vector.
_THREADS, _TEAMS, _VECTOR = 512, 64, 16
#: Warps whose accesses to shared memory stand for all.
_SAMPLE = 3
#: Bytes of elements that pairs are worth it for, which take one access for two lanes, and sums that are too short.
_PAIRED, _SHORT = 4, 4
#: Bytes between lines that begin in one of two banks, of 32; instructions for the place in a sum that is rotated.
_CLASHING, _ROTATION = 64, 4
#: Bytes behind a matrix that may be loaded.
OVERRUN = 64

Strides = tuple[int, int]


@dataclass(frozen=True)
class Problem:
    """A product and where its matrices are: types, sizes m, n and k, and for each of A, B and C strides in elements.

    `pitches` are the bytes between those of neighbouring teams, and addresses are multiples of `alignments`; `moved`
    are the bytes that each product reads and writes in device memory, and C `is_read` or not.
    """

    elements: tuple[ScalarType, ScalarType, ScalarType]
    sizes: tuple[int, int, int]
    strides: tuple[Strides, Strides, Strides]
    pitches: tuple[int, int, int]
    alignments: tuple[int, int, int]
    moved: int
    is_read: bool

    def products(self) -> Iterator[RegisterProduct]:
        """Yield the tiles that threads may have."""
        m, n, k = self.sizes
        for height, width, depth in self.chunks():
            for down in _parts(m // height, _LONGEST // height):
                for across in _parts(n // width, _LONGEST // width):
                    product = RegisterProduct(self.elements, m, n, k, down, across, height, width, depth)
                    if math.prod(product.tile) * (product.computed.bytes // 4) > _SUMS or product.threads > _THREADS:
                        continue
                    for placed in self._placed(product):
                        yield placed
                        yield from self._rotated(placed)

    def chunks(self) -> list[tuple[int, int, tuple[int, int]]]:
        """Return which rows, columns and terms of the sum may be accessed together."""
        m, n, k = self.sizes
        (a_row, a_along), (b_along, b_column), (c_row, c_column) = self.strides
        heights = self._widths(2, c_column, m) if c_row == 1 else [1]
        if a_row == 1:
            heights = [width for width in heights if width in self._widths(0, a_along, m)]
        widths = self._widths(1, b_along, n) if b_column == 1 else [1]
        depths = [(first, second)
                  for first in (self._widths(0, a_row, k) if a_along == 1 and a_row != 1 else [1])
                  for second in (self._widths(1, b_column, k) if b_along == 1 and b_column != 1 else [1])]
        return [(height, width, depth) for height in heights for width in widths for depth in depths]

    def _placed(self, product: RegisterProduct) -> Iterator[RegisterProduct]:
        """Yield the product with its threads and what they load in all places."""
        staggered = list(self._staggered(product))
        yield product
        yield from staggered
        yield from self._shifted([product, *staggered])
        words = product.computed.bytes // 4 * max(product.rows, product.columns, *product.depth)
        if words > 1 and min(product.down, product.across) > 1:
            yield replace(product, down=product.down + product.down % 2, across=product.across + product.across % 2,
                          in_quads=True)

    def _rotated(self, product: RegisterProduct) -> Iterator[RegisterProduct]:
        """Yield the product with sums that begin elsewhere in each thread, where lines along them begin in two banks.

        Steps of them are as long as vectors, and pairs of what is shifted begin in columns of even numbers.  Of threads
        in quads those that share columns begin elsewhere: they gained nothing beside threads in lines.
        """
        (row, a_along), (b_along, column) = self.strides[:2]
        apart = [distance * element.bytes for distance, along, element in (
            (row, a_along, self.elements[0]), (column, b_along, self.elements[1])) if along == 1 and distance != 1]
        step = max(product.depth)
        if product.staggered or product.in_quads or (product.shifted and step % 2):
            return
        if product.k > _SHORT and product.k % step == 0 and any(distance % _CLASHING == 0 for distance in apart):
            for rotated in ((step, 0), (0, step)):
                yield replace(product, rotated=rotated)

    def _staggered(self, product: RegisterProduct) -> Iterator[RegisterProduct]:
        """Yield the product with pairs of a B whose columns are an odd number of elements apart."""
        (along, distance), across = self.strides[1], product.across + product.across % 2
        if (along == 1 and distance % 2 and self.elements[1].bytes == _PAIRED and product.k > _SHORT
                and product.depth == (1, 1) and 1 < across <= product.n):
            yield replace(product, across=across, depth=(1, 2), staggered=True)

    def _shifted(self, products: Sequence[RegisterProduct]) -> Iterator[RegisterProduct]:
        """Yield products with pairs of an A whose columns are an odd number of elements apart."""
        row, along = self.strides[0]
        if not (row == 1 and along % 2 and self.elements[0].bytes == _PAIRED and self.sizes[2] > _SHORT):
            return
        for product in products:
            if product.rows == product.depth[0] == 1:
                for in_quads in (False, True):
                    down, across = (
                        count + count % 2 if in_quads else count for count in (product.down, product.across))
                    found = replace(product, down=down, across=across, in_quads=in_quads, shifted=True)
                    if (math.prod(found.tile) <= _SUMS and min(down, across) > 1 and found.threads <= _THREADS
                            and found.overrun * _PAIRED <= OVERRUN):
                        yield found

    def _widths(self, operand: int, distance: int, count: int) -> list[int]:
        """Return how many of `count` elements may be accessed together, where such lines are a `distance` apart."""
        size = self.elements[operand].bytes
        return [width for width in (1, 2, 4) if width * size <= _VECTOR and distance % width == 0 and count % width == 0
                and self.alignments[operand] % (width * size) == 0]

    def accesses(self, product: RegisterProduct, teams: int, unit: Multiprocessor) -> float:
        """Return how often a warp accesses shared memory."""
        height, width = product.tile
        (first, second), k = product.depth, product.k
        (a_row, a_along), (b_along, b_column), (c_row, c_column) = self.strides
        own = (product.down, product.across, product.in_quads, teams)
        rows = product.rows if a_row == 1 else 1
        columns = product.columns if self.strides[1][1] == 1 and b_column == 1 else 1
        # Lanes that begin with the second term read the next column of A.
        ahead = (self.pitches[1] // _PAIRED, 0, b_column) if product.staggered else (0, *product.rotated)
        around = 2 if product.staggered else product.k
        of_left, of_right = (ahead, around, a_along), ((0, *product.rotated), around, b_along)

        apart = height if product.shifted else product.rows  # the first rows of neighbouring threads

        def accesses_of_a(count: int) -> float:
            return _accesses(own, (apart * a_row, 0), self.pitches[0], self.elements[0].bytes, count, unit.banks,
                             of_left)

        if product.shifted:  # pairs, and in every second column also the first and the last element
            of_a = (height - 1) / 2 * accesses_of_a(2) + accesses_of_a(1)
        else:
            of_a = height / rows / first * accesses_of_a(rows * first)
        of_b = _accesses(own, (0, product.columns * b_column), self.pitches[1], self.elements[1].bytes,
                         columns * second, unit.banks, of_right)
        high = product.rows if c_row == 1 else 1
        of_c = _accesses(own, (apart * c_row, product.columns * c_column), self.pitches[2],
                         self.elements[2].bytes, high, unit.banks)
        return k * (of_a + width / columns / second * of_b) + (1 + self.is_read) * height * width / high * of_c


@dataclass(frozen=True)
class RegisterPlan:
    """The tiles of a product, the teams of a block, and the cycles that a multiprocessor takes for each of them."""

    product: RegisterProduct
    teams: int
    cycles: float


def best_plan(
    problem: Problem, unit: Multiprocessor, memory: Callable[[int], int], most_memory: int, waits: bool,
    places: int, most_teams: int = _TEAMS, most_threads: int | None = None,
) -> RegisterPlan | None:
    """Return the tiles and teams with the fewest cycles; None where none has room.

    `memory` gives the local memory of a block with so many teams.  In a ring that `waits` copies and products of a
    block take turns; results have so many `places`, a block `most_teams`, and a team `most_threads`.
    """
    best = None
    memory = functools.cache(memory)
    for product in problem.products():
        if most_threads is not None and product.threads > most_threads:
            continue
        most = max(1, min(_THREADS // product.threads, most_teams))
        for teams in counts_of_teams(most, product.threads):
            if memory(teams) > most_memory:
                continue
            estimate = _estimate(problem, product, teams, unit, memory(teams), waits, places)
            # What takes longer even if it accessed shared memory for nothing needs no look at its banks.
            if best is None or estimate(0.0) < best.cycles:
                cycles = estimate(problem.accesses(product, teams, unit))
                if best is None or cycles < best.cycles:
                    best = RegisterPlan(product, teams, cycles)
    return best


def counts_of_teams(most: int, threads: int) -> list[int]:
    """Return numbers of teams: those whose threads are whole warps, and few."""
    step = LANES // math.gcd(LANES, threads)
    return sorted({*range(step, most + 1, step), *range(1, min(most, step - 1, 8) + 1)})


def _estimate(
    problem: Problem, product: RegisterProduct, teams: int, unit: Multiprocessor, memory: int, waits: bool,
    places: int,
) -> Callable[[float], float]:
    """Return the function that gives the cycles for a product by how often a warp accesses shared memory."""
    turn = Turn(
        unit=unit, teams=teams, warps=-(-product.threads * teams // LANES),
        registers=registers_of(product), memory=memory, moved=problem.moved,
        instructions=instructions_of_thread(problem, product, unit) + unit.turn_instructions,
        between=unit.turn + unit.barrier * (places == 1), waits=waits)
    if turn.blocks < 1:
        return lambda _: math.inf
    return (lambda accesses: unit.shifted * turn.cycles(accesses)) if product.shifted else turn.cycles


def registers_of(product: RegisterProduct) -> int:
    """Return the 32-bit registers of a thread."""
    height, width = product.tile
    words = product.computed.bytes // 4
    return _OTHERS + words * (height * width + 2 * max(product.depth) * (height + width))


def instructions_of_thread(problem: Problem, product: RegisterProduct, unit: Multiprocessor) -> float:
    """Return the instructions that a product takes a thread, in time of those of which a cycle has the most."""
    height, width = product.tile
    rate = unit.multiply_adds_f64 if product.elements[2].part.bytes > 4 else unit.multiply_adds_f32
    multiply_adds = height * width * product.k * product.multiply_adds
    is_narrow = product.elements[0].bytes < product.computed.bytes
    widening = unit.widening * product.k * (height + width) if is_narrow else 0.0
    rotation = _ROTATION * product.k / max(product.depth) if any(product.rotated) else 0.0
    return (multiply_adds * LANES * unit.instructions / rate + loads_of_thread(problem, product) + widening
            + rotation + height * width)


def loads_of_thread(problem: Problem, product: RegisterProduct) -> float:
    """Return how often a thread loads operands."""
    height, width = product.tile
    rows = product.rows if problem.strides[0][0] == 1 else 1
    of_a = (height + 1) / 2 if product.shifted else height / rows / product.depth[0]
    return product.k * (of_a + width / product.columns / product.depth[1])


def plan_of_warps(
    problem: Problem, product: PaddedProduct, teams: int, unit: Multiprocessor, memory: int, waits: bool
) -> tuple[float, int]:
    """Return the cycles for a product of operands of 16 bits that the warps of a team compute on tensor cores.

    The second is the most registers of a thread with which there is room for as many blocks as these cycles count on.
    """
    needed = product.registers + product.fetched + _OTHERS
    work = product.work(problem.strides, problem.alignments[:2], problem.elements[2].bytes, problem.is_read)
    numbers = unit.padded
    turn = Turn(
        unit=unit, teams=teams, warps=product.warps * teams, registers=max(numbers.registers, needed), memory=memory,
        moved=problem.moved,
        instructions=(work.loads + work.packs + numbers.multiplication * work.multiplications
                      + numbers.store * (work.stores + work.reads / 2) + numbers.turn_instructions),
        between=numbers.turn, waits=waits, norm=numbers.norm if problem.is_read else math.inf)
    if turn.blocks < 1:
        return math.inf, 0
    most = unit.registers // (turn.warps * LANES * turn.blocks) // 8 * 8
    return turn.cycles(work.accesses), most if needed <= most < unit.thread_registers else 0


def _parts(chunks: int, most: int) -> list[int]:
    """Return the numbers of threads for chunks: the least for each number that a thread may have."""
    return sorted({-(-chunks // each) for each in range(1, max(1, min(most, chunks)) + 1)})


@functools.cache
def _accesses(
    own: tuple[int, int, bool, int], strides: Strides, pitch: int, size: int, count: int, banks: int,
    begins: tuple[tuple[int, int, int], int, int] = ((0, 0, 0), 1, 0),
) -> float:
    """Return how often a warp accesses shared memory for `count` elements of `size` bytes in each lane.

    `own` are the threads of a team along rows and columns, whether they are in quads, and the teams of a block.
    `begins` are factors of the team, row and column of a lane, whose sum modulo the second of `begins` is the term that
    it begins with, and elements between terms.
    """
    down, across, in_quads, teams = own
    (by_team, by_row, by_column), around, along = begins
    each = down * across
    threads = each * teams
    found: list[int] = []
    for first in range(0, min(threads, _SAMPLE * LANES), LANES):
        places = [(thread // each, *place_of_thread(thread % each, down, in_quads))
                  for thread in range(first, min(first + LANES, threads))]
        # What is staggered begins at the next multiple of its size.
        together = size * count
        addresses = [-(-(team * pitch + size * (row * strides[0] + column * strides[1])) // together) * together
                     + size * along * ((team * by_team + row * by_row + column * by_column) % around)
                     for team, row, column in places]
        found.append(accesses(addresses, together, banks))
    return sum(found) / len(found)


def product_in_registers(function: ops.Function) -> ops.Contraction | None:
    """Return the one instruction of a function, if threads may compute it in registers: no product of integers."""
    match instructions_of(function):
        case [gemm] if is_product_of_numbers(gemm):
            assert isinstance(gemm, ops.Contraction)
            return gemm
    return None


def is_product_of_numbers(operation: ops.LinearAlgebra) -> bool:
    """Whether threads may compute an instruction in registers."""
    if not (isinstance(operation, ops.Contraction) and operation.is_matrix_product):
        return False
    values = (*operation.inputs, operation.output)
    names = [ops.memref_type(value).element.name for value in values]
    return all(map(has_known_strides, values)) and names in (
        *([name] * 3 for name in ("f32", "f64", "c32", "c64")),
        *([name, name, result] for name in ("f16", "bf16") for result in (name, "f32")))


def ragged_chain(function: ops.Function, most: int) -> tuple[RegisterProduct, ...] | None:
    """Return how at most so many threads compute the products of a function by tiles that need not divide the results.

    None where the function has other instructions.  The tiles are those with the fewest cycles for multiply-adds, four
    of which take as long as a load.
    """
    instructions = instructions_of(function)
    if not all(map(is_product_of_numbers, instructions)):
        return None
    sizes = [sizes_of(operation) for operation in instructions]
    elements = [tuple(ops.memref_type(value).element for value in (*operation.inputs, operation.output))
                for operation in instructions]

    def products(height: int, width: int) -> tuple[RegisterProduct, ...]:
        down, across = (max(-(-size[mode] // tile) for size in sizes) for mode, tile in ((0, height), (1, width)))
        found = []
        for (m, n, k), (left, right, result) in zip(sizes, elements, strict=True):
            own = -(-m // -(-m // down)), -(-n // -(-n // across))
            found.append(RegisterProduct((left, right, result), m, n, k, *own, is_partial=own != (down, across)))
        return tuple(found)

    def cycles(chain: tuple[RegisterProduct, ...]) -> float:
        work = sum(product.k * (product.multiply_adds * math.prod(product.tile) / 4 + sum(product.tile))
                   for product in chain)
        return _threads(chain) * work

    lengths = range(1, _CHAIN_LONGEST + 1)
    chains = [products(height, width) for height in lengths for width in lengths]
    fitting = [chain for chain in chains if _threads(chain) <= most and all(
        math.prod(product.tile) * product.computed.bytes <= _CHAIN_SUMS for product in chain)]
    return min(fitting, key=cycles, default=None)


def _threads(chain: Sequence[RegisterProduct]) -> int:
    return max(product.down for product in chain) * max(product.across for product in chain)
