"""Products on the tiles of Intel's processors: which nests they compute, when that is faster, and how it is emitted.

As on the matrix engine of a GPU a nest that is a product, as written, is tensorized whole.
"""

from __future__ import annotations

from tl_dpnp.kernels.amx.micro_kernel import TileKernel, tile_kernel_named
from tl_dpnp.kernels.amx.product import work_memory
from tl_dpnp.kernels.amx.rows import ROWS, Palette
from tl_dpnp.lowering.matrix_engine import MatrixEngine, NestProduct, product_in
from tl_dpnp.lowering.nest import Access, Loop, Nest
from tl_dpnp.lowering.tactics.rounding import hint, rounding
from tl_dpnp.target.catalog import AMX

__all__ = [
    "default_tile_kernel", "keeps_packed", "palette_of", "refusal", "stores_sums", "tile_kernel_of", "tile_remark",
    "tile_work", "whole_tile_kernel",
]

#: Bytes that a product may take of the work-item's own memory.
_MOST_MEMORY = 1 << 17
#: Lanes of a vector of f32 or i32, as many as a cache line has.
_LANES = 16


def tile_kernel_of(loop: Loop) -> TileKernel | None:
    """Return the micro-kernel on tiles that a loop is tensorized to, if it is one."""
    return None if loop.instruction is None else tile_kernel_named(loop.instruction)


def whole_tile_kernel(nest: Nest) -> TileKernel | None:
    """Return the micro-kernel on tiles that computes a whole nest, if one does."""
    match nest.body:
        case (Loop() as loop,):
            return tile_kernel_of(loop)
    return None


def _product(nest: Nest) -> NestProduct | None:
    return product_in(nest.body[0]) if len(nest.body) == 1 and isinstance(nest.body[0], Loop) else None


def sizes_of(product: NestProduct) -> tuple[int, int, int] | None:
    """Return m, n and k, None where one is known at run time only."""
    m, n, k = product.m.stop, product.n.stop, product.k.stop
    if isinstance(m, int) and isinstance(n, int) and isinstance(k, int):
        return m, n, k
    return None


def palette_of(nest: Nest) -> Palette | None:
    """Return the shapes of the tiles that compute a nest, None where none do."""
    kernel, product = whole_tile_kernel(nest), _product(nest)
    if kernel is None or product is None:
        return None
    sizes = sizes_of(product)
    assert sizes is not None
    return kernel.palette(*sizes)


def stores_sums(product: NestProduct) -> bool:
    """Whether the sums are the result as they are, and its columns have no gaps."""
    finish, target = product.finish, product.finish.target
    rows = next(mode for mode, index in enumerate(target.indices) if index == (product.m.variable,))
    return finish.update == "set" and finish.value == product.total and target.buffer.strides[rows] == 1


def refusal(nest: Nest, kernel: TileKernel) -> str | None:
    """Return why a nest cannot be computed by a micro-kernel, None where it can."""
    product = _product(nest)
    if product is None:
        return "it is no product"
    if product.types != (*kernel.operands, kernel.row.total):
        return "it sums products of {} and {} in {}".format(*product.types)
    sizes = sizes_of(product)
    if sizes is None:
        return "its sizes are known at run time only"
    if 0 in sizes:
        return "it is empty"
    m, n, k = sizes
    if not all(_is_dense(access, k) for access in (product.a, product.b)):
        return "the elements of an operand do not follow one another along any of its modes"
    if work_memory(kernel, m, n, k, _lies_along(product.b, product.k.variable, k)) > _MOST_MEMORY:
        return f"its operands would take more than {_MOST_MEMORY} bytes as tiles"
    return None


def keeps_packed(product: NestProduct, kernel: TileKernel) -> bool:
    """Whether there is memory for all of A as tiles, from one work-group to the next, and its strides are known."""
    sizes = sizes_of(product)
    assert sizes is not None
    along = _lies_along(product.b, product.k.variable, sizes[2])
    known = all(isinstance(stride, int) for stride in product.a.buffer.strides)
    return known and work_memory(kernel, *sizes, along, keeps_a=True) <= _MOST_MEMORY


def _lies_along(access: Access, variable: str, size: int) -> bool:
    strides = {names[0]: stride for names, stride in zip(access.indices, access.buffer.strides, strict=True)}
    return strides.get(variable, 0) == 1 or size == 1


def _is_dense(access: Access, k: int) -> bool:
    """Whether elements follow one another along one of the modes, or there is but one along it."""
    return 1 in access.buffer.strides or 1 in access.buffer.shape or k == 1


def _candidate(nest: Nest, engine: MatrixEngine) -> TileKernel | None:
    """Return the micro-kernel for the types of a nest, None where the processor has none."""
    product = _product(nest)
    if product is None:
        return None
    found = rounding(product.types, engine.precision, "amx")
    if found is None:
        return None
    types = found.a, found.b, product.types[2]
    return next((TileKernel(row, found.terms) for row in ROWS
                 if row.flag in engine.tiles and (row.a, row.b, row.total) == types), None)


def default_tile_kernel(nest: Nest, engine: MatrixEngine) -> TileKernel | None:
    """Return the micro-kernel for a nest, or None where vectors do it, or do it as fast."""
    kernel = _candidate(nest, engine)
    if kernel is None or refusal(nest, kernel) is not None or _time(nest, kernel) >= _vector_time(nest):
        return None
    return kernel


def tile_work(nest: Nest) -> int | None:
    """Estimate a product on tiles in vector operations that take as long, None where tiles do not compute it."""
    kernel = whole_tile_kernel(nest)
    return None if kernel is None else max(1, round(_time(nest, kernel) / AMX.vector_time("f32")))


def _time(nest: Nest, kernel: TileKernel) -> float:
    """Estimate how long tiles take for a nest that they compute, in nanoseconds."""
    product = _product(nest)
    assert product is not None
    sizes = sizes_of(product)
    assert sizes is not None
    m, n, k = sizes
    (depth, words), rows, columns = kernel.depth(k), kernel.cut(m).count, kernel.cut(n).count
    terms, products = max(1, kernel.terms), sum(map(len, kernel.products))
    packed = rows * depth * words
    if kernel.terms or not _lies_along(product.b, product.k.variable, k):
        packed += n * depth
    elif k != depth * words * kernel.row.per_word:
        packed += n
    finished = 0 if stores_sums(product) and len(kernel.products) == 1 else n * rows
    return (AMX.start + rows * columns * depth * products * AMX.tile + (packed * terms + finished) * AMX.row
            + m * n / _LANES * AMX.line)


def _vector_time(nest: Nest) -> float:
    """Estimate how long vectors take for a nest, in nanoseconds."""
    product = _product(nest)
    assert product is not None
    sizes = sizes_of(product)
    assert sizes is not None
    m, n, k = sizes
    return -(-m // _LANES) * n * k * AMX.vector_time(product.a.buffer.element.name)


def tile_remark(nest: Nest, engine: MatrixEngine, used: TileKernel | None) -> str | None:
    """Return why a product is, or is not, computed on the tiles that there are, None where nothing is to be said."""
    product = _product(nest)
    if product is None or not engine.tiles:
        return None
    if used is not None:
        sizes = sizes_of(product)
        assert sizes is not None
        m, n, k = sizes
        (depth, words), rows, columns = used.depth(k), used.cut(m), used.cut(n)
        return (f"is on AMX: {used.name}, {rows.count} x {columns.count} x {depth} tiles of "
                f"{' or '.join(map(str, rows.sizes))} x {' or '.join(map(str, columns.sizes))} x "
                f"{words * used.row.per_word}")
    kernel = _candidate(nest, engine)
    if kernel is None:
        a, b, total = product.types
        return f"is not on AMX: it sums products of {a} and {b} in {total}{hint(product.types)}"
    why = refusal(nest, kernel)
    if why is None:
        fast = _time(nest, kernel) >= _vector_time(nest)
        why = "vectors are expected to be as fast" if fast else "it has a schedule of its own, or sub-groups compute it"
    return f"is not on AMX: {why}"
