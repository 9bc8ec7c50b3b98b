"""The precision of one product of f32: it goes before the kernel's, on every matrix engine."""

import pytest

from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.language import parse
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.mappings.persistent.staging import find_staging

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
