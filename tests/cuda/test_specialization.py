"""Programs that leave sizes open have kernels for the sizes of their first calls, on CUDA devices too."""

from __future__ import annotations

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.exporters import Exporter
from tl_dpnp.lowering.device import H200
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.runtime.specialization import MOST_SPECIALIZATIONS

PRODUCTS = """func @products(%a: memref<f32x?x?x?>, %b: memref<f32x?x?x?>, %c: memref<f32x?x?x?>) {
  %g = group_id
  %x = subview %a[:,:,%g] : memref<f32x?x?x?>
  %y = subview %b[:,:,%g] : memref<f32x?x?x?>
  %z = subview %c[:,:,%g] : memref<f32x?x?x?>
  gemm.n.n 1, %x, %y, 0, %z : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}"""


def products(**options):
    return tl_dpnp.compile(PRODUCTS, target="cuda", **options)


def arguments(m, n, k, groups):
    return [Exporter(np.zeros((*shape, groups), "float32", order="F")) for shape in ((m, k), (k, n), (m, n))]


def test_the_kernel_for_the_sizes_of_a_call_is_that_of_known_sizes():
    kernel = products()
    found = kernel._specializations.of(kernel._binding.bind(arguments(9, 7, 5, 3)))
    plan = found.overloads.overload(H200).compiled.plan
    assert plan.form == "staged"
    assert kernel.stats.specialized == 1
    assert "for sizes of calls, of which up to 8 have kernels of their own" in kernel.diagnostics()
    (signature,) = kernel.signatures
    assert signature.parameters == ("memref<f32x9x5x?>", "memref<f32x5x7x?>", "memref<f32x9x7x?>")


def test_their_number_is_bounded():
    kernel = products()
    calls = [kernel._binding.bind(arguments(m, 7, 5, 3)) for m in range(1, MOST_SPECIALIZATIONS + 3)]
    found = [kernel._specializations.of(call) for call in calls]
    assert [each is None for each in found] == [False] * MOST_SPECIALIZATIONS + [True] * 2
    assert kernel.stats.specialized == MOST_SPECIALIZATIONS
    assert kernel._specializations.of(calls[0]) is found[0]


@pytest.mark.parametrize("options", [{"form": "subgroup"}, {"debug": True}])
def test_options_that_decide_about_the_kernel_leave_sizes_open(options):
    assert products(**options)._specializations is None


def test_the_setting_leaves_sizes_open(monkeypatch):
    monkeypatch.setenv("TL_DPNP_SPECIALIZE", "0")
    assert products()._specializations is None


@pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
def test_calls_of_any_sizes_are_right():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    rng = np.random.default_rng(3)
    kernel = products()
    sizes = [tuple(map(int, rng.integers(1, 40, 3))) for _ in range(MOST_SPECIALIZATIONS + 3)]
    for turn in range(3):
        for m, n, k in sizes:
            groups = int(rng.integers(1, 300))
            a, b = (torch.as_tensor(rng.integers(-4, 5, shape), device="cuda", dtype=torch.float32)
                    for shape in ((groups, k, m), (groups, n, k)))
            c = torch.full((groups, n, m), float("nan"), device="cuda")
            if turn == 2:  # in arrays with gaps
                a = torch.nn.functional.pad(a, (0, 3))[:, :, :m]
            kernel(*map(tl_dpnp.rev, (a, b, c)))
            assert torch.equal(c, b @ a), (m, n, k, groups, turn)
    assert kernel.stats.specialized == MOST_SPECIALIZATIONS
    assert {signature.parameters[0] for signature in kernel.signatures} > {"memref<f32x?x?x?>"}
