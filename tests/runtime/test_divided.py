"""The divided form: several work-items share the product of a work-group."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.lowering.support import CPU
from tl_dpnp.language import parse
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.mappings.divided import divide

SOURCE = """
func @product(%alpha: {t}, %group: group<memref<{t}x{a}>>, %b: memref<{t}x{b}x?>, %c: memref<{t}x{m}x{n}x?>) {{
  %item = group_id
  %x = load %group[%item] : group<memref<{t}x{a}>>
  %y = subview %b[:,:,%item] : memref<{t}x{b}x?>
  %z = subview %c[:,:,%item] : memref<{t}x{m}x{n}x?>
  gemm.{ta}.{tb} %alpha, %x, %y, {beta}, %z : {t}, memref<{t}x{a}>, memref<{t}x{b}>, {t}, memref<{t}x{m}x{n}>
}}"""


def source(m: int, n: int, k: int, transposes: str = "n.n", element: str = "f32", beta: int = 0) -> str:
    ta, tb = transposes.split(".")
    a, b = (f"{m}x{k}", f"{k}x{m}")[ta == "t"], (f"{k}x{n}", f"{n}x{k}")[tb == "t"]
    return SOURCE.format(m=m, n=n, a=a, b=b, ta=ta, tb=tb, t=element, beta=beta)


def forms(kernel: tl_dpnp.Kernel) -> list[str]:
    return [signature.form for signature in kernel.signatures]


@pytest.mark.parametrize(("m", "n", "k", "transposes", "element", "beta"), [
    (24, 32, 9, "n.n", "f32", 0), (17, 48, 8, "t.t", "f64", 2), (20, 16, 5, "n.t", "i32", 1),
    # Few columns: the rows are divided.
    (128, 4, 6, "n.n", "f32", 1), (64, 5, 7, "t.n", "f64", 0), (64, 3, 8, "n.t", "f64", 0),
])
@pytest.mark.parametrize("groups", [1, 3])
def test_parts_make_the_whole(m, n, k, transposes, element, beta, groups):
    dtype = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[element]
    generator = np.random.default_rng(m)
    a, b, c = (generator.integers(-4, 5, (groups, *shape)).astype(dtype) for shape in ((k, m), (n, k), (n, m)))
    stored = [x.swapaxes(1, 2).copy() if letter == "t" else x
              for x, letter in zip((a, b), transposes.split("."), strict=True)]
    kernel = tl_dpnp.compile(source(m, n, k, transposes, element, beta), form="divided")
    result = dpnp.asarray(c)
    kernel(2, [tl_dpnp.rev(dpnp.asarray(x)) for x in stored[0]], tl_dpnp.rev(dpnp.asarray(stored[1])),
           tl_dpnp.rev(result))
    np.testing.assert_array_equal(result.asnumpy(), 2 * (b @ a) + beta * c)


def test_few_large_products_are_divided_and_many_are_not():
    kernel = tl_dpnp.compile(source(128, 128, 128))
    a, b, c = (dpnp.ones((count, 128, 128), dtype="f4") for count in (64, 64, 64))

    def call(count: int) -> None:
        kernel(1, [tl_dpnp.rev(x) for x in a[:count]], tl_dpnp.rev(b[:count]), tl_dpnp.rev(c[:count]))

    units = a.sycl_device.max_compute_units
    call(min(64, 4 * units))
    assert forms(kernel) == ["vector"] or units > 16
    call(1)
    assert "divided" in forms(kernel)
    np.testing.assert_array_equal(c[0].asnumpy(), 128)


@pytest.mark.parametrize("text", [
    source(24, 7, 8),  # neither rows nor columns make parts
    source(24, 32, 8).replace("f32x24x8", "f32x24x?"),
    source(24, 32, 8).replace("\n}", "\n  gemm.n.n 1, %x, %y, 1, %z : f32, memref<f32x24x8>, memref<f32x8x32>, f32, "
                              "memref<f32x24x32>\n}"),
], ids=["small", "dynamic", "two products"])
def test_what_cannot_be_divided_says_so(text):
    function = canonicalize(parse(text).functions[0])
    assert divide(function, CPU) is None
    with pytest.raises(tl_dpnp.errors.LoweringError, match="cannot run in the divided form"):
        tl_dpnp.compile(text, form="divided").lower()


def test_parts_depend_on_the_device():
    function = canonicalize(parse(source(64, 128, 8)).functions[0])
    division = divide(function, CPU)
    assert division is not None
    assert division.parts == 8  # four for each of its cores
    assert "f32x64x16" in str(division.function.body.operations[-1].output.type)


def test_tuning_is_refused_because_no_schedule_could_be_used():
    kernel = tl_dpnp.compile(source(24, 32, 8), form="divided", tuned=True)
    with pytest.raises(tl_dpnp.errors.UnsupportedError, match="form='divided', which has no schedules to search"):
        kernel.tune()
