"""What the blocks of a cluster share out among themselves, as PTX."""

from __future__ import annotations

__all__ = ["own_share"]


def own_share(count: str | int, first: str, last: str) -> str:
    """Return the text that finds which of `count` things are this block's, number `first` to before `last`.

    Those are registers, and `count` a number or one; the block is number `rank` of `parts`.
    """
    return (f"mul.lo.u32 {first}, rank, {count}; div.u32 {first}, {first}, parts; "
            f"add.u32 {last}, rank, 1; mul.lo.u32 {last}, {last}, {count}; div.u32 {last}, {last}, parts;")
