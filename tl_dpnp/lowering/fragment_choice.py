"""What is decided of the regions of work-items whose cooperative matrices are in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.language.assembly import Writing
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1

__all__ = ["OUTSIDE", "BlocksFit", "FragmentChoice", "regions_of", "uses_work_item"]


#: Indices from this one on are outside of any matrix that messages can access.
OUTSIDE = 1 << 25


@dataclass(frozen=True)
class BlocksFit(ops.Operation):
    """Whether messages can move blocks of memrefs as a region asks for, which only run time tells.

    That is so where addresses, sizes and strides allow it, `indices` are not negative, and loops that count indices end
    at `limits` that are not beyond `OUTSIDE`.
    """

    mnemonic: ClassVar[str] = "blocks_fit"
    pure: ClassVar[bool] = True

    memrefs: tuple[ops.Value, ...]
    indices: tuple[ops.Operand, ...]
    limits: tuple[ops.Operand, ...]
    result: ops.Value = ops.Value("blocks_fit", I1)

    def spell(self, writing: Writing) -> str:
        lists = [", ".join(map(writing.operand, values)) for values in (self.memrefs, self.indices, self.limits)]
        return f"{self.mnemonic} ({'), ('.join(lists)})"


class FragmentChoice(NamedTuple):
    """The regions whose matrices are fragments, by their numbers in the function, and what to tell of all of them.

    Each comes with what decides at run time whether it can be run so, if anything does: else it becomes phases of all
    work-items.  `registers` is the size of a GPU thread's register file that the regions are made for, 0 where it does
    not matter.  `unrolled` has, for some regions, what is run in the place of them: the last one is a region.
    """

    kept: Mapping[int, BlocksFit | None] = {}
    remarks: tuple[str, ...] = ()
    registers: int = 0
    unrolled: Mapping[int, tuple[ops.Operation, ...]] = {}


def regions_of(function: ops.Function) -> Iterator[ops.Parallel | ops.ForeachTile]:
    """Yield the regions of work-items of a function, which are numbered in this order."""
    return (operation for operation in function.body.walk() if isinstance(operation, ops.Parallel | ops.ForeachTile))


def uses_work_item(region: ops.Region) -> bool:
    """Return whether components of a matrix are computed of what may differ between the work-items of a sub-group."""
    varying = _varying(region)
    return any(isinstance(operand, ops.Value) and operand.name in varying
               for operation in region.walk() if isinstance(operation, ops.CooperativeMatrixApply)
               for inner in operation.body.walk() for operand in inner.operands)


def _varying(region: ops.Region) -> set[str]:
    """Return the values in a region that may differ between the work-items of a sub-group."""
    found: set[str] = set()
    count = -1
    while count != len(found):
        count = len(found)
        for operation in region.walk():
            depends = isinstance(operation, ops.SubgroupLocalId | ops.CooperativeMatrixExtract) or any(
                isinstance(operand, ops.Value) and operand.name in found for operand in operation.operands)
            if isinstance(operation, ops.SubgroupReduce):
                continue  # all have what it gives
            yielded = (value for inner in operation.regions for each in inner if isinstance(each, ops.Yield)
                       for value in each.values)
            if depends or any(isinstance(value, ops.Value) and value.name in found for value in yielded):
                found.update(value.name for value in (*operation.results, *operation.loop_variables))
                found.update(value.name for inner in operation.regions for each in inner.walk()
                             for value in each.results if depends)
    return found
