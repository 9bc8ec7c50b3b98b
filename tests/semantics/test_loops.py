"""Loops whose bounds are near the ends of their type run the steps that fit, and end."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.semantics.support import TARGETS, Target
from tl_dpnp.scalars import SCALAR_TYPES

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]
_TYPES = ["i8", "i16", "i32", "i64", "index", "u8", "u16", "u32", "u64"]
#: Loops run at most this often here.
_MOST = 40
#: The largest integer constant of the language.
_LARGEST = 2**63 - 1

_LOOP = """for %i{n} = {start}, {stop}, {step} : {type} {{
    %n{n} = load %out[0, {n}] : memref<i64x2x?>
    %m{n} = arith.add %n{n}, 1 : i64
    store %m{n}, %out[0, {n}] : memref<i64x2x?>
    %t{n} = load %out[1, {n}] : memref<i64x2x?>
    %v{n} = cast %i{n} : {type} -> i64
    %u{n} = arith.add %t{n}, %v{n} : i64
    store %u{n}, %out[1, {n}] : memref<i64x2x?>
}}"""


def near_limits(name: str, seed: int) -> tuple[int, int, int]:
    """Return start, stop and step of a short loop near an end of the type, or over all of it, or of none."""
    numbers, type_ = random.Random(seed), SCALAR_TYPES[name]
    low, high = type_.minimum, type_.maximum
    match seed % 5:
        case 0:
            stop = high - numbers.randint(0, 3)
            return max(low, stop - numbers.randint(0, _MOST)), stop, numbers.randint(1, 9)
        case 1:
            start = low + numbers.randint(0, 3)
            return start, min(high, start + numbers.randint(0, _MOST)), numbers.randint(1, 9)
        case 2:
            return (low + numbers.randint(0, 9), high - numbers.randint(0, 9),
                    numbers.randint((high - low) // _MOST + 1, high))
        case 3:
            start, stop = sorted(numbers.randint(low, high) for _ in range(2))
            return start, stop, numbers.randint(max(1, (stop - start) // _MOST), high)
        case _:
            stop, start = sorted(numbers.randint(low, high) for _ in range(2))
            return start, stop, numbers.choice([1, 2, high])


def results(loops: list[tuple[int, int, int]]) -> np.ndarray:
    """Return, for each loop, how often it runs and the sum of its variable modulo 2⁶⁴."""
    found = np.zeros((2, len(loops)), np.int64, order="F")
    for column, bounds in enumerate(loops):
        total = sum(range(*bounds)) % 2**64
        found[:, column] = len(range(*bounds)), total - (total >> 63 << 64)
    return found


def function(body: str, parameters: str = "") -> str:
    return f"func @f({parameters}%out: memref<i64x2x?>) {{\n{body}\n}}"


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("type_", _TYPES)
def test_bounds_that_are_arguments(type_: str, target: Target) -> None:
    body = _LOOP.format(n=0, start="%a", stop="%b", step="%s", type=type_)
    kernel = target.compile(function(body, f"%a: {type_}, %b: {type_}, %s: {type_}, "))
    for bounds in (near_limits(type_, seed) for seed in range(60)):
        out = np.zeros((2, 1), np.int64, order="F")
        target.call(kernel, *bounds, out, group_size=1)
        np.testing.assert_array_equal(out, results([bounds]), str(bounds))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("type_", _TYPES)
def test_bounds_that_are_constants(type_: str, target: Target) -> None:
    loops = [(_LARGEST - 10, _LARGEST, 4), (_LARGEST - 10, _LARGEST, 2**62)] if type_ in ("i64", "u64", "index") else []
    loops += [bounds for bounds in (near_limits(type_, seed) for seed in range(12))
              if max(map(abs, bounds)) <= _LARGEST]
    body = "\n".join(_LOOP.format(n=n, start=start, stop=stop, step=step, type=type_)
                     for n, (start, stop, step) in enumerate(loops))
    out = np.zeros((2, len(loops)), np.int64, order="F")
    target.run(function(body), out, group_size=1)
    np.testing.assert_array_equal(out, results(loops), str(loops))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("fixed", ["start", "stop", "step"])
@pytest.mark.parametrize("type_", ["i8", "i64", "u64", "index"])
def test_bounds_of_which_one_is_a_constant(type_: str, fixed: str, target: Target) -> None:
    for seed in range(100, 105):
        bounds = dict(zip(("start", "stop", "step"), near_limits(type_, seed), strict=True))
        if abs(bounds[fixed]) > _LARGEST:
            continue
        given = {name: str(value) if name == fixed else f"%{name}" for name, value in bounds.items()}
        free = {name: value for name, value in bounds.items() if name != fixed}
        out = np.zeros((2, 1), np.int64, order="F")
        source = function(_LOOP.format(n=0, type=type_, **given), "".join(f"%{name}: {type_}, " for name in free))
        target.run(source, *free.values(), out, group_size=1)
        np.testing.assert_array_equal(out, results([(bounds["start"], bounds["stop"], bounds["step"])]), str(bounds))


def foreach_bounds(type_: str) -> list[tuple[int, int]]:
    """Return starts and stops of loops of a few iterations, or of none, near the ends of a type and far apart."""
    low, high = SCALAR_TYPES[type_].minimum, SCALAR_TYPES[type_].maximum
    return [(high - 100, high), (high - 1, high), (high, high), (high, low), (low, low + 70), (high, 5),
            (high // 2 - 20, high // 2 + 20)]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("type_", ["i8", "i64", "u64", "index"])
def test_foreach_runs_each_iteration_once(type_: str, target: Target) -> None:
    source = f"""func @f(%a: {type_}, %b: {type_}, %hits: memref<i32x?>) {{
        foreach %i = %a, %b : {type_} {{
            %d = arith.sub %i, %a : {type_}
            %p = cast %d : {type_} -> index
            %n = load %hits[%p] : memref<i32x?>
            %m = arith.add %n, 1 : i32
            store %m, %hits[%p] : memref<i32x?>
        }}
    }}"""
    kernel = target.compile(source)
    for start, stop in foreach_bounds(type_):
        hits = np.zeros(128, np.int32)
        target.call(kernel, start, stop, hits, group_size=1)
        np.testing.assert_array_equal(hits, np.arange(128) < stop - start, f"{start} to {stop}")


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("type_", ["i8", "i64", "u64", "index"])
@pytest.mark.parametrize(("names", "bounds", "types"), [
    ("%k, %i", "(0, %a), (3, %b)", "index, {}"), ("%i, %k", "(%a, 0), (%b, 3)", "{}, index"),
])
def test_foreach_over_two_indices_runs_each_iteration_once(
    names: str, bounds: str, types: str, type_: str, target: Target
) -> None:
    source = f"""func @f(%a: {type_}, %b: {type_}, %hits: memref<i32x3x?>) {{
        foreach ({names}) = {bounds} : {types.format(type_)} {{
            %d = arith.sub %i, %a : {type_}
            %p = cast %d : {type_} -> index
            %n = load %hits[%k, %p] : memref<i32x3x?>
            %m = arith.add %n, 1 : i32
            store %m, %hits[%k, %p] : memref<i32x3x?>
        }}
    }}"""
    kernel = target.compile(source)
    for start, stop in foreach_bounds(type_):
        hits = np.zeros((3, 128), np.int32, order="F")
        target.call(kernel, start, stop, hits, group_size=1)
        np.testing.assert_array_equal(hits, [np.arange(128) < stop - start] * 3, f"{start} to {stop}")
