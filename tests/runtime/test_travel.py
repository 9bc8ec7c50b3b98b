"""Kernels in other processes: they pickle, find what was compiled, and are the same to Dask."""

import pickle
import subprocess
import sys

import dpnp

import tl_dpnp
from tests.runtime.support import AXPY

PROGRAM = """
import pickle, sys
import dpnp
kernel = pickle.load(sys.stdin.buffer)
x, y = dpnp.ones(8, dtype="float32"), dpnp.ones(8, dtype="float32")
kernel(2.0, x, y)
assert (y == 3).all()
stats = kernel.stats
print(kernel.__dask_tokenize__(), stats.cache_hits, stats.cache_misses, stats.driver_builds)
"""


def test_a_kernel_that_travels_finds_what_was_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    kernel = tl_dpnp.compile(AXPY)
    kernel(1.0, dpnp.ones(8, dtype="float32"), dpnp.ones(8, dtype="float32"))
    result = subprocess.run([sys.executable, "-c", PROGRAM], input=pickle.dumps(kernel), capture_output=True,
                            timeout=300, check=False)
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout.decode().split() == [kernel.__dask_tokenize__(), "1", "0", "0"]


def test_kernels_that_differ_have_other_tokens():
    kernels = [tl_dpnp.compile(AXPY), tl_dpnp.compile(AXPY, debug=True), tl_dpnp.compile(AXPY, form="subgroup"),
               tl_dpnp.compile(AXPY.replace("1.0", "2.0")),
               tl_dpnp.compile(AXPY.replace("f32x?", "f32x$n"), define={"n": 4}),
               tl_dpnp.compile(AXPY.replace("f32x?", "f32x$n"), define={"n": 5})]
    tokens = [kernel.__dask_tokenize__() for kernel in kernels]
    assert len(set(tokens)) == len(kernels)
    assert tokens[0] == tl_dpnp.compile(AXPY).__dask_tokenize__()
