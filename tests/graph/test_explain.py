"""explain says what was fused, and where and why fusion ended."""

import inspect
import json
import xml.etree.ElementTree as ElementTree

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.errors import TLTypeError


def _random(*shape, seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


A, B = _random(5, 4, 4), _random(4, 4, seed=1)


def branches(a, b):
    c = a @ b
    if (c * c).sum(axis=(1, 2)).sum() > 0:  # branch
        c = c + 1
    print(c[0, 0, 0])  # print
    rows = c[dpnp.asarray([0, 2]), 0] * 2  # index
    host = rows.asnumpy()  # copy
    return dpnp.sort(rows) + float(host[0, 0])  # left


def test_each_break_is_named_at_its_line(capsys):
    lines, first = inspect.getsourcelines(branches)
    marked = {line.rpartition("# ")[2].strip(): first + i for i, line in enumerate(lines) if "# " in line}
    explanation = tl_dpnp.explain(branches)(A, B)
    places = {(b.line, b.what) for b in explanation.breaks}
    assert {(marked["branch"], "__bool__ of an array"), (marked["index"], "indexing"),
            (marked["copy"], "asnumpy of an array"), (marked["left"], "sort")} <= places
    assert any(line == marked["print"] for line, _ in places)
    assert all(b.file == __file__ and b.reason for b in explanation.breaks)
    assert {marked["branch"], marked["print"], marked["copy"]} <= {b.line for b in explanation.again}
    compare("branches", tl_dpnp.fuse(branches)(A, B), branches(A, B))
    printed = capsys.readouterr().out.split()
    assert len(printed) == 3
    assert len(set(printed)) == 1


def chain(a, b):
    return 2.0 * (a @ b.T @ b) + a


def test_the_numbers_are_those_of_the_arrays():
    explanation = tl_dpnp.explain(chain)(A, B)
    matrices, weights = 5 * 16 * 4, 16 * 4
    assert (explanation.launches_before, explanation.launches) == (4, 1)
    assert explanation.bytes == 2 * matrices + 2 * weights  # a, the result; b as it is and transposed
    assert explanation.bytes_before == 4 * 2 * matrices + matrices + 2 * weights
    kernel = explanation.kernels[0]
    assert kernel.groups == 5
    assert kernel.flops == 2 * (2 * 5 * 64 + 2 * 80)
    assert [operation.name.split()[0] for operation in kernel.operations] == ["product", "product", "multiply", "add"]
    assert {operation.line for operation in kernel.operations} == {inspect.getsourcelines(chain)[1] + 1}


def test_the_text_has_the_kernel_and_its_schedule():
    text = str(tl_dpnp.explain(chain)(A, B))
    assert "4 operations became 1 kernel and 0 calls of dpnp" in text
    assert "func @fused_matmul_matmul_multiply_add(" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  gemm")] == ["gemm.t", "gemm"]
    assert text.count("# gemm") == 2  # their schedules


def test_it_is_also_data_and_a_picture():
    explanation = tl_dpnp.fuse(branches).explain(A, B)
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data["launches"] == len(data["kernels"]) + len(data["calls"])
    assert all(kernel["source"].startswith("func @") for kernel in data["kernels"])
    picture = ElementTree.fromstring(explanation.svg())
    frames = [e for e in picture.iter("{http://www.w3.org/2000/svg}rect") if e.get("stroke-dasharray")]
    assert len(frames) == len(explanation.kernels)
    captions = [e for e in picture.iter("{http://www.w3.org/2000/svg}text") if e.text.startswith("@")]
    for frame, caption in zip(frames, captions, strict=True):  # DejaVu Sans, a wide font, takes 6.2 for a character
        assert int(caption.get("x")) + 6.2 * len(caption.text) <= int(frame.get("x")) + int(frame.get("width"))


def test_a_method_and_what_is_no_function():
    class Model:
        weight = B

        @tl_dpnp.fuse
        def __call__(self, x):
            return x @ self.weight

        @tl_dpnp.fuse
        def twice(self, x):
            return x @ self.weight @ self.weight

    assert len(tl_dpnp.explain(Model().twice)(A).kernels) == 1
    with pytest.raises(TLTypeError, match="explain takes a function"):
        tl_dpnp.explain(3)


@pytest.mark.parametrize("shapes", [((1600, 1600), (1600, 1600)), ((20, 20), (20, 110_000))])
def test_large_products_are_left_to_dpnp(shapes):
    explanation = tl_dpnp.explain(lambda a, b: a @ b + 1)(*(dpnp.ones(shape, dtype="f4") for shape in shapes))
    assert explanation.calls == ("matmul",)
    assert "faster" in explanation.breaks[0].reason
    assert not explanation.again


@pytest.mark.parametrize("shapes", [((24, 24), (25_000, 24, 4)), ((100_000, 24), (24, 24))])
def test_products_of_one_small_matrix_are_fused(shapes):
    explanation = tl_dpnp.explain(lambda a, b: a @ b)(*(dpnp.ones(shape, dtype="f4") for shape in shapes))
    assert (len(explanation.kernels), explanation.calls) == (1, ())
    assert not explanation.breaks
