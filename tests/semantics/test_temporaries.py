"""What loops copy between temporaries is what they hold."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import DTYPES, TARGETS, fortran
from tests.semantics.test_work_items import check

_TARGETS = [target for target in TARGETS if target.name in ("vector", "one_subgroup")]


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("element", ["f32", "f64", "i16"])
@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 1), (1, 7), (3, 5), (6, 2), (5, 3)])
def test_temporaries_that_change_places_in_a_loop(target, element, rows, columns):
    """LLVM read a vector of one again after it had been written, where chunks of copies overlapped (on AVX)."""
    local, flat = (f"memref<{element}x{shape},local>" for shape in (f"{rows}x{columns}", rows * columns))
    whole, part = f"memref<{element}x32x{columns}>", f"memref<{element}x{rows}x{columns},strided<1,32>>"
    source = "\n".join([
        f"func @f(%from: {whole}, %to: {whole}) {{",
        f"%x = subview %from[0:{rows},0:{columns}] : {part}",
        f"%z = subview %to[0:{rows},0:{columns}] : {part}  %w = subview %to[8:{rows},0:{columns}] : {part}",
        *(f"%{name} = alloca : {local}" for name in "abst"),
        "axpby.n 1, %x, 0, %a  axpby.n 1, %a, 0, %b  %zero = constant 0 : i32  %two = constant 2 : i32",
        "for %k = %zero, %two : i32 {",
        f"%af = fuse %a[0,1] : {flat}  %bf = fuse %b[0,1] : {flat}",
        f"foreach (%i)=(0),({rows * columns}) {{",
        f"%u = load %af[%i] : {flat}  %v = load %bf[%i] : {flat}  %c = add %u, %v : {element}",
        f"store %c, %bf[%i] : {flat} }}",
        "axpby.n 1, %b, 0, %s  axpby.n 1, %a, 0, %t  axpby.n 1, %s, 0, %a  axpby.n 1, %t, 0, %b }",
        "axpby.n 1, %a, 0, %z  axpby.n 1, %b, 0, %w }",
    ])
    x, z = fortran(np.arange(32 * columns).reshape(32, columns) % 7 + 1, DTYPES[element]), np.zeros((32, columns))
    check(target, source, x, fortran(z, DTYPES[element]))
