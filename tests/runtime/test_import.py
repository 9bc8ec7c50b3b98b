"""The package's front: what importing it loads, and its names."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import subprocess
import sys

import pytest

import tl_dpnp

HEAVY = ("numba", "numba_dpex", "llvmlite", "dpctl", "dpnp", "numpy", "lark")


def run(code):
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    result = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, text=True,
                            capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_the_import_is_cheap():
    """What an editable installation imports at each start of Python does not count, where the package is installed so
    or not."""
    code = f"""
import contextlib, importlib.util, pathlib, re
import sys
before = len(sys.modules)
import tl_dpnp
print(len(sys.modules) - before, *[name for name in {HEAVY} if name in sys.modules])
"""
    modules, *loaded = run(code)
    assert loaded == []
    assert int(modules) < 50


@pytest.mark.parametrize("module", [
    "errors", "config", "scalars", "language.ops", "language.parser", "language.builder", "lowering",
    "runtime.store.cache", "runtime.call.usage", "runtime.call.layout", "runtime.store.fingerprint",
])  # fmt: skip
def test_what_describes_and_looks_up_needs_no_device(module):
    code = f"import sys, tl_dpnp.{module}; print(*[n for n in ('numba', 'dpctl', 'llvmlite') if n in sys.modules])"
    assert run(code) == []


def test_binding_and_launching_needs_no_compiler():
    code = "import sys, tl_dpnp.runtime.api; print(*[n for n in ('numba', 'llvmlite', 'lark') if n in sys.modules])"
    assert run(code) == []


def test_a_kernel_for_a_cpu_needs_no_other_engine():
    """A first compilation imports what the program and the device are for."""
    code = """
import sys
from tests.lowering.support import CPU
from tl_dpnp.language import parse
from tl_dpnp.lowering import LoweringOptions, lower
(function,) = parse('''func @product(%A: memref<f32x8x8>, %B: memref<f32x8x8>, %C: memref<f32x8x8x?>) {
  %g = group_id
  %c = subview %C[:,:,%g] : memref<f32x8x8x?>
  gemm.n.n 1.0, %A, %B, 0.0, %c : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}''')
assert lower(function, CPU, LoweringOptions()).plan.form == "vector"
print(*(name for name in sys.modules if name.startswith("tl_dpnp.")))
"""
    loaded = {name.removeprefix("tl_dpnp.") for name in run(code)}
    assert "lowering.emission.emitter" in loaded
    assert not loaded & {
        "kernels.amx.product", "kernels.dpas.fragments", "kernels.dpas.gemm", "kernels.dpas.sums",
        "kernels.dpas.tile_blocks", "kernels.mma.fragments", "kernels.mma.product", "kernels.mma.warpgroup",
        "kernels.register_product", "language.interpreter.machine", "lowering.emission.products", "lowering.fragments",
        "lowering.emission.tensor_cores", "lowering.mappings.sub_group", "lowering.mappings.persistent",
        "lowering.phases", "lowering.tactics.blocks", "lowering.tactics.lanes", "lowering.vector_loops",
    }


def test_every_public_name_is_there():
    for name in tl_dpnp.__all__:
        assert getattr(tl_dpnp, name) is not None
        assert name in dir(tl_dpnp)
    for name in ("language", "lowering", "runtime"):
        assert getattr(tl_dpnp, name) is importlib.import_module(f"tl_dpnp.{name}")
    assert isinstance(tl_dpnp.__version__, str)
    with pytest.raises(AttributeError, match="module 'tl_dpnp' has no attribute 'nothing'"):
        tl_dpnp.nothing  # noqa: B018


def test_the_examples_of_the_docstrings():
    results = doctest.testmod(tl_dpnp)
    assert results.attempted > 0
    assert results.failed == 0


def test_devices_are_described():
    import dpctl

    devices = tl_dpnp.devices()
    assert len(devices) == len(dpctl.get_devices())
    for device in devices:
        assert device.vector_bytes in (16, 32, 64)
        assert device.subgroup_sizes
        assert device.name in str(device)
        assert json.loads(json.dumps(device.to_json()))["core"]["name"] == device.core.name
        assert list(device.caches) == sorted(device.caches)
