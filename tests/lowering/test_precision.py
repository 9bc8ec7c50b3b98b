"""The precision of one product of f32: it goes before the kernel's, on every matrix engine."""

from typing import get_args

import pytest

from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.language import parse
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.mappings.persistent.staging import find_staging
from tl_dpnp.lowering.tactics.rounding import Engine, rounding
from tl_dpnp.scalars import PRECISIONS

KIND, GRID = "memref<f32x32x32>", "memref<f32x32x32x?>"
TEXT = f"""func @f(%A: {GRID}, %C: {GRID}) {{
  %g = group_id
  %a = subview %A[:,:,%g] : {GRID}
  %c = subview %C[:,:,%g] : {GRID}
  gemm.n.n$ 1.0, %a, %a, 0.0, %c : f32, {KIND}, {KIND}, f32, {KIND} }}"""


@pytest.mark.parametrize(
    ("own", "kernel", "is_split"),
    [("", "highest", None), ("", "high", True), (".high", "highest", True), (".default", "high", False),
     (".highest", "default", None)],
)
def test_tensor_cores_take_what_an_instruction_says(own, kernel, is_split):
    function = canonicalize(parse(TEXT.replace("$", own)).functions[0])
    staging = find_staging(function, H200, 0, precision=kernel)
    assert staging is not None
    (product,) = staging.products
    assert (product.is_split if isinstance(product, WarpProduct) else None) == is_split


@pytest.mark.parametrize("engine", get_args(Engine))
def test_f32_is_rounded_only_where_that_is_allowed(engine):
    f32 = "f32", "f32", "f32"
    assert rounding(f32, "highest", engine) is None
    high, default = (rounding(f32, precision, engine) for precision in ("high", "default"))
    assert default is not None
    assert default.terms == 1
    # A sum of several numbers keeps the 24 digits of f32, or nearly: bf16 has 8 digits, tf32 11.
    digits = {"bf16": 8, "tf32": 11}
    assert high is None or high.terms * digits[high.a] >= 22


@pytest.mark.parametrize("engine", get_args(Engine))
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("types", [("bf16", "bf16", "f32"), ("f64", "f64", "f64"), ("i8", "u8", "i32")])
def test_other_types_are_never_rounded(types, precision, engine):
    assert rounding(types, precision, engine) == (*types[:2], 0)
