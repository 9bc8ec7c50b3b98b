"""What is true of a nest or of a loop as a whole, which its emission goes by."""

from __future__ import annotations

import math
from typing import NamedTuple

from tl_dpnp.lowering.nest import Leaf, Loop, MultiplyAdd, Nest, leaves
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.core import Core

__all__ = ["adds_in_registers", "computes_twice", "has_near_elements", "rows_mixed", "stores_twice"]


def computes_twice(nest: Nest) -> bool:
    """Whether an element may be computed twice: it is a reduction.

    Copies hold no elements in front of their region, so that nothing can reach back over it.
    """
    assigns = [leaf.assign for leaf in leaves(nest.body)]
    stores = [assign for assign in assigns if not assign.target.buffer.in_registers]
    return any(assign.part == "update" for assign in assigns) and all(
        assign.target.buffer.scope == "global" and assign.update == "set" for assign in stores
    )


def stores_twice(nest: Nest) -> bool:
    """Whether what is computed twice may be stored twice: nothing reads what is stored."""
    assigns = [leaf.assign for leaf in leaves(nest.body)]
    return not any(access.buffer == assign.target.buffer for assign in assigns for access in assign.reads
                   if not assign.target.buffer.in_registers)


def rows_mixed(nest: Nest) -> int:
    """Return how many rows of each column are in vectors of several columns, 0 where no others are beside them.

    Copies have vectors of their own.
    """
    loops = [loop for leaf in leaves(nest.body) if leaf.assign.part != "copy"
             for loop in leaf.loops if loop.kind == "vectorized"]
    inner = [derived.modulus or 0 for loop in loops for derived in loop.derived if derived.divisor == 1]
    return max(inner, default=0) if any(not loop.derived for loop in loops) else 0


def adds_in_registers(loop: Loop) -> bool:
    """Whether all that a loop does is to add products of f32, or of f64, to sums in registers.

    Its vectors are registers then, or parts of one.
    """
    assigns = [leaf.assign for leaf in leaves((loop,))]
    elements = {access.buffer.element for assign in assigns for access in (assign.target, *assign.reads)}
    return elements in ({F32}, {F64}) and all(
        assign.part == "update" and assign.target.buffer.in_registers and isinstance(assign.value, MultiplyAdd)
        for assign in assigns)


def has_near_elements(loop: Loop, width: int, core: Core) -> bool:
    """Whether the elements that all lanes share are at constant distances from one address in each step of a sum.

    So they are for a core that `unlaminates`, where multiply-adds take them from memory, as tiles of one vector do; and
    where a tile takes all registers and several steps are one iteration: LLVM 18 writes some of these to memory else.
    """
    if not (core.unlaminates and loop.reduction):
        return False
    found = [_step_of(leaf, width) for leaf in leaves(loop.body)]
    return bool(found) and all(step is not None and (step.vectors == 1 or (
        step.unrolled > 1 and step.registers >= core.registers - 1)) for step in found)


class _Step(NamedTuple):
    """One step of the sums of a tile: as many vectors as each element is multiplied by, columns, and steps unrolled."""

    vectors: int
    columns: int
    unrolled: int

    @property
    def registers(self) -> int:
        """Those of the sums, of an element for each column, and of a vector of A."""
        return self.vectors * self.columns + self.columns + 1


def _step_of(leaf: Leaf, width: int) -> _Step | None:
    """Return the step that multiplies a vector along one loop by elements; None for anything else."""
    rows = [loop for loop in leaf.loops if loop.kind == "vectorized"]
    if len(rows) != 1 or rows[0].derived or not isinstance(leaf.assign.value, MultiplyAdd):
        return None
    reads = [set().union(*access.indices) for access in leaf.assign.reads if not access.buffer.in_registers]
    elements = [names for names in reads if rows[0].variable not in names]
    counts = {loop.variable: len(loop.static_range or ()) for loop in leaf.loops}
    if len(elements) != 1 or counts[rows[0].variable] < 2:
        return None
    (names,), steps = elements, [loop.variable for loop in leaf.loops if loop.reduction]
    own = [name for name in counts if name != rows[0].variable and name not in steps]
    return _Step(
        math.prod(counts[name] for name in own if name not in names) * -(-counts[rows[0].variable] // width),
        math.prod(counts[name] for name in own if name in names), math.prod(counts[name] for name in steps))
