"""Memory without elements: what the language says of linear algebra, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS, memref

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]
#: Instructions whose sums are over a mode of size 0, and the order of their results.
SUMS = {"gemm.n.n": ("%wide, %high", 2), "gemm.t.t": ("%high, %wide", 2), "gemv.n": ("%wide, %none", 1),
        "gemv.t": ("%high, %none", 1), "sum.n": ("%wide", 1), "sum.t": ("%high", 1)}


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype"), [("f32", "float32"), ("f16", "float16"), ("c32", "complex64")])
def test_an_empty_sum_adds_nothing_whatever_alpha_is(target, element, dtype):
    """An alpha that is infinite or NaN is no exception, given or constant: the output becomes beta times itself."""
    types = {"%wide": "??", "%high": "??", "%none": "?", 2: "??", 1: "?"}
    types = {name: memref(element, *sizes) for name, sizes in types.items()}
    results = {(name, alpha): f"%r{number}" for number, (name, alpha) in enumerate(
        (name, alpha) for name in SUMS for alpha in ("%alpha", "nan"))}
    lines = [f"{name} {alpha}, {inputs}, 2.0, {results[name, alpha]} : {element}, "
             f"{', '.join(types[each] for each in inputs.split(', '))}, {element}, {types[order]}"
             for name, (inputs, order) in SUMS.items() for alpha in ("%alpha", "nan")]
    parameters = [f"{name}: {types[name]}" for name in ("%wide", "%high", "%none")]
    parameters += [f"{result}: {types[SUMS[name][1]]}" for (name, _), result in results.items()]
    source = f"func @f(%alpha: {element}, {', '.join(parameters)}) {{\n" + "\n".join(lines) + "\n}"
    inputs = [np.zeros(shape, dtype, order="F") for shape in ((3, 0), (0, 3), (0,))]
    for alpha in (2.0, np.inf, -np.inf, np.nan):
        outputs = [np.full((3,) * SUMS[name][1], 3, dtype, order="F") for name, _ in results]
        target.run(source, alpha, *inputs, *outputs, group_size=1)
        for output in outputs:
            np.testing.assert_array_equal(output, np.full_like(output, 6))
