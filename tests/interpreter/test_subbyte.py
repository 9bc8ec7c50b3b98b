"""Integers below 8 bits in the interpreter, against bytes that are taken apart bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tl_dpnp.errors import LayoutError, TLBindingError, TLBoundsError, TLTypeError
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.parser import parse
from tl_dpnp.scalars import SCALAR_TYPES

NAMES = pytest.mark.parametrize("name", ["i4", "u4", "i2", "u2"])


def run(text, *arguments, group_size=1):
    """Interpret the one function of a program."""
    interpret(parse(text).functions[0], arguments, group_size, source=text)


def elements(array, name):
    """Return the integers that bytes hold, by their digits in base two."""
    bits = SCALAR_TYPES[name].bits
    result = np.empty((array.shape[0] * 8 // bits, *array.shape[1:]), np.int64)
    for place in np.ndindex(array.shape):
        digits = f"{array[place]:08b}"
        for number in range(8 // bits):
            text = digits[len(digits) - bits * (number + 1) : len(digits) - bits * number]
            value = int(text, 2)
            if name[0] == "i" and text[0] == "1":
                value -= 1 << bits
            result[(place[0] * 8 // bits + number, *place[1:])] = value
    return result


def octets(shape, seed=0):
    return np.asfortranarray(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))


@NAMES
def test_every_byte(name):
    """The first element is in the lowest bits, whatever the other ones are."""
    source = np.arange(256, dtype=np.uint8)
    count = 256 * 8 // SCALAR_TYPES[name].bits
    result = np.zeros(count, np.int32)
    run(f"""
    func @f(%x: memref<{name}x?>, %y: memref<i32x{count}>) {{
      foreach %i = 0, {count} {{
        %0 = load %x[%i] : memref<{name}x?>
        %1 = cast %0 : {name} -> i32
        store %1, %y[%i] : memref<i32x{count}>
      }}
    }}""", source, result)
    assert (result == elements(source, name)).all()


@NAMES
def test_products_and_views(name):
    a, b = octets((4, 6)), octets((6, 5), 1)
    per = 8 // SCALAR_TYPES[name].bits
    m = 4 * per
    result = np.zeros((2 * per, 5), np.int32, order="F")
    run(f"""
    func @f(%i: index, %A: memref<{name}x{m}x?>, %B: memref<{name}x?x5,strided<1,?>>, %C: memref<i32x?x5>) {{
      %a = subview %A[%i:{2 * per}, 1:4] : memref<{name}x{m}x?>
      %b = subview %B[{per}:4, :] : memref<{name}x?x5,strided<1,?>>
      gemm.n.n 1, %a, %b, 0, %C : i32, memref<{name}x{2 * per}x4,strided<1,{m}>>, memref<{name}x4x5,strided<1,?>>, i32,
        memref<i32x?x5>
    }}""", per, a, b, result)
    left, right = elements(a, name)[per : 3 * per, 1:5], elements(b, name)[per : per + 4]
    assert (result == left @ right).all()


def test_groups_are_moved_by_whole_bytes():
    memory = octets((64,))
    arrays = [memory[8:16].reshape(4, 2, order="F"), memory[24:32].reshape(4, 2, order="F")]
    text = """
    func @f(%G: group<memref<i4x8x2>, offset: ?>, %y: memref<i8x8x2x2>) {
      %g = group_id
      %0 = load %G[%g] : group<memref<i4x8x2>, offset: ?>
      %1 = subview %y[:, :, %g] : memref<i8x8x2x2>
      axpby.n 1, %0, 0, %1 : i8, memref<i4x8x2>, i8, memref<i8x8x2>
    }"""

    class Moved:
        def __init__(self, offset):
            self.arrays, self.offset = arrays, offset

    result = np.zeros((8, 2, 2), np.int8, order="F")
    run(text, Moved(-6), result, group_size=2)
    for number, first in enumerate((8, 24)):
        moved = memory[first - 3 : first + 5].reshape(4, 2, order="F")
        assert (result[:, :, number] == elements(moved, "i4")).all()
    with pytest.raises(TLBindingError, match="offset 3 is inside a byte of 2 elements"):
        run(text, Moved(3), result, group_size=2)


@pytest.mark.parametrize(("offset", "size"), [(1, 4), (2, 3)])
def test_views_that_start_or_end_inside_a_byte(offset, size):
    text = """
    func @f(%i: index, %n: index, %x: memref<u4x16>, %y: memref<i8x?>) {
      %0 = subview %x[%i:%n] : memref<u4x16>
      axpby.n 1, %0, 0, %y : i8, memref<u4x?>, i8, memref<i8x?>
    }"""
    with pytest.raises(TLBoundsError, match="is inside a byte, which holds 2 elements of u4"):
        run(text, offset, size, octets((8,)), np.zeros(size, np.int8))


@pytest.mark.parametrize(("array", "error", "message"), [
    (np.zeros((4, 4), np.int8, order="F"), TLTypeError, "dtype is int8, not uint8"),
    (np.zeros((8, 4), np.uint8, order="F")[::2], LayoutError, "2 elements share a byte along axis 0, whose stride"),
    (np.zeros((8, 4), np.uint8, order="F"), TLBindingError, r"shape is \(16, 4\)"),
])
def test_unfit_arrays(array, error, message):
    with pytest.raises(error, match=message):
        run("func @f(%A: memref<i4x8x4>, %y: memref<i32>) { store 1, %y[] : memref<i32> }", array,
            np.zeros((), np.int32))
