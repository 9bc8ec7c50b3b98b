"""f16 and bf16 on the device: the bits that the interpreter gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tl_dpnp
from tl_dpnp import UnsupportedError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

NARROW = ("f16", "bf16")


def same_bits(found, expected):
    """Whether arrays are equal bit by bit, except that a NaN is as good as another."""
    both = [np.ascontiguousarray(array) for array in (found, expected)]
    if both[0].dtype == np.uint16:  # bf16
        both = [(array.astype(np.uint32) << 16).view(np.float32) for array in both]
    nan = np.isnan(both[0]) & np.isnan(both[1])
    return bool(np.all((both[0].view(f"u{both[0].itemsize}") == both[1].view(f"u{both[1].itemsize}")) | nan))


def specials(name):
    """Return values of a type: random ones of all magnitudes, ties between f16 and bf16 values, and the extremes."""
    random = np.random.default_rng(7)
    scalar = SCALAR_TYPES[name]
    if scalar.is_integer:
        info = np.iinfo(scalar.storage)
        spread = random.integers(info.min, info.max, 300, dtype=scalar.storage, endpoint=True)
        return np.concatenate([spread, spread >> np.arange(300, dtype=scalar.storage) % (info.bits - 1)])
    values = random.normal(size=400) * 2.0 ** random.integers(-30, 20, 400)
    ties = (1 + (2 * np.arange(40) + 1) * 2.0**-11) * 2.0 ** np.arange(-20, 20)
    near = ties * (1 + np.array([[1], [-1]]) * 2.0**-40)
    extremes = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 2.0**-24, 2.0**-25, 3.39e38, 1e-40, -1e-45]
    values = np.concatenate([values, ties, *near, extremes])
    with np.errstate(all="ignore"):
        if name == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(scalar.storage)


def elementwise(source, target, body):
    return (f"func @f(%x: memref<{source}x?>, %y: memref<{source}x?>, %z: memref<{target}x?>) {{"
            f" %n = size %x[0] : memref<{source}x?>"
            f" for %i = 0, %n {{ %0 = load %x[%i] : memref<{source}x?>  %1 = load %y[%i] : memref<{source}x?>"
            f" {body} store %2, %z[%i] : memref<{target}x?> }} }}")


def check(source, target, body):
    text = elementwise(source, target, body)
    x = specials(source)
    y = np.roll(x, 17)
    results = []
    for options in ({}, {"target": "reference"}):
        z = dpt.zeros(len(x), dtype=SCALAR_TYPES[target].storage)
        tl_dpnp.compile(text, cache=False, **options)(dpt.asarray(x), dpt.asarray(y), z)
        results.append(dpt.to_numpy(z))
    assert same_bits(*results)


@pytest.mark.parametrize("target", NARROW)
@pytest.mark.parametrize("source", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8"])
def test_conversions_round_once(source, target):
    if source != target:
        check(source, target, f"%2 = cast %0 : {source} -> {target}")


@pytest.mark.parametrize("target", ["sycl", "reference"])
@pytest.mark.parametrize(("source", "value"), [("f64", 1 + 2.0**-8 + 2.0**-40), ("i32", 2**24 + 2**16 + 1)])
def test_conversions_to_bf16_round_to_f32_first(target, source, value):
    """Both lie above a tie of bf16, which is what they are in f32: as docs/language.md says."""
    kernel = tl_dpnp.compile(f"""func @f(%x: {source}, %y: memref<bf16x1>) {{
      %0 = cast %x : {source} -> bf16
      store %0, %y[0] : memref<bf16x1>
    }}""", target=target)
    y = np.zeros(1, np.uint16) if target == "reference" else dpt.zeros(1, dtype="u2")
    kernel(value, y)
    found = y if target == "reference" else dpt.asnumpy(y)
    assert (found.astype(np.uint32) << 16).view(np.float32) == 2.0 ** int(np.log2(value))


@pytest.mark.parametrize("source", NARROW)
def test_conversions_to_wider_types_are_exact(source):
    check(source, "f64", f"%2 = cast %0 : {source} -> f64")


@pytest.mark.parametrize("element", NARROW)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div"])
def test_arithmetic_rounds_every_result(kind, element):
    check(element, element, f"%2 = arith.{kind} %0, %1 : {element}")


@pytest.mark.parametrize("element", NARROW)
def test_scalar_arguments_and_constants_are_rounded(element):
    text = f"func @f(%a: {element}, %z: memref<f64x2>) {{ %0 = cast %a : {element} -> f64" \
           f" %1 = arith.add 1.1, 1.1 : {element}  %2 = cast %1 : {element} -> f64" \
           f" store %0, %z[0] : memref<f64x2>  store %2, %z[1] : memref<f64x2> }}"
    results = []
    for options in ({}, {"target": "reference"}):
        z = dpt.zeros(2, dtype="float64")
        tl_dpnp.compile(text, cache=False, **options)(1.0 + 2.0**-11 + 2.0**-40, z)
        results.append(dpt.to_numpy(z))
    assert (results[0] == results[1]).all()


@pytest.mark.parametrize("form", ["vector", "subgroup"])
@pytest.mark.parametrize("result", ["f32", "f16", "bf16"])
def test_sums_are_kept_in_f32(form, result):
    """Each term is half a unit in the last place of the sum so far: rounding every step would lose them."""
    operand = "f16" if result == "f32" else result
    text = f"func @f(%A: memref<{operand}x4x64>, %B: memref<{operand}x64x4>, %C: memref<{result}x4x4>)" \
           f" {{ gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<{operand}x4x64>, memref<{operand}x64x4>, f32," \
           f" memref<{result}x4x4> }}".replace(": f32", f": {result}").replace(", f32", f", {result}")
    values = np.ones((4, 64))
    values[:, 1:] = 2.0**-9
    expected = 1 + 63 * 2.0**-9

    def stored(array, name):
        if name == "bf16":
            array = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return dpt.asarray(array.astype(SCALAR_TYPES[name].storage), order="F")

    c = stored(np.zeros((4, 4)), result)
    tl_dpnp.compile(text, form=form, cache=False)(stored(values, operand), stored(np.ones((64, 4)), operand), c)
    found = dpt.to_numpy(c)
    if result == "bf16":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    assert np.abs(found - expected).max() <= {"f32": 1e-6, "f16": 2.0**-11, "bf16": 2.0**-8}[result]


def test_f64_is_refused_by_a_device_without_it():
    text = "func @f(%x: memref<f32x4>) { %0 = load %x[0] : memref<f32x4>  %1 = cast %0 : f32 -> f64 " \
           " %2 = arith.add %1, %1 : f64  %3 = cast %2 : f64 -> f32  store %3, %x[0] : memref<f32x4> }"
    kernel = tl_dpnp.compile(text)
    device = replace(tl_dpnp.devices()[0], has_fp64=False)
    with pytest.raises(UnsupportedError, match=r"%1 .*f64.* does not compute with f64"):
        kernel.lower(device)
