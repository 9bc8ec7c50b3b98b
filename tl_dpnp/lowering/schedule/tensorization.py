"""Matching a part of a nest against the meaning of an engine's instruction."""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.amx.micro_kernel import TileKernel, tile_kernel_named
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel, micro_kernel_named
from tl_dpnp.kernels.instructions import INSTRUCTIONS, MatrixInstruction
from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.lowering.nest import Access, Assign, Derived, Loop, MultiplyAdd, Node
from tl_dpnp.lowering.nest_products import NestProduct, product_in, refusal
from tl_dpnp.lowering.schedule.draft import Draft
from tl_dpnp.lowering.warp_tile import element_of, warp_tile_of

__all__ = ["tensorize"]


def tensorize(draft: Draft, loop: str, instruction: str) -> None:
    """See `Schedule.tensorize`."""
    kernel = micro_kernel_named(instruction)
    if kernel is not None:
        if kernel.row.unused is not None:
            raise UnsupportedError(f"{draft.nest.name}: {kernel.row} cannot be reached: {kernel.row.unused}")
        _tensorize_product(draft, loop, kernel, "DPAS")
        return
    tile_kernel = tile_kernel_named(instruction)
    if tile_kernel is not None:
        _tensorize_product(draft, loop, tile_kernel, "AMX")
        return
    if instruction in ROWS:
        _tensorize_by_warp(draft, loop, ROWS[instruction])
        return
    known = ", ".join(INSTRUCTIONS)
    draft.require(
        instruction in INSTRUCTIONS,
        f"there is no instruction {instruction}; there are {known}, those of mma.sync, and the micro-kernels of DPAS "
        "and AMX",
    )
    row = INSTRUCTIONS[instruction]
    chain = [draft.loop(loop)]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    for entry in chain:
        plain = entry.kind == "serial" and not entry.guards and not entry.derived and not entry.pipelined
        draft.require(plain and entry.start == 0 and entry.step == 1, f"the loop {entry.variable} is not a plain one")
    assign = _update(draft, chain[-1].body, row)
    m, n = _roles(draft, chain, assign, row)
    inner = replace(n, kind="tensorized", body=(assign,))
    outer = replace(m, kind="tensorized", body=(inner,), instruction=instruction)
    draft.replace(loop, lambda _: (outer,))


def _tensorize_product(draft: Draft, loop: str, kernel: MicroKernel | TileKernel, engine: str) -> None:
    """Replace a whole nest, which must be a product that the micro-kernel computes."""
    m = draft.loop(loop)
    product = product_in(m)
    whole = len(draft.nest.body) == 1 and draft.nest.body[0] == m
    if product is None or not whole or any(entry.kind != "serial" for entry in (m, product.n, product.k)):
        raise draft.error(f"a micro-kernel of {engine} replaces a whole nest that is a product and was not scheduled "
                          "before")
    why = refusal(product, kernel)
    draft.require(why is None, str(why))
    draft.replace(loop, lambda _: (_all_tensorized(m, product, kernel.name),))


def _all_tensorized(m: Loop, product: NestProduct, instruction: str) -> Loop:
    k = replace(product.k, kind="tensorized")
    n = replace(product.n, kind="tensorized", body=tuple(k if node == product.k else node for node in product.n.body))
    return replace(m, kind="tensorized", body=(n,), instruction=instruction)


def _tensorize_by_warp(draft: Draft, loop: str, row: MmaRow) -> None:
    """Let a warp compute what its lanes have of a tile, together: the lanes are dealt out before."""
    draft.require(row.unused is None, f"no nest means {row.name}: {row.unused}")
    tile = warp_tile_of(draft.loop(loop), row)
    if tile is None:
        raise draft.error(f"{row.name} needs plain loops inside one another over {row.m // 8} blocks of 8 rows, where "
                          f"there is more than one, over 2 columns and over {row.k} elements of the sum, with one "
                          "multiply-add of elements alone")
    buffers = {access.buffer.name for access in (tile.a, tile.b, tile.target)}
    draft.require(len(buffers) == 3, "its operands are not apart")
    for access, element in ((tile.a, row.a), (tile.b, row.b), (tile.target, row.c)):
        found = element_of(draft.nest, access.buffer)
        wanted = "f32" if element.name == "tf32" else element.name
        draft.require(found.name == wanted, f"{access} is of type {found}, not {wanted}")
    lanes = next((node for node in draft.path_to(loop) if isinstance(node, Loop) and node.kind == "lanes"), None)
    if lanes is None or lanes.static_range != range(LANES) or lanes.guards:
        raise draft.error(f"it does not lie inside a loop over {LANES} lanes")
    # Lane 4 g + t has row g and columns 2 t and 2 t + 1: see `tl_dpnp.kernels.mma.rows`.
    own = (lanes.variable,)
    for access, mode, fits in (
        (tile.target, tile.row_mode, Derived("", own, 4, 8)), (tile.a, tile.a_mode, Derived("", own, 4, 8)),
        (tile.target, 1 - tile.row_mode, Derived("", own, 1, 4, 2)), (tile.b, tile.b_mode, Derived("", own, 1, 4, 2)),
    ):
        _require_lanes(draft, lanes, access, mode, fits)
    draft.replace(loop, lambda _: (tile.tensorized(row),))


def _require_lanes(draft: Draft, lanes: Loop, access: Access, mode: int, fits: Derived) -> None:
    """A mode of an access must be dealt to the lanes as given."""
    index = access.indices[mode]
    dealt = [replace(derived, variable="") for derived in lanes.derived if derived.variable in index]
    draft.require(dealt == [fits] and lanes.variable not in index,
                  f"the lanes have other rows or columns of {access} than {fits.scale} * (lane // {fits.divisor} % "
                  f"{fits.modulus})")


def _update(draft: Draft, body: tuple[Node, ...], row: MatrixInstruction) -> Assign:
    """Return the one assignment, if it is a multiply-add of the instruction's types; A's access comes first."""
    match body:
        case (Assign(target, MultiplyAdd(Access() as lhs, Access() as rhs, addend), "update", "set") as assign,):
            draft.require(addend == target, f"{assign} does not add to its target")
            types = {access.buffer.element for access in (target, lhs, rhs)}
            draft.require(types == {row.element}, f"{assign} is not all of type {row.element}")
            return assign
    raise draft.error("it does not hold one multiply-add of elements alone")


def _roles(draft: Draft, chain: list[Loop], assign: Assign, row: MatrixInstruction) -> tuple[Loop, Loop]:
    """Return the loops along m and n: m indexes the first factor and the target, n the second and the target."""
    assert isinstance(assign.value, MultiplyAdd)
    a, b = assign.value.lhs, assign.value.rhs
    assert isinstance(a, Access)
    assert isinstance(b, Access)
    extent = {loop.variable: loop.stop for loop in chain}
    found = {
        role: [v for v in extent if _uses(near, v) and not _uses(far, v) and _uses(assign.target, v)]
        for role, near, far in (("m", a, b), ("n", b, a))
    }
    shape = " x ".join(str(extent[v]) for v in (*found["m"], *found["n"]))
    fits = len(chain) == 2 and [extent[v] for v in (*found["m"], *found["n"])] == [row.m, row.n]
    draft.require(fits, f"{row.name} needs loops of {row.m} x {row.n} iterations, not {shape or 'others'}")
    by_name = {loop.variable: loop for loop in chain}
    return by_name[found["m"][0]], by_name[found["n"][0]]


def _uses(access: Access, variable: str) -> bool:
    return any(variable in index for index in access.indices)
