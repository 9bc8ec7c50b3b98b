"""Which operands can be loaded by blocks, for all that is known of them."""

from __future__ import annotations

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.rows import DpasRow

__all__ = ["may_be_surface", "refused_operand", "takes_a", "takes_b_along_k"]


def may_be_surface(bits: int, width: object, height: object, pitch: object) -> bool:
    """Whether what is known of a matrix allows messages (`Surface`); anything but an int is not known."""
    known = [(size, rule) for size, rule in (
        (width, lambda size: _bytes_fit(size * bits, RULES.width_multiple)),
        (pitch, lambda size: _bytes_fit(size * bits, RULES.pitch_multiple)),
        (height, lambda size: 1 <= size <= RULES.most_lines),
    ) if isinstance(size, int)]
    overlaps = isinstance(width, int) and isinstance(pitch, int) and pitch < width
    return all(rule(size) for size, rule in known) and not overlaps


def _bytes_fit(bits: int, multiple: int) -> bool:
    """Whether the bits of a line are whole multiples of bytes and within bounds."""
    size, rest = divmod(bits, 8 * multiple)
    return not rest and RULES.least_bytes <= size * multiple <= RULES.most_bytes - RULES.address


def refused_operand(
    row: DpasRow, a: tuple[object, ...], b: tuple[object, ...], sizes: tuple[object, ...]
) -> str | None:
    """Return which operand messages do not load, for all that is known of it, "A" or "B"; None where they may.

    Strides are along m and k and along k and n, sizes are m, n and k; anything but an int is not known.  Both operands
    have to be in global memory.
    """
    m, n, k = sizes
    if not takes_a(row, a, m, k):
        return "A"
    if takes_b_along_k(row, b, n, k):
        return None
    # Columns of B are found in words that hold several; where A lies along k, the operands' roles can be exchanged.
    bits = row.source2.bits
    splits = (row.a_elements == row.repeat and b[0] != 1 and b[1] == 1 and a[0] == 1 and bits >= 8
              and row.repeat * bits % 32 == 0)
    return None if splits and may_be_surface(bits, n, k, b[0]) else "B"


def takes_a(row: DpasRow, strides: tuple[object, ...], m: object, k: object) -> bool:
    """Whether messages may load A, for all that is known of it; strides are along m and k."""
    bits = row.source1.bits
    if strides[0] == 1:
        # Integers below 8 bits are loaded as bytes, in their order along k.
        return bits >= 8 and may_be_surface(bits, m, k, strides[1])
    return strides[1] == 1 and may_be_surface(bits, k, m, strides[0])


def takes_b_along_k(row: DpasRow, strides: tuple[object, ...], n: object, k: object) -> bool:
    """Whether messages may load B and its elements follow one another along k; strides are along k and n."""
    return (row.a_elements == row.repeat and strides[0] == 1
            and may_be_surface(row.source2.bits, k, n, strides[1]))
