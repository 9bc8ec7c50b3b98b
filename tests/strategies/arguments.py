"""Arguments of a random program: described once, made into arrays for any target, compared after the run.

Every array is a strided view into a one-dimensional buffer with a margin on both sides, and the comparison looks at
whole buffers: a write into the padding or beside the array is found as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tl_dpnp.scalars import BF16, ScalarType

MARGIN = 8


@dataclass(frozen=True)
class ScalarArgument:
    """A scalar: the same for every run of the program."""

    value: bool | int | float | complex


@dataclass(frozen=True)
class ArrayArgument:
    """One array: a view of `buffer` from element `offset` on, `strides` in elements; `buffer` is None before `fill`."""

    element: ScalarType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = MARGIN
    buffer: np.ndarray | None = None

    @property
    def extent(self) -> int:
        """Length of the buffer, in elements: the array, a margin on both sides and the distance of `offset`."""
        reach = sum(max(size - 1, 0) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return reach + 1 + 2 * MARGIN + abs(self.offset - MARGIN)

    def filled(self, rng: random.Random) -> ArrayArgument:
        """Return the argument with a fresh buffer of random values."""
        return replace(self, buffer=_values(self.element, self.extent, rng))

    def view(self) -> np.ndarray:
        """Return the NumPy array that the program is called with."""
        return as_strided(self.buffer[self.offset :], self.shape, [s * self.buffer.itemsize for s in self.strides])


@dataclass(frozen=True)
class GroupArgument:
    """A list of arrays and the offset, in elements, by which the program moves each of their pointers."""

    arrays: tuple[ArrayArgument, ...]
    offset: int = 0

    def filled(self, rng: random.Random) -> GroupArgument:
        """Return the argument with fresh buffers."""
        return replace(self, arrays=tuple(array.filled(rng) for array in self.arrays))


@dataclass(frozen=True)
class HostGroup:
    """What the interpreter is given for a group: the attributes of `tl_dpnp.group`."""

    arrays: Sequence[np.ndarray]
    offset: int


Argument = ScalarArgument | ArrayArgument | GroupArgument


def _values(element: ScalarType, count: int, rng: random.Random) -> np.ndarray:
    """Return small whole numbers for floats, so that sums are exact; any bits for integers."""
    generator = np.random.default_rng(rng.getrandbits(32))
    if element.is_boolean:
        return generator.integers(0, 2, count).astype(bool)
    if element.is_integer:
        return np.frombuffer(generator.bytes(count * element.bytes), element.storage).copy()
    whole = generator.integers(-MAGNITUDE, MAGNITUDE + 1, count)
    if element == BF16:
        return (whole.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if element.is_complex:
        return (whole + 1j * generator.integers(-MAGNITUDE, MAGNITUDE + 1, count)).astype(element.storage)
    return whole.astype(element.storage)


#: Largest magnitude of a float in an argument.
MAGNITUDE = 3


def numpy_arguments(
    arguments: Sequence[Argument], make: Callable[[ArrayArgument], object] = ArrayArgument.view
) -> list[object]:
    """Return the arguments of a call of the interpreter, or of another target whose array `make` builds."""
    result: list[object] = []
    for argument in arguments:
        match argument:
            case ScalarArgument(value=value):
                result.append(value)
            case ArrayArgument():
                result.append(make(argument))
            case GroupArgument(arrays=arrays, offset=offset):
                result.append(HostGroup([make(array) for array in arrays], offset))
    return result


def copied(arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments with copies of their buffers."""
    def copy(argument: Argument) -> Argument:
        match argument:
            case ArrayArgument(buffer=buffer):
                return replace(argument, buffer=buffer.copy())
            case GroupArgument(arrays=arrays):
                return replace(argument, arrays=tuple(map(copy, arrays)))
        return argument
    return list(map(copy, arguments))


def buffers(argument: Argument) -> list[np.ndarray]:
    """Return the argument's buffers, floats as such (bf16 as float32)."""
    match argument:
        case ScalarArgument():
            return []
        case ArrayArgument(element=element, buffer=buffer):
            return [(buffer.astype(np.uint32) << np.uint32(16)).view(np.float32) if element == BF16 else buffer]
        case GroupArgument(arrays=arrays):
            return [buffer for array in arrays for buffer in buffers(array)]


def differences(expected: Sequence[Argument], actual: Sequence[Argument], tolerances: Sequence[float]) -> list[str]:
    """Return one line for each buffer in which an element differs by more than its parameter's tolerance."""
    found = []
    for position, (left, right, tolerance) in enumerate(zip(expected, actual, tolerances, strict=True)):
        for number, (a, b) in enumerate(zip(buffers(left), buffers(right), strict=True)):
            equal = (a == b) | ((a != a) & (b != b))
            if tolerance:
                with np.errstate(all="ignore"):
                    equal |= np.abs(a - b) <= tolerance
            if not equal.all():
                place = int(np.argmin(equal))
                found.append(
                    f"argument {position}, buffer {number}: {np.count_nonzero(~equal)} of {a.size} elements differ, "
                    f"first at {place}: expected {a[place]}, got {b[place]} (tolerance {tolerance:g})"
                )
    return found
