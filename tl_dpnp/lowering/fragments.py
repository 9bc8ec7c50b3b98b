"""Which regions of work-items keep their cooperative matrices in registers, as fragments, and what multiplies these.

Such a region stays as it is: a warp, or a sub-group with DPAS (`dpas_fragments.py`), runs it for a sub-group of the
program.  All others become phases of all work-items (`work_items.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from tl_dpnp.kernels.dpas.sums import LANES as LANES_OF_BLOCKS
from tl_dpnp.kernels.mma.fragments import ACROSS, Fragment, rows_of
from tl_dpnp.kernels.mma.rows import LANES, MmaRow
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.dpas_fragments import SubgroupRegion, product_row
from tl_dpnp.lowering.fragment_choice import BlocksFit, FragmentChoice, regions_of, uses_work_item
from tl_dpnp.lowering.fragment_registers import most_registers
from tl_dpnp.lowering.mappings.frames import FRAMES
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.lowering.unrolled_sums import unrolled_sums
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import Precision, ScalarType
from tl_dpnp.target.catalog import TENSOR_CORES
from tl_dpnp.target.device import Device

__all__ = ["FragmentChoice", "FragmentProduct", "choose_fragments", "product_of", "regions_of"]

#: What may stand in a region beside instructions on matrices.
_PLAIN = (ops.ScalarOperation, ops.GroupId, ops.GroupSize, ops.Load, ops.Store, ops.SizeOf, ops.Expand, ops.Fuse,
          ops.Subview, ops.If, ops.For, ops.Yield, ops.WorkItemPlace, ops.WorkItemCount, ops.Barrier,
          ops.CooperativeMatrixPrefetch)
#: Instructions on matrices that there are emitters for.
_COOPERATIVE = (ops.CooperativeMatrixConstruct, ops.CooperativeMatrixMulAdd, ops.CooperativeMatrixScale,
                ops.CooperativeMatrixApply, ops.CooperativeMatrixLoad, ops.CooperativeMatrixStore,
                ops.ScalarOperation, ops.If, ops.For, ops.Yield)
#: Registers of a GPU thread that matrices which DPAS multiplies are made for.
_MOST_REGISTERS = 256
#: What the table of instructions calls types of sums; those of u32 wrap as those of i32 do.
_SUMS = {"f32": "f32", "f64": "f64", "i32": "s32", "u32": "s32"}


class FragmentProduct(NamedTuple):
    """What multiplies fragments: an instruction, on f32 as two tf32 where it `is_split`."""

    row: MmaRow
    is_split: bool


def choose_fragments(function: ops.Function, device: Device, options: LoweringOptions) -> FragmentChoice:
    """Return which regions of a function keep their matrices in registers; its names are unique."""
    lanes = options.emulate_dpas or device.dpas_lanes
    if device.capability == (0, 0) and not lanes:
        return FragmentChoice()  # it has neither warps nor DPAS
    missing = _missing_for_dpas(lanes, options) if lanes else _missing(device)
    missing = missing or _missing_for_all(options)
    kept, remarks, unrolled = dict[int, BlocksFit | None](), [], dict[int, tuple[ops.Operation, ...]]()
    for number, region in enumerate(regions_of(function)):
        if not any(operation.is_cooperative for operation in region.body.walk()):
            continue
        found = (SubgroupRegion(function, region) if lanes else
                 _Region(function, region, device, options.precision))
        reason = missing or next(found.faults(), None)
        where = f"the matrices of {region.mnemonic}" + (f" in line {region.span.line}" * (region.span != ops.NO_SPAN))
        if reason is None:
            kept[number] = found.guard
            if isinstance(found, SubgroupRegion):
                unrolled[number] = unrolled_sums(found)
            by = sorted(_instructions(region, options.precision, lanes))
            otherwise = ", in local memory where messages cannot move blocks" if found.guard else ""
            remarks.append(f"{where} are in registers{', multiplied by ' * bool(by)}{', '.join(by)}{otherwise}")
        else:
            remarks.append(f"{where} are in local memory: {reason}")
    return FragmentChoice(kept, tuple(remarks), _MOST_REGISTERS if lanes and kept else 0, unrolled)


def _instructions(region: ops.Parallel | ops.ForeachTile, precision: Precision, lanes: int) -> set[str]:
    """Return what multiplies the matrices of a region."""
    products = [each for each in region.body.walk() if isinstance(each, ops.CooperativeMatrixMulAdd)]
    if lanes:
        return {str(row) for each in products if (row := product_row(each)) is not None}
    return {str(found.row) for each in products if (found := product_of(each, precision)) is not None}


def product_of(operation: ops.CooperativeMatrixMulAdd, precision: Precision) -> FragmentProduct | None:
    """Return what multiplies fragments for a product, None where nothing does."""
    a, b, c = map(ops.matrix_type, (operation.A, operation.B, operation.C))
    types = a.component.name, b.component.name, operation.kept.name
    rounded = rounding(types, precision, "mma.sync")
    if rounded is None or types[2] not in _SUMS:
        return None
    first, second = (_factor(name, each.component) for name, each in zip(rounded[:2], (a, b), strict=True))
    rows = rows_of((first, second, _SUMS[types[2]]), c.rows, a.columns)
    return FragmentProduct(rows[0], rounded.terms > 1) if rows else None


def _factor(name: str, component: ScalarType) -> str:
    """Return what the table of instructions calls a type of factors."""
    return f"{name[0].replace('i', 's')}{component.bits}" if component.is_integer else name


def _missing(device: Device) -> str | None:
    """Return why no region keeps its matrices in the registers of warps, whatever is in it."""
    if device.capability < TENSOR_CORES:
        return f"{device.name} has a compute capability below {'.'.join(map(str, TENSOR_CORES))}"
    return None


def _missing_for_dpas(lanes: int, options: LoweringOptions) -> str | None:
    """Return why no region keeps its matrices in the registers of sub-groups, whatever is in it."""
    if lanes != LANES_OF_BLOCKS:
        return f"sub-groups of {lanes} have no messages that move blocks"
    if options.form is not None and FRAMES[options.form].is_alone:
        return "one work-item computes a work-group"
    return None


def _missing_for_all(options: LoweringOptions) -> str | None:
    """Return why no region of any device keeps its matrices in registers."""
    if options.debug:
        return "debug=True checks each access"
    if options.schedules:
        return "schedules are given, which are for products in local memory"
    return None


@dataclass
class _Region:
    """A region, and what it would be held and computed with."""

    function: ops.Function
    region: ops.Parallel | ops.ForeachTile
    device: Device
    precision: Precision
    guard: ClassVar[BlocksFit | None] = None

    def faults(self) -> Iterator[str]:
        """Yield why the matrices cannot be in registers."""
        items = ops.work_items_of(self.function)
        for operation in self.region.body.walk():
            allowed = _COOPERATIVE if operation.is_cooperative else _PLAIN
            if not isinstance(operation, allowed):
                yield f"{operation.mnemonic} has no form for registers"
            if isinstance(operation, ops.Barrier) and (
                items.lanes != LANES or self.function.work_group_size is None or self.function.subgroup_size is None
            ):
                yield f"a barrier needs subgroup_size({LANES}) and work_group_size, so that sub-groups are warps"
            if isinstance(operation, ops.SubgroupLocalId) and items.lanes != LANES:
                yield f"work-items have numbers in sub-groups of {items.lanes}, and a warp has {LANES}"
            for value in (*operation.operands, *operation.results):
                if isinstance(value.type, CooperativeMatrixType):
                    yield from _type_faults(value)
            if isinstance(operation, ops.CooperativeMatrixMulAdd) and product_of(operation, self.precision) is None:
                types = [str(ops.matrix_type(value).component) for value in (operation.A, operation.B, operation.C)]
                yield (f"no instruction for fragments multiplies {types[0]} by {types[1]} into {types[2]} with "
                       f"precision {self.precision!r} and a sum of {ops.matrix_type(operation.A).columns}")
        if uses_work_item(self.region.body):
            yield "the body of cooperative_matrix_apply depends on the work-item that runs it"
        yield from self.register_faults(items)

    def register_faults(self, items: ops.WorkItems) -> Iterator[str]:
        """Yield that fragments need more registers than there are."""
        multiprocessor = self.device.multiprocessor
        if multiprocessor is not None:
            threads = max(LANES, items.lanes * items.rows * items.columns)
            room = min(multiprocessor.thread_registers, multiprocessor.registers // threads)
            needed = most_registers(self.region.body, _registers)
            if needed > room:
                yield f"they would need {needed} registers of each work-item, which has {room}"


def _registers(value: ops.Value) -> int:
    type = ops.matrix_type(value)
    return Fragment("", type.component, *type.shape).registers


def _type_faults(value: ops.Operand) -> Iterator[str]:
    """Yield what keeps a matrix from being a fragment."""
    type = ops.matrix_type(value)
    for what, size in (("rows", type.rows), ("columns", type.columns)):
        if size % ACROSS:
            yield f"{value} has {size} {what}, no multiple of {ACROSS}"
    if type.component.is_complex or type.component.is_subbyte or type.component.is_boolean:
        yield f"{value} has components of {type.component}"
