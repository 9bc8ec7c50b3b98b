"""A warning for large products that a call computes on few of a device's multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.errors import OccupancyWarning, warn
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding

__all__ = ["warn_of_idle_units"]

#: Multiplications of a product from which it is worth a warning: one multiprocessor takes a millisecond, about.
_LARGE = 1 << 22
#: Shares of the multiprocessors without work-groups from which it is.
_IDLE = 0.75
#: Texts and names of the functions that were warned of.
_warned: set[tuple[str | None, str]] = set()


def warn_of_idle_units(binding: Binding, call: BoundCall, plan: LaunchPlan, units: int) -> None:
    """Warn, once for each function, of a product that is large and computed by few thread blocks."""
    program = binding.program
    key = program.text, program.name
    if plan.frame.is_persistent or not 0 < call.groups <= (1 - _IDLE) * units or key in _warned:
        return
    product = _largest(binding, call)
    if product is None:
        return
    _warned.add(key)
    (m, n, k), is_complex = product
    reason = ("debug=True, with which a work-group is a thread block" if binding.debug else
              "attributes of the function, with which a work-group is a thread block"
              if program.function.has_attributes else
              "its complex numbers, with which a work-group is a thread block" if is_complex else
              "its schedule, its form or the instructions around it")
    blocks = f"{call.groups} thread block{'s' * (call.groups != 1)}"
    instead = "" if is_complex else "call a function that is one gemm without these, which all of them compute, or "
    warn(f"@{program.name} computes products of {m} x {n} x {k} in {blocks} on {units} multiprocessors, because of "
         f"{reason}; {instead}let each work-group compute a tile of the result (docs/cuda.md)", OccupancyWarning)


def _largest(binding: Binding, call: BoundCall) -> tuple[tuple[int, int, int], bool] | None:
    """Return m, n and k of the largest product of a call, and whether it is complex; None if there is no large one."""
    from tl_dpnp.language import ops

    shapes: dict[str, Sequence[int | None]] = {
        parameter.name: argument.shape  # type: ignore[misc]
        for parameter, argument in zip(binding.parameters, call.arguments, strict=True)
        if isinstance(parameter.type, MemrefType)
    }
    largest, most = None, _LARGE
    for operation in binding.program.function.body.walk():
        match operation:
            case ops.Subview(source=source, slices=slices) if source.name in shapes:
                # Sizes that the type leaves open are those of the source, at most.
                kept = [size for size, part in zip(shapes[source.name], slices, strict=True) if not part.is_index]
                known = ops.memref_type(operation.result).shape
                shapes[operation.result.name] = [
                    size if own is None else own for own, size in zip(known, kept, strict=True)]
            case ops.Contraction(is_matrix_product=True) as gemm:
                a, c = (shapes.get(value.name, ops.memref_type(value).shape)
                        for value in (gemm.inputs[0], gemm.output))
                (m, n), k = c, a[0 if gemm.transposes[0] else 1]
                if m is not None and n is not None and k is not None and m * n * k >= most:
                    is_complex = ops.memref_type(gemm.output).element.is_complex
                    largest, most = ((m, n, k), is_complex), m * n * k
    return largest
