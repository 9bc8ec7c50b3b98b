"""The blocked form of a kernel: one large product, or a batch of them, tile by tile, of operands in any layout.

A function can run so if all that it does is one gemm of matrices of f32, f64, or of f16 or bf16, each a parameter or
the work-group's slice of one.  Thread blocks then do not stand for work-groups of the language: each computes tiles of
any of the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tl_dpnp.kernels.blocked.copies import Consecutive
from tl_dpnp.kernels.blocked.multistage import MultistageProduct
from tl_dpnp.kernels.blocked.product import BlockedProduct
from tl_dpnp.kernels.blocked.warpgroups import WarpgroupProduct
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.tree import Argument, Body, Comparison, Constant, Evaluate, Expression, If, Name
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.block_tiles import BATCHES, FEW, TILES, Tile
from tl_dpnp.lowering.mappings.mapping import Mapping, OfProduct
from tl_dpnp.lowering.mappings.persistent.staging import Persistent
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.product_plans import LARGE, LARGE_OF_NARROW, PARTS, BlockPlan, BlockShape, MatrixSides
from tl_dpnp.lowering.sole_product import Operand, SoleProduct, factor, sole_product
from tl_dpnp.lowering.tactics.narrow_batches import NarrowBatch, batch_of
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, F64, INDEX, Precision, ScalarType
from tl_dpnp.target.device import Device
from tl_dpnp.target.multiprocessor import BlockedBatches, BlockedNumbers, Multiprocessor

__all__ = ["Blocked", "find_blocking"]

#: Multiplications from which one product is worth a kernel that fills a GPU.
_LEAST = 1 << 18
_LANES = 32
#: What neighbours of a matrix are apart along: the side of the result, or the rows of that, the other mode, the batch.
_ALONG = ("side", "other", "batch")
#: The arguments behind alpha and beta where these are complex.
_IMAGINARY = ("alpha_imaginary", "beta_imaginary")


#: How many tiles for any sizes a kernel for a batch of known sizes has as well, where there are none for few products:
#: the smallest ones.
_OTHERS = 2
_HALVES = ("f16", "bf16")
#: Rows of a tile of warpgroups, and its columns.
_ROWS, _COLUMNS = 128, (192, 128, 64)


@dataclass(frozen=True, kw_only=True)
class Blocked(OfProduct):
    """How a function runs in the blocked form: a kernel for tiles of each shape, and what the launch has to know."""

    form = "blocked"
    purpose = ("one gemm of matrices of floating-point numbers, on CUDA devices that have the instructions, without "
               "schedules,")
    products: tuple[BlockedProduct, ...]
    plan: BlockPlan
    function: ops.Function
    factor: ScalarType
    registers: int = 0

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Blocked | None:
        options = analysis.options
        unit = analysis.device.multiprocessor
        if options.schedules or options.debug or unit is None:
            return None
        least = 0 if options.form == cls.form else _least(other, analysis, unit.blocked)
        found = find_blocking(analysis.function, analysis.device, least, options.precision)
        if found is None and options.form is None and isinstance(other, Persistent):
            least = _least_of_few(other, analysis, unit.blocked)
            found = find_blocking(analysis.function, analysis.device, least, options.precision, is_for_few=True)
        return found

    @property
    def awaits_call(self) -> bool:
        return self.plan.is_for_few or super().awaits_call

    def __str__(self) -> str:
        return f"blocked form{self.whose}, by {', or '.join(map(str, self.products))}"

    def whole(self, name: str) -> tuple[LaunchPlan, Body]:
        local_memory = max(shape.local_memory for shape in self.plan.shapes)
        return LaunchPlan(
            name, self.form, self.layout.lanes, self.layout.columns, local_memory, registers=self.registers,
            blocks=self.plan), self.body

    @property
    def body(self) -> Body:
        """The body of the kernel: an intrinsic for each shape, with the sizes and distances that are known."""
        sides = {"left": self.plan.left, "right": self.plan.right, "result": self.plan.result}
        numbers = ("shape", "rows", "columns", "depth", "products", "keeps")
        distances = [f"{matrix}_{along}" for matrix in sides for along in _ALONG]
        parameters = self.function.parameters
        addresses = {number: f"matrix_{number}" for number, parameter in enumerate(parameters)
                     if isinstance(parameter.type, MemrefType)}
        factors = ("alpha", "beta", *(_IMAGINARY if self.plan.is_complex else ()))
        arguments = (*(Argument(number, INDEX) for number in numbers), *(
                     Argument(name, self.factor) for name in factors),
                     *(Argument(name, INDEX) for name in distances),
                     *(Argument(name, INDEX) for name in addresses.values()))
        names = {argument.name: Name(argument.name, argument.type) for argument in arguments}
        known = self._known
        given = [known.get(name, names[name]) for name in (*numbers[1:], *factors[:2])]
        for matrix, side in sides.items():
            apart = self._distances(matrix, side)
            given += [names[addresses[side.parameter]], *(
                apart.get(name, names[name]) for name in (f"{matrix}_{along}" for along in _ALONG))]
        given += [names[name] for name in factors[2:]]
        branches = tuple(If(Comparison("==", names["shape"], number), (Evaluate(call(product.intrinsic(), *given)),))
                         for number, product in enumerate(self.products))
        legend = tuple((name, f"address of {parameters[number]}") for number, name in addresses.items())
        return Body(arguments, branches, legend=legend)

    @property
    def _known(self) -> dict[str, Expression]:
        """What is known of m, n and k, alpha and beta, and that D is read or not, by the names of the arguments."""
        plan, left = self.plan, self._type(self.plan.left).shape
        rows, columns = self._type(plan.result).shape[:2]
        sizes = {"rows": rows, "columns": columns, "depth": left[1 - plan.left.side_mode]}
        factors = {"alpha": plan.alpha, "beta": plan.beta}
        return {"keeps": int(plan.keeps),
                **{name: size for name, size in sizes.items() if size is not None},
                **{name: Constant(value, self.factor) for name, value in factors.items() if isinstance(value, float)}}

    def _distances(self, matrix: str, side: MatrixSides) -> dict[str, Expression]:
        """What is known of the bytes between neighbours of a matrix, by the names of the arguments."""
        type_ = self._type(side)
        strides = type_.strides[side.side_mode], type_.strides[1 - side.side_mode], (
            type_.strides[2] if side.is_batched else 0)
        return {f"{matrix}_{along}": stride * type_.element.bytes
                for along, stride in zip(_ALONG, strides, strict=True) if stride is not None}

    def _type(self, side: MatrixSides) -> MemrefType:
        type_ = self.function.parameters[side.parameter].type
        assert isinstance(type_, MemrefType)
        return type_


def _cycles_of_narrow(batch: NarrowBatch, unit: Multiprocessor) -> float:
    """Return the cycles that a product of 16-bit elements of a batch of very many takes in the fastest tiles."""
    return min(batch.in_blocks(_ROWS, columns, unit.narrow.blocked) for columns in _COLUMNS)


def _least(other: Mapping, analysis: Analysis, numbers: BlockedNumbers) -> int:
    """Return the multiplications from which products of a program that has another mapping run in the blocked form."""
    found, unit = sole_product(analysis.function), analysis.device.multiprocessor
    batch = batch_of(found)
    if batch is not None and unit is not None and other.cycles is not None:
        return 0 if _cycles_of_narrow(batch, unit) < other.cycles else LARGE_OF_NARROW
    tile = None if found is None else _best_tile(found, analysis.device, analysis.options.precision)
    if isinstance(other, Persistent):
        if found is not None and tile is not None and _is_faster(tile, found, numbers):
            return 0
        return LARGE_OF_NARROW if _is_narrow(analysis.function) else LARGE
    if found is None or tile is None:
        return _LEAST
    if found.elements[0].is_complex:
        return numbers.least_of_complex
    return numbers.least_of_batch if found.elements[0].name in FEW else _LEAST


def _least_of_few(staged: Persistent, analysis: Analysis, numbers: BlockedNumbers) -> int:
    """Return the multiplications from which few products of a program in the staged form run in the blocked form."""
    if _is_narrow(analysis.function):
        return LARGE if staged.parts == 1 else _LEAST
    return numbers.least_of_few


def _is_faster(tile: Tile, found: SoleProduct, numbers: BlockedNumbers) -> bool:
    """Whether tiles compute a product that threads of the staged form would compute without tensor cores faster."""
    speed = dict(numbers.staged_speeds).get(found.elements[0].name)
    return speed is not None and found.multiplications is not None and (
        _cycles(tile, found, numbers) < found.multiplications / speed)


def _is_narrow(function: ops.Function) -> bool:
    """Whether a function is one product of elements of 16 bits."""
    found = sole_product(function)
    return found is not None and found.elements[0].name in _HALVES


def find_blocking(
    function: ops.Function, device: Device, least: int, precision: Precision, is_for_few: bool = False
) -> Blocked | None:
    """Return how a canonical function runs in the blocked form on a device, or None where it cannot.

    Products of fewer than `least` multiplications have another form, and, where it `is_for_few`, batches of more
    products than there are multiprocessors.  `precision` is what products of f32 may lose.
    """
    unit = device.multiprocessor
    if unit is None or not device.asynchronous_copies:
        return None
    found = sole_product(function)
    if found is None:
        return None
    if found.multiplications is not None and found.multiplications < least:
        return None
    is_complex = found.elements[2].is_complex
    type_ = F64 if found.elements[2].part == F64 else F32
    alpha, beta = (factor(function, operand, type_.bits) for operand in (found.gemm.alpha, found.gemm.beta))
    if alpha is None or beta is None:
        return None
    first, second = found.gemm.transposes
    sides = [(found.a, int(first)), (found.b, int(not second)), (found.c, 0)]
    left, right, result = (_consecutive(*side) for side in sides)
    real_factors = not any(isinstance(each, tuple) or (isinstance(each, int) and _is_complex(function, each))
                           for each in (alpha, beta))
    made = [_Made(product, _shape(product, operands, unit.blocked))
            for product, operands in _products(
                found, (left, right), result == "side", device, precision, real_factors)
            if product.used_memory <= device.local_memory]
    batch = batch_of(found)
    if batch is not None:
        made = [_of_batch(each, batch, unit.narrow.blocked) for each in made]
    tile, element = _best_tile(found, device, precision), found.c.type.element.name
    if not made or (least < _LEAST and is_for_few and (tile is None or element not in FEW)):
        return None
    registers = _registers(found, made)
    if tile is not None:
        chosen = []
        for each in (tile, *FEW.get(element, ())):
            product = each.product((left, right), element, result == "side", device.copy_engine, found.accumulates,
                                   real_factors)
            chosen.append(_Made(product, _shape(product, element, unit.blocked, is_known=True)))
        # Those that are smaller are for few products.
        smaller = [each for each in chosen[1:] or made[-_OTHERS:] if each.area < chosen[0].area]
        made, registers = [chosen[0], *smaller], tile.registers
    shapes = tuple(each.shape for each in made)
    matrices = [MatrixSides(operand.parameter, mode, operand.is_batched) for operand, mode in sides]
    most_parts = PARTS[-1] if device.copy_engine else 1
    plan = BlockPlan(matrices[0], matrices[1], matrices[2], shapes, alpha, beta, least, most_parts,
                     unit.blocked.worth_sharing, is_for_few, LARGE_OF_NARROW if _is_narrow(function) else LARGE,
                     is_complex)
    layout = SubgroupLayout(_LANES, 1, max(shape.warps for shape in shapes))
    cycles = None if batch is None or is_for_few else _cycles_of_narrow(batch, unit)
    return Blocked(layout=layout, cycles=cycles, products=tuple(each.product for each in made), plan=plan,
                   function=function, factor=type_, registers=registers)


def _is_complex(function: ops.Function, position: int) -> bool:
    """Whether a parameter is a complex number."""
    type_ = function.parameters[position].type
    return isinstance(type_, ScalarType) and type_.is_complex


def _registers(found: SoleProduct, made: Sequence[_Made]) -> int:
    """Return the registers of a thread with which the tiles for any sizes have the most room; 0 for what there are."""
    numbers = {tile.registers for tile in TILES.get(found.elements[0].name, ())}
    is_by_tiles = all(isinstance(each.product, MultistageProduct) for each in made)
    return max(numbers) if is_by_tiles and 0 not in numbers else 0


@dataclass(frozen=True)
class _Made:
    """A kernel, and what its time is estimated by."""

    product: BlockedProduct
    shape: BlockShape

    @property
    def area(self) -> int:
        """Elements of a tile."""
        return self.shape.rows * self.shape.columns


def _of_batch(made: _Made, batch: NarrowBatch, numbers: BlockedBatches) -> _Made:
    """Return the same with the time of tiles of such a batch."""
    speed, start = batch.speed_of_block(made.shape.rows, made.shape.columns, numbers)
    return _Made(made.product, replace(made.shape, speed=speed, start=start))


def _best_tile(found: SoleProduct, device: Device, precision: Precision) -> Tile | None:
    """Return the tile for a batch of very many products, if there are such tiles and the sizes are known."""
    a, b, c = (element.name for element in found.elements)
    unit = device.multiprocessor
    if not a == b == c or found.sizes is None or not found.c.is_batched or unit is None:
        return None
    rounded = rounding((a, b, c), found.gemm.precision or precision, "wgmma")
    if device.warpgroup_products and rounded is not None and rounded.terms > 0:
        return None
    tiles = [tile for tile in BATCHES.get(a, ()) if device.capability >= tile.warp_tile.capability]
    return min(tiles, key=lambda tile: _cycles(tile, found, unit.blocked), default=None)


def _cycles(tile: Tile, found: SoleProduct, numbers: BlockedNumbers) -> float:
    """Return the cycles of a multiprocessor that a product of known sizes takes in a batch of very many."""
    assert found.sizes is not None
    m, n, k = found.sizes
    speed = numbers.speed(found.elements[0].name, tile.rows, tile.columns, is_known=True)
    sums = -(-k // tile.depth) * tile.depth * tile.rows * tile.columns
    start = speed.start + found.gemm.keeps * speed.kept
    return -(-m // tile.rows) * -(-n // tile.columns) * (sums / speed.multiplications + start)


def _shape(product: BlockedProduct, operands: str, numbers: BlockedNumbers, is_known: bool = False) -> BlockShape:
    """Return the shape of a kernel's tiles, and what its time is estimated by."""
    speed = numbers.speed(operands, product.rows, product.columns, is_known)
    sharing = speed.sharing, product.rows * product.columns / numbers.sums_added
    return BlockShape(product.rows, product.columns, product.warps, product.used_memory, product.depth,
                      speed.multiplications, speed.blocks, speed.alone, speed.start, sharing)


def _products(
    found: SoleProduct, consecutive: tuple[Consecutive, Consecutive], rows_consecutive: bool, device: Device,
    precision: Precision, real_factors: bool,
) -> Iterator[tuple[BlockedProduct, str]]:
    """Yield the kernels for tiles of all shapes, and the operands that they are for; none where types have none."""
    a, b, c = (element.name for element in found.elements)
    if a != b:
        return
    rounded = rounding((a, b, c), found.gemm.precision or precision, "wgmma")
    is_rounded = rounded is not None and rounded.terms > 0
    if device.warpgroup_products and (is_rounded or (a in _HALVES and c in (*_HALVES, "f32"))):
        element, operands = ("tf32", "tf32") if is_rounded else (a, "16 bits")
        for columns in _COLUMNS:
            yield WarpgroupProduct(_ROWS, columns, consecutive, c, rows_consecutive, device.copy_engine, element,
                                   device.local_memory), operands
    elif a == c:
        for tile in TILES.get(a, ()):
            if device.capability >= tile.warp_tile.capability:
                yield tile.product(consecutive, c, rows_consecutive, device.copy_engine, found.accumulates,
                                   real_factors), a


def _consecutive(operand: Operand, side: int) -> Consecutive:
    """Return what is known to go along memory of a matrix, whose mode `side` is that of the result."""
    strides = operand.type.strides
    return "side" if strides[side] == 1 else "k" if strides[1 - side] == 1 else ""
