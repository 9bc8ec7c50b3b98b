"""What a device lacks, as callers of kernels see it."""

from __future__ import annotations

from dataclasses import replace

import dpctl
import pytest

import tl_dpnp
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: No device has atomic operations of 128 bits.
UPDATE = """func @f(%A: memref<c64x4x4>) {
  axpby.n.atomic 1.0, %A, [0.0, 1.0], %A : c64, memref<c64x4x4>, c64, memref<c64x4x4>
}"""


def test_descriptions_hold_the_aspects_of_the_devices() -> None:
    for device, description in zip(dpctl.get_devices(), tl_dpnp.devices(), strict=True):
        found = description.has_fp64, description.has_fp16, description.has_atomic64
        assert found == (device.has_aspect_fp64, device.has_aspect_fp16, device.has_aspect_atomic64)


@pytest.mark.parametrize("act", [
    lambda kernel, A: kernel(A), lambda kernel, A: kernel.submit(A), lambda kernel, A: kernel.tune(A, budget=0.1),
    lambda kernel, A: kernel.schedules(), lambda kernel, A: kernel.inspect_llvm(),
    lambda kernel, A: kernel.compile_offline("pvc"),
], ids=["call", "submit", "tune", "schedules", "inspect", "offline"])
def test_what_is_missing_is_refused_with_its_place(act) -> None:
    A = dpt.zeros((4, 4), dtype="complex128", order="F")
    kernel = tl_dpnp.compile(UPDATE, cache=False)
    with pytest.raises(UnsupportedError, match=r"instruction axpby\.atomic multiplies %A") as raised:
        act(kernel, A)
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.span.line, diagnostic.span.column) == (2, 3)


def test_errors_of_the_compiler_show_the_line() -> None:
    text = "func @f(%x: memref<f32x4>) {\n%a = load %x[0] : memref<f32x4>\n%b = cast %a : f32 -> f16\n}"
    device = replace(tl_dpnp.devices()[0], has_fp16=False)
    with pytest.raises(UnsupportedError) as raised:
        tl_dpnp.compile(text, cache=False).lower(device)
    assert str(raised.value).splitlines()[1] == "  3 | %b = cast %a : f32 -> f16"
