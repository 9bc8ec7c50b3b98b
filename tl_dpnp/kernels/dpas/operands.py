"""Which operands can be loaded by blocks, for all that is known of them."""

from __future__ import annotations

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.rows import DpasRow

__all__ = ["may_be_surface", "refused_operand"]


def may_be_surface(bits: int, width: object, height: object, pitch: object) -> bool:
    """Whether what is known of a matrix allows messages (`Surface`); anything but an int is not known."""
    known = [(size, rule) for size, rule in (
        (width, lambda size: _bytes_fit(size * bits, RULES.width_multiple)),
        (pitch, lambda size: _bytes_fit(size * bits, RULES.pitch_multiple)),
        (height, lambda size: 1 <= size <= RULES.most_bytes),
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
    a_bits, b_bits = row.source1.bits, row.source2.bits
    if 1 not in a:
        return "A"
    # Integers below 8 bits are loaded as bytes, in their order along k.
    fits = may_be_surface(a_bits, m, k, a[1]) and a_bits >= 8 if a[0] == 1 else may_be_surface(a_bits, k, m, a[0])
    if not fits:
        return "A"
    if row.a_elements != row.repeat:
        return "B"
    if b[0] == 1:
        return None if may_be_surface(b_bits, k, n, b[1]) else "B"
    # Columns of B are found in words that hold several; where A lies along k, the operands' roles can be exchanged.
    splits = b[1] == 1 and a[0] == 1 and b_bits >= 8 and row.repeat * b_bits % 32 == 0
    return None if splits and may_be_surface(b_bits, n, k, b[0]) else "B"
