"""The layouts of products by warpgroups: every element has one place, and the model of a product is its definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import warpgroup_model as model
from tl_dpnp.kernels.mma.warpgroup import THREADS, WARPGROUP_ROWS, Panel

LAYOUTS = [(True, True), (False, True), (True, False), (False, False)]


def test_the_table_has_all_forms():
    kinds = {}
    for row in WARPGROUP_ROWS.values():
        kinds.setdefault((row.k, row.a.name, row.b.name, row.c.name), []).append(row.n)
    assert len(kinds) == 4 + 8 + 4
    for (_, a, _, _), columns in kinds.items():
        assert sorted(columns) == ([8, 16, 24, *range(32, 257, 16)] if a in ("s8", "u8") else [*range(8, 257, 8)])


@pytest.mark.parametrize("name", ["m64n24k16_f16_f16_f16", "m64n40k16_bf16_bf16_f32"])
def test_every_element_of_the_result_has_one_place(name):
    row = WARPGROUP_ROWS[name]
    places = {row.place(thread, word, part) for thread in range(THREADS) for word in range(row.words)
              for part in range(row.parts)}
    assert places == {(i, j) for i in range(row.m) for j in range(row.n)}
    assert THREADS * row.words * row.parts == len(places)


@pytest.mark.parametrize("panel", [Panel(128, 64, 2, True), Panel(256, 64, 2, False), Panel(64, 32, 4, True),
                                   Panel(24, 128, 1, True)])
def test_every_element_of_a_panel_has_one_place(panel):
    places = {panel.offset(row, k) for row in range(panel.rows) for k in range(panel.depth)}
    assert places == set(range(0, panel.bytes, panel.size))
    assert panel.boxes * panel.box[0] * panel.box[1] * panel.size == panel.bytes
    # Descriptors go on along k by the same distance for all rows.
    assert {panel.offset(0, k + 16) - panel.offset(0, k) for k in (0, 16) if panel.depth > k + 16} <= {
        16 * panel.step(16)}


@pytest.mark.parametrize("name", ["m64n8k16_bf16_bf16_f32", "m64n24k32_u8_s8_s32", "m64n16k32_e4m3_e5m2_f16",
                                  "m64n72k8_tf32_tf32_f32"])
def test_the_model_is_the_definition(name):
    row = WARPGROUP_ROWS[name]
    for layouts in LAYOUTS if row.transposes else LAYOUTS[:1]:
        panels = model.panels(row, *layouts)
        a, b, d = model.random_operands(row)
        images = [model.image(panels[0], row.a, a, row.k), model.image(panels[1], row.b, b.T, row.k)]
        words = model.model(row, panels, images, model.fragments(row, d), row.k)
        np.testing.assert_array_equal(model.matrix(row, words), d + a @ b)
