"""What the matrix units of devices do well, in numbers: Intel's XMX (DPAS) and AMX."""

from __future__ import annotations

from tl_dpnp.records import dataclass

__all__ = ["AmxNumbers", "DpasNumbers", "OverlapNumbers"]

#: Blocks of a tile along the lanes and along the repeat count.
Blocks = tuple[int, int]


@dataclass(frozen=True)
class BlockNumbers:
    """What the code of products by messages of blocks takes, in instructions and registers.

    In a tile of a thread with 256 or 128 registers, sums, operands and headers have so many: beyond, there is scratch
    memory.  Headers of what is `fetched` ahead take some of them.  An iteration has so many instructions, and more for
    each `message`: that, its header's, and what waits for it.  Before the first one and behind the last one there are
    those for each header, for each block of sums and for the tile.  Of the clocks of DPAS so many count for a `row`:
    during the others, other threads issue instructions.  A size that is not known is so many blocks.
    """

    registers: int
    few_registers: int
    fetched: int
    iteration: int
    message: int
    header: int
    block: int
    tile: int
    row: float
    long: int


@dataclass(frozen=True)
class ShareNumbers:
    """What the code of products takes whose sub-groups load panels of local memory together and round them once.

    There are instructions for each message that `load`s a block of a panel or `store`s fragments, and for a `branch`
    where it may have nothing to do; for each `panel`, and each `step` of it along k.  In front of the panels and behind
    them there are those for each `header`, for each `block` of sums and for the `tile`.  A size that is not known is so
    many blocks.
    """

    load: float
    store: float
    branch: float
    panel: float
    step: float
    header: float
    block: float
    tile: float
    long: int


@dataclass(frozen=True)
class PanelNumbers:
    """What the code of products takes whose operands messages put into panels of local memory.

    A tile has so many `registers`, of which `packing` takes some, and that of `both` operands more.  There are
    instructions for each `iteration`, for what `waits` in it for registers, for each `message` that reads local memory,
    or a `block_message` a matrix, in it, and for each message that loads, or stores, what is packed; for each `panel`;
    and in front of all or behind it for each `header`, for each `block` of sums and for the `tile`.
    """

    registers: int
    packing: int
    both: int
    iteration: float
    waits: float
    message: float
    block_message: float
    load: float
    store: float
    panel: int
    header: int
    block: int
    tile: int


@dataclass(frozen=True)
class DpasNumbers:
    """Numbers that the code of compiled kernels chose for products on DPAS.

    A default tile has at most so many blocks along the lanes and along the repeat count: `elements_read` where elements
    are read one by one.  `by_blocks` are for operands that messages load.  Of f32 that is rounded, `by_rounded_blocks`
    are for sub-groups that each do that, and `by_shares` for those that do it for one another.

    Products whose operands are packed in local memory have the first of the tiles `packed` that fits, `packed_f32`
    where operands are f32 that are split in three; their values may take `registers`: beyond, the compiler begins to
    use scratch memory.  What is packed at a time takes `panel_bytes` for each sub-group, so that as many work-groups
    run together as their registers allow, or is of `panel_steps` along k if that is more.  Large tiles have at most
    `rows_beside` blocks along the lanes where messages fill the panels unless addresses do not allow it.
    """

    packed: tuple[Blocks, ...]
    packed_f32: tuple[Blocks, ...]
    registers: int
    panel_bytes: int
    panel_steps: int = 4
    rows_beside: int = 3
    elements_read: tuple[int, int] = (2, 1)
    by_blocks: BlockNumbers = BlockNumbers(
        registers=240, few_registers=112, fetched=4, iteration=5, message=4, header=20, block=20, tile=130, row=0.5,
        long=64)
    by_rounded_blocks: BlockNumbers = BlockNumbers(
        registers=240, few_registers=112, fetched=4, iteration=4, message=3, header=20, block=5, tile=60, row=0.5,
        long=64)
    by_shares: ShareNumbers = ShareNumbers(
        load=1, store=2.25, branch=3, panel=15, step=1.5, header=27, block=5, tile=66, long=64)
    by_panels: PanelNumbers = PanelNumbers(
        registers=228, packing=52, both=18, iteration=7, waits=4, message=1.6, block_message=2.5, load=2.2, store=2,
        panel=60, header=8, block=20, tile=200)


@dataclass(frozen=True)
class OverlapNumbers:
    """How long products of f32 take whose operands are packed between them, in nanoseconds, and the same by vectors.

    There is the time to `start`, for each product of `tile`s, which has a part of the packing in it, for
    each `row` of all terms that is packed, which takes longer where C has one tile along a mode, for
    each row that is `turned`, transposed, or whose vectors are `cut` by cache lines where C has one or two tiles along
    a mode, for each column of a tile of C that is `stored` or, in addition, `finished` by vectors, and for each tile of
    C whose columns lie `apart` from the
    beginnings of cache lines.  By vectors there is that of a `multiply_add`, of a `line` of C, of one
    that is `added` to, and of a line of A that is `transposed`.  Vectors are left what tiles would compute less than
    `worth` times as fast.
    """

    start: float
    tile: float
    row: float
    turned: float
    cut: float
    stored: float
    finished: float
    apart: float
    multiply_add: float
    line: float
    added: float
    transposed: float
    worth: float


@dataclass(frozen=True)
class AmxNumbers:
    """How long products on the tiles of AMX take in nanoseconds, and the same products by vectors.

    There is the time to `start` and end, and that for each product of `tile`s, for each `row` of 16 words that is
    packed or, in addition, `changed`: transposed, made of f32 as one of several terms, or finished by vectors, or
    `rounded` from f32, and for each cache `line` of C.
    By vectors a line takes `vector_line`, and `vector_rounded` more if it is rounded to bf16; `multiply_add` is that of
    one vector, conversion of its operands included, by their type.  `overlap` is for operands that are packed between
    products.
    """

    start: float
    tile: float
    row: float
    changed: float
    rounded: float
    line: float
    vector_line: float
    vector_rounded: float
    multiply_add: tuple[tuple[str, float], ...]
    overlap: OverlapNumbers

    def vector_time(self, operand: str) -> float:
        """Return the time of a multiply-add of one vector of operands of a type, by its name in the language."""
        return dict(self.multiply_add)[operand]
