"""How matrices in registers are held: that follows from what they are used for.

Values that are computed of one another element by element, or passed on from one to the other, are held alike.  First
factors and sums are held by rows.  Second factors are held by columns, unless what is held like them is a first factor
or a sum: then they are converted at the product.  Factors of one product, which are no sums, are held in longer runs
where these are as they are in memory, as long as a work-item's widest access.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from tl_dpnp.kernels.mma.fragments import BY_ROWS, Layout
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType

__all__ = ["Alike", "layouts_of"]

#: Bytes of a work-item's widest access (PTX ISA 9.0, section 6.4.2, "Vectors as Operands").
_WIDEST = 16
#: The lengths of runs, the best first; all forms of the instruction have two.
_RUNS = (16, 8, 4)


class Alike:
    """Classes of names."""

    def __init__(self) -> None:
        self.parents: dict[str, str] = {}

    @property
    def names(self) -> Collection[str]:
        """All names that were asked for."""
        return self.parents.keys()

    def find(self, name: str) -> str:
        """Return the name that stands for the class of another one."""
        while self.parents.setdefault(name, name) != name:
            name = self.parents[name]
        return name

    def join(self, names: Sequence[str]) -> None:
        """Make names be of one class."""
        roots = [*map(self.find, names)]
        self.parents.update((root, roots[0]) for root in roots)


def layouts_of(function: ops.Function) -> dict[str, Layout]:
    """Return how the matrices of a function are held, by their names; its names are unique."""
    alike, along = Alike(), Alike()
    types: dict[str, CooperativeMatrixType] = {}
    products: list[ops.CooperativeMatrixMulAdd] = []
    loads: list[ops.CooperativeMatrixLoad] = []
    for operation in function.body.walk():
        for value in (*operation.results, *operation.loop_variables):
            if isinstance(value.type, CooperativeMatrixType):
                types[value.name] = value.type
                alike.find(value.name)
        for values in _held_alike(operation):
            alike.join([value.name for value in values
                        if isinstance(value, ops.Value) and isinstance(value.type, CooperativeMatrixType)])
        if isinstance(operation, ops.CooperativeMatrixMulAdd):
            products.append(operation)
        elif isinstance(operation, ops.CooperativeMatrixLoad):
            loads.append(operation)
    sums = {alike.find(product.C.name) for product in products}
    by_rows = sums | {alike.find(product.A.name) for product in products}
    by_columns = {alike.find(product.B.name) for product in products} - by_rows
    for product in products:
        along.join([alike.find(product.A.name), alike.find(product.B.name)])
    members = defaultdict(list)
    for name in types:
        members[along.find(alike.find(name))].append(name)

    def layout_of(name: str, run: int) -> Layout:
        return Layout(alike.find(name) in by_columns, run)

    def is_fitting(group: str, run: int) -> bool:
        """Whether all matrices of a group may be held in runs of a length."""
        if any(alike.find(name) in sums for name in members[group]):
            return False
        if any(along.find(alike.find(product.B.name)) == group and alike.find(product.B.name) not in by_columns
               for product in products):
            return False
        for name in members[group]:
            type, block = types[name], layout_of(name, run).block
            if run * type.component.bytes > _WIDEST or any(
                size % part for size, part in zip(type.shape, block, strict=True)
            ):
                return False
        return all(_is_along(load, layout_of(load.result.name, run))
                   for load in loads if along.find(alike.find(load.result.name)) == group)

    used = {along.find(alike.find(product.A.name)) for product in products}
    runs = {group: next((run for run in _RUNS if is_fitting(group, run)), BY_ROWS.run) for group in used}
    return {name: layout_of(name, runs.get(along.find(alike.find(name)), BY_ROWS.run)) for name in types}


def _held_alike(operation: ops.Operation) -> Iterator[tuple[ops.Operand, ...]]:
    """Yield values that are held alike; others than matrices may be among them."""
    match operation:
        case ops.CooperativeMatrixMulAdd(C=added, result=result):
            yield added, result
        case ops.For(carried=carried, initial=initial, outputs=outputs) if carried:
            yield from zip(initial, carried, operation.body.operations[-1].operands, outputs, strict=True)
        case ops.If(outputs=outputs) if outputs:
            for region in operation.regions:
                yield from zip(outputs, region.operations[-1].operands, strict=True)
        case ops.CooperativeMatrixApply() | ops.CooperativeMatrixScale() | ops.ScalarOperation():
            yield *operation.operands, *operation.results


def _is_along(load: ops.CooperativeMatrixLoad, layout: Layout) -> bool:
    """Whether a work-item's elements are neighbours in memory; above 16 bits it does not matter if they are not."""
    mode = layout.axis if not load.transpose else 1 - layout.axis
    return ops.memref_type(load.memref).strides[mode] == 1 or load.type.component.bits > 8 * 2
