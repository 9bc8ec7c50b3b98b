"""``expandc2r``: complex elements seen as pairs of reals, on each target."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS, Group, fortran
from tl_dpnp.errors import TLVerifyError
from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder, memref
from tl_dpnp.language.parser import parse
from tl_dpnp.scalars import C32

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]
TYPES = pytest.mark.parametrize(("element", "part", "dtype"),
                                [("c32", "f32", "complex64"), ("c64", "f64", "complex128")])


def drawn(seed, *shape, dtype):
    rng = np.random.default_rng(seed)
    return fortran(rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape), dtype)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@TYPES
def test_parts_of_parameters_and_temporaries(target, element, part, dtype):
    """What is written through a view is there in what it views, and the other way round; strides may be dynamic."""
    x, y = drawn(0, 10, 3, dtype=dtype), drawn(1, 8, dtype=dtype)
    expected_x, expected_y = x.copy(order="F"), y.copy()
    expected_x[:8, 0].real *= 3
    expected_y.imag = x[:8, 1].imag + 2 * y.real
    target.run(f"""func @f(%x: memref<{element}x8x?,strided<1,?>>, %y: memref<{element}x8>) {{
        %t = alloca : memref<{element}x8,local>
        axpby 2, %y, 0, %t
        %v = expandc2r %x : memref<{part}x2x8x?,strided<1,2,?>>
        %w = expandc2r %y : memref<{part}x2x8>
        %u = expandc2r %t : memref<{part}x2x8,local>
        foreach (%i) = (0), (8) {{
            %a = load %v[1, %i, 1] : {part}
            %b = load %u[0, %i] : {part}
            %c = add %a, %b : {part}
            store %c, %w[1, %i]
        }}
        %z = subview %v[0, 0:8, 0] : memref<{part}x8,strided<2>>
        axpby 2, %z, 1, %z
    }}""", x[:8], y)
    np.testing.assert_array_equal(x, expected_x)
    np.testing.assert_array_equal(y, expected_y)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_a_batch_and_a_group(target):
    """Views move with the work-group."""
    x, arrays = drawn(2, 4, 5, dtype="complex64"), [drawn(3 + i, 6, dtype="complex64") for i in range(5)]
    expected = [array.copy() for array in arrays]
    for array, column in zip(expected, x.T, strict=True):
        array[2:].real += column.imag
    target.run("""func @f(%x: memref<c32x4x?>, %g: group<memref<c32x4>, offset: 2>) {
        %i = group_id.x : index
        %column = subview %x[0:4, %i] : memref<c32x4>
        %m = load %g[%i] : memref<c32x4>
        %a = expandc2r %column : memref<f32x2x4>
        %b = expandc2r %m : memref<f32x2x4>
        %from = subview %a[1, 0:4] : memref<f32x4,strided<2>>
        %to = subview %b[0, 0:4] : memref<f32x4,strided<2>>
        axpby 1, %from, 1, %to
    }""", x, Group([array[:4] for array in arrays], 2))
    for array, wanted in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_the_builder_has_it():
    b = FunctionBuilder("f", {"x": memref(C32, 4, None)})
    view = b.expandc2r(b.x)
    assert str(view.type) == "memref<f32x2x4x?>"
    assert isinstance(b.function().body.operations[0], ops.Expandc2r)


@pytest.mark.parametrize(("type", "result", "message"), [
    ("memref<f32x4>", "memref<f32x2x4>", "works on complex elements, not on f32"),
    ("memref<c32x4>", "memref<f32x4x2>", "hint: write memref<f32x2x4>"),
    ("memref<c32x4>", "memref<f64x2x4>", "hint: write memref<f32x2x4>"),
    ("c32", "memref<f32x2x4>", "expandc2r needs a memref"),
])
def test_what_is_refused(type, result, message):
    with pytest.raises(TLVerifyError, match=message):
        parse(f"func @f(%x: {type}) {{ %v = expandc2r %x : {result} }}")
