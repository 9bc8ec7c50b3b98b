"""Nests that are products as written, which the micro-kernels of matrix engines compute whole.

A micro-kernel has loops of its own over tiles and over the sum.  That of DPAS computes for the sub-groups of a
work-group, that on the tiles of a processor for one work-item.
"""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import needed_for_words, piece_words
from tl_dpnp.lowering.expressions import Access, Bound, Convert, Expression, MultiplyAdd, Number, Product
from tl_dpnp.lowering.instructions import multiplication_in, whole_instruction
from tl_dpnp.lowering.nest import Assign, Loop, Nest
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import BF16

__all__ = [
    "NestProduct", "keeps_packed", "lies_along", "multiplies_by_zero", "packed_memory", "palette_of", "product_in",
    "refusal", "rounds_sums", "stores_sums", "strides_along", "whole_product",
]

#: Bytes that a product on the tiles of a processor may take of the work-item's own memory.
_MOST_MEMORY = 1 << 17


@dataclass(frozen=True)
class NestProduct:
    """The parts of a nest that is a product: its loops and assignments, and what is multiplied."""

    m: Loop
    n: Loop
    k: Loop
    a: Access
    b: Access
    total: Access
    finish: Assign

    @property
    def types(self) -> tuple[str, str, str]:
        """The types of A, B and the sums, by their names in the language."""
        return self.a.buffer.element.name, self.b.buffer.element.name, self.total.buffer.element.name

    @property
    def sizes(self) -> tuple[int, int, int] | None:
        """m, n and k, None where one is known at run time only."""
        m, n, k = self.m.stop, self.n.stop, self.k.stop
        return (m, n, k) if isinstance(m, int) and isinstance(n, int) and isinstance(k, int) else None

    @property
    def exchanged(self) -> NestProduct:
        """The product of the transposed factors, whose result is C transposed."""
        return replace(self, m=self.n, n=self.m, a=self.b, b=self.a)

    def seen_by(self, kernel: MicroKernel) -> NestProduct:
        """Return the product that a micro-kernel computes."""
        return self.exchanged if kernel.exchanged else self

    @property
    def is_static(self) -> bool:
        """Whether sizes and strides of the operands are known at compile time."""
        strides = (*self.a.buffer.strides, *self.b.buffer.strides)
        return self.sizes is not None and all(isinstance(stride, int) for stride in strides)

    @property
    def lines(self) -> tuple[tuple[tuple[object, ...], Bound], ...]:
        """The strides of A along its rows and k, and the number of its rows; the same for the columns of B."""
        m, n, k = self.m, self.n, self.k.variable
        return (strides_along(self.a, m.variable, k), m.stop), (strides_along(self.b, n.variable, k), n.stop)

    def can_be_packed(self, kernel: MicroKernel) -> bool:
        """Whether operands can be packed in local memory: those whose elements share bytes are loaded by words only."""
        return all(
            not access.buffer.element.is_subbyte or needed_for_words(strides, size, piece) is not None
            for access, (strides, size), piece in zip(
                (self.a, self.b), self.lines, piece_words(kernel, 1, 1), strict=True)
        )


def product_in(m: Loop) -> NestProduct | None:
    """Return the parts of a nest of which `m` is the outermost loop, or None if it is no plain product."""
    found = multiplication_in(m)
    if found is None or found.finish is None:
        return None
    plain = all(loop.start == 0 and loop.step == 1 and not loop.guards for loop in found.loops)
    rounded = any(isinstance(factor, Convert) and factor.type != found.target.buffer.element
                  for factor in (found.left, found.right))
    if len(found.loops) != 3 or not plain or rounded:
        return None
    # Vectors lack a mode: its loop has one iteration, which no index of an operand names.
    roles = zip((found.m, found.n, found.k), found.loops, strict=True)
    if not all(loop == role or (role is None and loop.stop == 1) for role, loop in roles):
        return None
    _, n, k = found.loops
    return NestProduct(m, n, k, found.a, found.b, found.target, found.finish)


def whole_product(nest: Nest) -> NestProduct | None:
    """Return the parts of a nest that is a plain product and nothing else, or None."""
    match nest.body:
        case (Loop() as loop,):
            return product_in(loop)
    return None


def strides_along(access: Access, first: str, second: str) -> tuple[object, ...]:
    """Return the strides of a matrix along two loops."""
    strides = {names[0]: stride for names, stride in zip(access.indices, access.buffer.strides, strict=True)}
    return strides.get(first, 0), strides.get(second, 0)


def multiplies_by_zero(product: NestProduct) -> bool:
    """Whether sums of integers are multiplied by the constant 0: the compiler takes them away."""
    def holds(value: Expression) -> bool:
        match value:
            case Convert(inner):
                return holds(inner)
            case Product(Number(value=0), factor) | MultiplyAdd(Number(value=0), factor):
                return factor == product.total
            case MultiplyAdd(_, _, addend):
                return holds(addend)
        return False

    return product.total.buffer.element.is_integer and holds(product.finish.value)


def palette_of(nest: Nest) -> Palette | None:
    """Return the shapes of the tiles that compute a nest, None where none do."""
    kernel, product = whole_instruction(nest, TileKernel), whole_product(nest)
    if kernel is None or product is None:
        return None
    sizes = product.sizes
    assert sizes is not None
    return kernel.palette(*sizes)


def stores_sums(product: NestProduct) -> bool:
    """Whether the sums are the result as they are, and its columns have no gaps."""
    finish, target = product.finish, product.finish.target
    rows = next(mode for mode, index in enumerate(target.indices) if index == (product.m.variable,))
    return finish.update == "set" and finish.value == product.total and target.buffer.strides[rows] == 1


def rounds_sums(product: NestProduct) -> bool:
    """Whether the result is the sums rounded to bf16 and nothing else, and its columns have no gaps."""
    finish = product.finish
    return (finish.target.buffer.element == BF16 and finish.value == Convert(product.total, BF16)
            and stores_sums(replace(product, finish=replace(finish, value=product.total))))


def refusal(product: NestProduct, kernel: MicroKernel | TileKernel) -> str | None:
    """Return why a product cannot be computed by a micro-kernel, None where it can."""
    return _tile_refusal(product, kernel) if isinstance(kernel, TileKernel) else _dpas_refusal(product, kernel)


def _dpas_refusal(product: NestProduct, kernel: MicroKernel) -> str | None:
    product = product.seen_by(kernel)
    operands = ("f32", "f32") if kernel.terms else (kernel.row.source1.name, kernel.row.source2.name)
    if product.types != (*operands, kernel.row.destination):
        return "it multiplies {} and {} into {}".format(*product.types)
    if kernel.alternative.packed and not product.can_be_packed(kernel.alternative):
        return "its sizes or strides do not allow loads of words, by which elements that share bytes are packed"
    if multiplies_by_zero(product):
        return "its sums are multiplied by 0, and the compiler takes them away"
    return None


def _tile_refusal(product: NestProduct, kernel: TileKernel) -> str | None:
    if product.types != (*kernel.operands, kernel.row.c.name):
        return "it sums products of {} and {} in {}".format(*product.types)
    sizes = product.sizes
    if sizes is None:
        return "its sizes are known at run time only"
    if 0 in sizes:
        return "it is empty"
    if not all(_is_dense(access, sizes[2]) for access in (product.a, product.b)):
        return "the elements of an operand do not follow one another along any of its modes"
    if packed_memory(product, kernel) > _MOST_MEMORY:
        return f"its operands would take more than {_MOST_MEMORY} bytes as tiles"
    return None


def keeps_packed(product: NestProduct, kernel: TileKernel) -> bool:
    """Whether there is memory for all of A as tiles, from one work-group to the next, and its strides are known."""
    known = all(isinstance(stride, int) for stride in product.a.buffer.strides)
    return known and packed_memory(product, kernel, keeps_a=True) <= _MOST_MEMORY


def packed_memory(product: NestProduct, kernel: TileKernel, keeps_a: bool = False) -> int:
    """Return the bytes of the work-item's own memory that a product of known sizes takes on tiles.

    It `keeps_a`, or has but rows of A there at a time.
    """
    sizes = product.sizes
    assert sizes is not None
    return kernel.work_memory(*sizes, lies_along(product.b, product.k.variable, sizes[2]), keeps_a)


def lies_along(access: Access, variable: str, size: int) -> bool:
    """Whether the elements of a matrix follow one another along a loop of so many iterations."""
    strides = {names[0]: stride for names, stride in zip(access.indices, access.buffer.strides, strict=True)}
    return strides.get(variable, 0) == 1 or size == 1


def _is_dense(access: Access, k: int) -> bool:
    """Whether elements follow one another along one of the modes, or there is but one along it."""
    return 1 in access.buffer.strides or 1 in access.buffer.shape or k == 1
