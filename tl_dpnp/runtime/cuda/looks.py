"""Many arrays of one class looked at together, by machine code: for lists of tensors, of which there may be thousands.

Reading the address, sizes and strides of a tensor in Python takes several microseconds, and some tens of nanoseconds by
DLPack's C functions.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir

from tl_dpnp.kernels.llvm import counted_loop, index
from tl_dpnp.runtime.cuda.direct_code import CudaEmitter
from tl_dpnp.runtime.cuda.exchange import exchange_of, interned
from tl_dpnp.runtime.native_calls import Record, Word, machine_code

__all__ = ["rows_of"]

#: Words before the sizes of an array: its address; device; number of modes and element type.
_WORDS = 3
_LOW = (1 << 32) - 1


class LookRecord(Record):
    """How arrays are looked at: their class; `rows` is where what is seen is written to.

    The other fields are those of `direct_code.CudaRecord`.
    """

    _fields_: ClassVar[Any] = [(name, Word) for name in (
        "type", "modes", "rows", "tensor_of", "false_attribute", "false_method", "false_of_complex")]


class LookEmitter(CudaEmitter):
    """Writes the function ``look(record, arrays)``, of an address and a tuple of Python.

    It returns 1, or 0 where an array is of another class, has another number of modes, or cannot be looked at.
    """

    record_type = LookRecord  # type: ignore[assignment]

    def emit(self) -> str:
        """Return the module as text."""
        builder = self.builder
        self.record, arrays = self.function.args
        self.slot, self.tensor = self.memory(index(1)), self.memory(index(6))
        modes = self.field("modes")
        width = builder.add(builder.mul(modes, index(2)), index(_WORDS))

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            given = self.python("PyTuple_GetItem", arrays, number)
            self.require(builder.icmp_signed("==", self.type_of(given), self.field("type")))
            data, device, form, sizes, strides, offset = self.look(given)
            self.require(builder.icmp_signed("==", builder.and_(form, index(_LOW)), modes))
            row = builder.add(self.field("rows"), builder.mul(number, builder.mul(width, index(8))))
            for place, word in enumerate((builder.add(data, offset), device, form)):
                self.store(word, row, index(place))

            def copy(mode: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
                self.require(builder.icmp_signed("!=", strides, index(0)))  # DLPack before 1.2 leaves them away
                place = builder.add(mode, index(_WORDS))
                self.store(self.load(sizes, mode), row, place)
                self.store(self.load(strides, mode), row, builder.add(place, modes))
                return []

            counted_loop(builder, index(0), modes, index(1), [], copy)
            self.require_plain(given, form)
            return []

        counted_loop(builder, index(0), self.field("count"), index(1), [], look)
        builder.ret(index(1))
        builder.position_at_end(self.refused)
        self.python("PyErr_Clear")
        builder.ret(index(0))
        return str(self.module)


def rows_of(arrays: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """Return a row of integers for each array: its address, then all else that matters of it.

    None where there is no array, where their classes or numbers of modes differ, and where an array has no such
    functions or is not to be passed to kernels; then each has to be looked at by itself.
    """
    arrays = tuple(arrays)
    kind: Any = type(arrays[0]) if arrays else None
    exchange = None if kind is None else exchange_of(kind)
    if exchange is None or not exchange.tensor_of:
        return None
    modes = arrays[0].ndim
    rows = np.empty((len(arrays), _WORDS + 2 * modes), np.int64)
    keep: list[Any] = []
    record = LookRecord(
        0, len(arrays), 0, 0, id(kind), modes, rows.ctypes.data, exchange.tensor_of,
        *(interned(name, keep) for name in exchange.false))
    return rows if _look()(ctypes.addressof(record), arrays) else None


@functools.cache
def _look() -> Callable[[int, tuple[Any, ...]], int]:
    """Return the machine code, which lives as long as the process."""
    _engine, definition = machine_code(LookEmitter)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.py_object)(definition.function)
