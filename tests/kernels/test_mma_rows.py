"""The tables of the tensor cores are consistent, and their models compute what the language means."""

from __future__ import annotations

import numpy as np
import pytest

import tl_dpnp
from tests.kernels.mma_model import fragments, matrix, model, random_operands
from tl_dpnp.kernels.mma.moves import MATRIX_LOADS
from tl_dpnp.kernels.mma.rows import LANES, ROWS
from tl_dpnp.kernels.mma.sparse import SPARSE_ROWS, metadata_words, pack, selectors, unpack

ALL = ROWS | SPARSE_ROWS
#: The names of the language for elements that it has.
NAMES = {"f16": "f16", "bf16": "bf16", "tf32": "f32", "f64": "f64", "s8": "i8", "u8": "u8", "f32": "f32", "s32": "i32"}


def test_the_table_has_every_form():
    assert len(ROWS) == 4 + 2 + 2 + 4 + 4 + 24 + 6
    assert ROWS["m16n8k16_f16_f16_f32"].instruction == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    assert ROWS["m16n8k256_b1_b1_s32_and"].instruction.endswith("m16n8k256.row.col.s32.b1.b1.s32.and.popc")


@pytest.mark.parametrize("name", ALL)
def test_lanes_hold_each_element_once(name):
    row = ALL[name]
    for operand in ("a", "b", "c", "d"):
        held = [row.place(operand, lane, word, part) for lane in range(LANES) for word in range(row.words(operand))
                for part in range(row.parts(operand))]
        assert sorted(held) == [(i, j) for i in range(row.rows(operand)) for j in range(row.columns(operand))]
        values = np.arange(len(held)).reshape(row.rows(operand), row.columns(operand)) % 2
        np.testing.assert_array_equal(matrix(row, operand, fragments(row, operand, values)), values)


@pytest.mark.parametrize("name", [name for name, row in ALL.items() if {row.a.name, row.b.name} <= set(NAMES)])
def test_the_model_agrees_with_the_interpreter(name):
    row = ALL[name]
    a, b, c = random_operands(row)
    types = [NAMES[element.name] for element in (row.a, row.b, row.c)]
    memrefs = [f"memref<{t}x{i}x{j}>" for t, (i, j) in zip(types, (a.shape, b.shape, c.shape), strict=True)]
    source = f"""func @f(%A: {memrefs[0]}, %B: {memrefs[1]}, %C: {memrefs[2]}) {{
        gemm.n.n {1 if types[2] == "i32" else 1.0}, %A, %B, {1 if types[2] == "i32" else 1.0}, %C
            : {types[2]}, {memrefs[0]}, {memrefs[1]}, {types[2]}, {memrefs[2]}
    }}"""
    dtypes = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8", "i32": "int32"}

    def held(values, name):
        if name == "bf16":
            return np.asfortranarray((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
        return np.asfortranarray(values.astype(dtypes[name]))

    arrays = [held(values, t) for values, t in zip((a, b, c), types, strict=True)]
    tl_dpnp.compile(source, target="reference")(*arrays, group_size=1)
    kept, places = pack(a) if row.sparse else (a, None)
    words = model(row, fragments(row, "a", kept), fragments(row, "b", b), fragments(row, "c", c), places)
    np.testing.assert_array_equal(matrix(row, "d", words), arrays[2])


def test_packing_keeps_what_is_not_zero():
    random = np.random.default_rng(0)
    keep = np.argsort(random.random((16, 8, 4)), axis=2) < 2
    sparse = (random.integers(-3, 4, (16, 32)) * keep.reshape(16, 32)).astype(np.float32)
    kept, places = pack(sparse)
    assert kept.shape == places.shape == (16, 16)
    assert (np.diff(places.reshape(16, 8, 2), axis=2) > 0).all()
    np.testing.assert_array_equal(unpack(kept, places), sparse)
    with pytest.raises(ValueError, match="more than two of four"):
        pack(np.ones((16, 16)))


@pytest.mark.parametrize("name", SPARSE_ROWS)
def test_metadata_comes_from_the_selected_lanes(name):
    row = SPARSE_ROWS[name]
    _, places = pack(random_operands(row)[0])
    for selector in range(selectors(row)):
        words = metadata_words(row, places, selector)
        giving = {lane % 4 for lane in range(LANES) if words[lane]}
        assert giving == ({selector} if row.k == 16 else {2 * selector, 2 * selector + 1})


@pytest.mark.parametrize("name", MATRIX_LOADS)
def test_matrix_loads_give_each_element_to_one_lane(name):
    load = MATRIX_LOADS[name]
    held = [load.place(lane, part) for lane in range(LANES) for part in range(2)]
    assert sorted(held) == [(i, j) for i in range(8) for j in range(8)]
