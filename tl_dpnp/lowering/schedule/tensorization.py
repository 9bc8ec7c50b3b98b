"""Matching a part of a nest against the meaning of an engine's instruction."""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.kernels import simd_rows
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.instructions import MatrixInstruction
from tl_dpnp.kernels.mma.rows import LANES, MmaRow
from tl_dpnp.kernels.simd_rows import SimdRow
from tl_dpnp.lowering.expressions import Convert
from tl_dpnp.lowering.instructions import Multiplication, instruction_named, multiplication_in
from tl_dpnp.lowering.nest import Access, Derived, Loop
from tl_dpnp.lowering.nest_products import product_in, refusal
from tl_dpnp.lowering.schedule.draft import Draft
from tl_dpnp.lowering.warp_tile import element_of, warp_tile_of

__all__ = ["tensorize"]


def tensorize(draft: Draft, loop: str, instruction: str) -> None:
    """See `Schedule.tensorize`."""
    found = instruction_named(instruction)
    if found is None:
        known = ", ".join(simd_rows.ROWS)
        raise draft.error(f"there is no instruction {instruction}; there are {known}, those of mma.sync, and the "
                          "micro-kernels of DPAS and AMX")
    row = found if isinstance(found, MatrixInstruction) else found.row
    draft.require(row.unused is None, f"{row} cannot be reached: {row.unused}")
    product = multiplication_in(draft.loop(loop))
    match found:
        case SimdRow():
            order = _outer_product(draft, product, found)
        case MmaRow():
            order = _by_warp(draft, loop, product, found)
        case MicroKernel() | TileKernel():
            order = _whole_product(draft, loop, found)
        case _:
            raise AssertionError(f"{row} is of no engine")
    assert product is not None
    draft.replace(loop, lambda _: (product.tensorized(instruction, order),))


def _whole_product(draft: Draft, loop: str, kernel: MicroKernel | TileKernel) -> tuple[Loop, ...]:
    """Check that a micro-kernel computes a nest, which must be a product as a whole; return its loops."""
    m = draft.loop(loop)
    product = product_in(m)
    whole = len(draft.nest.body) == 1 and draft.nest.body[0] == m
    if product is None or not whole or any(entry.kind != "serial" for entry in (m, product.n, product.k)):
        raise draft.error(f"a micro-kernel of {kernel.engine} replaces a whole nest that is a product and was not "
                          "scheduled before")
    why = refusal(product, kernel)
    draft.require(why is None, str(why))
    return m, product.n, product.k


def _by_warp(draft: Draft, loop: str, product: Multiplication | None, row: MmaRow) -> tuple[Loop, ...]:
    """Check that a warp computes what its lanes have of a tile: the lanes are dealt out before; return the loops."""
    tile = warp_tile_of(draft.loop(loop), row)
    if tile is None or product is None:
        raise draft.error(f"{row.name} needs plain loops inside one another over {row.m // 8} blocks of 8 rows, where "
                          f"there is more than one, over 2 columns and over {row.k} elements of the sum, with one "
                          "multiply-add of elements alone")
    operands = (product.a, product.b, product.target)
    draft.require(len({access.buffer.name for access in operands}) == len(operands), "its operands are not apart")
    for access, wanted in zip(operands, row.types, strict=True):
        found = element_of(draft.nest, access.buffer)
        draft.require(found.name == wanted, f"{access} is of type {found}, not {wanted}")
    lanes = next((node for node in draft.path_to(loop) if isinstance(node, Loop) and node.kind == "lanes"), None)
    if lanes is None or lanes.static_range != range(LANES) or lanes.guards:
        raise draft.error(f"it does not lie inside a loop over {LANES} lanes")
    # Lane 4 g + t has row g and columns 2 t and 2 t + 1: see `tl_dpnp.kernels.mma.rows`.
    own = (lanes.variable,)
    rows, columns = Derived("", own, 4, 8), Derived("", own, 1, 4, 2)
    for access, mode, fits in (
        (product.target, tile.row_mode, rows), (product.a, tile.a_mode, rows),
        (product.target, 1 - tile.row_mode, columns), (product.b, tile.b_mode, columns),
    ):
        _require_lanes(draft, lanes, access, mode, fits)
    return product.loops


def _require_lanes(draft: Draft, lanes: Loop, access: Access, mode: int, fits: Derived) -> None:
    """A mode of an access must be dealt to the lanes as given."""
    index = access.indices[mode]
    dealt = [replace(derived, variable="") for derived in lanes.derived if derived.variable in index]
    draft.require(dealt == [fits] and lanes.variable not in index,
                  f"the lanes have other rows or columns of {access} than {fits.scale} * (lane // {fits.divisor} % "
                  f"{fits.modulus})")


def _outer_product(draft: Draft, product: Multiplication | None, row: SimdRow) -> tuple[Loop, ...]:
    """Check that loops are an outer product of a row's sizes and type; return them, those of its rows first."""
    if product is None or product.finish is not None:
        raise draft.error("it does not hold one multiply-add of elements alone")
    for entry in product.loops:
        plain = entry.kind == "serial" and not entry.guards and not entry.derived and not entry.pipelined
        draft.require(plain and entry.start == 0 and entry.step == 1, f"the loop {entry.variable} is not a plain one")
    elements = {access.buffer.element.name for access in (product.target, product.a, product.b)}
    rounded = isinstance(product.left, Convert) or isinstance(product.right, Convert)
    draft.require(elements == {row.c.name} and not rounded, f"{product.update} is not all of type {row.c.name}")
    found = [loop for loop in (product.m, product.n) if loop is not None]
    shape = [loop.stop for loop in found]
    draft.require(len(product.loops) == len(found) and shape == [row.m, row.n],
                  f"{row.name} needs loops of {row.m} x {row.n} iterations, not "
                  f"{' x '.join(map(str, shape)) or 'others'}")
    return tuple(found)
