"""What to write where an array does not fit a memref: followed to the letter, it gives the right numbers.

An array whose sizes fit has its elements in the wrong order of memory, and only a copy puts them right.  Its reverse,
which copies nothing, is the transpose: where a matrix is square it fits as well, and is right only if the program
exchanges ``.n`` and ``.t``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType, canonical_strides
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.layout import Misfit, fitted_strides
from tl_dpnp.runtime.call.program import Program

__all__ = ["conversion_hint", "hint_in_c_order", "layout_hint"]


class _Package(NamedTuple):
    """How a package writes things.

    A column-major copy, a view with axis 0 as the last one, what it takes for ``array`` in these, a copy of a
    column-major NumPy array, whether the view is one that kernels take, and a copy with other elements.
    """

    copy: str
    move: str
    array: str
    upload: str
    has_views: bool = True
    convert: str = '{}.astype("{}")'


_CUPY = _Package('cupy.asarray({}, order="F")', "cupy.moveaxis({}, 0, -1)", "array", 'cupy.asarray({}, order="F")')
#: By the name of the package.
_PACKAGES = {
    # Arrays of dpctl, too, which have no methods for this.
    "dpnp": _Package('dpnp.asarray({}, order="F")', "dpnp.moveaxis({}, 0, -1)", "array", 'dpnp.asarray({}, order="F")',
                     convert='dpnp.asarray({}, dtype="{}")'),
    "numpy": _Package('numpy.asarray({}, order="F")', "numpy.moveaxis({}, 0, -1)", "array", "{}"),
    "cupy": _CUPY,
    "torch": _Package("tl_dpnp.rev(tl_dpnp.rev({}).contiguous())", "{}.movedim(0, -1)", "array",
                      'torch.from_numpy({}).to("cuda")', convert="{}.to(torch.{})"),
    "numba": _Package('numba.cuda.to_device(numpy.asarray({}, order="F"))', "numpy.moveaxis({}, 0, -1)",
                      "array.copy_to_host()", "numba.cuda.to_device({})", False,
                      'numba.cuda.to_device({}.astype("{}"))'),
    # Its arrays are in C order, whatever they are made of.
    "jax": _Package("tl_dpnp.rev({}.T)", "jax.numpy.moveaxis({}, 0, -1)", "array",
                    "tl_dpnp.rev(jax.numpy.asarray({}.T))", False),
    # Arrays of other packages on CUDA devices, by how they are seen.
    "DLPack": _CUPY._replace(array="cupy.from_dlpack(array)", has_views=False),
    "interface": _CUPY._replace(move="cupy.moveaxis(cupy.asarray({}), 0, -1)",
                                convert='cupy.asarray({}).astype("{}")'),
}
_TORCH_MATRIX = "{}.mT.contiguous().mT"


class _Reading(NamedTuple):
    """An array with its axes in some order: when that is meant, how it is written, its sizes and its strides.

    `form` has a place for the array; `is_view` says that the array itself can stand there, and nothing is copied.
    """

    condition: str
    form: str
    is_view: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def layout_hint(program: Program, position: int, view: ArrayView, words: str) -> str | None:
    """Return how to make an array fit that does not, in the `words` of a package.

    None where its sizes fit in no order of its axes.
    """
    memref = _memref(program.parameters[position])
    package = _PACKAGES.get(words, _PACKAGES["dpnp"])
    if words == "torch" and len(view.shape) == 2:
        package = package._replace(copy=_TORCH_MATRIX)
    if memref.element.is_subbyte:
        packed = package.upload.format(f'tl_dpnp.pack(values, "{memref.element}")')
        return (f"{packed} gives such an array: bytes of {memref.element.per_byte} elements along axis 0, in "
                "column-major order")
    readings = [reading for reading in _readings(view, package) if _sizes_match(memref, reading.shape)]
    if not readings:
        reverse = _Reading("", "tl_dpnp.rev({})", True, view.shape[::-1], view.strides[::-1])
        return _advice(program, position, reverse, package) if _sizes_match(memref, reverse.shape) else None
    several = len(readings) > 1
    advice = [(reading.condition if several else "") + _advice(program, position, reading, package)
              for reading in readings]
    exchange = None if several else _exchange(program, position, view, readings[0])
    return "; ".join(advice) if exchange is None else f"{advice[0]}; or, without a copy, {exchange}"


#: What is written of an array for what is written of its reverse: copies, views, and words about them.
_OF_THE_REVERSE = {
    "tl_dpnp.rev(tl_dpnp.rev(array).contiguous())": "array.contiguous()",
    "array.mT.contiguous().mT": "array.contiguous()",
    'order="F"': 'order="C"', "movedim(0, -1)": "movedim(-1, 0)", ", 0, -1)": ", -1, 0)",
    "a column-major copy": "a copy in C order", "make the array column-major": "put the array in C order",
    "if axis i is mode i, ": "if the axes are the modes, the last one first, ",
    "if axis 0 is the last mode, ": "if the last axis is the last mode, and the others those before it in reverse, ",
}


def hint_in_c_order(hint: str) -> str:
    """Return the hint for an array whose reverse, which a kernel was given, does not fit."""
    for of_reverse, of_array in _OF_THE_REVERSE.items():
        hint = hint.replace(of_reverse, of_array)
    return hint


def conversion_hint(dtype: str, is_written: bool, words: str) -> str:
    """Return how to make an array one of another dtype, in the `words` of a package."""
    package = _PACKAGES.get(words, _PACKAGES["dpnp"])
    copy = package.convert.format(package.array, dtype)
    # The kernel writes to the copy, which must have a name then.
    return f"convert it before the call: array = {copy}" if is_written else f"convert it: {copy}"


def _memref(parameter: ops.Value) -> MemrefType:
    type_ = parameter.type.memref if isinstance(parameter.type, GroupType) else parameter.type
    assert isinstance(type_, MemrefType)
    return type_


def _readings(view: ArrayView, package: _Package) -> Iterator[_Reading]:
    """Yield the orders of the axes that keep the rows and columns of matrices."""
    yield _Reading("if axis i is mode i, ", "{}", True, view.shape, view.strides)
    if len(view.shape) > 2:
        yield _Reading("if axis 0 is the last mode, ", package.move, package.has_views, _moved(view.shape),
                       _moved(view.strides))


def _moved(values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values[1:], values[0])


def _advice(program: Program, position: int, reading: _Reading, package: _Package) -> str:
    """Return what to do with an array whose sizes fit in this order of its axes."""
    parameter = program.parameters[position]
    memref = _memref(parameter)
    passed = f"pass {reading.form.format('array')}, a view that copies nothing"
    if reading.is_view and _fits(memref, reading.shape, reading.strides):
        return passed
    any_layout = MemrefType(memref.element, memref.shape, (None,) * memref.order)
    declare = f"declare {parameter}: {_declared(parameter, any_layout)}, which takes any column-major layout"
    copy = package.copy.format(reading.form.format(package.array))
    # The kernel writes to the copy, which must have a name then.
    copy = (f"make the array column-major before the call: array = {copy}"
            if position in program.usage.written else f"pass {copy}, a column-major copy")
    is_enough = _fits(memref, reading.shape, _packed(reading.shape))
    if not (reading.is_view and _fits(any_layout, reading.shape, reading.strides)):
        return copy if is_enough else f"{declare}, and {copy}"
    if reading.form != "{}":
        declare += f", and {passed}"
    return f"{declare}; or {copy}" if is_enough else declare


def _declared(parameter: ops.Value, memref: MemrefType) -> MemrefType | GroupType:
    """Return the type of a parameter with another memref in it."""
    return replace(parameter.type, memref=memref) if isinstance(parameter.type, GroupType) else memref


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(stride or 0 for stride in canonical_strides(shape))


def _exchange(program: Program, position: int, view: ArrayView, reading: _Reading) -> str | None:
    """Return how to use the array without a copy, by its transposes; None where the program has no place for that."""
    parameter = program.parameters[position]
    memref = _memref(parameter)
    # The reverse of a matrix is its transpose; so is that of a batch along axis 0, with the batch as the last mode.
    if memref.order != 2 and (memref.order != 3 or reading.shape != _moved(view.shape)):
        return None
    rows, columns, *batch = memref.shape
    swapped = (columns, rows, *batch)
    strides = None if memref.is_packed else (None,) * memref.order
    turned = MemrefType(memref.element, swapped, strides)  # type: ignore[arg-type]
    rewritten = _exchanged(program.function, parameter)
    if not rewritten or not _fits(turned, view.shape[::-1], view.strides[::-1]):
        return None
    declare = "" if turned == memref else f"declare {parameter}: {_declared(parameter, turned)}, "
    each = " for each array of the group" if isinstance(parameter.type, GroupType) else ""
    return f"{declare}pass tl_dpnp.rev(array){each} and write {' and '.join(dict.fromkeys(rewritten))}"


def _exchanged(function: ops.Function, parameter: ops.Value) -> list[str]:
    """Return the instructions that read the matrices of a parameter with ``.n`` and ``.t`` exchanged for it.

    It is empty if one of them has neither for it, or if anything else is done with the parameter.
    """
    names = {parameter.name}
    rewritten: list[str] = []
    for operation in function.body.walk():
        reads = any(isinstance(operand, ops.Value) and operand.name in names for operand in operation.operands)
        names.difference_update(result.name for result in operation.results)  # a name may be used again
        if not reads:
            continue
        match operation:
            case ops.Load(source=source, result=result) if isinstance(source.type, GroupType):
                names.add(result.name)
            case ops.Subview(slices=(rows, columns, *rest), result=result) if (
                _is_whole(rows) and _is_whole(columns) and all(entry.is_index for entry in rest)
            ):
                names.add(result.name)
            case ops.LinearAlgebra(inputs=inputs, transposes=flags, output=output) if output.name not in names:
                turned = [value.name in names for value in inputs]
                if any(turned[len(flags):]) or any(ops.memref_type(inputs[place]).order != 2
                                                   for place, is_turned in enumerate(turned) if is_turned):
                    return []
                after = [flag != is_turned for flag, is_turned in zip(flags, turned, strict=False)]
                rewritten.append(f"{_spelled(operation, after)} for {_spelled(operation, flags)}{_line(operation)}")
            case _:
                return []
    return rewritten


def _is_whole(entry: ops.Slice) -> bool:
    is_zero = isinstance(entry.offset, ops.Constant) and entry.offset.value == 0
    return not entry.is_index and entry.size is None and is_zero


def _spelled(operation: ops.LinearAlgebra, transposes: Sequence[bool]) -> str:
    return ".".join([operation.mnemonic, *("t" if flag else "n" for flag in transposes)])


def _line(operation: ops.Operation) -> str:
    return "" if operation.span == ops.NO_SPAN else f" in line {operation.span.line}"


def _sizes_match(memref: MemrefType, shape: tuple[int, ...]) -> bool:
    return len(shape) == memref.order and all(
        declared in (None, size) for declared, size in zip(memref.shape, shape, strict=True)
    )


def _fits(memref: MemrefType, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if not _sizes_match(memref, shape):
        return False
    try:
        fitted_strides(memref, shape, strides)
    except Misfit:
        return False
    return True
