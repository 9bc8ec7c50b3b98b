"""Which regions of work-items keep their cooperative matrices in the registers of a sub-group with DPAS, and how.

Factors are loaded as DPAS takes them, by messages of blocks; all other matrices are held as its sums are, a row in each
lane, and so are factors that are computed, and columns.  Whether messages can load and store blocks is decided at
run time, too: elsewhere the region becomes phases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.matrix_blocks import blocks_of
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.operands import may_be_surface
from tl_dpnp.kernels.dpas.rows import DpasRow, find_row
from tl_dpnp.kernels.dpas.sub_groups import REDUCED
from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES
from tl_dpnp.kernels.dpas.tile_blocks import TileLoads, loads_of_a, loads_of_b
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.coalescing import places_in
from tl_dpnp.lowering.fragment_choice import OUTSIDE, BlocksFit, regions_of, uses_work_item
from tl_dpnp.lowering.fragment_registers import most_registers
from tl_dpnp.lowering.index_multiples import Multiples, multiple_of, multiples_in
from tl_dpnp.lowering.matrix_spreads import Spreads, held_type, spreads_in
from tl_dpnp.lowering.rewrite import root_of, roots
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType
from tl_dpnp.target.catalog import DPAS

__all__ = [
    "SubgroupRegion", "deferred_loads", "do_rows_follow", "factor_loads", "factors_in", "limits_in", "lines_along",
    "order_of", "product_row", "products_in", "registers_needed",
]

_PLAIN = (ops.ScalarOperation, ops.GroupId, ops.GroupSize, ops.Load, ops.Store, ops.SizeOf, ops.If, ops.For, ops.Yield,
          ops.WorkItemPlace, ops.WorkItemCount, ops.CooperativeMatrixPrefetch, ops.SubgroupReduce)
_COOPERATIVE = (ops.CooperativeMatrixConstruct, ops.CooperativeMatrixMulAdd, ops.CooperativeMatrixScale,
                ops.CooperativeMatrixApply, ops.CooperativeMatrixReduction, ops.CooperativeMatrixLoad,
                ops.CooperativeMatrixStore, ops.CooperativeMatrixExtract, ops.ScalarOperation, ops.If, ops.For,
                ops.Yield)
#: The types of sums, and the bits of factors.
_SUMS, _FACTORS = ("f32", "i32"), (8, 16)
_SUM_BITS = 32
#: Elements that messages move along lines of memory are at places of whole words of so many bits.
_WORD = 32
_REGISTER_BITS = 512
#: Registers that are left where factors are loaded by parts: for headers of their messages, and for one that the
#: compiler sends ahead.  With 16 no blocks of flash attention take scratch memory, with none those of 64 keys do.
_SPARE = 16
#: Registers of words that a message loads and moves take apart.
_WORDS = RULES.transposed_words
#: Registers of a fragment of a constant factor, a second one and a first one of 16-bit elements.
_FILLED = 4, 8
_NONE: Mapping[str, Any] = MappingProxyType({})


class Factor(NamedTuple):
    """What a matrix is multiplied as: by a form of DPAS, as the first factor or the second one."""

    row: DpasRow
    is_first: bool


def product_row(operation: ops.CooperativeMatrixMulAdd) -> DpasRow | None:
    """Return the form of DPAS that multiplies, None where there is none."""
    a, b, c = (ops.matrix_type(value).component for value in (operation.A, operation.B, operation.C))
    kept = operation.kept
    if c != kept or ops.matrix_type(operation.result).component != kept or kept.name not in _SUMS:
        return None
    if a.bits not in _FACTORS or b.bits not in _FACTORS:
        return None
    # The language's A is the second source of DPAS, B the first.
    row = find_row(LANES, kept.name, b.name, a.name, COLUMNS)
    return None if row is None or row.unused is not None else row


def factors_in(region: ops.Region, spreads: Spreads) -> dict[str, set[Factor | None]]:
    """Return what matrices are multiplied as, by name; None stands for a product that no form of DPAS computes."""
    found: defaultdict[str, set[Factor | None]] = defaultdict(set)
    for operation in region.walk():
        if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name not in spreads:
            row = product_row(operation)
            for value, is_first in ((operation.A, True), (operation.B, False)):
                found[value.name].add(None if row is None else Factor(row, is_first))
    return dict(found)


def products_in(function: ops.Function) -> Counter[DpasRow]:
    """Return how many DPAS of each form multiply matrices of a canonical function that are in registers."""
    found: Counter[DpasRow] = Counter()
    for region in regions_of(function):
        for operation in region.body.walk():
            if isinstance(operation, ops.CooperativeMatrixMulAdd) and (row := product_row(operation)) is not None:
                a, c = ops.matrix_type(operation.A), ops.matrix_type(operation.C)
                found[row] += c.rows * c.columns * a.columns // (row.m * row.n * row.k)
    return found


def _reduced_lanes(operation: ops.Operation) -> ScalarType | None:
    """Return the type of what an operation combines over the lanes of a sub-group, None where it does not."""
    if isinstance(operation, ops.SubgroupReduce):
        return ops.scalar_type(operation.operand)
    is_of_columns = isinstance(operation, ops.CooperativeMatrixReduction) and operation.axis == 0
    return ops.matrix_type(operation.operands[0]).component if is_of_columns else None


def lines_along(operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore) -> int | None:
    """Return the mode of a memref whose elements follow one another in memory, None where none does."""
    strides = ops.memref_type(operation.memref).strides
    return strides.index(1) if 1 in strides else None


def do_rows_follow(operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore) -> bool:
    """Return whether the rows of each column of a matrix follow one another in memory."""
    return lines_along(operation) == (1 if operation.transpose else 0)


def factor_loads(operation: ops.CooperativeMatrixLoad, use: Factor, is_split: bool = False) -> TileLoads:
    """Return the messages of a factor; of a second one, even columns may come before odd ones (`column_orders`)."""
    rows_follow, type = do_rows_follow(operation), operation.type
    # Lines of the first factor are rows, of the second one columns.
    if use.is_first:
        kernel = MicroKernel(use.row, type.rows // LANES, 1, type.columns // use.row.k)
        return loads_of_a(kernel, along_k=not rows_follow)
    kernel = MicroKernel(use.row, 1, type.columns // COLUMNS, type.rows // use.row.k)
    return loads_of_b(kernel, rows_follow, "split" if is_split else "ordered")


def limits_in(region: ops.Region) -> dict[str, ops.Operand]:
    """Return where loops of a region end, by their variables, as far as that is known in front of the region."""
    inside = {value.name for operation in region.walk() for value in (*operation.results, *operation.loop_variables)}
    return {operation.variable.name: operation.stop for operation in region.walk() if isinstance(operation, ops.For)
            and (operation.stop.name not in inside if isinstance(operation.stop, ops.Value) else
                 operation.stop.value.real <= OUTSIDE)}


def registers_needed(region: ops.Region, spreads: Spreads, deferred: Mapping[str, int] = _NONE) -> int:
    """Return the registers of a thread that matrices of a region take at most, with the headers of messages.

    Of factors that are loaded where they are multiplied, part by part, `deferred` has what parts take.
    """
    return _accesses_in(region) + most_registers(
        region, lambda value: deferred.get(value.name, _registers_of(value, spreads)))


def _registers_of(value: ops.Value, spreads: Spreads) -> int:
    type = held_type(value, spreads)
    return -(-(type.rows if type.rows > 1 else LANES) * type.columns * type.component.bits // _REGISTER_BITS)


def _accesses_in(region: ops.Region) -> int:
    return sum(isinstance(operation, ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore)
               for operation in region.walk())


def deferred_loads(region: ops.Region, spreads: Spreads) -> dict[str, int]:
    """Return the factors that are loaded where they are multiplied, and the registers that parts of them take.

    There are none where all factors fit as wholes, also while words are taken apart, beside sums that do not take the
    registers of what they are added to, and beside what fills constant factors: more messages are on their way then.
    """
    apart = {operation.result.name for operation in region.walk() if isinstance(operation, ops.CooperativeMatrixLoad)
             and operation.type.use == "matrix_b" and not do_rows_follow(operation)}
    made = {value.name for operation in region.walk() for value in (*operation.results, *operation.loop_variables)
            if not operation.is_constant}
    filled = sum(_FILLED[use.is_first] for name, uses in factors_in(region, spreads).items() if name not in made
                 for use in uses if use is not None)
    places, deferred = places_in(region, spreads), dict[str, int]()

    def takes_room(operation: ops.Operation) -> bool:
        return isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name in places and (
            places[operation.result.name] != places.get(operation.C.name))

    def do_fit(spare: int = 0) -> bool:
        """Whether all fit with the factors that are deferred, and leave some registers."""
        needed = filled + _accesses_in(region) + most_registers(
            region, lambda value: deferred.get(
                value.name, _registers_of(value, spreads) + _WORDS * (value.name in apart)), takes_room)
        return needed + spare <= DPAS[LANES].by_blocks.registers

    if do_fit():
        return {}
    uses = Counter(operand.name for operation in region.walk() for operand in operation.operands
                   if isinstance(operand, ops.Value))
    for is_nested in (False, True):  # what is loaded in front of a loop is loaded in each iteration else
        found = [*_parts_in(region, spreads, is_nested)]
        counts = Counter(name for name, _ in found)
        deferred = {name: max(size for other, size in found if other == name)
                    for name, count in counts.items() if uses[name] == count}
        if do_fit(_SPARE):
            break
    return deferred


def _parts_in(
    region: ops.Region, spreads: Spreads, is_nested: bool, before: Mapping[str, ops.CooperativeMatrixLoad] = _NONE,
) -> Iterator[tuple[str, int]]:
    """Yield factors that are loaded in front of a product, with no store between, and the registers of parts.

    What `before` a region was loaded may be multiplied in it, if it `is_nested`.
    """
    waiting = dict(before)
    for operation in region:
        if any(each.writes for each in (operation, *(one for inner in operation.regions for one in inner.walk()))):
            waiting.clear()
        for inner in operation.regions:
            yield from _parts_in(inner, spreads, is_nested, waiting if is_nested else _NONE)
        if isinstance(operation, ops.CooperativeMatrixLoad):
            waiting[operation.result.name] = operation
        elif isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name not in spreads:
            row = product_row(operation)
            for factor, is_first in ((operation.A, True), (operation.B, False)):
                if row is not None and factor.name in waiting:
                    first = waiting.get(operation.A.name)
                    order = order_of(operation, row, None if first is None else factor_loads(first, Factor(row, True)))
                    yield factor.name, _most_of_parts(factor_loads(waiting[factor.name], Factor(row, is_first)), [
                        (i if is_first else j, step) for step, i, j in order])


def order_of(
    product: ops.CooperativeMatrixMulAdd, row: DpasRow, first: TileLoads | None
) -> list[tuple[int, int, int]]:
    """Return the DPAS of a product, by their step along the sum and the block of the result: step after step.

    Where messages load the first factor part by part, what is multiplied by one comes together: all blocks of its rows,
    and if it brings several steps of these, all of them.
    """
    steps = range(ops.matrix_type(product.A).columns // row.k)
    order = [(step, *block) for step in steps for block in blocks_of(ops.matrix_type(product.result))]
    if first is None:
        return order
    rows = {fragment: min(each.fragments)[0] for each in first.loads for fragment in each.fragments}
    several = any(len({step for _, step in each.fragments}) > 1 for each in first.loads)
    return sorted(order, key=lambda place: (rows[place[1], place[0]] * several, place[0], rows[place[1], place[0]]))


def _most_of_parts(loads: TileLoads, order: list[tuple[int, int]]) -> int:
    """Return the registers of messages that a product needs at one time at most: from first to last DPAS of each.

    The fragments that DPAS take are in `order`.
    """
    lives = []
    for each in loads.loads:
        places = [place for place, fragment in enumerate(order) if fragment in each.fragments]
        lives.append((places[0], places[-1], each.block.registers * (2 if each.block.is_taken_apart else 1)))
    return max(sum(size for first, last, size in lives if first <= place <= last) for place in range(len(order)))


@dataclass
class SubgroupRegion:
    """A region, and what it would be held and computed with."""

    function: ops.Function
    region: ops.Parallel | ops.ForeachTile

    @cached_property
    def factors(self) -> dict[str, set[Factor | None]]:
        """What matrices are multiplied as."""
        return factors_in(self.region.body, self.spreads)

    @cached_property
    def spreads(self) -> Spreads:
        """The products that spread columns and rows."""
        return spreads_in(self.function)

    @cached_property
    def multiples(self) -> Multiples:
        """What indices are multiples of."""
        return multiples_in(self.function, self.region.body)

    @cached_property
    def roots(self) -> dict[str, str]:
        """The memory that memrefs refer to."""
        return roots(self.function)

    @property
    def guard(self) -> BlocksFit:
        """What run time decides by."""
        accesses = [operation for operation in self.region.body.walk() if isinstance(operation, ops.MatrixAccess)]
        used = {index.name: index for operation in accesses for index in operation.indices
                if isinstance(index, ops.Value)}
        assumed = {value.name: value for index in used.values() if (known := self.multiples.get(index.name)) is not None
                   for value in known.assumes}
        memrefs = {operation.memref.name: operation.memref for operation in accesses}
        limits = {stop.name: stop for name, stop in limits_in(self.region.body).items()
                  if name in used and isinstance(stop, ops.Value)}
        return BlocksFit(memrefs=tuple(memrefs.values()), indices=tuple(assumed[name] for name in sorted(assumed)),
                         limits=tuple(limits.values()))

    def faults(self) -> Iterator[str]:
        """Yield why the matrices cannot be in registers."""
        is_faulty = False
        for fault in self.faults_of_instructions():
            is_faulty = True
            yield fault
        room, deferred = DPAS[LANES].by_blocks.registers, dict[str, int]()
        if not is_faulty:  # else factors may have no messages
            deferred = deferred_loads(self.region.body, self.spreads)
        needed = registers_needed(self.region.body, self.spreads, deferred)
        if needed > room:
            yield f"they would need {needed} registers, and there are {room}"

    def faults_of_instructions(self) -> Iterator[str]:
        """Yield which instructions on matrices, and on what, have no form for registers."""
        items, function = ops.work_items_of(self.function), self.function
        if items.lanes != LANES or function.subgroup_size not in (None, LANES):
            yield f"its sub-groups have {items.lanes} work-items, and DPAS has {LANES} lanes"
        if not self.factors:
            yield "it has no product"
        if uses_work_item(self.region.body):
            yield "the body of cooperative_matrix_apply depends on the work-item that runs it"
        for operation in self.region.body.walk():
            if not isinstance(operation, _COOPERATIVE if operation.is_cooperative else _PLAIN):
                yield f"{operation.mnemonic} has no form for registers"
            if (reduced := _reduced_lanes(operation)) is not None and reduced.name not in REDUCED:
                yield f"{operation.mnemonic} of {reduced} has no form for registers"
            for value in self.held(operation):
                if isinstance(value.type, CooperativeMatrixType):
                    yield from self.type_faults(value)
            if isinstance(operation, ops.If | ops.For):
                yield from (f"{value}, which has components of {value.type.component}, is passed on"
                            for value in (*operation.results, *operation.loop_variables)
                            if isinstance(value.type, CooperativeMatrixType) and value.type.component.bits != _SUM_BITS)
            if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name not in self.spreads:
                yield from self.product_faults(operation)
            if isinstance(operation, ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore):
                yield from self.access_faults(operation)
        yield from self.factor_faults()
        yield from self.memory_faults()

    def held(self, operation: ops.Operation) -> tuple[ops.Operand, ...]:
        """Return what an operation has to do with; of what spreads columns and rows one factor is known."""
        results = operation.results
        if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name in self.spreads:
            return operation.B if self.spreads[operation.result.name].is_row else operation.A, operation.C, *results
        known = isinstance(operation, ops.CooperativeMatrixConstruct) and operation.is_constant
        return () if known else (*operation.operands, *results)

    def type_faults(self, value: ops.Operand) -> Iterator[str]:
        """Yield what keeps a matrix from being held as sums are."""
        type = ops.matrix_type(value)
        if isinstance(value, ops.Value) and value.name in self.loaded:
            return
        of_one = 1 if type.component.bits == _SUM_BITS else None  # columns and rows
        if (type.rows % LANES and type.rows != of_one) or (type.columns % COLUMNS and type.columns != of_one):
            yield f"{value} is {type.rows} x {type.columns}, no whole blocks of {LANES} x {COLUMNS}"
        if type.component.bits not in (16, 32) or type.component.is_complex:
            yield f"{value} has components of {type.component}"

    def product_faults(self, operation: ops.CooperativeMatrixMulAdd) -> Iterator[str]:
        """Yield what keeps DPAS from computing a product."""
        row, a, b = product_row(operation), *map(ops.matrix_type, (operation.A, operation.B))
        if row is None:
            types = [ops.matrix_type(value).component.name for value in (operation.A, operation.B, operation.C)]
            yield f"DPAS sums no products of {types[0]} and {types[1]} in {types[2]}"
        elif a.rows % LANES or b.columns % COLUMNS or a.columns % row.k:
            yield (f"{row} does not divide a product of {a.rows} x {a.columns} and {b.rows} x {b.columns}")

    @cached_property
    def loaded(self) -> frozenset[str]:
        """The factors that are loaded; others are held as sums are."""
        return frozenset(operation.result.name for operation in self.region.body.walk()
                         if isinstance(operation, ops.CooperativeMatrixLoad) and operation.result.name in self.factors)

    def factor_faults(self) -> Iterator[str]:
        """Yield what keeps a factor from being loaded as DPAS takes it."""
        for operation in self.region.body.walk():
            others = operation.operands
            if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name not in self.spreads:
                others = (operation.C,)
            for operand in others:
                if isinstance(operand, ops.Value) and operand.name in self.loaded:
                    yield f"{operand} is a factor, and not only multiplied"
        for name in self.loaded:
            if len(self.factors[name]) > 1:
                yield f"%{name} is a factor of products of several kinds"

    def access_faults(self, operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore) -> Iterator[str]:
        """Yield what keeps messages from moving the blocks of a matrix, for all that is known of it."""
        memref, along = operation.memref, lines_along(operation)
        type = ops.memref_type(memref)
        if self.roots[memref.name] not in {parameter.name for parameter in self.function.parameters}:
            yield f"{memref} is in local memory"
        if along is None:
            yield f"neither rows nor columns of {memref} are known to be contiguous"
            return
        if not may_be_surface(type.element.bits, type.shape[along], type.shape[1 - along], type.strides[1 - along]):
            yield f"{memref} has strides or sizes that loads of blocks do not take"
        multiples = [multiple_of(index, self.multiples) for index in operation.indices]
        matrix = operation.type if isinstance(operation, ops.CooperativeMatrixLoad) else ops.matrix_type(operation.A)
        if matrix.rows == 1:
            yield f"a single row is in {memref}"
        if None in multiples:
            yield f"the region computes an index of {memref} that may be negative"
        elif multiples[along].number * type.element.bits % _WORD:  # type: ignore[union-attr]
            yield f"an index of {memref} is not known to be a multiple of {_WORD // type.element.bits}"
        rows_follow = do_rows_follow(operation)
        used = self.factors.get(operation.results[0].name if operation.results else "", ())
        is_loaded = isinstance(operation, ops.CooperativeMatrixLoad)
        if is_loaded and not used and not rows_follow and operation.type.component.bits != _SUM_BITS:
            yield f"the rows of {operation.type} do not follow one another in {memref}"

    def memory_faults(self) -> Iterator[str]:
        """Yield what keeps the region from knowing what it has stored itself."""
        walked = [*self.region.body.walk()]
        own = {value.name for operation in walked for value in operation.results}
        stored = {root_of(value, self.roots) for operation in walked for value in operation.writes}
        for operation in walked:
            if isinstance(operation, ops.MatrixAccess) and operation.memref.name in own:
                yield f"{operation.memref} is a view that the region takes"
            elif isinstance(operation, ops.Load | ops.Store) and stored.intersection(
                root_of(value, self.roots) for value in (*operation.reads, *operation.writes)
            ):
                yield "it stores elements, and reads or writes them one by one"
