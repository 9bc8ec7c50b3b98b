"""Machine code of the host for calls that make their results: it takes arrays that nobody holds any more.

Making an array of dpctl takes more than 1 µs, so each result has a `Table` of arrays that were made for it.  One of
them is free if nothing but the table holds it, and nothing but it holds its memory, and if it is as it was made.  All
looks are taken with the interpreter's lock, and an array that is found is held from then on.  Source: CPython's
``Include/object.h``, where every object begins with the number of references to it, in 32 bits from 3.12 on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, counted_loop, if_then, index
from tl_dpnp.runtime.native_calls import Word

if TYPE_CHECKING:
    from tl_dpnp.runtime.sycl.host_call_code import HostEmitter

__all__ = ["BY_ITSELF", "Cell", "Operand", "Place", "Result", "ResultEmitter", "Table"]

#: What stands for the number of results that are returned in a tuple where there is one, and it is returned by itself.
BY_ITSELF = -1


class Cell(ctypes.Structure):
    """An array: its address as an object, that of its memory's object, of its first element, and of the words of its
    object as it was made."""

    _fields_ = [(name, Word) for name in ("array", "memory", "data", "words")]


class Table(ctypes.Structure):
    """Arrays for one result: `cells` is the address of `count` cells."""

    _fields_ = [(name, Word) for name in ("count", "cells")]


class Result(ctypes.Structure):
    """An array that a call makes.

    `table` is the address of its `Table`, `place` where its address goes among the values, in bytes, `looks` the
    address of the ``HostParameter`` that says what it looks like, and `size` the number of words of an array's object.
    """

    _fields_ = [(name, Word) for name in ("table", "place", "looks", "size")]


class Place(ctypes.Structure):
    """An object that has to be found outside of the arguments, see `fixed_places.Fixed`: addresses of objects."""

    _fields_ = [(name, Word) for name in ("owner", "name", "expected", "is_attribute")]


class Operand(ctypes.Structure):
    """A value that a kernel takes, in bytes among the values: it is `more` than that at `source`, and goes to `place`,
    as an f32 where it `is_narrow` and that is an f64."""

    _fields_ = [(name, Word) for name in ("source", "more", "place", "is_narrow")]


class ResultEmitter:
    """Writes the parts of a function for calls with results, which has `result_count` in its record."""

    def __init__(self, emitter: HostEmitter) -> None:
        self.emitter, self.builder = emitter, emitter.builder
        self._value, self._new = (emitter.memory(index(1)) for _ in range(2))

    def require_places(self) -> None:
        """Refuse the call unless all objects outside of the arguments are where they have to be."""
        emitter, builder = self.emitter, self.builder

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            owner, name, expected, is_attribute = self._words("places", number, Place)
            with builder.if_else(builder.icmp_signed("!=", is_attribute, index(0))) as (then, otherwise):
                for branch, function in ((then, "PyObject_GetAttr"), (otherwise, "PyObject_GetItem")):
                    with branch:
                        emitter.store(emitter.python(function, owner, name), self._value, index(0))
            found = emitter.load(self._value, index(0))
            emitter.require(builder.icmp_signed("!=", found, index(0)))
            emitter.python("Py_DecRef", found)
            emitter.require(builder.icmp_signed("==", found, expected))
            return []

        counted_loop(builder, index(0), emitter.field("place_count"), index(1), [], look)

    def take(self) -> None:
        """Take an array for each result, and put all that the kernel takes in its place; refuse the call, and set
        `misses`, if one is missing."""
        emitter = self.emitter
        counted_loop(self.builder, index(0), emitter.field("result_count"), index(1), [], self._take)
        counted_loop(self.builder, index(0), emitter.field("operand_count"), index(1), [], self._place)

    def _take(self, number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Take an array for one result."""
        emitter, builder = self.emitter, self.builder
        table, place, looks, size = self._words("results", number, Result)
        cells = emitter.load(table, index(1))
        taken = builder.append_basic_block("taken")

        def look(count: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            at = builder.add(cells, builder.mul(count, index(ctypes.sizeof(Cell))))
            array, memory, data, words = (emitter.load(at, index(word)) for word in range(4))
            following = builder.append_basic_block("following")
            refused, emitter.refused = emitter.refused, following
            self._require_unused(array)
            self._require_as_made(array, words, size)  # its memory is the one that it was made with
            self._require_unused(memory)
            emitter.address(looks, array)
            emitter.refused = refused
            emitter.python("Py_IncRef", array)
            emitter.store(array, emitter.held, builder.add(emitter.count, number))
            emitter.store(data, builder.add(emitter.values, place), index(0))
            builder.branch(taken)
            builder.position_at_end(following)
            return []

        counted_loop(builder, index(0), emitter.load(table, index(0)), index(1), [], look)
        emitter.set("misses", index(1))
        builder.branch(emitter.refused)
        builder.position_at_end(taken)
        return []

    def _require_unused(self, thing: ir.Value) -> None:
        """Go on to the next array unless there is one reference to an object."""
        references = self.builder.load(self.builder.inttoptr(thing, I32.as_pointer()))
        self.emitter.require(self.builder.icmp_signed("==", references, ir.Constant(I32, 1)))

    def _require_as_made(self, array: ir.Value, words: ir.Value, size: ir.Value) -> None:
        """Go on to the next array unless all words of an object but the first are as they were: there are no weak
        references then, either."""
        emitter, builder = self.emitter, self.builder

        def compare(word: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            emitter.require(builder.icmp_signed("==", emitter.load(array, word), emitter.load(words, word)))
            return []

        counted_loop(builder, index(1), size, index(1), [], compare)

    def _place(self, number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Put one of the values that the kernel takes in its place."""
        emitter, builder = self.emitter, self.builder
        source, more, place, is_narrow = self._words("operands", number, Operand)
        value = emitter.load(builder.add(emitter.values, source), index(0))
        place = builder.add(emitter.values, place)
        with builder.if_else(builder.icmp_signed("!=", is_narrow, index(0))) as (then, otherwise):
            with then:
                rounded = builder.fptrunc(builder.bitcast(value, ir.DoubleType()), ir.FloatType())
                builder.store(rounded, builder.inttoptr(place, ir.FloatType().as_pointer()))
            with otherwise:
                emitter.store(builder.add(value, more), place, index(0))
        return []

    def _words(self, field: str, number: ir.Value, structure: type[ctypes.Structure]) -> list[ir.Value]:
        """Return the words of an entry of a list of the record."""
        words = ctypes.sizeof(structure) // 8
        first = self.builder.mul(number, index(words))
        base = self.emitter.field(field)
        return [self.emitter.load(base, self.builder.add(first, index(word))) for word in range(words)]

    def made(self) -> ir.Value:
        """Return what the call returns: True without results, one array of dpnp, or a tuple of several; 0 and an
        exception if there is no memory for it."""
        emitter, builder, value = self.emitter, self.builder, self._value
        count = emitter.field("returned")
        emitter.store(index(id(True)), value, index(0))
        if_then(builder, builder.icmp_signed("==", count, index(BY_ITSELF)),
                lambda: emitter.store(self._array(index(0)), value, index(0)))
        if_then(builder, builder.icmp_signed(">", count, index(0)), lambda: self._make_tuple(count, value))
        if_then(builder, builder.icmp_signed("!=", count, index(0)), self._count_call)
        if_then(builder, builder.icmp_signed("==", count, index(0)),
                lambda: emitter.python("Py_IncRef", index(id(True))))
        return emitter.load(value, index(0))

    def _count_call(self) -> None:
        """Add to the calls that were run."""
        emitter, calls = self.emitter, self.emitter.field("calls")
        emitter.store(self.builder.add(emitter.load(calls, index(0)), index(1)), calls, index(0))

    def _make_tuple(self, count: ir.Value, value: ir.Value) -> None:
        """Make a tuple of the first results."""
        emitter, builder = self.emitter, self.builder
        made = emitter.python("PyTuple_New", count)
        emitter.store(made, value, index(0))

        def put(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            def fill() -> None:
                array = self._array(number)
                emitter.python("PyTuple_SetItem", made, number, array)
                if_then(builder, builder.icmp_signed("==", array, index(0)), self._give_up)

            if_then(builder, builder.icmp_signed("!=", emitter.load(value, index(0)), index(0)), fill)
            return []

        counted_loop(builder, index(0), count, index(1), [], put)

    def _give_up(self) -> None:
        """Let go of the tuple."""
        self.emitter.python("Py_DecRef", self.emitter.load(self._value, index(0)))
        self.emitter.store(index(0), self._value, index(0))

    def _array(self, number: ir.Value) -> ir.Value:
        """Return a result, in a new array of dpnp if that is wanted; 0 if there is no memory for it."""
        emitter, builder = self.emitter, self.builder
        held = emitter.load(emitter.held, builder.add(emitter.count, number))
        kind = emitter.field("array_class")
        with builder.if_else(builder.icmp_signed("!=", kind, index(0))) as (then, otherwise):
            with then:
                self._hold_in_dpnp(kind, held)
            with otherwise:
                emitter.python("Py_IncRef", held)
                emitter.store(held, self._new, index(0))
        return emitter.load(self._new, index(0))

    def _hold_in_dpnp(self, kind: ir.Value, held: ir.Value) -> None:
        """Make a new array of dpnp's class that holds one of dpctl."""
        emitter, builder = self.emitter, self.builder
        array = emitter.python("PyType_GenericNew", kind, index(0), index(0))
        emitter.store(array, self._new, index(0))

        def fill() -> None:
            failed = emitter.python("PyObject_SetAttr", array, emitter.field("array"), held)

            def let_go() -> None:
                emitter.python("Py_DecRef", array)
                emitter.store(index(0), self._new, index(0))

            if_then(builder, builder.icmp_signed("!=", failed, ir.Constant(I32, 0)), let_go)

        if_then(builder, builder.icmp_signed("!=", array, index(0)), fill)
