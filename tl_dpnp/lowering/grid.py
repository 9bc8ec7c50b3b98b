"""Launches along several axes as launches along one, which is all that devices are asked for.

Work-groups are numbered, those along x first; where a work-group is follows from its number and from how many there are
along each axis, which the kernel takes as its last parameters.  Functions that know one axis stay as they are, and so
does their code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.extents import AXES
from tl_dpnp.lowering.canonicalize import rename_uniquely
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import INDEX

__all__ = ["along_one_axis"]


def along_one_axis(function: ops.Function) -> ops.Function:
    """Return a function with three parameters more, the extents of the launch, that does with one axis as before."""
    function = rename_uniquely(function)
    taken = {parameter.name for parameter in function.parameters}
    for operation in function.body.walk():
        taken.update(value.name for value in (*operation.results, *operation.loop_variables))

    def fresh(name: str) -> ops.Value:
        return ops.Value(name, INDEX) if name not in taken else fresh(f"{name}_")

    extents = {axis: fresh(f"groups_{axis}") for axis in AXES}
    number, row, *place = map(fresh, ("group", "group_row", *(f"group_{axis}" for axis in AXES)))
    places = dict(zip(AXES, place, strict=True))
    asked = {operation.axis for operation in function.body.walk() if isinstance(operation, ops.GroupId)}
    known: dict[str, ops.Operand] = {
        operation.result.name: (places if isinstance(operation, ops.GroupId) else extents)[operation.axis]
        for operation in function.body.walk() if isinstance(operation, ops.GroupId | ops.GroupSize)}

    def use(operand: ops.Operand) -> ops.Operand:
        return known.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    def rewritten(region: ops.Region) -> ops.Region:
        return ops.Region(tuple(
            map_operation(operation, use, lambda value: value, rewritten) for operation in region
            if not isinstance(operation, ops.GroupId | ops.GroupSize)))

    def head() -> Iterator[ops.Operation]:
        if asked:
            yield ops.GroupId(number)
        if "x" in asked:
            yield ops.Arith("rem", number, extents["x"], places["x"])
        if asked & {"y", "z"}:
            yield ops.Arith("div", number, extents["x"], row)
        if "y" in asked:
            yield ops.Arith("rem", row, extents["y"], places["y"])
        if "z" in asked:
            yield ops.Arith("div", row, extents["y"], places["z"])

    body = ops.Region((*head(), *rewritten(function.body)))
    return replace(function, parameters=(*function.parameters, *extents.values()), body=body)
