"""What the walk over the IR finds: written parameters, batch modes, sizes that must be equal."""

from __future__ import annotations

import pytest

import tl_dpnp
from tl_dpnp.runtime.call.relations import Extent
from tl_dpnp.runtime.call.usage import analyse


def usage_of(text):
    (function,) = tl_dpnp.parse(text)
    return analyse(function)


def batch(text):
    return {(mode.parameter, mode.mode) for mode in usage_of(text).batch_modes}


WRITES = {
    "store": ("store %a, %x[%i] : memref<f32x?>", {0}),
    "store through views": (
        "%1 = expand %x[0 -> 2 x ?] : memref<f32x?>  %2 = subview %1[1, :] : memref<f32x2x?>"
        "  store %a, %2[%i] : memref<f32x?,strided<2>>", {0}),
    "collective": ("axpby.n %a, %x, 0.0, %y : f32, memref<f32x?>, f32, memref<f32x?>", {1}),
    "element of a group": (
        "%1 = load %g[%i] : group<memref<f32x4>>  store %a, %1[%i] : memref<f32x4>", {3}),
    "nested": ("for %k = 0, 3 { %c = cmp.lt %k, %i : index  if %c { store %a, %y[%k] : memref<f32x?> } }", {1}),
    "a temporary": ("%t = alloca -> memref<f32x4>  store %a, %t[%i] : memref<f32x4>", set()),
    "nothing": ("%1 = load %x[%i] : memref<f32x?>", set()),
}  # fmt: skip


@pytest.mark.parametrize(("body", "whole"), [
    ("%s = subview %x[:, :, %g] : memref<f32x4x?x?> "
     "axpby.n 1.0, %s, 0.0, %y : f32, memref<f32x4x?>, f32, memref<f32x4x?>",
     {(0, 0), (0, 1), (1, 0), (1, 1)}),
    ("%n = size %x[2] : memref<f32x4x?x?>  %e = load %x[1, %g, %n] : memref<f32x4x?x?>", set()),
    ("%s = subview %x[:, %g, :] : memref<f32x4x?x?>  %t = subview %s[:, %g] : memref<f32x4x?,strided<1,?>>",
     {(0, 0), (0, 2)}),
    ("%s = fuse %x[1, 2] : memref<f32x4x?x?>", {(0, 0), (0, 1), (0, 2)}),
    ("%s = subview %x[:, :, %g:1] : memref<f32x4x?x?>", {(0, 0), (0, 1), (0, 2)}),
])
def test_modes_that_are_more_than_indexed(body, whole):
    usage = usage_of(f"func @f(%x: memref<f32x4x?x?>, %y: memref<f32x4x?>) {{ %g = group_id {body} }}")
    assert usage.whole_modes == whole


@pytest.mark.parametrize(("body", "written"), WRITES.values(), ids=WRITES)
def test_written_parameters(body, written):
    header = "func @f(%x: memref<f32x?>, %y: memref<f32x?>, %a: f32, %g: group<memref<f32x4>>, %i: index)"
    assert usage_of(f"{header} {{ {body} }}").written == written


READS = {
    "load": ("%1 = load %x[%i] : memref<f32x?>", {0}),
    "an operand": ("axpby.n %a, %x, 0.0, %y : f32, memref<f32x?>, f32, memref<f32x?>", {0}),
    "an update": ("axpby.n %a, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>", {0, 1}),
    "an update by a scalar": ("axpby.n %a, %x, %a, %y : f32, memref<f32x?>, f32, memref<f32x?>", {0, 1}),
    "an atomic update": ("axpby.n.atomic %a, %x, 0.0, %y : f32, memref<f32x?>, f32, memref<f32x?>", {0, 1}),
    "an element of a group, not the group": ("%1 = load %g[%i] : group<memref<f32x4>>", set()),
    "a store": ("store %a, %x[%i] : memref<f32x?>", set()),
}  # fmt: skip


@pytest.mark.parametrize(("body", "read"), READS.values(), ids=READS)
def test_read_parameters(body, read):
    header = "func @f(%x: memref<f32x?>, %y: memref<f32x?>, %a: f32, %g: group<memref<f32x4>>, %i: index)"
    assert usage_of(f"{header} {{ {body} }}").read == read


BATCHES = {
    "group": ("%1 = load %g[%0] : group<memref<f32x4>>", {(1, None)}),
    "element": ("%1 = load %x[%i, %0, %i] : memref<f32x4x?x?>", {(0, 1)}),
    "store": ("store 1.0, %x[%i, %i, %0] : memref<f32x4x?x?>", {(0, 2)}),
    "subview": ("%1 = subview %x[:, :, %0] : memref<f32x4x?x?>", {(0, 2)}),
    "subview of one element": ("%1 = subview %x[:, %0:1, :] : memref<f32x4x?x?>", {(0, 1)}),
    "subview of more": ("%1 = subview %x[:, %0:2, :] : memref<f32x4x?x?>", set()),
    "view of a view": ("%1 = subview %x[%i, :, :] : memref<f32x4x?x?>"
                       "  %2 = subview %1[:, %0] : memref<f32x?x?,strided<4,?>>", {(0, 2)}),
    "part of a mode": ("%1 = subview %x[:, :, 3:?] : memref<f32x4x?x?>"
                       "  %2 = subview %1[:, :, %0] : memref<f32x4x?x?,strided<1,4,?>>", set()),
    "expanded": ("%1 = expand %x[0 -> 2 x 2] : memref<f32x4x?x?>"
                 "  %2 = subview %1[:, :, :, %0] : memref<f32x2x2x?x?>", {(0, 2)}),
    "fused": ("%1 = fuse %x[0, 1] : memref<f32x4x?x?>  %2 = subview %1[:, %0] : memref<f32x?x?>", {(0, 2)}),
    "fused away": ("%1 = fuse %x[1, 2] : memref<f32x4x?x?>"
                   "  %2 = subview %1[:, %0] : memref<f32x4x?>", set()),
    "element of an element": ("%1 = load %g[%i] : group<memref<f32x4>>  %2 = load %1[%0] : memref<f32x4>", set()),
    "arithmetic": ("%1 = arith.add %0, 1 : index  %2 = subview %x[:, :, %1] : memref<f32x4x?x?>", set()),
}  # fmt: skip


@pytest.mark.parametrize(("body", "modes"), BATCHES.values(), ids=BATCHES)
def test_batch_modes(body, modes):
    text = f"func @f(%x: memref<f32x4x?x?>, %g: group<memref<f32x4>>, %i: index) {{ %0 = group_id {body} }}"
    assert batch(text) == modes
    assert usage_of(text).indexing_axes == {"x"}


def test_names_end_with_their_region():
    text = """func @f(%x: memref<f32x?>, %i: index) {
      %c = cmp.lt %i, 4 : index
      if %c { %1 = group_id  store 1.0, %x[%i] : memref<f32x?> }
      if %c { %1 = arith.add %i, 1 : index  store 1.0, %x[%1] : memref<f32x?> }
    }"""
    assert not usage_of(text).batch_modes
    assert not usage_of(text).indexing_axes


def relations(body, parameters):
    usage = usage_of(f"func @f({parameters}) {{ %0 = group_id {body} }}")
    return [(relation.letter, relation.first, relation.second) for relation in usage.relations]


def test_relations_of_memrefs():
    found = relations(
        "gemm.t.n 1.0, %a, %b, 0.0, %c : f32, memref<f32x?x8>, memref<f32x?x?>, f32, memref<f32x?x?>",
        "%a: memref<f32x?x8>, %b: memref<f32x?x?>, %c: memref<f32x?x?>",
    )
    assert found == [("K", Extent(0, 0), Extent(1, 0)), ("M", 8, Extent(2, 0)), ("N", Extent(1, 1), Extent(2, 1))]


def test_relations_of_elements_and_views():
    found = relations(
        "%1 = load %g[%0] : group<memref<f32x?x?>>  %2 = load %g[2] : group<memref<f32x?x?>>"
        "  %3 = subview %b[:, %0] : memref<f32x?x?>"
        "  gemv.n 1.0, %1, %3, 0.0, %y : f32, memref<f32x?x?>, memref<f32x?>, f32, memref<f32x4>"
        "  sum.n 1.0, %2, 0.0, %y : f32, memref<f32x?x?>, f32, memref<f32x4>",
        "%g: group<memref<f32x?x?>>, %b: memref<f32x?x?>, %y: memref<f32x4>",
    )
    assert found == [
        ("K", Extent(0, 1, "x"), Extent(1, 0)), ("M", Extent(0, 0, "x"), 4), ("M", Extent(0, 0, 2), 4),
    ]


def test_sizes_that_nobody_knows_are_not_related():
    body = ("%1 = subview %x[%i:?] : memref<f32x?>  %2 = load %g[%i] : group<memref<f32x?>>"
            "  axpby.n 1.0, %1, 0.0, %2 : f32, memref<f32x?>, f32, memref<f32x?>")
    assert relations(body, "%x: memref<f32x?>, %g: group<memref<f32x?>>, %i: index") == []


def test_branches_that_may_not_be_taken_are_not_related():
    body = ("%1 = size %x[0] : memref<f32x?>  %2 = cmp.eq %1, 4 : index  if %2 {"
            " axpby.n 1.0, %x, 0.0, %y : f32, memref<f32x?>, f32, memref<f32x4> }")
    assert relations(body, "%x: memref<f32x?>, %y: memref<f32x4>") == []
