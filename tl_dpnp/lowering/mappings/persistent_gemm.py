"""The tiled form of a kernel: one large product, or a batch of them, tile by tile on tensor cores.

A function can run so if all that it does is one gemm of f16 or bf16 matrices, each a parameter or the work-group's
slice of one, whose columns are known to be without gaps.  Thread blocks then do not stand for
work-groups of the language: each computes tiles of any of the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tl_dpnp.kernels.mma.tile_product import DEPTH, TILE_ROWS, TileProduct
from tl_dpnp.kernels.mma.warp_tiles import WarpTiles
from tl_dpnp.kernels.mma.warpgroup_tiles import WarpgroupTiles
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.tree import Argument, Body, Comparison, Evaluate, If, Name
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings import mapping
from tl_dpnp.lowering.mappings.persistent.staging import Persistent
from tl_dpnp.lowering.plan import LaunchPlan, MatrixMap, TilePlan, TileShape
from tl_dpnp.scalars import F32, INDEX

__all__ = ["PersistentGemm", "find_tiling"]

#: Columns of tiles, the most efficient number first.
_COLUMNS = (256, 192, 128, 64)
#: Multiplications from which one product is worth a kernel that fills a GPU: below it, and below another number where
#: work-groups can run in the staged form, that other form is chosen.  Measured on an H200 with cubes of 64 and of 96.
_LEAST, _LEAST_STAGED = 1 << 18, 1 << 19
#: Stages without which nothing comes while products are computed.
_LEAST_STAGES = 2
_ELEMENTS, _RESULTS = ("f16", "bf16"), ("f16", "bf16", "f32")


@dataclass(frozen=True)
class _Operand:
    """A matrix of the product: its parameter, and whether it is a slice of it."""

    parameter: int
    type: MemrefType
    is_batched: bool


@dataclass(frozen=True, kw_only=True)
class PersistentGemm(mapping.Mapping):
    """How a function runs in the tiled form: a kernel for tiles of each shape, and what the launch has to know."""

    form = "tiled"
    purpose = "one gemm of matrices of f16 or bf16, on CUDA devices from Hopper on, without schedules,"
    products: tuple[TileProduct, ...]
    plan: TilePlan
    function: ops.Function

    @classmethod
    def over(cls, other: mapping.Mapping, analysis: Analysis) -> PersistentGemm | None:
        if analysis.options.schedules or analysis.options.debug:
            return None
        least = 0 if analysis.options.form == cls.form else _LEAST_STAGED if isinstance(other, Persistent) else _LEAST
        return find_tiling(analysis.function, analysis.device, least)

    def __str__(self) -> str:
        return f"tiled form, by {', or '.join(map(str, self.products))}"

    def condition(self, analysis: Analysis) -> TilePlan:
        return self.plan

    def whole(self, name: str) -> tuple[LaunchPlan, Body]:
        local_memory = max(shape.local_memory for shape in self.plan.shapes)
        return LaunchPlan(
            name, self.form, self.layout.lanes, self.layout.columns, local_memory, tiles=self.plan), self.body

    @property
    def body(self) -> Body:
        """The body of the kernel: an intrinsic for each shape."""
        numbers = ("shape", "rows", "columns", "panels", "products")
        maps = {"left": self.plan.left, "right": self.plan.right, "result": self.plan.result}
        arguments = (*(Argument(number, INDEX) for number in numbers), Argument("alpha", F32), Argument("beta", F32),
                     *(Argument(matrix, INDEX) for matrix in maps))
        shape, *given = (Name(argument.name, argument.type) for argument in arguments)
        branches = tuple(If(Comparison("==", shape, number), (Evaluate(call(product.intrinsic(), *given)),))
                         for number, product in enumerate(self.products))
        legend = tuple((matrix, f"tensor map of {self.function.parameters[entry.parameter]}")
                       for matrix, entry in maps.items())
        return Body(arguments, branches, legend=legend)


def find_tiling(function: ops.Function, device: DeviceDescription, least: int = 0) -> PersistentGemm | None:
    """Return how a canonical function runs in the tiled form on a device, or None where it cannot.

    Products of fewer than `least` multiplications have another form, and those of arrays that tensor maps do not take.
    """
    if not device.copy_engine:
        return None
    found = _gemm(function)
    if found is None:
        return None
    gemm, (a, b, c) = found
    factors = [_factor(function, operand) for operand in (gemm.alpha, gemm.beta)]
    if any(factor is None for factor in factors):
        return None
    alpha, beta = (factor for factor in factors if factor is not None)
    # The rows of a tile are columns of C, which lie along memory.
    depth_mode = int(gemm.transposes[1])
    (n, m), k = c.type.shape, b.type.shape[depth_mode]
    if m is not None and n is not None and k is not None and m * n * k < least:
        return None
    kind = WarpgroupTiles if device.warpgroup_products else WarpTiles
    products = [
        kind(b.type.element.name, c.type.element.name, columns, not gemm.transposes[1], gemm.transposes[0],
             (b.is_batched, a.is_batched, c.is_batched), alpha != 1.0 or isinstance(alpha, int),
             beta != 0.0 or isinstance(beta, int), device.local_memory)
        for columns in _COLUMNS
    ]
    fitting = tuple(product for product in products if product.stages >= _LEAST_STAGES)
    if not fitting:
        return None
    shapes = tuple(TileShape(TILE_ROWS, product.columns, product.boxes, product.warps, product.used_memory)
                   for product in fitting)
    left, right, result = (MatrixMap(operand.parameter, operand.is_batched) for operand in (b, a, c))
    plan = TilePlan(left, right, result, shapes, DEPTH, depth_mode, alpha, beta, least)
    layout = SubgroupLayout(32, 1, max(shape.warps for shape in shapes))
    return PersistentGemm(layout=layout, products=fitting, plan=plan, function=function)


def _gemm(function: ops.Function) -> tuple[ops.Contraction, list[_Operand]] | None:
    """Return the one gemm of a function, with A, B and C, or None if there is more or its types do not fit."""
    parameters = {parameter.name: number for number, parameter in enumerate(function.parameters)}
    slices: dict[str, ops.Subview] = {}
    groups: set[str] = set()
    gemm: ops.Contraction | None = None
    for operation in function.body:
        match operation:
            case ops.GroupId(result=result):
                groups.add(result.name)
            case ops.Subview(source=source) if source.name in parameters and _is_slice(operation, groups):
                slices[operation.result.name] = operation
            case ops.Contraction(is_matrix_product=True, atomic=False) if gemm is None:
                gemm = operation
            case _:
                return None
    if gemm is None:
        return None
    operands = [_operand(value, parameters, slices) for value in (*gemm.inputs, gemm.output)]
    a, b, c = operands
    if a is None or b is None or c is None:
        return None
    names = [operand.type.element.name for operand in (a, b, c)]
    fits = names[0] in _ELEMENTS and names[1] == names[0] and names[2] in _RESULTS
    return (gemm, [a, b, c]) if fits and c.parameter not in (a.parameter, b.parameter) else None


def _is_slice(operation: ops.Subview, groups: set[str]) -> bool:
    """Whether a view is a whole matrix of a batch, that of the work-group."""
    if len(operation.slices) != 3:
        return False
    *others, last = operation.slices
    zero = ops.Constant(0, INDEX)
    whole = all(not entry.is_index and entry.size is None and entry.offset == zero for entry in others)
    return whole and last.is_index and isinstance(last.offset, ops.Value) and last.offset.name in groups


def _operand(value: ops.Value, parameters: Mapping[str, int], slices: Mapping[str, ops.Subview]) -> _Operand | None:
    view = slices.get(value.name)
    name = value.name if view is None else view.source.name
    type_ = ops.memref_type(value)
    if name not in parameters or type_.order != 2 or type_.strides[0] != 1:
        return None
    return _Operand(parameters[name], type_, view is not None)


def _factor(function: ops.Function, operand: ops.Operand) -> float | int | None:
    """Return a constant, the position of a parameter, or None for what is neither or no f32."""
    type_ = ops.scalar_type(operand)
    if not type_.is_float or type_.bits > 32:
        return None
    if isinstance(operand, ops.Constant):
        assert isinstance(operand.value, int | float)
        return float(operand.value)
    names = [parameter.name for parameter in function.parameters]
    return names.index(operand.name) if operand.name in names else None
