"""The tiled form of a kernel: one large product, or a batch of them, tile by tile on tensor cores.

A function can run so if all that it does is one gemm of f16 or bf16 matrices, or of f32 ones that may be rounded to
tf32, each a parameter or the work-group's slice of one, whose columns are known to be without gaps.
Thread blocks then do not stand for work-groups of the language: each computes tiles of any of the products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tl_dpnp.kernels.mma.register_operands import RegisterOperandTiles
from tl_dpnp.kernels.mma.tile_product import TileProduct
from tl_dpnp.kernels.mma.warp_tiles import WarpTiles
from tl_dpnp.kernels.mma.warpgroup_tiles import WarpgroupTiles
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType, Type
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.tree import Argument, Body, Comparison, Evaluate, If, Name
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings import mapping
from tl_dpnp.lowering.mappings.persistent.staging import Persistent
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.product_plans import PARTS, MatrixMap, TilePlan, TileShape
from tl_dpnp.lowering.sole_product import Operand, SoleProduct, real_factor, sole_product
from tl_dpnp.lowering.tactics.narrow_batches import NarrowBatch, batch_of
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, INDEX, Precision
from tl_dpnp.target.device import Device
from tl_dpnp.target.multiprocessor import Multiprocessor, TiledBatches, TileTime

__all__ = ["PersistentGemm", "find_tiling"]

#: Rows and columns of tiles, the most efficient ones first, and how many blocks of them a multiprocessor has room for.
_TILES = ((128, 256, 1), (128, 192, 1), (128, 128, 1), (128, 64, 1), (64, 64, 2))
#: How many tiles the blocks of a cluster may compute together.
_TOGETHER = (1, 2)
#: Those for batches of very many products of known sizes; the smallest ones above are for few of them.
_TILES_OF_BATCHES = ((128, 256, 1), (128, 192, 1), (128, 128, 1), (192, 128, 1), (128, 64, 2))
#: Bytes of which distances are multiples (CUDA driver API, cuTensorMapEncodeTiled, "globalStrides").
_MAP_ALIGNMENT = 16
#: Stages without which nothing comes while products are computed.
_LEAST_STAGES = 2
_ELEMENTS, _RESULTS = ("f16", "bf16"), ("f16", "bf16", "f32")


@dataclass(frozen=True, kw_only=True)
class PersistentGemm(mapping.OfProduct):
    """How a function runs in the tiled form: a kernel for tiles of each shape, and what the launch has to know."""

    form = "tiled"
    purpose = ("one gemm of matrices of f16 or bf16, or of f32 as tf32, on CUDA devices from Hopper on, "
               "without schedules,")
    products: tuple[TileProduct, ...]
    plan: TilePlan
    function: ops.Function

    @classmethod
    def over(cls, other: mapping.Mapping, analysis: Analysis) -> PersistentGemm | None:
        if analysis.options.schedules or analysis.options.debug:
            return None
        numbers = analysis.device.persistent
        least = numbers.least_tiled_of_batch if isinstance(other, Persistent) else numbers.least_tiled
        least = 0 if analysis.options.form == cls.form else least
        return find_tiling(analysis.function, analysis.device, least, analysis.options.precision)

    def __str__(self) -> str:
        return f"tiled form{self.whose}, by {', or '.join(map(str, self.products))}"

    def whole(self, name: str) -> tuple[LaunchPlan, Body]:
        local_memory = max(shape.local_memory for shape in self.plan.shapes)
        return LaunchPlan(
            name, self.form, self.layout.lanes, self.layout.columns, local_memory, tiles=self.plan), self.body

    @property
    def body(self) -> Body:
        """The body of the kernel: an intrinsic for each shape."""
        numbers = ("shape", "rows", "columns", "panels", "products", "together")
        maps = {"left": self.plan.left, "right": self.plan.right, "result": self.plan.result}
        arguments = (*(Argument(number, INDEX) for number in numbers), Argument("alpha", F32), Argument("beta", F32),
                     *(Argument(matrix, INDEX) for matrix in maps))
        shape, *given = (Name(argument.name, argument.type) for argument in arguments)
        branches = tuple(If(Comparison("==", shape, number), (Evaluate(call(product.intrinsic(), *given)),))
                         for number, product in enumerate(self.products))
        legend = tuple((matrix, f"tensor map of {self.function.parameters[entry.parameter]}")
                       for matrix, entry in maps.items())
        return Body(arguments, branches, legend=legend)


def find_tiling(
    function: ops.Function, device: Device, least: int = 0, precision: Precision = "highest"
) -> PersistentGemm | None:
    """Return how a canonical function runs in the tiled form on a device, or None where it cannot.

    Products of fewer than `least` multiplications have another form, and those of arrays that tensor maps do not take.
    """
    unit = device.multiprocessor
    if not device.copy_engine or unit is None:
        return None
    found = sole_product(function)
    if found is None:
        return None
    if any(operand.type.strides[0] != 1 for operand in (found.a, found.b, found.c)):
        return None
    if not all(_may_have_map(function.parameters[operand.parameter].type) for operand in (found.a, found.b, found.c)):
        return None
    element = _element(found, device, precision)
    alpha, beta = (real_factor(function, operand, 32) for operand in (found.gemm.alpha, found.gemm.beta))
    if element is None or alpha is None or beta is None:
        return None
    if found.multiplications is not None and found.multiplications < least:
        return None
    roles = _roles(found, element == "tf32")
    kind = _kind(roles, element, device)

    def product(rows: int, columns: int, resident: int) -> TileProduct:
        return kind(element, found.c.type.element.name, rows, columns, *roles.along_k,
                    tuple(operand.is_batched for operand in roles.operands), alpha != 1.0 or isinstance(alpha, int),
                    beta != 0.0 or isinstance(beta, int), min(device.local_memory, unit.room(resident)))

    batch = batch_of(found) if device.warpgroup_products else None
    tiles: Sequence[tuple[int, int, int]] = _TILES
    cycles = None
    if batch is not None:
        tiles, cycles = _tiles_of_batch(batch, unit.narrow.tiled)
    products = {product(*tile): tile[2] for tile in tiles}
    fitting = tuple(each for each in products if each.stages >= _LEAST_STAGES and each.has_registers)
    if not fitting:
        return None
    shapes = tuple(
        TileShape(each.rows, each.columns, each.boxes, each.box_columns, each.warps, each.used_memory,
                  products[each], tuple(filter(each.has_room_for, PARTS)), each.together,
                  _time(each, products[each], batch, unit))
        for each in fitting)
    left, right = (MatrixMap(operand.parameter, operand.is_batched, element == "tf32")
                   for operand in roles.operands[:2])
    result = MatrixMap(found.c.parameter, found.c.is_batched)
    plan = TilePlan(left, right, result, shapes, fitting[0].depth, int(not roles.along_k[0]), int(not roles.is_c),
                    alpha, beta, least)
    layout = SubgroupLayout(32, 1, max(shape.warps for shape in shapes))
    return PersistentGemm(layout=layout, products=fitting, plan=plan, function=function, cycles=cycles)


def _tiles_of_batch(
    batch: NarrowBatch, numbers: TiledBatches
) -> tuple[tuple[tuple[int, int, int], ...], float]:
    """Return the tile for very many such products and those for few, and the cycles that a product of many takes."""
    cycles, best = min((batch.in_tiles(tile[0], tile[1], together, numbers), tile)
                       for tile in _TILES_OF_BATCHES for together in _TOGETHER)
    area = best[0] * best[1]
    return tuple(dict.fromkeys((best, *(tile for tile in _TILES[-2:] if tile[0] * tile[1] < area)))), cycles


def _time(product: TileProduct, resident: int, batch: NarrowBatch | None, unit: Multiprocessor) -> TileTime:
    """Return what the time of tiles is estimated by."""
    rows, columns = product.rows, product.columns
    if batch is None:
        return unit.tile_time(product.operands, rows, columns)
    return batch.time_of_tile(rows, columns, resident, unit.narrow.tiled, unit.tile_time(product.operands, 64, 64))


def _may_have_map(type_: Type) -> bool:
    """Whether tensor maps take the distances of a matrix or a batch that are known."""
    assert isinstance(type_, MemrefType)
    return all(stride is None or stride * type_.element.bytes % _MAP_ALIGNMENT == 0 for stride in type_.strides[1:])


def _element(found: SoleProduct, device: Device, precision: Precision) -> str | None:
    """Return what is multiplied, or None where no tiles are for a product."""
    a, b, c = (element.name for element in found.elements)
    if (a, b, c) == ("f32",) * 3:
        is_asked_for = rounding((a, b, c), found.gemm.precision or precision, "wgmma") is not None
        return "tf32" if is_asked_for and device.warpgroup_products else None
    return a if a == b and a in _ELEMENTS and c in _RESULTS else None


@dataclass(frozen=True)
class _Roles:
    """What L, R and D = L R are, as `operands`, which of L and R lie `along_k`, and whether D is C.

    Otherwise it is the transpose of C, whose columns lie along memory.
    """

    operands: tuple[Operand, Operand, Operand]
    along_k: tuple[bool, bool]
    is_c: bool


def _roles(found: SoleProduct, is_tf32: bool) -> _Roles:
    """Return the roles of A, B and C; if one operand of tf32 does not lie along k, it is L, for registers."""
    first, second = found.gemm.transposes
    if is_tf32 and not first and not second:
        return _Roles((found.a, found.b, found.c), (False, True), True)
    return _Roles((found.b, found.a, found.c), (not second, first), False)


def _kind(roles: _Roles, element: str, device: Device) -> Callable[..., TileProduct]:
    """Return what makes the kernel for tiles of a shape."""
    if not device.warpgroup_products:
        return WarpTiles
    if element == "tf32" and not all(roles.along_k):
        return partial(RegisterOperandTiles, rows_consecutive=roles.is_c)
    return WarpgroupTiles
