"""Loads and stores of vectors whose lanes are anywhere: every lane gets its element, and nothing else is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tl_dpnp.lowering.emission.patterns import Offset, are_neighbours, load_pattern, store_runs
from tl_dpnp.lowering.emission.variables import Narrowest, pieces, with_last_filled

widths = st.sampled_from([2, 4, 8, 16])


@st.composite
def offsets(draw: st.DrawFn, *, distinct: bool = False) -> list[Offset]:
    width = draw(widths)
    element = st.builds(Offset, st.sampled_from([(), (("A_stride1", 2),)]), st.integers(0, 40))
    run = st.builds(lambda first: [first.next(i) for i in range(width)], element)
    scattered = st.lists(element, min_size=width, max_size=width, unique=distinct)
    return draw(st.one_of(run, scattered))


@given(offsets(), widths, st.sampled_from([None, 56, 64]))
def test_each_lane_is_loaded_from_its_place(lanes, width, extent):
    pattern = load_pattern(tuple(lanes), max(width, len(lanes)), extent)
    assert [pattern.chunks[chunk].start.next(place) for chunk, place in pattern.lanes] == lanes
    for chunk in pattern.chunks:
        assert chunk.width in (1, 2, 4, 8, 16)
        if extent is None:
            assert {chunk.start.next(i) for i in range(chunk.width)} <= set(lanes)
        elif not chunk.start.strides:
            assert chunk.start.known >= 0
            assert chunk.start.known + chunk.width <= extent


def test_neighbours_are_loaded_together():
    consecutive = tuple(Offset((), i) for i in range(16))
    assert len(load_pattern(consecutive, 16, None).chunks) == 1


def test_what_lanes_share_is_loaded_once():
    pattern = load_pattern(tuple(Offset((), i % 4) for i in range(16)), 16, None)
    assert [chunk.width for chunk in pattern.chunks] == [4]


def test_a_small_buffer_is_loaded_in_whole_vectors():
    columns = tuple(Offset((), 4 * (i // 4)) for i in range(16))
    assert [(chunk.start.known, chunk.width) for chunk in load_pattern(columns, 16, 16).chunks] == [(0, 16)]
    assert [chunk.width for chunk in load_pattern(columns, 16, None).chunks] == [1, 1, 1, 1]


@given(offsets(distinct=True), st.integers(0, 3))
def test_each_lane_is_stored_to_its_place_alone(lanes, repeated):
    lanes = [*lanes[: len(lanes) - repeated], *[lanes[-1 - repeated]] * repeated] if repeated < len(lanes) else lanes
    stored: dict[Offset, Offset] = {}
    for first, chunk in store_runs(lanes):
        for i in range(chunk.width):
            stored[chunk.start.next(i)] = lanes[first + i]
    assert stored == {offset: offset for offset in lanes}


def test_two_shared_elements_are_mixed_from_whole_vectors_of_each():
    offsets = (Offset((), 0),) * 8 + (Offset((), 1),) * 8
    together, apart = load_pattern(offsets, 16, None), load_pattern(offsets, 16, None, shared=True)
    assert [chunk.width for chunk in together.chunks] == [2]
    assert [chunk.width for chunk in apart.chunks] == [1, 1]
    assert [number for number, _ in apart.lanes] == [0] * 8 + [1] * 8


@pytest.mark.parametrize(("lanes", "follow"), [((3, 4, 5), True), ((0,), True), ((2, 3, 3), False), ((0, 2), False)])
def test_neighbours_follow_one_another(lanes, follow):
    assert are_neighbours([Offset((), lane) for lane in lanes]) == follow


@given(st.integers(1, 80), st.sampled_from([2, 4, 8, 16]), st.booleans())
def test_pieces_at_the_end_are_one_vector_where_lanes_may_stay_empty(count, width, has_scalars):
    narrowest = Narrowest(min(width, 4), has_scalars)
    cuts = with_last_filled(pieces(count, width), width, narrowest)
    assert all((lanes == 1 and has_scalars) or lanes == width or lanes >= narrowest.lanes for _, lanes in cuts)
    assert sum(lanes < width for _, lanes in cuts) <= 1
    done = 0
    for start, lanes in cuts:
        assert start == done
        assert lanes <= width
        done += lanes
    assert count <= done < count + width
