"""Atomic accesses: what they leave in memory and what they give, in each region and of each type."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import DTYPES, TARGETS

_FEW = [target for target in TARGETS if target.name in ("reference", "vector", "several_subgroups")]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_iterations_take_numbers_of_their_own(target):
    """Each is given once, by a counter that all work-groups share."""
    counter, taken = np.zeros((), np.int32), np.full((64, 7), -1, np.int32, order="F")
    target.run("""func @f(%counter: memref<i32>, %taken: memref<i32x64x?>) {
        %g = group_id
        foreach (%i) = (0), (64) {
            %ticket = atomic_add.device 1, %counter[] : i32
            store %ticket, %taken[%i, %g]
        }
    }""", counter, taken)
    assert counter == taken.size
    assert sorted(taken.flat) == list(range(taken.size))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_work_group_does_it_once(target):
    """All its work-items see what was there; a condition and a loop around stay those of the work-group."""
    counter, seen, last = np.zeros(2, np.int64), np.full((9, 5), -1, np.int64, order="F"), np.zeros(5, np.float32)
    target.run("""func @f(%counter: memref<i64x2>, %seen: memref<i64x9x?>, %last: memref<f32x?>) {
        %g = group_id
        for %k = 0, 2 {
            %old = atomic_add 3, %counter[%k] : i64
            %is_second = equal %k, 1 : bool
            if %is_second { foreach (%i) = (0), (9) { store %old, %seen[%i, %g] } }
        }
        atomic_store.device.release 1.5, %last[%g]
        %a = atomic_load.device.acquire %last[%g] : f32
        %b = add %a, 1.0 : f32
        %c = atomic_max.device.sequentially_consistent %b, %last[%g] : f32
    }""", counter, seen, last)
    assert counter.tolist() == [15, 15]
    assert sorted(seen[0]) == [0, 3, 6, 9, 12]
    assert (seen == seen[0]).all()
    assert last.tolist() == [2.5] * 5


@pytest.mark.parametrize("target", _FEW, ids=str)
def test_its_result_may_have_any_name(target):
    """What it is lowered to takes no number that the result has."""
    x = np.full((), 4, np.int32)
    target.run("func @f(%x: memref<i32>) { %0 = atomic_add 3, %x[] : i32 store %0, %x[] }", x)
    assert x == 4


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("target", _FEW, ids=str)
@pytest.mark.parametrize("element", [*DTYPES, "f16"])
@pytest.mark.parametrize("function", ["add", "min", "max"])
def test_updates_of_each_type(target, element, function):
    """Neighbours within a word stay as they are; what is given is the value before, converted as a load is."""
    dtype = np.dtype({**DTYPES, "f16": "float16"}[element])
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1, 3, 100, 7, 2, 90, 5, 6], dtype)
    others = np.array([info.max, 1 if dtype.kind != "f" else 0, 2, 1, 0, 27, 9, 120, 120, 5, 4], dtype)
    memory, old = values.copy(), np.zeros_like(values)
    target.run(f"""func @f(%v: memref<{element}x11>, %m: memref<{element}x11>, %old: memref<{element}x11>) {{
        foreach (%i) = (0), (11) {{
            %a = load %v[%i] : {element}
            %b = atomic_{function}.device.acquire_release %a, %m[%i] : {element}
            store %b, %old[%i]
        }}
    }}""", others, memory, old)
    with np.errstate(over="ignore"):
        expected = {"add": np.add, "min": np.minimum, "max": np.maximum}[function](values, others)
    np.testing.assert_array_equal(old, values)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("target", _FEW, ids=str)
@pytest.mark.parametrize("element", ["i8", "u16", "f16", "i32", "f64"])
def test_loads_and_stores_of_each_type(target, element):
    dtype = {**DTYPES, "f16": "float16"}[element]
    given, memory, back = np.arange(1, 12).astype(dtype), np.zeros(11, dtype), np.zeros(11, dtype)
    target.run(f"""func @f(%v: memref<{element}x11>, %m: memref<{element}x11>, %back: memref<{element}x11>) {{
        foreach (%i) = (0), (11) {{
            %a = atomic_load %v[%i] : {element}
            atomic_store.device %a, %m[%i]
            %b = atomic_load.device.sequentially_consistent %m[%i] : {element}
            store %b, %back[%i]
        }}
    }}""", given, memory, back)
    np.testing.assert_array_equal(memory, given)
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("element", ["c32", "c64"])
def test_complex_numbers(target, element):
    """All work-groups add to the same elements; what each adds is exact in any order."""
    dtype = np.dtype({"c32": np.complex64, "c64": np.complex128}[element])
    values = (np.arange(55) + 1j * np.arange(55)[::-1]).astype(dtype).reshape((11, 5), order="F")
    memory, old, back = np.full(11, 3 - 2j, dtype), np.zeros((11, 5), dtype, order="F"), np.zeros(11, dtype)
    target.run(f"""func @f(%v: memref<{element}x11x?>, %m: memref<{element}x11>, %old: memref<{element}x11x?>,
                           %back: memref<{element}x11>) {{
        %g = group_id
        foreach (%i) = (0), (11) {{
            %a = atomic_load.device.acquire %v[%i, %g] : {element}
            %b = atomic_add.device.acquire_release %a, %m[%i] : {element}
            atomic_store %b, %old[%i, %g]
        }}
        %t = alloca : memref<{element}x2,local>
        atomic_store [1.0, 2.0], %t[1]
        %c = atomic_add [0.5, -4.0], %t[1] : {element}
        %d = atomic_load %t[1] : {element}
        %e = add %c, %d : {element}
        foreach (%i) = (0), (11) {{ atomic_store %e, %back[%i] }}
    }}""", values, memory, old, back)
    np.testing.assert_array_equal(memory, 3 - 2j + values.sum(axis=1))
    np.testing.assert_array_equal(back, np.full(11, 2.5 + 0j, dtype))
    for before, added, after in zip(old, values, memory, strict=True):
        # In each part the values found are sums of what some of the work-groups added before.
        for part in ("real", "imag"):
            seen, step = getattr(before, part), getattr(added, part)
            order = np.argsort(seen, kind="stable")
            assert seen[order][0] == getattr(np.complex128(3 - 2j), part)
            np.testing.assert_array_equal(np.sort(seen + step)[-1], getattr(after, part))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_histogram_in_local_memory(target):
    """Atomic accesses are ordered with those before and after, views included."""
    keys = np.random.default_rng(0).integers(0, 8, (100, 3)).astype(np.int64)
    keys, counts = np.asfortranarray(keys), np.zeros((8, 3), np.int32, order="F")
    target.run("""func @f(%keys: memref<indexx100x?>, %counts: memref<i32x8x?>) {
        %g = group_id
        %t = alloca : memref<i32x8x2,local>
        %h = subview %t[:, 1] : memref<i32x8,local>
        foreach (%i, %k) = (0, 0), (8, 2) { store 0, %t[%i, %k] }
        foreach (%i) = (0), (100) {
            %key = load %keys[%i, %g] : index
            %old = atomic_add 1, %h[%key] : i32
        }
        foreach (%i) = (0), (8) {
            %count = load %h[%i] : i32
            store %count, %counts[%i, %g]
        }
    }""", keys, counts)
    np.testing.assert_array_equal(counts.T, [np.bincount(column, minlength=8) for column in keys.T])


@pytest.mark.parametrize("target", _FEW, ids=str)
def test_a_nan_loses(target):
    memory, old = np.array([np.nan, 1, np.nan], np.float32), np.zeros(3, np.float32)
    target.run("""func @f(%v: memref<f32x3>, %m: memref<f32x3>, %old: memref<f32x3>) {
        foreach (%i) = (0), (3) {
            %a = load %v[%i] : f32
            %b = atomic_min %a, %m[%i] : f32
            store %b, %old[%i]
        }
    }""", np.array([2, np.nan, np.nan], np.float32), memory, old)
    np.testing.assert_array_equal(memory, np.array([2, 1, np.nan], np.float32))
    np.testing.assert_array_equal(old, np.array([np.nan, 1, np.nan], np.float32))


@pytest.mark.parametrize("target", [target for target in _FEW if target.layout is not None], ids=str)
def test_what_devices_lack_is_named(target):
    from tl_dpnp.errors import UnsupportedError

    source = "func @f(%m: memref<f32x3>) {\n%a = atomic_load.cross_device %m[0] : f32\n}"
    with pytest.raises(UnsupportedError, match=r"instruction atomic_load has the scope \.cross_device") as caught:
        target.run(source, np.zeros(3, np.float32))
    assert caught.value.diagnostics[0].span.line == 2


@pytest.mark.parametrize("target", _FEW, ids=str)
def test_indices_are_checked(target):
    from tl_dpnp.errors import TLBoundsError

    with pytest.raises(TLBoundsError, match="3"):
        target.run("func @f(%m: memref<f32x?>, %i: index) { %a = atomic_add 1.0, %m[%i] : f32 }",
                   np.zeros(3, np.float32), 3, debug=True)
