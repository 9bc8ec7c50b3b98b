"""Calls that leave out arrays which the program asks for."""

from __future__ import annotations

import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.errors import TLError, TLTypeError, UnsupportedError
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret

#: x[i] := s · (y[i] or 1) + (the first element of G[i] or 0)
OPTIONAL = """func @f(%x: memref<f32x?>, %y: memref<f32x?>, %G: group<memref<f32x4> x ?>, %s: f32) {
  %i = group_id.x : index
  %b = associated %y : bool
  %v = if %b -> (f32) { %a = load %y[%i] : f32 yield (%a) } else { yield (1.0) }
  %c = associated %G : bool
  %never = not %c : bool
  %w = mul %v, %s : f32
  if %never { store %w, %x[%i] } else {
    %g = load %G[%i] : memref<f32x4>
    %e = load %g[0] : f32
    %z = add %w, %e : f32
    store %z, %x[%i]
  }
}"""
CHOICES = [(True, True), (False, True), (True, False), (False, False)]
TARGETS = [{"target": "reference"}, {"form": "vector"}, {"form": "subgroup"}, {"debug": True}]


def arguments(has_y, has_group):
    y = dpnp.arange(3, dtype="f4") if has_y else None
    group = [dpnp.full(4, 10 * place, dtype="f4") for place in range(3)] if has_group else None
    expected = 2 * (np.arange(3) if has_y else np.ones(3)) + (10 * np.arange(3) if has_group else 0)
    return dpnp.zeros(3, dtype="f4"), y, group, expected


@pytest.mark.parametrize("options", TARGETS, ids=str)
def test_each_choice_of_arrays(options):
    kernel = tl_dpnp.compile(OPTIONAL, **options)
    for choice in (*CHOICES, *CHOICES):
        x, y, group, expected = arguments(*choice)
        for _ in range(2):
            kernel(x, y, group, 2.0)
            np.testing.assert_array_equal(dpnp.asnumpy(x), expected)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_interpreter_itself(choice):
    (function,) = parse(OPTIONAL)
    x, y, group, expected = arguments(*choice)
    x = dpnp.asnumpy(x)
    interpret(function, [x, None if y is None else dpnp.asnumpy(y),
                         None if group is None else [*map(dpnp.asnumpy, group)], 2.0], 3)
    np.testing.assert_array_equal(x, expected)


def test_submitted_recorded_by_name_in_c_order_and_pickled():
    kernel = pickle.loads(pickle.dumps(tl_dpnp.compile(OPTIONAL)))
    x, _, group, expected = arguments(False, True)
    kernel.submit(x, None, group, 2.0).wait()
    np.testing.assert_array_equal(dpnp.asnumpy(x), expected)
    x, y, _, expected = arguments(True, False)
    with tl_dpnp.record() as graph:
        kernel(x, y, None, 2.0)
    graph()
    np.testing.assert_array_equal(dpnp.asnumpy(x), expected)
    x[...] = 0
    kernel.in_c_order(x, y, G=None, s=2.0)
    np.testing.assert_array_equal(dpnp.asnumpy(x), expected)


def test_an_array_that_nobody_asks_for_cannot_be_left_out():
    kernel = tl_dpnp.compile(OPTIONAL)
    with pytest.raises(TLTypeError, match="argument 1 of @f: %x takes an array of float32, it was given None"):
        kernel(None, *arguments(True, True)[1:3], 2.0)


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_a_use_that_is_not_ruled_out_is_refused(target):
    source = """func @f(%x: memref<f32x?>, %y: memref<f32x?>, %n: i32) {
      %i = group_id.x : index  %b = associated %y : bool  %c = greater_than %n, 0 : bool
      {} { %v = load %y[%i] : f32 store %v, %x[%i] }
    }"""
    x = dpnp.zeros(3, dtype="f4")
    kernel = tl_dpnp.compile(source.replace("{}", "if %c", 1), target=target)
    with pytest.raises(UnsupportedError, match="%y is None, and @f uses it where that is not known to be ruled out"):
        kernel(x, None, 0)
    kernel = tl_dpnp.compile(source.replace("{}", "%d = and %b, %c : bool if %d", 1), target=target)
    kernel(x, None, 1)
    kernel(x, x + 1, 1)
    assert dpnp.asnumpy(x).tolist() == [1.0] * 3


def test_the_interpreter_reports_the_use_of_what_is_not_there():
    (function,) = parse("func @f(%y: memref<f32x4>) { %b = associated %y : bool %v = load %y[0] : f32 }")
    with pytest.raises(TLError, match="there is no memory for %y: it was given None"):
        interpret(function, [None])


def test_kernels_of_different_choices_do_not_share_an_entry_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
    source = """func @f(%x: memref<i32x2>, %y: memref<i32x2>) {
      %a = associated %x : bool  %b = associated %y : bool
      if %a { store 1, %x[0] }  if %b { store 2, %y[0] }
    }"""
    for _ in range(2):
        x = dpnp.zeros(2, dtype="i4")
        kernel = tl_dpnp.compile(source)
        kernel(x, None)
        assert int(x[0]) == 1
        kernel(None, x)
        assert int(x[0]) == 2
        kernel(None, None)


def test_temporaries_views_and_elements_are_there():
    source = """func @f(%x: memref<i32x4>, %G: group<memref<i32x4> x ?>) {
      %t = alloca : memref<i32,local>  %v = subview %x[0:2] : memref<i32x2>  %g = load %G[0] : memref<i32x4>
      %a = associated %t : bool  %b = associated %v : bool  %c = associated %g : bool
      %d = and %a, %b : bool  %e = and %d, %c : bool  %n = cast %e : i32  store %n, %x[0]
    }"""
    x = dpnp.zeros(4, dtype="i4")
    tl_dpnp.compile(source)(x, [dpnp.zeros(4, dtype="i4")], group_size=1)
    assert int(x[0]) == 1


def test_programs_that_ask_are_not_exported(tmp_path):
    with pytest.raises(UnsupportedError, match="export: @f asks whether it was given arrays"):
        tl_dpnp.compile(OPTIONAL).export(tmp_path)
