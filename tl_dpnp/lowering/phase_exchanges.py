"""Sub-group instructions: work-items store their values in one phase, and read those of others in the next."""

from __future__ import annotations

from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder
from tl_dpnp.language.building import Argument, Number
from tl_dpnp.lowering.phase_values import PhaseValues
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = ["PhaseExchanges"]


class PhaseExchanges(PhaseValues):
    """Writes broadcasts, reductions and scans."""

    def exchange(self, operation: ops.SubgroupExchange) -> None:
        """Write a sub-group instruction: all store their values in one phase and read them in the next."""
        self.begin(is_joint=False)
        type = ops.scalar_type(operation.operand)
        number = self.temporary(type)
        self.keep(number, self.use(operation.operand))
        self.end()
        if isinstance(operation, ops.SubgroupBroadcast):
            found = self.kept(number, type, self.b.cast(self.use(operation.lane), INDEX))
        else:
            assert isinstance(operation, ops.SubgroupReduction)
            found = self.reduced(operation, number, type)
        self.remember(operation.results[0], found)

    def reduced(self, operation: ops.SubgroupReduction, number: int, type: ScalarType) -> ops.Value:
        """Combine the values of work-items of the sub-group."""
        self.enter()
        b = self.b

        def combined(first: ops.Value, second: ops.Value) -> ops.Value:
            return b.add(first, second) if operation.combination == "add" else (
                b.math(operation.combination, first, second))

        if operation.is_scan:
            first = self.kept(number, type, ops.Constant(0, INDEX))
            with b.for_carrying([first], 1, b.add(self.indices[0], int(operation.has_own))) as loop:
                b.yield_(combined(loop.carried[0], self.kept(number, type, loop.variable)))
            if operation.has_own:
                return loop.outputs[0]
            with b.if_(b.cmp("eq", self.indices[0], 0), type) as nobody:
                b.yield_(_constant(b, operation.neutral, type))
            with b.else_():
                b.yield_(loop.outputs[0])
            return nobody.results[0]
        values = [self.kept(number, type, ops.Constant(lane, INDEX)) for lane in range(self.items.lanes)]
        while len(values) > 1:  # in pairs: a long sum would wait for itself
            pairs = [combined(*values[at : at + 2]) for at in range(0, len(values) - 1, 2)]
            values = [*pairs, *values[2 * len(pairs) :]]
        return values[0]


def _constant(b: FunctionBuilder, value: Number, type: ScalarType) -> Argument:
    """Return a number, also one that the language has no constant for: an end of the integers of 64 bits."""
    if not type.is_integer or -(2**63) < value.real < 2**63:
        return value
    return b.arith("shl", 1, 63, type=type) if value.real < 0 else b.arith("not", 0, type=type)
