"""Register coalescing of cooperative matrices that are summed up or passed on: which of them are the same registers.

A matrix may take the registers of another one that ends to live where it begins, so that nothing is copied: a sum those
of what is added to the product, and what a loop carries those of what is yielded.  Whether two live at one time follows
from the numbers of instructions in the order of the source (Chaitin, "Register allocation and spilling via graph
coloring", 1982).
"""

from __future__ import annotations

from collections import defaultdict

from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.matrix_spreads import Spreads, held_type

__all__ = ["holder_of", "places_in"]

#: The components of sums.
_BITS = 32
#: Where values live: from one position to another one, which is not included.
_Spans = list[tuple[int, int]]


def holder_of(name: str) -> str:
    """Return the name of what holds a value that a loop carries between its iterations."""
    return f"{name}="


def places_in(region: ops.Region, spreads: Spreads) -> dict[str, str]:
    """Return the registers of matrices, by name, as the name of one that has them.

    Those are the sums of products, what these and loops and branches begin with or pass on, and what holds that
    (`holder_of`).  Others are values, and so is what a constant fills and what has equal components in each row.
    """
    lives = _Lives(spreads)
    lives.visit(region, [])
    return lives.coalesced()


class _Lives:
    """Where matrices live, and which had better be the same registers."""

    def __init__(self, spreads: Spreads) -> None:
        self.spreads = spreads
        self.position = 0
        self.made: dict[str, CooperativeMatrixType] = {}
        self.begun: dict[str, int] = {}
        self.spans: defaultdict[str, _Spans] = defaultdict(list)
        self.kept: set[str] = set()
        self.wanted: list[tuple[str, str]] = []

    def coalesced(self) -> dict[str, str]:
        """Return the registers of what is kept."""
        parents = {name: name for name in self.kept}

        def find(name: str) -> str:
            while parents[name] != name:
                name = parents[name]
            return name

        spans = {name: list(self.spans[name]) for name in self.kept}
        for one, other in self.wanted:
            if one not in parents or other not in parents:
                continue
            first, second = find(one), find(other)
            if first != second and not _meet(spans[first], spans[second]):
                parents[second] = first
                spans[first] += spans[second]
        return {name: find(name) for name in self.kept}

    def step(self) -> int:
        """Go on by one position."""
        self.position += 1
        return self.position

    def define(self, name: str) -> None:
        """Note that a value is made."""
        self.begun[name] = self.position
        self.spans[name].append((self.position, self.position + 1))

    def use(self, operand: ops.Operand, loops: list[tuple[int, list[str]]]) -> None:
        """Note the use of a matrix; `loops` are those around it: where they begin, and what they use from outside."""
        if isinstance(operand, ops.Value) and operand.name in self.begun:
            first = self.begun[operand.name]
            self.spans[operand.name].append((first, self.position))
            for start, inside in loops:
                if first < start:
                    inside.append(operand.name)

    def visit(
        self, region: ops.Region, loops: list[tuple[int, list[str]]], holders: dict[int, str] | None = None
    ) -> dict[str, int]:
        """Walk a region; return the positions at which `holders`, by the number of what is yielded, are written."""
        written: dict[str, int] = {}
        for operation in region:
            self.step()
            match operation:
                case ops.Yield(values=values):
                    for number, value in enumerate(values):
                        self.step()
                        self.use(value, loops)
                        if holders and number in holders:
                            written[holders[number]] = self.position
                            self.keep(value)
                            self.want(value, holders[number])
                case ops.For():
                    self.loop(operation, loops)
                case ops.If():
                    self.branch(operation, loops)
                case _:
                    for operand in operation.operands:
                        self.use(operand, loops)
                    for inner in operation.regions:
                        self.visit(inner, loops)
                    for value in operation.results:
                        if isinstance(value.type, CooperativeMatrixType):
                            self.define(value.name)
                    self.compute(operation)
        return written

    def compute(self, operation: ops.Operation) -> None:
        """Note that what an instruction makes had better be in the registers of what that is computed of."""
        for value in operation.results:
            if isinstance(value.type, CooperativeMatrixType) and value.type.component.bits == _BITS and (
                not operation.is_constant and held_type(value, self.spreads) == value.type
            ):
                self.made[value.name] = value.type
                for operand in operation.operands:
                    if isinstance(operand.type, CooperativeMatrixType) and operand.type.shape == value.type.shape:
                        self.want(operand, value.name)
        if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.result.name not in self.spreads:
            self.keep(operation.C)
            self.keep(operation.result)

    def keep(self, operand: ops.Operand) -> None:
        """Note that a matrix, if it is made by an instruction, is in registers that are changed in place."""
        if isinstance(operand, ops.Value) and operand.name in self.made:
            self.kept.add(operand.name)

    def want(self, operand: ops.Operand, name: str) -> None:
        """Note that a matrix had better be in the registers of another one."""
        if isinstance(operand, ops.Value):
            self.wanted.append((operand.name, name))

    def loop(self, operation: ops.For, loops: list[tuple[int, list[str]]]) -> None:
        """Walk a loop: holders are set before it and by each iteration, and read where one begins and at the end."""
        start, holders = self.position, dict[int, str]()
        for number, (value, first) in enumerate(zip(operation.carried, operation.initial, strict=True)):
            self.step()
            self.use(first, loops)
            if isinstance(value.type, CooperativeMatrixType):
                holders[number] = holder_of(value.name)
                self.define(holders[number])
                self.keep(first)
                self.want(first, holders[number])
        self.step()
        for number, holder in holders.items():
            value = operation.carried[number]
            self.spans[holder].append((self.begun[holder], self.position))
            self.define(value.name)
            self.kept |= {holder, value.name}
            self.wanted.append((holder, value.name))
        inside: list[str] = []
        written = self.visit(operation.body, [*loops, (start, inside)], holders)
        end = self.step()
        for name in inside:
            self.spans[name].append((self.begun[name], end))
        for number, holder in holders.items():
            self.spans[holder].append((written[holder], end))
            output = operation.outputs[number].name
            self.define(output)
            self.kept.add(output)
            self.wanted.append((holder, output))

    def branch(self, operation: ops.If, loops: list[tuple[int, list[str]]]) -> None:
        """Walk a branch: what it gives is set by each of its regions, and lives until the end of that, then behind it.
        """
        self.use(operation.condition, loops)
        given = {number: value.name for number, value in enumerate(operation.outputs)
                 if isinstance(value.type, CooperativeMatrixType)}
        written = [(self.visit(inner, loops, given), self.step()) for inner in operation.regions]
        self.step()
        for name in given.values():
            self.kept.add(name)
            self.define(name)
            self.spans[name] += [(positions[name], end) for positions, end in written]


def _meet(one: _Spans, other: _Spans) -> bool:
    return any(a < d and c < b for a, b in one for c, d in other)
