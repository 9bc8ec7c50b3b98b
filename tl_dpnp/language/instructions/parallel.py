"""Regions that each work-item runs for itself, and its place in the work-group.

Source: tensor language reference 0.4, sections "Execution model", "Parallel", "Foreach tile", "Subgroup id" and the
like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tl_dpnp.language.assembly import Result, Spelled, Writing, axis_errors
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.extents import AXES, Axis
from tl_dpnp.language.instructions.control import loop_errors, read_ranges
from tl_dpnp.language.instructions.matrices import OwnComponent
from tl_dpnp.language.ir import MISSING, Function, Operand, Operation, Region, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I32, INDEX, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import WorkGroup

#: The work-items of a sub-group where neither an attribute nor a tile says otherwise.
_LANES = 16


@dataclass(frozen=True)
class WorkItems:
    """The work-items of a work-group: sub-groups of `lanes`, `rows` of them along x and `columns` along y."""

    lanes: int
    rows: int
    columns: int

    @property
    def subgroups(self) -> tuple[int, int, int]:
        """The number of sub-groups along x, y and z."""
        return self.rows, self.columns, 1


def work_items_of(function: Function) -> WorkItems:
    """Return the work-items that the regions of a function see, whichever a device has.

    Where no attribute says how large a sub-group is, it has the largest of 16, 8, 4, 2 and 1 work-items that divides
    what has to be a multiple of it: the first mode of the work-group and of each tile.
    """
    tiles = [each.tiles[0] for each in function.body.walk() if isinstance(each, ForeachTile)]
    size = function.work_group_size
    lanes = function.subgroup_size
    if lanes is None:
        lanes = math.gcd(_LANES, *tiles, *(() if size is None else size[:1]))
    return WorkItems(lanes, *((1, 1) if size is None else (size[0] // lanes, size[1])))


def size_errors(function: Function) -> Iterator[tuple[Operation, RuleError]]:
    """Yield what does not fit the work-items of a sub-group, with what is wrong.

    That is tiles which they do not share evenly, and cooperative matrices.
    """
    lanes = function.subgroup_size
    if lanes is not None and lanes > 0 and lanes & (lanes - 1):
        first = next((each for each in function.body.walk() if each.is_cooperative), None)
        if first is not None:
            yield first, RuleError(f"sub-groups of {lanes} work-items hold no cooperative matrices",
                                   "write a power of two for subgroup_size")
            return
    for each in function.body.walk():
        if isinstance(each, OwnComponent) and isinstance(each.A.type, CooperativeMatrixType) and (
            lanes is None or lanes > 0
        ):
            yield from ((each, error) for error in each.size_errors(work_items_of(function).lanes))
        if isinstance(each, ForeachTile) and lanes is not None and lanes > 0 and each.tiles and each.tiles[0] % lanes:
            message = f"the first size {each.tiles[0]} of the tile is no multiple of the sub-group size {lanes}"
            yield each, RuleError(message, f"write {-(-each.tiles[0] // lanes) * lanes}, or change subgroup_size",
                                  2 * len(each.starts))


@dataclass(frozen=True)
class Parallel(Operation):
    """``parallel { ... }``: each work-item of the work-group runs the body once."""

    mnemonic = "parallel"
    example = "parallel { ... }"
    collective = True
    shared = True
    is_newer = True
    together = ("work-group", "sub-group")

    body: Region

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    @classmethod
    def grammar(cls) -> dict[str, str]:
        return {"parallel_instruction": '"parallel" region'}

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        return cls(body=elaborator.region(tree.children[0]))

    def spell(self, writing: Writing) -> str:
        return "parallel"

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        group.run_together(self.body, range(math.prod(group.launch.work_items.subgroups)))
        return ()


@dataclass(frozen=True)
class ForeachTile(Operation):
    """``foreach_tile (%i, ...) = (start, ...), (stop, ...) as (%s, ...) <= (tile, ...) { ... }``.

    The ranges are cut into tiles, each of which is given to one sub-group, in no order; all its work-items run the
    body.  `firsts` are the first indices of the tile, `extents` how many there are from there on.
    """

    mnemonic = "foreach_tile"
    example = "foreach_tile (%i, %j) = (0, 0), (40, 9) as (%m, %n) <= (16, 4) { ... }"
    collective = True
    shared = True
    is_newer = True
    together = ("sub-group",)

    variables: tuple[Value, ...]
    starts: tuple[Operand, ...]
    stops: tuple[Operand, ...]
    tiles: tuple[int, ...]
    body: Region

    @property
    def firsts(self) -> tuple[Value, ...]:
        """The variables that are the first index of the tile, one for each range."""
        return self.variables[: len(self.starts)]

    @property
    def extents(self) -> tuple[Value, ...]:
        """The variables that are the size of the tile, one for each range."""
        return self.variables[len(self.starts) :]

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    @property
    def loop_variables(self) -> tuple[Value, ...]:
        return self.variables

    @classmethod
    def grammar(cls) -> dict[str, str]:
        lists = '"(" foreach_names ")" "=" "(" index_list ")" "," "(" index_list ")"'
        return {
            "foreach_tile_instruction":
                f'"foreach_tile" {lists} "as" "(" foreach_names ")" "<=" "(" tile_list ")" region',
            "tile_list": 'INTEGER_CONSTANT ("," INTEGER_CONSTANT)*',
        }

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        names, starts, stops, extents, sizes, body = tree.children
        firsts, first, last = read_ranges(elaborator, cls.mnemonic, names, starts, stops, None)
        tiles = tuple(map(elaborator.mode, sizes.children))
        for what, entries in (("names of sizes", extents.children), ("sizes of tiles", sizes.children)):
            if len(entries) != len(firsts):
                message = f"a foreach_tile over {len(firsts)} indices has {len(entries)} {what}"
                elaborator.report(message, elaborator.source.span(entries[0]), "give one for each index")
        lengths = [elaborator.variable(name, variable.type, name)
                   for name, variable in zip(extents.children, firsts, strict=False)]
        variables = (*firsts, *lengths, *[MISSING] * (len(firsts) - len(lengths)))
        padded = (*tiles, *[1] * len(firsts))[: len(firsts)]
        return cls(variables=variables, starts=first, stops=last, tiles=padded,
                   body=elaborator.region(body, variables))

    def spell(self, writing: Writing) -> str:
        names, starts, stops, extents = map(writing.listed, (self.firsts, self.starts, self.stops, self.extents))
        tiles = ", ".join(map(str, self.tiles))
        return f"foreach_tile ({names}) = ({starts}), ({stops}) as ({extents}) <= ({tiles})"

    def errors(self) -> Iterator[RuleError]:
        count = len(self.starts)
        counts = {len(self.stops), len(self.tiles), len(self.extents)}
        if not count or counts != {count}:
            message = (f"a foreach_tile over {count} indices has {len(self.stops)} ends, {len(self.extents)} names of "
                       f"sizes and {len(self.tiles)} sizes of tiles")
            yield RuleError(message, "give one of each for every index")
            return
        ranges = zip(self.firsts, self.extents, self.starts, self.stops, self.tiles, strict=True)
        for place, (variable, extent, start, stop, tile) in enumerate(ranges):
            yield from loop_errors("foreach_tile", variable, {place: start, count + place: stop})
            if extent is not MISSING and extent.type != variable.type:
                yield RuleError(f"{extent} has type {extent.type}, but the index of its tile has type {variable.type}")
            largest = variable.type.maximum if isinstance(variable.type, ScalarType) else tile
            if not 1 <= tile <= largest:
                hint = f"write a size from 1 to {largest}"
                yield RuleError(f"a tile has {tile} indices of type {variable.type}", hint, 2 * count + place)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        ranges = [range(group.index(start), group.index(stop), tile)
                  for start, stop, tile in zip(self.starts, self.stops, self.tiles, strict=True)]
        count = math.prod(group.launch.work_items.subgroups)
        for number in group.launch.ordered(range(math.prod(map(len, ranges)))):
            rest, firsts, extents = number, [], []
            for entries, tile in zip(ranges, self.tiles, strict=True):  # the first index runs fastest
                rest, place = divmod(rest, len(entries))
                firsts.append(entries[place])
                extents.append(min(tile, entries.stop - entries[place]))
            group.run_together(self.body, (number % count,), zip(self.variables, (*firsts, *extents), strict=True))
        return ()


@dataclass(frozen=True)
class WorkItemCount(Spelled):
    """Base of what says how many work-items there are."""

    is_newer = True
    pure = True

    result: Result

    def result_type(self) -> ScalarType:
        return I32

    def number(self, items: WorkItems) -> int:
        """Return the result for the work-items of a function."""
        raise NotImplementedError(self.mnemonic)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(self.number(group.launch.work_items), I32),)


@dataclass(frozen=True)
class NumSubgroups(WorkItemCount):
    """``num_subgroups.x``: number of sub-groups of the work-group along an axis."""

    spelling = "num_subgroups{axis} : {result.scalar_type}"
    example = "%n = num_subgroups.x : i32"

    axis: Axis

    def errors(self) -> Iterator[RuleError]:
        yield from axis_errors(self.mnemonic, self.axis)

    def number(self, items: WorkItems) -> int:
        return items.subgroups[AXES.index(self.axis)]


class SubgroupSize(WorkItemCount):
    """``subgroup_size``: number of work-items of a sub-group."""

    spelling = "subgroup_size : {result.scalar_type}"
    example = "%n = subgroup_size : i32"

    def number(self, items: WorkItems) -> int:
        return items.lanes


@dataclass(frozen=True)
class WorkItemPlace(Spelled):
    """Base of what says which work-item of the work-group runs a region."""

    is_newer = True
    pure = True
    among = "sub-group"

    result: Result

    def result_type(self) -> ScalarType:
        return I32

    def number(self, lane: int, subgroup: int, items: WorkItems) -> int:
        """Return the result for a work-item of a sub-group."""
        raise NotImplementedError(self.mnemonic)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(self.number(*group.place, group.launch.work_items), I32),)


@dataclass(frozen=True)
class SubgroupId(WorkItemPlace):
    """``subgroup_id.x``: position of the sub-group in the work-group along an axis."""

    spelling = "subgroup_id{axis} : {result.scalar_type}"
    example = "%i = subgroup_id.x : i32"

    axis: Axis

    def errors(self) -> Iterator[RuleError]:
        yield from axis_errors(self.mnemonic, self.axis)

    def number(self, lane: int, subgroup: int, items: WorkItems) -> int:
        return (subgroup % items.rows, subgroup // items.rows, 0)[AXES.index(self.axis)]


class SubgroupLinearId(WorkItemPlace):
    """``subgroup_linear_id``: number of the sub-group in the work-group, those along x first."""

    spelling = "subgroup_linear_id : {result.scalar_type}"
    example = "%i = subgroup_linear_id : i32"

    def number(self, lane: int, subgroup: int, items: WorkItems) -> int:
        return subgroup


class SubgroupLocalId(WorkItemPlace):
    """``subgroup_local_id``: number of the work-item in its sub-group."""

    spelling = "subgroup_local_id : {result.scalar_type}"
    example = "%i = subgroup_local_id : i32"

    def number(self, lane: int, subgroup: int, items: WorkItems) -> int:
        return lane


class ParallelMethods(Building):
    """What a function builder has for regions that work-items run, and for their place in the work-group."""

    @contextmanager
    def parallel(self) -> Iterator[None]:
        """``parallel``, as a context."""
        loop = self._check(Parallel(body=Region()))
        with self._region() as body:
            yield
        self.append(replace(loop, body=Region(tuple(body))))

    @contextmanager
    def foreach_tile(
        self, starts: Sequence[Argument], stops: Sequence[Argument], tiles: Sequence[int], *,
        type: ScalarType = INDEX,
    ) -> Iterator[tuple[tuple[Value, ...], tuple[Value, ...]]]:
        """``foreach_tile``, as a context; gives the first indices of the tile, and how many there are of each."""
        sizes = tuple(self._integer(tile, "a size of a tile") for tile in tiles)
        variables = tuple(self._result(type, "") for _ in (*starts, *sizes))
        first, last = (tuple(self._operand(bound, type) for bound in bounds) for bounds in (starts, stops))
        loop = self._check(ForeachTile(variables=variables, starts=first, stops=last, tiles=sizes,
                                       body=Region()))
        with self._region() as body:
            yield loop.firsts, loop.extents
        self.append(replace(loop, body=Region(tuple(body))))

    def subgroup_id(self, axis: str = AXES[0], *, name: str = "") -> Value:
        """``subgroup_id``"""
        return self._add_value(SubgroupId(axis=axis, result=self._result(I32, name)))

    def subgroup_linear_id(self, *, name: str = "") -> Value:
        """``subgroup_linear_id``"""
        return self._add_value(SubgroupLinearId(result=self._result(I32, name)))

    def subgroup_local_id(self, *, name: str = "") -> Value:
        """``subgroup_local_id``"""
        return self._add_value(SubgroupLocalId(result=self._result(I32, name)))

    def num_subgroups(self, axis: str = AXES[0], *, name: str = "") -> Value:
        """``num_subgroups``"""
        return self._add_value(NumSubgroups(axis=axis, result=self._result(I32, name)))

    def subgroup_size_(self, *, name: str = "") -> Value:
        """``subgroup_size``, an instruction; the attribute of the function has that name in the builder."""
        return self._add_value(SubgroupSize(result=self._result(I32, name)))
