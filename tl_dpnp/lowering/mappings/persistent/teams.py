"""The threads that run a work-group in the staged form, and which way they compute its instructions."""

from __future__ import annotations

import functools
import math

from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.kernels.register_product import RegisterProduct
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.persistent.operands import PipelinedOperand, ResidentOperand, views_through
from tl_dpnp.lowering.tactics.registers import ragged_chain
from tl_dpnp.lowering.tactics.warps import chain_warps, lone_product, warps_of_narrow
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import Precision
from tl_dpnp.target.device import Device

__all__ = [
    "Team", "Work", "chain_on_tensor_cores", "even_tiles", "narrow_product_on_tensor_cores", "product_on_tensor_cores",
    "ragged_tiles", "size_along",
]

#: Lanes of a warp, and bytes of a vector.
_WARP, _VECTOR = 32, 16


@dataclass(frozen=True)
class Work:
    """A canonical function: what goes through the ring and what stays in local memory.

    `temporaries` are the bytes of local memory that a work-group takes for itself, `precision` is what products may
    lose.  Where there are `few` work-groups, each has so many parts, and blocks do those of one and end.
    """

    function: ops.Function
    device: Device
    operands: tuple[PipelinedOperand, ...]
    residents: tuple[ResidentOperand, ...]
    temporaries: int
    precision: Precision
    few: int = 0

    def teams_of_few(self, threads: int) -> list[int]:
        """Return how many teams of so many threads a block may have for the parts of one work-group, the most first."""
        most = self.device.persistent.threads_of_products
        return [teams for teams in range(self.few, 0, -1)
                if self.few % teams == 0 and (teams == 1 or teams * threads <= most)]

    @property
    def threads_of_few(self) -> int:
        """Threads that a team has at most so that a block has room for those of all parts of one work-group."""
        return self.device.persistent.threads_of_products // self.few

    @property
    def outputs(self) -> list[MemrefType]:
        """The types of the results of the instructions."""
        return [ops.memref_type(operation.output) for operation in self.function.body.walk()
                if isinstance(operation, ops.LinearAlgebra)]

    @property
    def word(self) -> int:
        """Bytes of the largest element of a result."""
        return max(type_.element.bytes for type_ in self.outputs)

    @property
    def whole(self) -> set[str]:
        """The values that are whole operands in local memory."""
        return {name for operand in self.operands for name in operand.values} | {
            operand.parameter for operand in self.residents}

    @functools.cached_property
    def intensity(self) -> float:
        """Multiplications and additions of a work-group for each element that is copied for it."""
        count = 0
        for operation in self.function.body:
            if isinstance(operation, ops.LinearAlgebra):
                letters = {letter: size for value, names in operation.dimension_names
                           for letter, size in zip(names, ops.memref_type(value).shape, strict=True)}
                count += 2 * math.prod(size for size in letters.values() if size is not None)
        copied = sum(operand.bytes * (operand.is_read + operand.is_written) for operand in self.operands)
        return count / copied * self.word

    @property
    def is_intense(self) -> bool:
        """Whether memory does not bound a work-group."""
        return self.intensity > self.device.persistent.intense


@dataclass(frozen=True)
class Team:
    """The threads that run one work-group: `products` or `warps` say how they do, if it is not by loop nests.

    If it `is_narrow`, warps compute one product of operands of 16 bits.
    """

    work: Work
    layout: SubgroupLayout
    products: tuple[WarpProduct | RegisterProduct, ...] = ()
    warps: int | None = None
    is_narrow: bool = False

    @property
    def threads(self) -> int:
        """How many there are."""
        return self.layout.lanes * self.layout.columns

    @property
    def on_tensor_cores(self) -> bool:
        """Whether warps compute."""
        return any(isinstance(product, WarpProduct) for product in self.products) or self.warps is not None

    @property
    def most_threads(self) -> int:
        """How many threads a block has at most, as far as several teams go."""
        work, numbers = self.work, self.work.device.persistent
        if self.warps is not None:
            return numbers.threads_of_padded if self.is_narrow else numbers.threads_of_products
        if len(work.outputs) > 1 and work.word <= 4 and not work.is_intense:
            return numbers.threads_of_chain
        narrow = not self.on_tensor_cores and (
            any(operand.type.element.bytes < 4 for operand in work.operands)
            or any(size_along(type_, 0) * size_along(type_, 1) >= numbers.large for type_ in work.outputs)
        )
        return numbers.threads_of_narrow if narrow else numbers.threads


def product_on_tensor_cores(work: Work) -> Team | None:
    """Return the team whose warps share the one product of a function; None where that is not all or not worth it."""
    product = lone_product(work.function, work.whole, work.precision, work.device.persistent)
    return None if product is None else Team(work, SubgroupLayout(_WARP, 1, product.warps), (product,))


def chain_on_tensor_cores(work: Work) -> Team | None:
    """Return the team whose warps compute the products of a function one after another; None if it is not worth it."""
    function = work.function
    allocated = {operation.result.name for operation in function.body if isinstance(operation, ops.Alloca)}
    local = views_through(function, dict.fromkeys(work.whole | allocated, ""))
    warps = chain_warps(function, work.precision, work.intensity, local, work.device.persistent)
    return None if warps is None else Team(work, SubgroupLayout(_WARP, 1, warps), warps=warps)


def narrow_product_on_tensor_cores(work: Work) -> Team | None:
    """Return the team whose warps compute the one product of operands of 16 bits that is all of a function."""
    local = views_through(work.function, dict.fromkeys(work.whole, ""))
    warps = warps_of_narrow(work.function, work.precision, local)
    return None if warps is None else Team(work, SubgroupLayout(_WARP, 1, warps), warps=warps, is_narrow=True)


def ragged_tiles(work: Work) -> Team | None:
    """Return the team whose tiles need not divide the results, for products where others take too many threads."""
    most = work.device.persistent.threads
    chain = ragged_chain(work.function, most) if even_tiles(work).threads > most else None
    if chain is None:
        return None
    down, across = max(each.down for each in chain), max(each.across for each in chain)
    return Team(work, SubgroupLayout(down, 1, across), chain)


def even_tiles(work: Work) -> Team:
    """Return the team whose tiles divide the results, for loop nests."""
    tiles = [(type_, _tile(type_, work)) for type_ in work.outputs]
    rows, columns = (max(size_along(type_, mode) // tile[mode] for type_, tile in tiles) for mode in (0, 1))
    return Team(work, SubgroupLayout(rows, 1, columns))


def size_along(type_: MemrefType, mode: int) -> int:
    """Return a known size, 1 for a mode that there is not."""
    size = type_.shape[mode] if mode < len(type_.shape) else 1
    assert size is not None
    return size


def _tile(type_: MemrefType, work: Work) -> tuple[int, int]:
    """Return the elements of an output that a thread computes along each mode: divisors of the sizes."""
    numbers = work.device.persistent
    rows, columns = size_along(type_, 0), size_along(type_, 1)
    small = type_.element.bytes <= 4
    most = numbers.tile_of_intense if work.is_intense else numbers.tile if small else numbers.tile_of_f64
    # Neighbouring threads read neighbouring vectors where a tile is one vector high.
    highest = _VECTOR // type_.element.bytes if rows * columns >= numbers.large and small else numbers.rows
    fitting = [
        (m, n) for m in _divisors(rows) for n in _divisors(columns)
        if m * n <= most and m <= highest and n <= 9 and 4 * m * n <= max(4, rows * columns)
    ]
    return max(fitting, key=lambda tile: (tile[0] * tile[1] / (tile[0] + tile[1]), tile[0]))


def _divisors(size: int) -> list[int]:
    return [factor for factor in range(1, size + 1) if size % factor == 0]
