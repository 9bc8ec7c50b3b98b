"""What a compilation leaves behind once its kernel is gone: nothing, in Numba no more than elsewhere."""

from __future__ import annotations

import gc

import dpnp
import pytest

import tl_dpnp
from tl_dpnp.kernels.llvm import Intrinsic

PRODUCT = """
func @product(%A: memref<f32x8x8>, %B: memref<f32x8x8>, %C: memref<f32x8x8>) {{
  gemm.n.n {alpha}, %A, %B, 1.0, %C : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}}
"""


def run(alpha):
    kernel = tl_dpnp.compile(PRODUCT.format(alpha=alpha), cache=False)
    arrays = [dpnp.ones((8, 8), dtype="float32") for _ in range(3)]
    kernel(*map(tl_dpnp.rev, arrays))
    assert float(arrays[2][0, 0]) == alpha * 8 + 1


@pytest.fixture(scope="module")
def warm():
    """Compile twice: the first time Numba and the driver load what they need."""
    for alpha in (1.0, 2.0):
        run(alpha)


def test_compilers_keep_no_intrinsics(warm):
    def alive():
        gc.collect()
        return sum(isinstance(thing, Intrinsic) for thing in gc.get_objects())

    before = alive()
    for alpha in (3.0, 4.0, 5.0):
        run(alpha)
    assert alive() == before


def scalars(count):
    """Compile and call a kernel of so many scalars: Numba has none yet with these types of arguments."""
    names = [f"%p{number}" for number in range(count)]
    sums = [f"%s{number} = arith.add %{f's{number - 1}' if number else 'zero'}, {name} : f64"
            for number, name in enumerate(names)]
    source = f"""func @f({', '.join(f'{name}: f64' for name in names)}, %x: memref<f64>) {{
      %zero = load %x[] : memref<f64>
      {chr(10).join(sums)}
      store %s{count - 1}, %x[] : memref<f64>
    }}"""
    x = dpnp.zeros(())
    tl_dpnp.compile(source, cache=False)(*range(count), x)
    assert float(x) == sum(range(count))


def hosts_kept():
    """Return how many kernels of Numba are there for bodies."""
    from tl_dpnp.runtime.sycl import numba_dpex_adapter

    return numba_dpex_adapter._host.cache_info().currsize


def test_numba_dpex_registers_no_lists_twice(warm):
    numba_dpex = pytest.importorskip("numba_dpex")
    context = numba_dpex.kernel(lambda item: None).targetctx

    def implementations():
        return sum(len(selector.versions) for selector in context._defns.values())

    before, hosts = implementations(), hosts_kept()
    for count in (41, 42, 43):
        scalars(count)
    assert implementations() == before + 3  # the hosts themselves
    assert hosts_kept() == hosts + 3


def test_kernels_whose_arguments_have_the_same_types_share_what_numba_compiles(warm):
    pytest.importorskip("numba_dpex")
    hosts = hosts_kept()
    for _ in range(2):
        run(9.0)
    assert hosts_kept() == hosts
    scalars(44)
    assert hosts_kept() == hosts + 1
    run(10.0)
