"""The code of products by warps computes what it should, thread by thread, for sizes that no tile divides."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from tests.kernels.lockstep import compute
from tl_dpnp.kernels.mma import padded_product
from tl_dpnp.kernels.mma.padded_product import find_padded_product
from tl_dpnp.kernels.mma.word_order import WordOrder, conflicts


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "element", "warps", "joined", "transposes", "stride"), [
    (56, 9, 56, "f64", 2, 6, "nn", 58),  # the volume kernel, with lanes that read pairs
    (56, 9, 9, "f64", 2, 1, "nn", 56),
    (35, 9, 35, "f64", 1, 3, "nn", 35),
    (3, 5, 7, "f64", 2, 1, "tt", 7),
    (17, 10, 1, "f64", 3, 1, "nt", 17),
    (24, 9, 13, "tf32", 2, 4, "tn", 14),
    (33, 10, 20, "f16", 2, 1, "nt", 33),
    (16, 8, 9, "f16", 1, 1, "tn", 9),
    (31, 31, 31, "f16", 2, 1, "nn", 31),  # lines of a tile that are apart
    (63, 33, 18, "f16", 2, 1, "tn", 31),
    (37, 11, 22, "f16", 2, 1, "tn", 24),  # elements along the sum that are words in memory
    *((37, 26, k, "f16", 2, 1, "tn", k) for k in (16, 32, 48, 64, 80)),  # lines that begin in the same banks
    (20, 30, 32, "f16", 1, 1, "tt", 64),
    (50, 44, 64, "f16", 2, 1, "nn", 50),
    (21, 19, 56, "f16", 1, 1, "tn", 64),
    *((64, n, 35, "f16", warps, 1, "nn", 64) for n, warps in ((43, 2), (20, 1), (9, 3))),  # and terms that do
    (37, 64, 33, "f16", 2, 1, "nt", 64), (64, 64, 19, "f16", 1, 1, "nt", 64), (60, 44, 40, "f16", 2, 1, "nt", 64),
])
def test_threads_compute_the_product(m, n, k, element, warps, joined, transposes, stride, is_turned):
    found = find_padded_product(element, m, n, k, warps, joined=joined)
    product = replace(found, is_turned=is_turned)
    random = np.random.default_rng(0)
    dtype = {"f64": "float64", "tf32": "float32", "f16": "float16"}[element]
    columns = n * joined
    a, b = (random.integers(-4, 5, size).astype(dtype) for size in (stride * max(m, k), columns * k))
    c = random.integers(-4, 5, m * columns).astype("float32" if element == "f16" else dtype)
    # What lies between the columns is not read.
    shape = (k, m) if transposes[0] == "t" else (m, k)
    whole = a[: stride * shape[1]].reshape(shape[1], stride).T
    whole[shape[0] :] = np.nan
    left = whole[: shape[0]].T if transposes[0] == "t" else whole[: shape[0]]
    right = b.reshape(k, columns) if transposes[1] == "t" else b.reshape(columns, k).T
    expected = 2 * left.astype(float) @ right.astype(float) - c.reshape(columns, m).T
    strides = ((stride, 1) if transposes[0] == "t" else (1, stride),
               (columns, 1) if transposes[1] == "t" else (1, k), (1, m))
    compute(product, (a, b, c), strides, 16, lambda total, old: 2 * total - old)
    np.testing.assert_array_equal(c.reshape(columns, m).T, expected)


def test_warps_share_tiles_evenly():
    product = find_padded_product("f64", 56, 9, 56, 2, joined=6)
    assert product is not None
    assert (product.is_turned, product.tiles, product.parts) == (True, (4, 7), (4, 3))


def test_lines_of_tiles_are_apart_where_fewer_lanes_use_a_bank():
    product = find_padded_product("f16", 31, 31, 31, 2)
    assert product is not None
    assert product.distances((1, 31), (1, 31), (1, 31)) != (1, 1)
    assert product.distances((1, 40), (1, 40), (1, 40)) == (1, 1)


@pytest.mark.parametrize(("k", "accesses"), [(16, 2), (32, 1), (40, 1), (48, 2), (64, 2), (128, 2)])
def test_lanes_whose_lines_begin_in_the_same_banks_read_other_words(k, accesses):
    product = find_padded_product("f16", 32, 32, k, 1)
    assert product is not None
    work = product.work(((k, 1), (1, k), (1, 32)), (16, 16), 2, False)
    stores = product.work(((40, 1), (1, 40), (1, 32)), (16, 16), 2, False)
    plain = stores.accesses - stores.loads  # each of which is one access
    assert (work.accesses - plain) / work.loads == accesses


@pytest.mark.parametrize(("m", "part"), [(56, 1), (64, 0.6)])
def test_lanes_whose_terms_begin_in_the_same_banks_access_other_lines(m, part):
    """Part of what is accessed if all lanes access lines in the same order."""
    product = find_padded_product("f16", m, 44, 64, 2)
    assert product is not None
    strides = (1, m), (1, 64), (1, m)
    own = product.work(strides, (16, 16), 2, False).accesses
    with mock.patch.object(padded_product, "best_order", lambda addresses, size, *_: (
            WordOrder(), conflicts(addresses, size))):
        assert own <= part * product.work(strides, (16, 16), 2, False).accesses


def test_columns_far_enough_apart_are_read_at_once():
    product = find_padded_product("f64", 56, 9, 56, 2, joined=6)
    assert product is not None
    assert product.accesses((1, 58), (1, 56)) == (20, True)
    assert product.accesses((1, 56), (1, 56))[0] > 30
