"""Linear algebra on integers: libNVVM sums products of bytes with dp4a, and extended some sums as if unsigned."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.integer_programs import INSTRUCTIONS, TYPES, IntegerProgram, programs
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.scalars import SCALAR_TYPES

#: A sum that may be negative, and the extension of a register to 64 bits as if unsigned.
_SIGNED_SUM = re.compile(r"dp[24]a\.(?:lo\.|hi\.)?(?:s32\.[su]32|u32\.s32)\s+(%r\d+)")
_UNSIGNED_EXTENSION = re.compile(r"(?:cvt\.u64\.u32|mul\.wide\.u32|mad\.wide\.u32)\s+%rd\d+,\s*(%r\d+)")
#: Dot products of bytes in user code: the sum of four, subtracted.
_SCALARS = """func @f(%x: memref<i8x4>, %y: memref<TYPEx4>, %z: memref<i64>) {{
  {products}
  %s0 = arith.add %p0, %p1 : i64
  %s1 = arith.add %p2, %p3 : i64
  %s2 = arith.add %s0, %s1 : i64
  %r = arith.neg %s2 : i64
  store %r, %z[] : memref<i64>
}}"""
_PRODUCT = """%a{n} = load %x[{n}] : memref<i8x4>
  %b{n} = load %y[{n}] : memref<TYPEx4>
  %c{n} = cast %a{n} : i8 -> {through}
  %d{n} = cast %b{n} : TYPE -> {through}
  %e{n} = cast %c{n} : {through} -> i64
  %f{n} = cast %d{n} : {through} -> i64
  %p{n} = arith.mul %e{n}, %f{n} : i64"""


def wrong_extensions(source: str) -> set[str]:
    """Return the registers of signed sums that the PTX of a program extends as if they were unsigned."""
    (ptx,) = tl_dpnp.compile(source, target="cuda", cache=False).inspect_ptx().values()
    return set(_SIGNED_SUM.findall(ptx)) & set(_UNSIGNED_EXTENSION.findall(ptx))


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
@pytest.mark.parametrize("narrow", ["i8", "u8", "i16"])
def test_negative_sums_are_extended_with_their_sign(instruction: str, narrow: str) -> None:
    first, second = SCALAR_TYPES[narrow], SCALAR_TYPES["i8"]
    inputs = (first, second)[: len(INSTRUCTIONS[instruction]) - 1]
    assert not wrong_extensions(IntegerProgram(instruction, inputs, SCALAR_TYPES["i64"]).source)


@pytest.mark.parametrize("through", ["i16", "i32", "i64"])
@pytest.mark.parametrize("narrow", ["i8", "u8", "i16"])
def test_negative_sums_of_scalars(narrow: str, through: str) -> None:
    products = "\n  ".join(_PRODUCT.format(n=n, through=through) for n in range(4))
    assert not wrong_extensions(_SCALARS.format(products=products).replace("TYPE", narrow))


@pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
@pytest.mark.parametrize("output", TYPES, ids=str)
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_integers_on_the_device(instruction: str, output: object) -> None:
    """Every pair of types, with factors of −1, 0, 1 and 3, against the interpreter."""
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    wrong = []
    for program in programs(instruction, SCALAR_TYPES[str(output)]):
        scalar, *arrays = program.arguments()
        device = [cupy.asarray(array, order="F") for array in arrays]
        tl_dpnp.compile(program.source, target="cuda", cache=False)(scalar, *device, group_size=1)
        (function,) = parse(program.source)
        interpret(function, [scalar, *arrays])
        found = np.argwhere(np.any(cupy.asnumpy(device[-1]) != arrays[-1], axis=tuple(range(arrays[-1].ndim - 1))))
        wrong += [f"{instruction} of {program.inputs} into {output} with {program.factors[place]}"
                  for place in found.ravel()]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("output", ["i8", "u16", "i64", "u64"])
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_programs_run_on_the_interpreter(instruction: str, output: str) -> None:
    """The device's tests are legal programs, also where there is none: against Python's integers."""
    program = programs(instruction, SCALAR_TYPES[output])[-1]
    scalar, *arrays = program.arguments()
    before = arrays[-1].copy()
    (function,) = parse(program.source)
    interpret(function, [scalar, *arrays])
    unread = program.factors.index(("0", "1"))
    np.testing.assert_array_equal(arrays[-1][..., unread], before[..., unread])
