"""Each row of the engine's tables becomes its instruction, and on a GPU that computes what its model does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.engine_probes import copy_probe, load_probe, mma_probe, run, warpgroup_probe
from tests.kernels import warpgroup_model
from tests.kernels.mma_model import fragments, matrix, model, random_operands
from tl_dpnp.kernels.mma.moves import COPIES, MATRIX_LOADS
from tl_dpnp.kernels.mma.rows import LANES, ROWS
from tl_dpnp.kernels.mma.sparse import SPARSE_ROWS, metadata_words, pack, selectors
from tl_dpnp.kernels.mma.warpgroup import THREADS, WARPGROUP_ROWS
from tl_dpnp.lowering.device import H200
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.runtime.cuda.ptx import link

on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")

#: Rows of all types: the narrowest and the widest, and one between; with the layouts of A and B.
WARPGROUP_CASES = [
    (name, *layouts) for name, row in WARPGROUP_ROWS.items() if row.n in (8, 80, 256)
    for layouts in ([(True, True), (False, True), (True, False), (False, False)] if row.transposes and row.n != 8 else
                    [(True, True)])
]


@pytest.mark.parametrize("name", ROWS | SPARSE_ROWS)
def test_products_compile(name):
    row = (ROWS | SPARSE_ROWS)[name]
    kernel = mma_probe(row)
    assert row.instruction + " {" in kernel.binary.decode()
    link(kernel, H200)  # the assembler takes it for Hopper


@pytest.mark.parametrize("name", MATRIX_LOADS)
def test_matrix_loads_compile(name):
    kernel = load_probe(MATRIX_LOADS[name])
    assert MATRIX_LOADS[name].instruction in kernel.binary.decode()
    link(kernel, H200)


@pytest.mark.parametrize("name", COPIES)
def test_copies_compile(name):
    kernel = copy_probe(COPIES[name])
    ptx = kernel.binary.decode()
    for instruction in (COPIES[name].instruction, "cp.async.commit_group", "cp.async.wait_group 0"):
        assert instruction in ptx
    link(kernel, H200)


@on_device
@pytest.mark.parametrize("name", ROWS)
def test_products_on_the_device(name):
    row = ROWS[name]
    for seed in range(2):
        a, b, c = random_operands(row, seed)
        words = [fragments(row, operand, values) for operand, values in zip("abc", (a, b, c), strict=True)]
        result = np.zeros((LANES, row.words("d")), np.uint64)
        run(mma_probe(row), *words, result)
        np.testing.assert_array_equal(matrix(row, "d", result), matrix(row, "d", model(row, *words)))


@on_device
@pytest.mark.parametrize("name", SPARSE_ROWS)
def test_sparse_products_on_the_device(name):
    row = SPARSE_ROWS[name]
    a, b, c = random_operands(row)
    kept, places = pack(a)
    words = [fragments(row, operand, values) for operand, values in zip("abc", (kept, b, c), strict=True)]
    for selector in range(selectors(row)):
        metadata = metadata_words(row, places, selector).astype(np.uint64).reshape(LANES, 1)
        result = np.zeros((LANES, row.words("d")), np.uint64)
        run(mma_probe(row, selector), *words, metadata, result)
        np.testing.assert_array_equal(matrix(row, "d", result), matrix(row, "d", model(row, *words, places)))


@on_device
@pytest.mark.parametrize("name", MATRIX_LOADS)
def test_matrix_loads_on_the_device(name):
    load = MATRIX_LOADS[name]
    memory = np.arange(512, dtype=np.uint16)  # rows of eight elements, one matrix after another
    result = np.zeros((LANES, load.count), np.uint64)
    run(load_probe(load), memory, result)
    matrices = memory[: 64 * load.count].reshape(load.count, 8, 8)
    for lane, number in np.ndindex(LANES, load.count):
        for part in range(2):
            i, j = load.place(lane, part)
            assert int(result[lane, number]) >> 16 * part & 0xFFFF == matrices[number, i, j]


@on_device
@pytest.mark.parametrize("name", COPIES)
def test_copies_on_the_device(name):
    copy = COPIES[name]
    source = np.random.default_rng(0).integers(1, 256, (LANES, copy.bytes), dtype=np.uint8)
    result = np.zeros((LANES, copy.bytes), np.uint8)
    run(copy_probe(copy), source, result)
    expected = source.copy()
    if copy.partial:
        for lane in range(LANES):
            expected[lane, lane % (copy.bytes + 1) :] = 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("name", "a_along_k", "b_along_k"), WARPGROUP_CASES)
def test_products_of_warpgroups(name, a_along_k, b_along_k):
    row = WARPGROUP_ROWS[name]
    panels = warpgroup_model.panels(row, a_along_k, b_along_k)
    kernel = warpgroup_probe(row, *panels, row.k)
    ptx = kernel.binary.decode()
    assert row.instruction + " {" in ptx
    assert ".target sm_90a" in ptx
    link(kernel, H200)
    if device_count():
        a, b, before = warpgroup_model.random_operands(row)
        images = [warpgroup_model.image(panel, element, values, row.k)
                  for panel, element, values in zip(panels, (row.a, row.b), (a, b.T), strict=True)]
        words = warpgroup_model.fragments(row, before)
        result = np.zeros((THREADS, row.words), np.uint64)
        run(kernel, *images, words, result)
        expected = warpgroup_model.model(row, panels, images, words, row.k)
        np.testing.assert_array_equal(result & 0xFFFFFFFF, expected)
