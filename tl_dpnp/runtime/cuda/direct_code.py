"""Machine code of the host that checks the arguments of a call and hands a kernel to CUDA's driver.

Arrays are looked at through DLPack's C functions, or where their package has none, by their attributes.
Sources: DLPack 1.3, dlpack.h, ``DLTensor`` and ``DLPackExchangeAPI``; CUDA Driver API reference, cuLaunchKernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, counted_loop, if_then, index
from tl_dpnp.runtime.native_calls import ARRAY, OBJECT, CallEmitter, Parameter, Record, Word

__all__ = ["CudaEmitter", "CudaParameter", "CudaRecord"]


class CudaParameter(Parameter):
    """What an argument must be.

    An array has `form`, its number of modes and element type as ``DLTensor`` has them, as one word, `dims`, the address
    of its sizes and strides, and `aligned`, whether its address is a multiple of 16.  One by its attributes has `dims`,
    the address of those `modes` attributes whose names the record has first, and the bytes of an element as `form`.
    """

    _fields_: ClassVar[Any] = [("form", Word), ("dims", Word), ("modes", Word), ("aligned", Word)]


class CudaRecord(Record):
    """A launch; a value takes a word.

    `device` is the type and number of the arrays' device as ``DLTensor`` has them.  `false_attribute` and
    `false_method` are names (Python strings, or 0) of what must be false of each array, `false_of_complex` that of a
    method that must be false of those of complex numbers.  `tensor_of` to `launch` are
    addresses of C functions; where `stream_of` is 0, the Python function `stream` gives the stream.  `names` is the
    address of the names of attributes, those of arrays first that are compared; then come those of an array's memory,
    and of the device and the address of that.
    """

    _fields_: ClassVar[Any] = [(name, Word) for name in (
        "device", "tensor_of", "stream_of", "false_attribute", "false_method", "false_of_complex", "context_of",
        "launch", "context", "function", "grid", "x", "y", "z", "local_memory", "stream", "names",
    )]


#: ``DLTensor``: data, device, number of modes and element type, sizes, strides, offset in bytes.
_TENSOR_WORDS = 6
#: Where the kind of an element type and its bits are in the word of the number of modes, which has a byte for either,
#: and the kind of complex numbers (``kDLComplex``).
_KIND_FROM, _BITS_FROM, _BYTE, _COMPLEX = 32, 40, 0xFF, 5
_ALIGNMENT = 16
_EQUAL = 2  # Py_EQ


class CudaEmitter(CallEmitter):
    """Adds arrays by DLPack and by attributes, and the launch by the driver."""

    record_type, parameter_type = CudaRecord, CudaParameter

    def ways(self) -> dict[int, Callable[[ir.Value, ir.Value], ir.Value]]:
        """See `CallEmitter`."""
        return {ARRAY: self.array, OBJECT: self.object, **super().ways()}

    def begin(self) -> None:
        """See `CallEmitter`."""
        self.tensor = self.memory(index(_TENSOR_WORDS))

    def put(self, value: ir.Value, kind: int, place: ir.Value) -> None:
        """See `CallEmitter`."""
        self.store(value, self.values, place)

    def array(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array that looks as expected."""
        builder = self.builder
        data, device, form, sizes, strides, offset = self.look(given)
        self.require(builder.icmp_signed("==", device, self.field("device")))
        self.require(builder.icmp_signed("==", form, self.of(at, "form")))
        dims, modes = self.of(at, "dims"), self.of(at, "modes")

        def compare(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.require(builder.icmp_signed("!=", strides, index(0)))  # DLPack before 1.2 leaves them away
            for given, expected in ((sizes, number), (strides, builder.add(modes, number))):
                self.require(builder.icmp_signed("==", self.load(given, number), self.load(dims, expected)))
            return []

        counted_loop(builder, index(0), modes, index(1), [], compare)
        address = self.aligned(at, builder.add(data, offset))
        self.require_plain(given, form)
        return address

    def look(self, given: ir.Value) -> list[ir.Value]:
        """Return the words of an array's ``DLTensor``."""
        builder = self.builder
        status = self.call(self.field("tensor_of"), I32, [given, self.tensor])
        self.require(builder.icmp_signed("==", status, ir.Constant(I32, 0)))
        words = [self.load(self.tensor, index(number)) for number in range(_TENSOR_WORDS)]
        data, _, form, _, _, offset = words
        bits = builder.and_(builder.lshr(form, index(_BITS_FROM)), index(_BYTE))
        self.require_multiple(builder.add(data, offset), builder.lshr(bits, index(3)))
        return words

    def require_multiple(self, address: ir.Value, size: ir.Value) -> None:
        """Refuse an array whose address is no multiple of the size of its elements, a power of two."""
        rest = self.builder.and_(address, self.builder.sub(size, index(1)))
        self.require(self.builder.icmp_signed("==", rest, index(0)))

    def require_plain(self, given: ir.Value, form: ir.Value) -> None:
        """Refuse an array of which something holds that its ``DLTensor`` does not say; `form` is a word of that."""
        builder, none = self.builder, index(0)
        attribute, method, of_complex = (
            self.field(name) for name in ("false_attribute", "false_method", "false_of_complex"))
        if_then(builder, builder.icmp_signed("!=", attribute, none),
                lambda: self.require_false(self.python("PyObject_GetAttr", given, attribute)))
        if_then(builder, builder.icmp_signed("!=", method, none),
                lambda: self.require_false(self.result(given, method)))
        kind = builder.and_(builder.lshr(form, index(_KIND_FROM)), index(_BYTE))
        is_complex = builder.icmp_signed("==", kind, index(_COMPLEX))
        if_then(builder, builder.and_(is_complex, builder.icmp_signed("!=", of_complex, none)),
                lambda: self.require_false(self.result(given, of_complex)))

    def aligned(self, at: ir.Value, address: ir.Value) -> ir.Value:
        """Return an address that is aligned if the expected one was."""
        builder = self.builder
        aligned = builder.icmp_signed("==", builder.and_(address, index(_ALIGNMENT - 1)), index(0))
        self.require(builder.icmp_signed("==", builder.zext(aligned, I64), self.of(at, "aligned")))
        return address

    def object(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array whose attributes are as expected."""
        builder = self.builder
        names, expected = self.field("names"), self.of(at, "dims")
        count = self.of(at, "modes")

        def compare(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            value = self.attribute(given, self.load(names, number))
            same = self.python("PyObject_RichCompareBool", value, self.load(expected, number), ir.Constant(I32, _EQUAL))
            self.python("Py_DecRef", value)
            self.require(builder.icmp_signed("==", same, ir.Constant(I32, 1)))
            return []

        counted_loop(builder, index(0), count, index(1), [], compare)
        memory = self.attribute(given, self.load(names, count))
        device, address = [self.number(self.attribute(memory, self.load(names, builder.add(count, index(place)))))
                           for place in (1, 2)]
        self.python("Py_DecRef", memory)
        expected = builder.lshr(self.field("device"), index(32))
        self.require(builder.icmp_signed("==", device, expected))
        self.require_multiple(address, self.of(at, "form"))
        return self.aligned(at, address)

    def start(self) -> None:
        """Launch on the current stream of the arrays' package, if the device's context is the current one."""
        builder = self.builder
        pointers = self.memory(self.size)

        def point(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(builder.add(self.values, builder.mul(number, index(8))), pointers, number)
            return []

        counted_loop(builder, index(0), self.size, index(1), [], point)
        stream = self.stream()
        self.store(index(0), self.slot, index(0))
        self.call(self.field("context_of"), I32, [self.slot])
        expected = self.field("context")
        self.require(builder.icmp_signed("==", self.load(self.slot, index(0)), expected))
        function, grid, x, y, z, local_memory, launch = (
            self.field(name)
            for name in ("function", "grid", "x", "y", "z", "local_memory", "launch")
        )
        one = ir.Constant(I32, 1)
        sizes = [builder.trunc(grid, I32), one, one, *(builder.trunc(v, I32) for v in (x, y, z, local_memory))]
        # The driver waits where its queue is full, perhaps for work that needs Python.
        state = self.python("PyEval_SaveThread")
        status = self.call(launch, I32, [function, *sizes, stream, pointers, index(0)])
        self.python("PyEval_RestoreThread", state)
        self.require(builder.icmp_signed("==", status, ir.Constant(I32, 0)))
        builder.ret(self.python("PyBool_FromLong", index(1)))

    def stream(self) -> ir.Value:
        """Return the current stream of the arrays' package."""
        builder = self.builder
        function, answer = self.field("stream_of"), self.memory(index(1))

        def ask() -> None:
            device = self.field("device")
            kind, number = builder.trunc(device, I32), builder.trunc(builder.lshr(device, index(32)), I32)
            status = self.call(function, I32, [kind, number, answer])
            self.require(builder.icmp_signed("==", status, ir.Constant(I32, 0)))

        def ask_python() -> None:
            value = self.python("PyObject_CallObject", self.field("stream"), index(0))
            self.require(builder.icmp_signed("!=", value, index(0)))
            self.store(self.number(value), answer, index(0))

        if_then(builder, builder.icmp_signed("!=", function, index(0)), ask)
        if_then(builder, builder.icmp_signed("==", function, index(0)), ask_python)
        return self.load(answer, index(0))

    def require_false(self, value: ir.Value) -> None:
        """Refuse the call unless an object, which is given up, is False."""
        self.require(self.builder.icmp_signed("!=", value, index(0)))
        self.python("Py_DecRef", value)
        self.require(self.builder.icmp_signed("==", value, index(id(False))))
