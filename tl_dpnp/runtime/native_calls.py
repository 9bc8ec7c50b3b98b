"""Machine code of the host that checks the arguments of a call and launches a kernel with them.

It is one function for all kernels of a family of devices, made once in a process.  What it compares arguments with, and
where it puts them, it reads from a `Record`.  Objects are looked at through CPython's stable interface; how arrays are
looked at, and how the kernel is started, is for the families of devices to add.
Source: Python/C API reference manual.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, counted_loop, if_then, index
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.scalar_arguments import usual_values
from tl_dpnp.runtime.forking import cut_off_word
from tl_dpnp.scalars import F32, F64, ScalarType

__all__ = ["ANY", "ARRAY", "GROUP", "INTEGER", "LIST", "NARROW", "OBJECT", "SIZE", "WIDE", "CallEmitter", "Parameter",
           "Record", "Word", "describe_group", "describe_scalar", "machine_code", "native_function"]

#: Kinds of parameters: an array; a `tl_dpnp.group`; an integer or truth value; a float that is passed as f32 or as f64;
#: an array of a package whose arrays are looked at in another way; anything of one class, which the kernel does not
#: take; a list or a tuple of arrays; an integer that is the size of the batch.
ARRAY, GROUP, INTEGER, NARROW, WIDE, OBJECT, ANY, LIST, SIZE = range(9)

Word = ctypes.c_int64
_HIGHEST = (1 << 63) - 1
#: The attribute that tells groups apart; the name lives as long as the process.
_SERIAL = sys.intern("serial")


class Parameter(ctypes.Structure):
    """What an argument must be, and the place of its value among the values that the kernel takes.

    `type` is the address of its class.  Integers lie from `least` to `most`, floats no further from 0 than `highest`.
    A group has the number `least` as its `attribute`, a Python string.
    """

    _fields_ = [
        ("kind", Word), ("type", Word), ("place", Word), ("least", Word), ("most", Word), ("highest", ctypes.c_double),
        ("attribute", Word),
    ]


class Record(ctypes.Structure):
    """A launch: `count` parameters, and `size` words of values, of which `values` has those that stay."""

    _fields_ = [(name, Word) for name in ("parameters", "count", "values", "size")]


_VOID = ir.VoidType()
_F64 = ir.DoubleType()
#: Functions of CPython: result and parameters; objects and other pointers are 64-bit integers here.
_PYTHON = {
    "PyLong_AsVoidPtr": (I64, [I64]), "PyTuple_Size": (I64, [I64]), "PyTuple_GetItem": (I64, [I64, I64]),
    "PyObject_Type": (I64, [I64]), "Py_IncRef": (_VOID, [I64]), "Py_DecRef": (_VOID, [I64]),
    "PyObject_GetAttr": (I64, [I64, I64]), "PyObject_VectorcallMethod": (I64, [I64, I64, I64, I64]),
    "PyFloat_AsDouble": (_F64, [I64]), "PyLong_AsLongLongAndOverflow": (I64, [I64, I64]),
    "PyEval_SaveThread": (I64, []), "PyEval_RestoreThread": (_VOID, [I64]), "PyErr_Clear": (_VOID, []),
    "PyBool_FromLong": (I64, [I64]), "PyObject_RichCompareBool": (I32, [I64, I64, I32]),
    "PyObject_CallObject": (I64, [I64, I64]), "PyObject_GetItem": (I64, [I64, I64]),
    "PyObject_SetAttr": (I32, [I64, I64, I64]),
    "PyType_GenericNew": (I64, [I64, I64, I64]), "PyTuple_New": (I64, [I64]),
    "PyTuple_SetItem": (I32, [I64, I64, I64]), "PySequence_Size": (I64, [I64]),
    "PySequence_GetItem": (I64, [I64, I64]),
}


class CallEmitter:
    """Writes the function ``launch(record, arguments)``, two Python objects; it returns True, or False if refused.

    Where it fails in between, an exception is set, and it returns nothing.
    """

    def __init__(self) -> None:
        self.module = ir.Module("direct")
        self.function = ir.Function(self.module, ir.FunctionType(I64, [I64, I64]), "launch")
        # Python ends daemon threads where they ask for the interpreter, by unwinding their stacks.
        self.function.attributes.add("uwtable")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.refused = self.function.append_basic_block("refused")

    # --- what families of devices add ------------------------------------------------------------------------------

    #: The structures of the family.
    record_type: type[Record] = Record
    parameter_type: type[Parameter] = Parameter

    def ways(self) -> dict[int, Callable[[ir.Value, ir.Value], ir.Value]]:
        """Return the functions that check an argument by the kind of its parameter and return what the kernel takes."""
        return {
            GROUP: self.group, INTEGER: self.integer,
            NARROW: lambda at, given: _bits(self.builder, self.float(at, given)),
            WIDE: lambda at, given: self.builder.bitcast(self.float(at, given), I64),
        }

    def room(self) -> ir.Value:
        """Return how many words there are for the values, and behind them."""
        return self.size

    def begin(self) -> None:
        """Emit what comes before the arguments are looked at."""

    def put(self, value: ir.Value, kind: int, place: ir.Value) -> None:
        """Put the value of an argument of a kind in its place."""
        raise NotImplementedError

    def start(self) -> None:
        """Emit the launch with `values`, and the return of True."""
        raise NotImplementedError

    def end(self) -> None:
        """Emit what comes before any return."""

    # --- the function ----------------------------------------------------------------------------------------------

    def emit(self) -> str:
        """Return the module as text."""
        builder = self.builder
        record, arguments = self.function.args
        self.record = self.python("PyLong_AsVoidPtr", record)
        self.slot = self.memory(index(1))
        self.size = self.field("size")
        self.values = self.memory(self.room())
        count = self.field("count")
        self.begin()
        self.require(builder.icmp_signed("==", self.load(index(cut_off_word()), index(0)), index(0)))
        self.require(builder.icmp_signed("==", self.python("PyTuple_Size", arguments), count))
        kept = self.field("values")

        def place(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(self.load(kept, number), self.values, number)
            return []

        counted_loop(builder, index(0), self.size, index(1), [], place)
        parameters = self.field("parameters")

        def check(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            at = builder.add(parameters, builder.mul(number, index(ctypes.sizeof(self.parameter_type))))
            self.number_of_argument = number
            self._parameter(at, self.python("PyTuple_GetItem", arguments, number))
            return []

        counted_loop(builder, index(0), count, index(1), [], check)
        self.start()
        builder.position_at_end(self.refused)
        self.python("PyErr_Clear")
        self.end()
        builder.ret(self.python("PyBool_FromLong", index(0)))
        return str(self.module)

    def _parameter(self, at: ir.Value, given: ir.Value) -> None:
        """Check one argument and put its value in place."""
        builder = self.builder
        self.require(builder.icmp_signed("==", self.type_of(given), self.of(at, "type")))
        kind = self.of(at, "kind")
        for number, way in self.ways().items():
            def run(way: Callable[[ir.Value, ir.Value], ir.Value] = way, number: int = number) -> None:
                value = way(at, given)
                if number != GROUP:
                    self.put(value, number, self.of(at, "place"))

            if_then(builder, builder.icmp_signed("==", kind, index(number)), run)

    # --- kinds of arguments that all families have -----------------------------------------------------------------

    def group(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Check that a group is the expected one, whose tables the values have."""
        number = self.number(self.attribute(given, self.of(at, "attribute")))
        self.require(self.builder.icmp_signed("==", number, self.of(at, "least")))
        return number

    def integer(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return an integer within its bounds."""
        builder = self.builder
        self.store(index(0), self.slot, index(0))
        number = self.python("PyLong_AsLongLongAndOverflow", given, self.slot)
        self.require(builder.icmp_signed("==", self.load(self.slot, index(0)), index(0)))
        self.require(builder.icmp_signed(">=", number, self.of(at, "least")))
        self.require(builder.icmp_signed("<=", number, self.of(at, "most")))
        return number

    def float(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return a float within its bounds; NaN and infinities are not."""
        builder = self.builder
        number = self.python("PyFloat_AsDouble", given)
        # For an integer that no float is near to, an error is set.
        is_float = builder.icmp_signed("==", self.of(at, "type"), index(id(float)))
        self.require(builder.or_(is_float, builder.fcmp_unordered("!=", number, ir.Constant(_F64, -1))))
        highest = builder.bitcast(self.of(at, "highest"), _F64)
        self.require(builder.fcmp_ordered("<=", number, highest))
        self.require(builder.fcmp_ordered(">=", number, builder.fneg(highest)))
        return number

    # --- building blocks -------------------------------------------------------------------------------------------

    def type_of(self, given: ir.Value) -> ir.Value:
        """Return the address of an object's class."""
        type_ = self.python("PyObject_Type", given)
        self.python("Py_DecRef", type_)
        return type_

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

    def require(self, condition: ir.Value) -> None:
        """Refuse the call unless a condition holds."""
        following = self.builder.append_basic_block("holds")
        self.builder.cbranch(condition, following, self.refused)
        self.builder.position_at_end(following)

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

    def field(self, name: str) -> ir.Value:
        """Return a field of the record."""
        return self.load(self.record, index(getattr(self.record_type, name).offset // 8))

    def of(self, at: ir.Value, name: str) -> ir.Value:
        """Return a field of a parameter."""
        return self.load(at, index(getattr(self.parameter_type, name).offset // 8))

    def call(self, address: ir.Value, result: ir.Type, arguments: Sequence[ir.Value]) -> Any:
        """Call a C function at an address."""
        type_ = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(self.builder.inttoptr(address, type_.as_pointer()), arguments)

    def python(self, name: str, *arguments: ir.Value) -> Any:
        """Call a function of CPython."""
        result, types = _PYTHON[name]
        assert [argument.type for argument in arguments] == types
        return self.call(index(_address(getattr(ctypes.pythonapi, name))), result, arguments)


def _bits(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """Return the bits of a float as those of an f32, as a machine word."""
    return builder.zext(builder.bitcast(builder.fptrunc(number, ir.FloatType()), I32), I64)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def describe_group(entry: Parameter, group: Any) -> bool:
    """Write which group it is; returns False for anything else."""
    entry.kind, entry.type, entry.attribute = GROUP, id(type(group)), id(_SERIAL)
    if type(group) is not Group:
        return False
    entry.least = group.serial
    return True


_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
#: Classes whose numbers are taken as those of a class of Python are.
_ALIKE: dict[type, tuple[type, ...]] = {
    float: (int, np.float32, np.float64, *_INTEGERS), int: _INTEGERS, bool: (),
}


def describe_scalar(entry: Parameter, scalar: ScalarType, kind: type) -> bool:
    """Write which numbers of a class go to the kernel; returns False for classes, and for types of parameters, of which
    none do."""
    usual, least, most = usual_values(scalar)
    entry.type = id(kind)
    if scalar.is_complex or kind not in (usual, *_ALIKE[usual]):
        return False
    if scalar in (F32, F64):
        entry.kind, entry.highest = NARROW if scalar == F32 else WIDE, most
        return True
    if scalar.is_float:
        return False
    entry.kind, entry.least, entry.most = INTEGER, least, min(most, _HIGHEST)
    return True


class _MethodDefinition(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("documentation", ctypes.c_char_p)]


_ONE_ARGUMENT = 8  # METH_O


@functools.cache
def machine_code(emitter: type[CallEmitter]) -> tuple[Any, _MethodDefinition]:
    """Return the engine that keeps the machine code of a family of devices, and the definition of the function."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(emitter().emit())
    module.verify()
    # Optimised code takes five times as long to make, and as long to run.
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(opt=0))
    engine.finalize_object()
    address = engine.get_function_address("launch")
    return engine, _MethodDefinition(b"launch", address, _ONE_ARGUMENT, b"Launch a kernel, or return False.")


def native_function(
    emitter: type[CallEmitter], record: Record, keep: tuple[Any, ...]
) -> Callable[[tuple[Any, ...]], bool]:
    """Return a function of the tuple of arguments that launches what `record` describes.

    It returns False, and does nothing, where the arguments are others than the record expects, in a process that was
    forked from one that had used a device, and where the launch is refused.  It keeps the record and `keep` alive,
    which is what the record refers to.
    """
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    engine, definition = machine_code(emitter)  # type: ignore[arg-type]  # classes hash
    make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
    # What stands for the function's module is any object, which the function refers to.  Threads that come here first
    # at the same time have machine code of their own.
    alive = (record, keep, engine, definition)
    return make(ctypes.addressof(definition), ctypes.addressof(record), alive)  # type: ignore[no-any-return]
