"""The first operand of a function as its ``out=``: current dpnp has rules of its own for that, and they are followed.

dpnp 0.20 computes in place there, in the dtype of the array, or refuses it of functions that have no such way.
"""

from __future__ import annotations

import itertools
from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

FUNCTIONS = ("add", "divide", "maximum", "fmax", "power", "less", "logical_and", "bitwise_or")
DTYPES = ("?", "i4", "f4", "f8")
NUMBERS = {"int": 2, "float": 0.5, "bool": True, "numpy f8": np.float64(0.5), "numpy f4": np.float32(0.5),
           "numpy i8": np.int64(2), "complex": 1j}


def _array(dtype: Any) -> Any:
    return dpnp.asarray(np.asarray([[1, 2, 0], [3, 1, 2]]).astype(dtype))


def _outcome(function: Any, x: Any, y: Any) -> Any:
    """Return what a call gives and leaves in its first argument, or the error."""
    try:
        result = function(x, y)
    except (ValueError, TypeError, RuntimeError) as error:
        return type(error), str(error), x * 1
    return result is x, result * 1, x * 1


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_operand_is_the_result_as_in_dpnp(name, dtype):
    ufunc = getattr(dpnp, name)

    def program(x, y):
        return ufunc(x, y, out=x)

    fused = tl_dpnp.fuse(program, recompile_limit=1000)
    others = [*NUMBERS.values(), *map(_array, DTYPES)]
    for other, _ in itertools.product(others, range(2)):
        compare(f"{name}, {other!r}", _outcome(fused, _array(dtype), other), _outcome(program, _array(dtype), other))


@pytest.mark.parametrize("other", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_in_place_are_as_in_dpnp(dtype, other):
    def program(x, y):
        x += y
        x *= y
        x -= y
        return x

    fused = tl_dpnp.fuse(program, recompile_limit=1000)
    for _ in range(2):
        compare(repr(other), _outcome(fused, _array(dtype), other), _outcome(program, _array(dtype), other))


def test_an_array_is_one_object_to_dpnp_wherever_it_is_given():
    seen = []

    def program(x, y):
        dpnp.add(x, np.float64(y), out=x)  # with f4, dpnp 0.15 refuses f8 numbers and dpnp 0.20 converts them
        return x

    for function in (program, tl_dpnp.fuse(program)):
        seen.append([_outcome(function, _array("f4"), number) for number in (0.5, 0.25)])
    compare("one object", *seen)
