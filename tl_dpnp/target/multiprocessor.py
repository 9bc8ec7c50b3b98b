"""What a multiprocessor of a CUDA device does in a cycle, as plain data."""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.records import dataclass

__all__ = [
    "LANES", "BlockedBatches", "BlockedNumbers", "Multiprocessor", "NarrowBatches", "PackedBatches", "PaddedNumbers",
    "TileSpeed", "TileTime", "TiledBatches", "TiledNumbers", "accesses",
]

#: Lanes of a warp, and bytes of a bank of shared memory.
LANES, _BANK = 32, 4


@dataclass(frozen=True)
class TileSpeed:
    """How fast tiles of one shape of the blocked form are computed, by what operands are rounded to.

    `blocks` that have room make so many `multiplications` a cycle together, and one `alone` that share of them.  A tile
    takes `start` cycles besides its products, `kept` more where it is added to, and `sharing` more where blocks share
    its sums.
    """

    operands: str
    rows: int
    columns: int
    multiplications: float
    blocks: int = 1
    alone: float = 1.0
    start: float = 3000
    sharing: float = 3000
    kept: float = 0


@dataclass(frozen=True)
class BlockedNumbers:
    """What the time of large products in the blocked form is estimated by.

    Where blocks share sums, a tile takes one cycle more for `sums_added` of them.  They share where that gains more
    than the factor `worth_sharing`.  Where there are small tiles, products of a batch run in the form from
    `least_of_batch` multiplications on if operands have no room in the staged form, those of complex numbers from
    `least_of_complex` on, and few products from `least_of_few` on if they have.  Types that `staged_speeds` has, with
    the multiplications of a cycle in the staged form, run in the form that is faster.  `speeds` are those of tiles for
    any sizes, and `known_speeds` those of tiles for batches of products of known sizes.
    """

    sums_added: float
    worth_sharing: float
    least_of_batch: int
    least_of_complex: int
    least_of_few: int
    staged_speeds: tuple[tuple[str, float], ...]
    speeds: tuple[TileSpeed, ...]
    known_speeds: tuple[TileSpeed, ...]

    def speed(self, operands: str, rows: int, columns: int, is_known: bool = False) -> TileSpeed:
        """Return how fast tiles of a shape are."""
        speeds = self.known_speeds if is_known else self.speeds
        return next(speed for speed in speeds if (speed.operands, speed.rows, speed.columns)
                    == (operands, rows, columns))


@dataclass(frozen=True)
class TileTime:
    """What the time of tiles of one shape is estimated by, in cycles.

    A tile takes `start`, and each panel of a sum `panel`, or `crowded` times as much where all multiprocessors have
    one, and `crowded_together` where two blocks bring what they have in common once.  Where blocks share the sums of a
    tile, it takes `sharing` more: to begin, and for each box of the result that a block has of another one.
    """

    start: float
    panel: float
    crowded: float
    crowded_together: float
    sharing: tuple[float, float]


@dataclass(frozen=True)
class TiledNumbers:
    """What the time of large products in the tiled form is estimated by, for operands of one kind.

    `tiles` has rows and columns, then the cycles of such a tile beside its panels and of a panel; see `TileTime` for
    the others.
    """

    operands: str
    tiles: tuple[tuple[tuple[int, int], tuple[float, float]], ...]
    crowded: float
    crowded_together: float
    sharing: tuple[float, float]

    def time(self, rows: int, columns: int) -> TileTime:
        """Return what the time of tiles of a shape is estimated by."""
        start, panel = next(times for shape, times in self.tiles if shape == (rows, columns))
        return TileTime(start, panel, self.crowded, self.crowded_together, self.sharing)


@dataclass(frozen=True)
class PaddedNumbers:
    """What the time of products of 16 bits of any sizes on tensor cores is estimated by, in the staged form.

    An instruction of 16 x 8 x 16 takes a warp as long as `multiplication` others, a store as long as `store`, and a
    load of what it is added to half as long.  A turn of a block takes a warp `turn_instructions`, and `turn` cycles
    beside them.  A thread has so many 32-bit `registers`.  Threads with multiply-adds are chosen where they are
    `advantage` times as fast by the estimate: their time is the less certain one.  Where results are added to what is
    there, copies and products of a single block take as long as their `norm`, with that as the exponent.
    """

    multiplication: float
    store: float
    turn_instructions: int
    turn: int
    registers: int
    advantage: float
    norm: float


@dataclass(frozen=True)
class BlockedBatches:
    """What the time of batches of products of 16 bits and known sizes is estimated by, in the blocked form.

    A tile takes `start` cycles, a panel `panel` and `column` for each column of the tile; an element of the tile
    `stored`; and one of the result that is added to the first of `kept`, and the second for each 64 columns that the
    tile has beyond the first 64, which are more registers.  The last three are times `wide` if it has more bits.
    """

    start: float
    panel: float
    column: float
    stored: float
    kept: tuple[float, float]
    wide: float


@dataclass(frozen=True)
class TiledBatches:
    """What the time of batches of products of 16 bits and known sizes is estimated by, in the tiled form.

    A tile takes `start` cycles, and one for so many `multiplications`; an element of what a warpgroup stores `stored`,
    and `kept` where it is added to, the second of each if it has more than 16 bits.  Device memory makes `memory_bytes`
    a cycle, and the cache `cache_bytes`; what goes on at the same time takes as long as the `norm` of its parts, with
    that as the exponent.
    """

    start: float
    multiplications: float
    stored: tuple[float, float]
    kept: tuple[float, float]
    memory_bytes: float
    cache_bytes: float
    norm: float


@dataclass(frozen=True)
class PackedBatches:
    """What the time of batches of products of 16 bits and known sizes is estimated by, in the packed form.

    A part takes a block `start` cycles; what each lane packs, `word` for a pair of elements and `half` for one of two
    loads; an instruction of 16 x 8 x 16 `multiplication`, the sums of one `stored` and `kept`; and `fill` each time the
    stage is filled again.  See `TiledBatches` for the others.
    """

    start: float
    word: float
    half: float
    multiplication: float
    stored: float
    kept: float
    fill: float
    memory_bytes: float
    cache_bytes: float
    norm: float


@dataclass(frozen=True)
class NarrowBatches:
    """What the form of batches of products of 16 bits and known sizes is chosen by."""

    packed: PackedBatches
    blocked: BlockedBatches
    tiled: TiledBatches


@dataclass(frozen=True)
class Multiprocessor:
    """What decides how products of small matrices run.

    A cycle has so many multiply-adds of f32 and of f64, `instructions` of warps, and one access to shared memory, of
    `banks` words.  There are `registers` of 32 bits, `thread_registers` of them for each thread at most, `threads` and
    `local_memory` bytes for all `blocks` together, and `block_memory` more is taken for each.  Device memory makes
    `memory_bytes` a cycle.  A turn of a block of the staged form takes a warp `turn_instructions` and `turn` cycles
    beside its products, a `barrier` more for results that have one place, and its first warp `copy_instructions` more;
    `widening` are those for an element of 16 bits.  Where a scheduler has a single warp, the `exposed` part of what
    takes less, instructions or accesses to shared memory, adds to what takes more; and an instruction of a warp takes
    `alone` cycles, however few warps there are, and for each access to shared memory `waited` more.  Where a work-group
    has several products, each takes a warp `product_instructions` beside its own, where threads wait for one another in
    between, `product` cycles, and `exposed_of_products` and `waited_of_products` stand for `exposed` and `waited`.
    Products whose rows are shifted take `shifted` times as long as all that says.  `padded` is for products on tensor
    cores, `blocked` and `tiled` are for large ones, `narrow` for batches of those of 16 bits.
    """

    multiply_adds_f32: int
    multiply_adds_f64: int
    instructions: int
    banks: int
    registers: int
    thread_registers: int
    threads: int
    blocks: int
    local_memory: int
    block_memory: int
    memory_bytes: float
    turn: int
    turn_instructions: int
    copy_instructions: int
    widening: float
    shifted: float
    barrier: int
    exposed: float
    alone: float
    waited: float
    product: int
    product_instructions: int
    exposed_of_products: float
    waited_of_products: float
    padded: PaddedNumbers
    blocked: BlockedNumbers
    tiled: tuple[TiledNumbers, ...]
    narrow: NarrowBatches

    def tile_time(self, operands: str, rows: int, columns: int) -> TileTime:
        """Return what the time of tiles of the tiled form is estimated by."""
        return next(numbers for numbers in self.tiled if numbers.operands == operands).time(rows, columns)

    def room(self, blocks: int) -> int:
        """Return the bytes of local memory of a block, of which there is room for so many."""
        return self.local_memory // blocks - self.block_memory

    def accesses(self, addresses: Sequence[int], size: int) -> int:
        """Return how often shared memory is accessed for loads of `size` bytes by a warp."""
        return accesses(addresses, size, self.banks)


def accesses(addresses: Sequence[int], size: int, banks: int) -> int:
    """Return how often shared memory of so many banks is accessed for loads of `size` bytes by a warp.

    Wide loads go by parts of it, half as many where each lane reads what the next lane, or the next but one, does.
    """
    parts = max(1, size // _BANK)
    if parts > 1 and any(
        all(address == addresses[lane ^ distance] for lane, address in enumerate(addresses)
            if lane ^ distance < len(addresses)) for distance in (1, 2)
    ):
        parts //= 2
    together, total = LANES // parts, 0
    for first in range(0, len(addresses), together):
        words = {word for address in addresses[first : first + together]
                 for word in range(address // _BANK, (address + size - 1) // _BANK + 1)}
        counts = [0] * banks
        for word in words:
            counts[word % banks] += 1
        total += max(counts)
    return total
