"""Programs that campaigns of random tests have found: each was wrong once, or was not built."""

import re

import dpnp
import numpy as np
import pytest

import tl_dpnp

#: LLVM moves what the loops compute out of them, after asking with an intrinsic of its own whether addresses wrap.
MULTIPLY_WITH_OVERFLOW = """
func @f(%x: i8, %out: group<memref<i16x?x19,strided<1,16>>>, %in: group<memref<i16x?x17>>) {
  %g = group_id
  %c = load %out[%g] : group<memref<i16x?x19,strided<1,16>>>
  %a = load %in[%g] : group<memref<i16x?x17>>
  %size = arith.add 1, 15 : index
  %row = subview %a[3, 1:%size] : memref<i16x?x17>
  %t = alloca -> memref<i8x19>
  foreach %i = 0, 19 : i64 {
    %j = cast %i : i64 -> index
    %v = cast %i : i64 -> i8
    %w = arith.sub %v, %x : i8
    store %w, %t[%j] : memref<i8x19>
  }
  ger -1, %row, %t, 1, %c : i8, memref<i16x?,strided<?>>, memref<i8x19>, i8, memref<i16x?x19,strided<1,16>>
}
"""


@pytest.mark.parametrize("form", ["vector", "subgroup"])
def test_addresses_that_llvm_checks_for_overflow(form):
    rng = np.random.default_rng(0)
    given = [np.asfortranarray(rng.integers(-9, 9, shape).astype("i2")) for shape in [(16, 19)] * 3 + [(11, 17)] * 3]
    expected = [c - np.outer(a[3, 1:17], np.arange(19) - 3) for c, a in zip(given[:3], given[3:], strict=True)]
    arrays = [dpnp.asarray(array, order="F") for array in given]
    tl_dpnp.compile(MULTIPLY_WITH_OVERFLOW, form=form, cache=False)(3, arrays[:3], arrays[3:])
    for array, right in zip(arrays, expected, strict=False):
        np.testing.assert_array_equal(array.asnumpy(), right)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("k", "m"), [(1, 33), (2, 33), (4, 40), (1, 64)])
def test_emulated_dpas_with_fewer_steps_than_lanes(lanes, transposed, k, m):
    """Lanes without an element of A, which are those of the step's end, take part in broadcasting the others."""
    rng = np.random.default_rng(0)
    shape, flag = ((k, m), "t") if transposed else ((m, k), "n")
    a, x = rng.integers(-9, 9, shape).astype("i1"), rng.integers(-9, 9, k).astype("i1")
    types = f"i32, memref<i8x{shape[0]}x{shape[1]}>, memref<i8x{k}>, i32, memref<i32x{m}>"
    source = f"""func @f(%a: memref<i8x{shape[0]}x{shape[1]}>, %x: memref<i8x{k}>, %y: memref<i32x{m}>)
        work_group_size({lanes},1) subgroup_size({lanes}) {{
      gemv.{flag} 1, %a, %x, 0, %y : {types}
    }}"""
    y = dpnp.zeros(m, dtype="i4")
    kernel = tl_dpnp.compile(source, form="subgroup", cache=False, emulate_dpas=lanes)
    kernel(dpnp.asarray(a, order="F"), dpnp.asarray(x), y, group_size=1)
    np.testing.assert_array_equal(y.asnumpy(), (a.T if transposed else a).astype("i4") @ x)


#: The last instruction calls fma with the same arguments in all lanes, in a branch for the first of them.
CALL_IN_A_BRANCH = """
func @f(%x: memref<f32x19>) work_group_size(8,1) subgroup_size(8) {
  %a = alloca -> memref<f32x19x8>
  foreach %i = 0, 8 {
    for %j = 0, 19 {
      store -1.0, %a[%j, %i] : memref<f32x19x8>
    }
  }
  %b = alloca -> memref<f32x8>
  foreach %i = 0, 8 {
    %v = load %x[0] : memref<f32x19>
    store %v, %b[%i] : memref<f32x8>
  }
  gemv.n 2.0, %a, %b, 1.0, %x : f32, memref<f32x19x8>, memref<f32x8>, f32, memref<f32x19>
  %c = subview %x[2] : memref<f32x19>
  %d = subview %a[8, 5] : memref<f32x19x8>
  axpby.n -1.0, %d, 1.0, %c : f32, memref<f32>, f32, memref<f32>
}
"""


def test_kernels_that_the_driver_does_not_vectorize():
    """Their lanes are no sub-group, and the broadcasts of an emulated DPAS were 0.

    The runtime of 2026 vectorizes this kernel; where none does any more, another program is to be found.
    """
    x = np.arange(1, 20, dtype="f4")
    array = dpnp.asarray(x)
    kernel = tl_dpnp.compile(CALL_IN_A_BRANCH, form="subgroup", cache=False, emulate_dpas=8, precision="high")
    if array.sycl_device.driver_version.startswith("2024."):
        with pytest.raises(tl_dpnp.LoweringError, match="does not vectorize tl_kernel: the 8 lanes"):
            kernel(array, group_size=1)
        np.testing.assert_array_equal(array.asnumpy(), x)
    else:
        kernel(array, group_size=1)
        np.testing.assert_array_equal(array.asnumpy(), x - 16 + (np.arange(19) == 2))


#: The position among three sub-groups is a switch, of two bits if LLVM may choose.
POSITION_OF_TWO_BITS = """
func @f(%x: memref<i64x19>, %y: memref<i16x8>) work_group_size(48,3) subgroup_size(16) {
  %s = subview %y[2] : memref<i16x8>
  sum.t 0, %y, 1, %s : u8, memref<i16x8>, i8, memref<i16>
  %t = alloca -> memref<i64x19>
  axpby.t 0, %x, 0, %t : u16, memref<i64x19>, i32, memref<i64x19>
}
"""


def test_integers_of_widths_that_devices_lack():
    """Intel's CPU runtime ended the process where it vectorized the switch."""
    kernel = tl_dpnp.compile(POSITION_OF_TWO_BITS, form="subgroup", cache=False)
    y = dpnp.arange(8, dtype="i2")
    kernel(dpnp.zeros(19, dtype="i8"), y, group_size=1)
    (text,) = kernel.inspect_llvm().values()
    assert {int(width) for width in re.findall(r"(?<![\w.])i(\d+)\b", text)} <= {1, 8, 16, 32, 64}
    np.testing.assert_array_equal(y.asnumpy(), np.arange(8))


@pytest.mark.parametrize("form", ["vector", "subgroup"])
def test_checks_let_negative_constants_become_unsigned(form):
    """The cast has no constant to fold it to, and was taken to be undefined."""
    source = """func @f(%x: memref<u64x8>) {
      %m = arith.neg 8 : i8
      foreach %i = 0, 8 {
        %v = cast %m : i8 -> u64
        store %v, %x[%i] : memref<u64x8>
      }
    }"""
    x = dpnp.zeros(8, dtype="u8")
    tl_dpnp.compile(source, form=form, cache=False, debug=True)(x, group_size=1)
    np.testing.assert_array_equal(x.asnumpy(), np.full(8, 2**64 - 8, dtype="u8"))


#: A sum that stays in memory, at addresses that the outer loop moves on from the beginning of an array.
SUMS_IN_MEMORY = """
func @f(%x: memref<{type}x{count}x{rows}x?>, %y: memref<{type}x{count}x{rows}x?>, %sums: memref<{type}x{rows}x?>) {{
  %g = group_id
  %a = subview %x[:,:,%g] : memref<{type}x{count}x{rows}x?>
  %b = subview %y[:,:,%g] : memref<{type}x{count}x{rows}x?>
  %c = subview %sums[:,%g] : memref<{type}x{rows}x?>
  for %row = 0, {rows} {{
    %p = subview %a[:,%row] : memref<{type}x{count}x{rows}>
    %q = subview %b[:,%row] : memref<{type}x{count}x{rows}>
    %s = subview %c[%row] : memref<{type}x{rows}>
    %zero = constant {zero} : {type}
    store %zero, %s[] : memref<{type}>
    for %k = 0, {count} {{
      %u = load %p[%k] : memref<{type}x{count}>
      %v = load %q[%k] : memref<{type}x{count}>
      %product = arith.mul %u, %v : {type}
      %sum = load %s[] : memref<{type}>
      %next = arith.add %sum, %product : {type}
      store %next, %s[] : memref<{type}>
    }}
  }}
}}
"""


@pytest.mark.parametrize(("rows", "count"), [(2, 20), (3, 50), (10, 4), (10, 50)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_sums_in_memory_have_all_of_their_terms(dtype, rows, count):
    """Those of the first row had the last one only where LLVM wrote the SPIR-V (current Pythons)."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, (count, rows, 6)).astype(dtype) for _ in range(2))
    type, zero = {"f4": "f32", "f8": "f64", "c8": "c32", "c16": "c64"}[dtype], "[0.0,0.0]" if dtype[0] == "c" else "0.0"
    source = SUMS_IN_MEMORY.format(type=type, zero=zero, rows=rows, count=count)
    sums = dpnp.zeros((rows, 6), dtype=dtype, order="F")
    tl_dpnp.compile(source, cache=False)(*(dpnp.asarray(array, order="F") for array in (x, y)), sums)
    np.testing.assert_array_equal(sums.asnumpy(), (x * y).sum(axis=0))
