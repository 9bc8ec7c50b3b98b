"""Products on the tiles of Intel's processors (AMX), where they are faster than vectors by an estimate."""

from __future__ import annotations

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.rows import ROWS
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.nest import Nest
from tl_dpnp.lowering.nest_products import NestProduct, lies_along, refusal, rounds_sums, stores_sums, whole_product
from tl_dpnp.lowering.tactics.rounding import hint, rounding
from tl_dpnp.lowering.tactics.tactic import EngineTactic, Place
from tl_dpnp.scalars import BF16
from tl_dpnp.target.catalog import AMX

__all__ = ["Amx"]

#: Lanes of a vector of f32 or i32, as many as a cache line has.
_LANES = 16
#: How many times as long a row of terms takes where C has one tile along a mode, so that no products hide it.
_SEEN = 3


class Amx(EngineTactic[TileKernel]):
    """See the module."""

    kind = TileKernel

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Amx | None:
        kernel = _default_kernel(contraction.nest, place.engine) if place.frame.is_alone else None
        return None if kernel is None else cls(contraction, place, kernel)

    @classmethod
    def remark(cls, plain: Nest, engine: MatrixEngine, used: TileKernel | None) -> str | None:
        return _remark(plain, engine, used)

    @classmethod
    def missing(cls, used: TileKernel, engine: MatrixEngine) -> str | None:
        if used.row.flag in engine.tiles:
            return None
        return (f"{used.name} needs {used.row.flag}, which the device does not have or may not use, and none is "
                "emulated")

    @classmethod
    def work(cls, used: TileKernel, scheduled: Nest) -> int:
        return max(1, round(_time(scheduled, used) / AMX.vector_time("f32")))


def _candidate(nest: Nest, engine: MatrixEngine) -> TileKernel | None:
    """Return the micro-kernel for the types of a nest, None where the processor has none."""
    product = whole_product(nest)
    if product is None:
        return None
    found = rounding(product.types, engine.precision, "amx")
    if found is None:
        return None
    types = found.a, found.b, product.types[2]
    return next((TileKernel(row, found.terms) for row in ROWS
                 if row.flag in engine.tiles and row.types == types), None)


def _default_kernel(nest: Nest, engine: MatrixEngine) -> TileKernel | None:
    """Return the micro-kernel for a nest, or None where vectors do it, or do it as fast."""
    kernel, product = _candidate(nest, engine), whole_product(nest)
    if kernel is None or product is None or refusal(product, kernel) is not None:
        return None
    return kernel if _is_faster(nest, kernel) else None


def _time(nest: Nest, kernel: TileKernel) -> float:
    """Estimate how long tiles take for a nest that they compute, in nanoseconds."""
    product = whole_product(nest)
    assert product is not None
    sizes = product.sizes
    assert sizes is not None
    m, n, k = sizes
    if kernel.overlaps(n, k):
        return _overlapped_time(product, kernel, m, n, k)
    (depth, words), rows, columns = kernel.depth(k), kernel.cut(m).count, kernel.cut(n).count
    terms, products = max(1, kernel.terms), len(kernel.products)
    turned = [not lies_along(product.a, product.m.variable, m), not lies_along(product.b, product.k.variable, k)]
    packed, of_b = rows * depth * words * terms, n * depth * terms
    changed = packed * turned[0] + of_b * turned[1]
    # One term is cut off and what is left rounded, where there are several; a single one is rounded.
    made = (packed + of_b) * (AMX.rounded if kernel.terms == 1 else AMX.changed) if kernel.terms else 0.0
    if not (kernel.terms or turned[1]) and k != depth * words * kernel.row.per_word:
        packed += n  # the ends of columns of B
    if rounds_sums(product):
        packed += n * rows
    elif not stores_sums(product):
        changed += n * rows
    return (AMX.start + rows * columns * depth * products * AMX.tile + packed * AMX.row + changed * AMX.changed + made
            + m * n / _LANES * AMX.line)


def _overlapped_time(product: NestProduct, kernel: TileKernel, m: int, n: int, k: int) -> float:
    """Estimate how long tiles take whose operands are packed between products, in nanoseconds."""
    numbers, (depth, words), rows, columns = AMX.overlap, kernel.depth(k), kernel.cut(m).count, kernel.cut(n).count
    often = 1 if kernel.keeps_b(m, n, k) else -(-rows // kernel.together)
    joined = kernel.joined(k)
    regular = depth - (joined is not None)
    of_a = rows * (words * regular + (joined.words if joined else 0))
    turned = cut = seen = 0
    for packed, is_as_wanted, first, other in (
            (of_a, lies_along(product.a, product.m.variable, m), m, k),
            (n * depth * often, lies_along(product.b, product.k.variable, k), k, n)):
        seen += packed * (_SEEN if min(rows, columns) == 1 else 1)
        turned += packed * (not is_as_wanted)
        cut += packed * bool((first if is_as_wanted else other) % _LANES) * (min(rows, columns) <= kernel.together)
    products = len(kernel.products) * regular + (len(joined.pairs) if joined else 0)
    return (numbers.start + rows * columns * products * numbers.tile + seen * numbers.row
            + turned * numbers.turned + cut * numbers.cut
            + n * rows * (numbers.stored + (not stores_sums(product)) * numbers.finished)
            + rows * columns * bool(m % _LANES) * numbers.apart)


def _is_faster(nest: Nest, kernel: TileKernel) -> bool:
    """Whether tiles are expected to compute a nest faster than vectors."""
    product = whole_product(nest)
    assert product is not None
    sizes = product.sizes
    assert sizes is not None
    if kernel.overlaps(*sizes[1:]):
        return _time(nest, kernel) * AMX.overlap.worth < _f32_vector_time(product, *sizes)
    return _time(nest, kernel) < _vector_time(nest)


def _f32_vector_time(product: NestProduct, m: int, n: int, k: int) -> float:
    """Estimate how long vectors take for a product of f32, in nanoseconds."""
    numbers, lines = AMX.overlap, -(-m // _LANES)
    transposed = 0 if lies_along(product.a, product.m.variable, m) else lines * k
    return (lines * n * (k * numbers.multiply_add + numbers.line + (not stores_sums(product)) * numbers.added)
            + transposed * numbers.transposed)


def _vector_time(nest: Nest) -> float:
    """Estimate how long vectors take for a nest, in nanoseconds."""
    product = whole_product(nest)
    assert product is not None
    sizes = product.sizes
    assert sizes is not None
    m, n, k = sizes
    lines = -(-m // _LANES) * n
    rounded = AMX.vector_rounded * (product.finish.target.buffer.element == BF16)
    return lines * (k * AMX.vector_time(product.a.buffer.element.name) + AMX.vector_line + rounded)


def _remark(nest: Nest, engine: MatrixEngine, used: TileKernel | None) -> str | None:
    product = whole_product(nest)
    if product is None or not engine.tiles:
        return None
    if used is not None:
        sizes = product.sizes
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
    why = refusal(product, kernel)
    if why is None:
        why = ("it has a schedule of its own, or sub-groups compute it" if _is_faster(nest, kernel)
               else "vectors are expected to be as fast")
    return f"is not on AMX: {why}"
