"""Machine code of the host that checks the arguments of a call and launches a kernel with them.

It is one function for all kernels, made once in a process.  What it compares arguments with, and where it puts them, it
reads from a `Record`.  Objects are looked at through CPython's stable interface, arrays through DLPack's, or where
their package has none, by their attributes.
Sources: Python/C API reference manual; DLPack 1.3, dlpack.h, ``DLTensor`` and ``DLPackExchangeAPI``; CUDA Driver API
reference, cuLaunchKernel.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, counted_loop, if_then, index

__all__ = ["ARRAY", "GROUP", "INTEGER", "NARROW", "OBJECT", "WIDE", "Parameter", "Record", "direct_function"]

#: Kinds of parameters: an array by DLPack; a `tl_dpnp.group`; an integer or truth value; a float that is passed as f32
#: or as f64; an array by its attributes.
ARRAY, GROUP, INTEGER, NARROW, WIDE, OBJECT = range(6)


class Parameter(ctypes.Structure):
    """What an argument must be, and the place of its value among the values that the kernel takes.

    `type` is the address of its class.  An array has `form`, its number of modes and element type as ``DLTensor`` has
    them, as one word, `dims`, the address of its sizes and strides, and `aligned`, whether its address is a multiple of
    16.  One by its attributes has `dims`, the address of those `modes` attributes whose names the record has first.
    Integers lie from `least` to `most`, floats no further from 0 than `highest`.  A group has the number `least` as its
    `attribute`, a Python string.
    """

    _fields_ = [
        ("kind", ctypes.c_int64), ("type", ctypes.c_int64), ("place", ctypes.c_int64), ("form", ctypes.c_int64),
        ("dims", ctypes.c_int64), ("modes", ctypes.c_int64), ("aligned", ctypes.c_int64), ("least", ctypes.c_int64),
        ("most", ctypes.c_int64), ("highest", ctypes.c_double), ("attribute", ctypes.c_int64),
    ]


class Record(ctypes.Structure):
    """A launch: `count` parameters, `size` values of eight bytes, of which `values` has those that stay, and the rest.

    `device` is the type and number of the arrays' device as ``DLTensor`` has them.  `false_attribute` and
    `false_method` are names (Python strings, or 0) of what must be false of each array.  `tensor_of` to `launch` are
    addresses of C functions; where `stream_of` is 0, the Python function `stream` gives the stream.  `names` is the
    address of the names of attributes, those of arrays first that are compared; then come those of an array's memory,
    and of the device and the address of that.
    """

    _fields_ = [(name, ctypes.c_int64) for name in (
        "parameters", "count", "values", "size", "device", "tensor_of", "stream_of", "false_attribute", "false_method",
        "context_of", "launch", "context", "function", "grid", "x", "y", "z", "local_memory", "stream", "names",
    )]


#: ``DLTensor``: data, device, number of modes and element type, sizes, strides, offset in bytes.
_TENSOR_WORDS = 6
_ALIGNMENT = 16
_VOID = ir.VoidType()
_F64 = ir.DoubleType()
#: Functions of CPython: result and parameters; objects and other pointers are 64-bit integers here.
_PYTHON = {
    "PyLong_AsVoidPtr": (I64, [I64]), "PyTuple_Size": (I64, [I64]), "PyTuple_GetItem": (I64, [I64, I64]),
    "PyObject_Type": (I64, [I64]), "Py_DecRef": (_VOID, [I64]), "PyObject_GetAttr": (I64, [I64, I64]),
    "PyObject_VectorcallMethod": (I64, [I64, I64, I64, I64]), "PyFloat_AsDouble": (_F64, [I64]),
    "PyLong_AsLongLongAndOverflow": (I64, [I64, I64]), "PyEval_SaveThread": (I64, []),
    "PyEval_RestoreThread": (_VOID, [I64]), "PyErr_Clear": (_VOID, []), "PyBool_FromLong": (I64, [I64]),
    "PyObject_RichCompareBool": (I32, [I64, I64, I32]), "PyObject_CallObject": (I64, [I64, I64]),
}
_EQUAL = 2  # Py_EQ


class _Emitter:
    """Writes the function ``launch(record, arguments)``, two Python objects; it returns True, or False if refused."""

    def __init__(self) -> None:
        self.module = ir.Module("direct")
        self.function = ir.Function(self.module, ir.FunctionType(I64, [I64, I64]), "launch")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.refused = self.function.append_basic_block("refused")

    def emit(self) -> str:
        """Return the module as text."""
        builder = self.builder
        record, arguments = self.function.args
        self.record = self.python("PyLong_AsVoidPtr", record)
        self.tensor = self.memory(index(_TENSOR_WORDS))
        self.slot = self.memory(index(1))
        size = self.field(Record, "size", self.record)
        self.values, pointers = self.memory(size), self.memory(size)
        count = self.field(Record, "count", self.record)
        self.require(builder.icmp_signed("==", self.python("PyTuple_Size", arguments), count))
        kept = self.field(Record, "values", self.record)

        def place(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(self.load(kept, number), self.values, number)
            self.store(builder.add(self.values, builder.mul(number, index(8))), pointers, number)
            return []

        counted_loop(builder, index(0), size, index(1), [], place)
        parameters = self.field(Record, "parameters", self.record)

        def check(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            at = builder.add(parameters, builder.mul(number, index(ctypes.sizeof(Parameter))))
            self.parameter(at, self.python("PyTuple_GetItem", arguments, number))
            return []

        counted_loop(builder, index(0), count, index(1), [], check)
        self.start(pointers)
        builder.position_at_end(self.refused)
        self.python("PyErr_Clear")
        builder.ret(self.python("PyBool_FromLong", index(0)))
        return str(self.module)

    def parameter(self, at: ir.Value, given: ir.Value) -> None:
        """Check one argument and put its value in place."""
        builder = self.builder
        type_ = self.python("PyObject_Type", given)
        self.python("Py_DecRef", type_)
        self.require(builder.icmp_signed("==", type_, self.field(Parameter, "type", at)))
        kind = self.field(Parameter, "kind", at)
        ways: dict[int, Callable[[ir.Value, ir.Value], ir.Value]] = {
            ARRAY: self.array, OBJECT: self.object, GROUP: self.group, INTEGER: self.integer,
            NARROW: lambda at, given: builder.zext(
                builder.bitcast(builder.fptrunc(self.float(at, given), ir.FloatType()), I32), I64),
            WIDE: lambda at, given: builder.bitcast(self.float(at, given), I64),
        }
        for number, way in ways.items():
            def run(way: Callable[[ir.Value, ir.Value], ir.Value] = way, number: int = number) -> None:
                value = way(at, given)
                if number != GROUP:
                    self.store(value, self.values, self.field(Parameter, "place", at))

            if_then(builder, builder.icmp_signed("==", kind, index(number)), run)

    def array(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array that looks as expected."""
        builder = self.builder
        status = self.call(self.field(Record, "tensor_of", self.record), I32, [given, self.tensor])
        self.require(builder.icmp_signed("==", status, ir.Constant(I32, 0)))
        data, device, form, sizes, strides, offset = (self.load(self.tensor, index(n)) for n in range(_TENSOR_WORDS))
        self.require(builder.icmp_signed("==", device, self.field(Record, "device", self.record)))
        self.require(builder.icmp_signed("==", form, self.field(Parameter, "form", at)))
        dims, modes = self.field(Parameter, "dims", at), self.field(Parameter, "modes", at)

        def compare(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.require(builder.icmp_signed("!=", strides, index(0)))  # DLPack before 1.2 leaves them away
            for given, expected in ((sizes, number), (strides, builder.add(modes, number))):
                self.require(builder.icmp_signed("==", self.load(given, number), self.load(dims, expected)))
            return []

        counted_loop(builder, index(0), modes, index(1), [], compare)
        address = self.aligned(at, builder.add(data, offset))
        attribute, method = (self.field(Record, name, self.record) for name in ("false_attribute", "false_method"))
        if_then(builder, builder.icmp_signed("!=", attribute, index(0)),
                lambda: self.require_false(self.python("PyObject_GetAttr", given, attribute)))
        if_then(builder, builder.icmp_signed("!=", method, index(0)),
                lambda: self.require_false(self.result(given, method)))
        return address

    def aligned(self, at: ir.Value, address: ir.Value) -> ir.Value:
        """Return an address that is aligned if the expected one was."""
        builder = self.builder
        aligned = builder.icmp_signed("==", builder.and_(address, index(_ALIGNMENT - 1)), index(0))
        self.require(builder.icmp_signed("==", builder.zext(aligned, I64), self.field(Parameter, "aligned", at)))
        return address

    def object(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array whose attributes are as expected."""
        builder = self.builder
        names, expected = self.field(Record, "names", self.record), self.field(Parameter, "dims", at)
        count = self.field(Parameter, "modes", at)

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
        expected = builder.lshr(self.field(Record, "device", self.record), index(32))
        self.require(builder.icmp_signed("==", device, expected))
        return self.aligned(at, address)

    def attribute(self, given: ir.Value, name: ir.Value) -> ir.Value:
        """Return a new reference to an attribute of an object."""
        value = self.python("PyObject_GetAttr", given, name)
        self.require(self.builder.icmp_signed("!=", value, index(0)))
        return value

    def number(self, value: ir.Value) -> ir.Value:
        """Return an integer of Python, which is given up, as a machine word; it fits."""
        number = self.python("PyLong_AsLongLongAndOverflow", value, self.slot)
        self.python("Py_DecRef", value)
        return number

    def result(self, given: ir.Value, method: ir.Value) -> ir.Value:
        """Return what a method without arguments returns."""
        self.store(given, self.slot, index(0))
        return self.python("PyObject_VectorcallMethod", method, self.slot, index(1), index(0))

    def group(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Check that a group is the expected one, whose tables the values have."""
        number = self.number(self.attribute(given, self.field(Parameter, "attribute", at)))
        self.require(self.builder.icmp_signed("==", number, self.field(Parameter, "least", at)))
        return number

    def integer(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return an integer within its bounds."""
        builder = self.builder
        self.store(index(0), self.slot, index(0))
        number = self.python("PyLong_AsLongLongAndOverflow", given, self.slot)
        self.require(builder.icmp_signed("==", self.load(self.slot, index(0)), index(0)))
        self.require(builder.icmp_signed(">=", number, self.field(Parameter, "least", at)))
        self.require(builder.icmp_signed("<=", number, self.field(Parameter, "most", at)))
        return number

    def float(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return a float within its bounds; NaN and infinities are not."""
        builder = self.builder
        number = self.python("PyFloat_AsDouble", given)
        highest = builder.bitcast(self.field(Parameter, "highest", at), _F64)
        self.require(builder.fcmp_ordered("<=", number, highest))
        self.require(builder.fcmp_ordered(">=", number, builder.fneg(highest)))
        return number

    def start(self, pointers: ir.Value) -> None:
        """Launch on the current stream of the arrays' package, if the device's context is the current one."""
        builder = self.builder
        stream = self.stream()
        self.store(index(0), self.slot, index(0))
        self.call(self.field(Record, "context_of", self.record), I32, [self.slot])
        expected = self.field(Record, "context", self.record)
        self.require(builder.icmp_signed("==", self.load(self.slot, index(0)), expected))
        function, grid, x, y, z, local_memory, launch = (
            self.field(Record, name, self.record)
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
        function, answer = self.field(Record, "stream_of", self.record), self.memory(index(1))

        def ask() -> None:
            device = self.field(Record, "device", self.record)
            kind, number = builder.trunc(device, I32), builder.trunc(builder.lshr(device, index(32)), I32)
            status = self.call(function, I32, [kind, number, answer])
            self.require(builder.icmp_signed("==", status, ir.Constant(I32, 0)))

        def ask_python() -> None:
            value = self.python("PyObject_CallObject", self.field(Record, "stream", self.record), index(0))
            self.require(builder.icmp_signed("!=", value, index(0)))
            self.store(self.number(value), answer, index(0))

        if_then(builder, builder.icmp_signed("!=", function, index(0)), ask)
        if_then(builder, builder.icmp_signed("==", function, index(0)), ask_python)
        return self.load(answer, index(0))

    # --- building blocks -------------------------------------------------------------------------------------------

    def require(self, condition: ir.Value) -> None:
        """Refuse the call unless a condition holds."""
        following = self.builder.append_basic_block("holds")
        self.builder.cbranch(condition, following, self.refused)
        self.builder.position_at_end(following)

    def require_false(self, value: ir.Value) -> None:
        """Refuse the call unless an object, which is given up, is False."""
        self.require(self.builder.icmp_signed("!=", value, index(0)))
        self.python("Py_DecRef", value)
        self.require(self.builder.icmp_signed("==", value, index(id(False))))

    def memory(self, words: ir.Value) -> ir.Value:
        """Return the address of so many words on the stack."""
        return self.builder.ptrtoint(self.builder.alloca(I64, words), I64)

    def load(self, base: ir.Value, number: ir.Value) -> ir.Value:
        """Return word `number` from an address on."""
        address = self.builder.add(base, self.builder.mul(number, index(8)))
        return self.builder.load(self.builder.inttoptr(address, I64.as_pointer()))

    def store(self, value: ir.Value, base: ir.Value, number: ir.Value) -> None:
        """Write word `number` from an address on."""
        address = self.builder.add(base, self.builder.mul(number, index(8)))
        self.builder.store(value, self.builder.inttoptr(address, I64.as_pointer()))

    def field(self, structure: type[ctypes.Structure], name: str, base: ir.Value) -> ir.Value:
        """Return a field of a structure at an address."""
        return self.load(base, index(getattr(structure, name).offset // 8))

    def call(self, address: ir.Value, result: ir.Type, arguments: Sequence[ir.Value]) -> Any:
        """Call a C function at an address."""
        type_ = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(self.builder.inttoptr(address, type_.as_pointer()), arguments)

    def python(self, name: str, *arguments: ir.Value) -> Any:
        """Call a function of CPython."""
        result, types = _PYTHON[name]
        assert [argument.type for argument in arguments] == types
        return self.call(index(_address(getattr(ctypes.pythonapi, name))), result, arguments)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


class _MethodDefinition(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("documentation", ctypes.c_char_p)]


_ONE_ARGUMENT = 8  # METH_O


@functools.cache
def _machine_code() -> tuple[Any, _MethodDefinition]:
    """Return the engine that keeps the machine code, and the definition of the function."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_Emitter().emit())
    module.verify()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(opt=2))
    engine.finalize_object()
    address = engine.get_function_address("launch")
    return engine, _MethodDefinition(b"launch", address, _ONE_ARGUMENT, b"Launch a kernel, or return False.")


def direct_function(record: Record, keep: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bool]:
    """Return a function of the tuple of arguments that launches what `record` describes.

    It returns False, and does nothing, where the arguments are others than the record expects, and where the driver
    refuses the launch.  It keeps the record and `keep` alive, which is what the record refers to.
    """
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    engine, definition = _machine_code()
    make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
    # What stands for the function's module is any object, which the function refers to.  Threads that come here first
    # at the same time have machine code of their own.
    alive = (record, keep, engine, definition)
    return make(ctypes.addressof(definition), ctypes.addressof(record), alive)  # type: ignore[no-any-return]
