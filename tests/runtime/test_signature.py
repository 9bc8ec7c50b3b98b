"""Arguments by name and by position, as Python's functions take them, and what kernels tell of their parameters."""

from __future__ import annotations

import functools
import inspect
import pickle
import pydoc
import random
import re
from xml.etree import ElementTree

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT, FUSED, on_device
from tl_dpnp.errors import TLTypeError, TLVerifyError
from tl_dpnp.language import FunctionBuilder, memref, parse, print_module
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import F32, I32

TARGETS = pytest.mark.parametrize("target", ["sycl", "reference"])

#: Distinct weights, so that exchanged arguments show: out := Σ (i + 1) x_i.
MANY = 12
WEIGHTED = FunctionBuilder("weighted", {f"x{i}": memref(F32, 4) for i in range(MANY)} | {"out": memref(F32, 4)})
for _i in range(MANY):
    WEIGHTED.axpby(float(_i + 1), getattr(WEIGHTED, f"x{_i}"), float(_i > 0), WEIGHTED.out)


def scaling(**options):
    """Return a kernel x := factor x, whose factor has a default."""
    b = FunctionBuilder("scale", factor=F32, x=memref(F32, None), defaults={"factor": 0.1})
    b.axpby(0.0, b.x, b.factor, b.x)
    return tl_dpnp.compile(b, **options)


@TARGETS
def test_arguments_are_given_by_position_and_by_name_in_any_order(target):
    kernel = tl_dpnp.compile(WEIGHTED.build(), target=target)
    arrays = {f"x{i}": on_device(np.full(4, 2.0**i, "f4")) for i in range(MANY)}
    expected = sum((i + 1) * 2.0**i for i in range(MANY))
    draw = random.Random(3)
    for _ in range(20):
        out = dpnp.zeros(4, dtype="float32")
        count = draw.randrange(MANY + 1)
        names = [*[*arrays][count:], "out"]
        draw.shuffle(names)
        given = {**arrays, "out": out}
        assert kernel(*[*arrays.values()][:count], **{name: given[name] for name in names}) is None
        assert out.asnumpy().tolist() == [expected] * 4


@TARGETS
def test_all_ways_to_run_a_kernel_take_names(target):
    kernel = tl_dpnp.compile(AXPY, target=target)
    x, y = dpnp.ones(4, dtype="float32"), dpnp.zeros(4, dtype="float32")
    kernel.submit(2.0, y=y, x=x).wait()
    with tl_dpnp.record() as graph:
        kernel(y=y, x=x, alpha=3.0)
    graph()
    functools.partial(kernel, alpha=4.0)(x=x, y=y)
    assert y.asnumpy().tolist() == [9.0] * 4
    if target == "sycl":
        kernel.tune(alpha=1.0, x=x, y=y, budget=0.1, progress=False)
        assert y.asnumpy().tolist() == [9.0] * 4


def test_the_number_of_work_groups_goes_with_names():
    kernel = tl_dpnp.compile(COUNT)
    x = dpnp.zeros(5, dtype="int64")
    kernel(step=2, x=x, group_size=3)
    kernel(x, step=1)
    assert x.asnumpy().tolist() == [3, 3, 3, 1, 1]


def test_repeated_calls_by_name_are_short_too():
    kernel = tl_dpnp.compile(AXPY)
    x, y = dpnp.ones(4, dtype="float32"), dpnp.zeros(4, dtype="float32")
    for _ in range(100):
        kernel(y=y, alpha=1.0, x=x)
    assert kernel._direct.functions
    assert y.asnumpy().tolist() == [100.0] * 4


def call_of_python(text, arguments, named):
    """Return the error of a call of a Python function with this signature, in its own words."""
    names: dict[str, object] = {}
    exec(f"def {text}: pass", names)
    function = names[text.partition("(")[0]]
    with pytest.raises(TypeError) as raised:
        function(*arguments, **named)
    return str(raised.value)


@pytest.mark.parametrize(("count", "names"), [
    (0, []), (1, []), (2, []), (4, []), (5, []), (0, ["x"]), (1, ["y"]), (0, ["alpha", "y"]), (3, ["x"]),
    (2, ["alpha"]), (1, ["x", "alpha"]), (2, ["z"]), (0, ["alpha", "x", "y", "w"]), (3, ["w"]), (4, ["w"]), (4, ["x"]),
])  # fmt: skip
@TARGETS
def test_errors_have_pythons_words(target, count, names):
    kernel = tl_dpnp.compile(AXPY, target=target)
    words = call_of_python("axpy(alpha, x, y)", [1.0] * count, dict.fromkeys(names, 1.0))
    with pytest.raises(TLTypeError) as raised:
        kernel(*[1.0] * count, **dict.fromkeys(names, 1.0))
    assert raised.value.diagnostics[0].message == words.partition(". Did you mean")[0]  # Python 3.13 asks so
    assert raised.value.diagnostics[0].span is not None
    assert raised.value.diagnostics[0].hint


@pytest.mark.parametrize(("given", "meant"), [("X", "x"), ("aplha", "alpha"), ("groupsize", "group_size")])
def test_a_slip_in_a_name_is_recognised(given, meant):
    with pytest.raises(TLTypeError, match=rf"unexpected keyword argument '{given}'(.|\n)*did you mean {meant}\?"):
        tl_dpnp.compile(AXPY)(1.0, **{given: 1})


ODD = """
func @odd(%0: f32, %in: f32, %in_: f32, %group_size: f32, %self: f32, %x: memref<f32x5>) {
  store %0, %x[0] : memref<f32x5>
  store %in, %x[1] : memref<f32x5>
  store %in_, %x[2] : memref<f32x5>
  store %group_size, %x[3] : memref<f32x5>
  store %self, %x[4] : memref<f32x5>
}
"""


@TARGETS
def test_names_that_python_cannot_have_are_changed(target):
    kernel = tl_dpnp.compile(ODD, target=target)
    assert [*inspect.signature(kernel).parameters] == ["_0", "in__", "in_", "group_size_", "self", "x", "group_size"]
    x = dpnp.zeros(5, dtype="float32")
    kernel(_0=1.0, in__=2.0, in_=3.0, group_size_=4.0, self=5.0, x=x, group_size=1)
    assert x.asnumpy().tolist() == [1, 2, 3, 4, 5]


@TARGETS
def test_scalars_have_defaults_in_the_builder(target):
    kernel = scaling(target=target)
    x = dpnp.ones(3, dtype="float32")
    kernel(x=x)
    np.testing.assert_array_equal(x.asnumpy(), np.full(3, 0.1, "f4"))
    kernel(10.0, x)
    kernel(x=x, factor=2.0)
    np.testing.assert_array_equal(x.asnumpy(), np.full(3, 0.1, "f4") * 20)
    pickle.loads(pickle.dumps(kernel)).submit(x=x).wait()
    np.testing.assert_allclose(x.asnumpy(), np.full(3, 0.2), rtol=1e-6)
    with pytest.raises(TLTypeError, match="missing 1 required positional argument: 'x'"):
        kernel(2.0)


def test_defaults_at_the_end_fill_calls_by_position():
    b = FunctionBuilder("scale", x=memref(F32, None), factor=F32, n=I32, defaults={"factor": 2, "n": 7})
    b.axpby(0.0, b.x, b.mul(b.factor, b.cast(b.n, F32)), b.x)
    kernel = tl_dpnp.compile(b)
    assert str(inspect.signature(kernel)).startswith("(x: 'memref<f32x?>', factor: 'f32' = 2, n: 'i32' = 7, *, ")
    x = dpnp.ones(3, dtype="float32")
    for _ in range(30):
        x[:] = 1
        kernel(x)
        assert x.asnumpy().tolist() == [14.0] * 3
    kernel(x, 1.0, n=2)
    assert x.asnumpy().tolist() == [28.0] * 3


def test_defaults_are_no_part_of_the_language():
    module = FunctionBuilder("f", a=F32, defaults={"a": 1.0}).build()
    (function,) = parse(print_module(module)).functions
    assert module.functions[0].defaults == (("a", 1.0),)
    assert function.defaults == ()


@pytest.mark.parametrize(("types", "defaults", "text"), [
    ({"n": I32}, {"n": 0.5}, "0.5 is no value of i32"), ({"n": I32}, {"n": 2**31}, "i32"),
    ({"n": F32}, {"n": "1"}, "'1' is no operand"), ({"x": memref(F32, 3)}, {"x": 0.0}, "only scalars have defaults"),
    ({"n": F32}, {"N": 0.0}, r"no parameter %N(.|\n)*did you mean n\?"),
])  # fmt: skip
def test_unfit_defaults_are_refused_where_they_are_written(types, defaults, text):
    with pytest.raises(TLVerifyError, match=text) as raised:
        FunctionBuilder("f", types, defaults=defaults)
    assert raised.value.diagnostics[0].span.file == __file__


def test_the_signature_is_that_of_calls():
    signature = inspect.signature(tl_dpnp.compile(FUSED))
    assert str(signature) == (
        "(alpha: 'f32', A: 'group<memref<f32x16x8>>', B: 'memref<f32x8x8>', C: 'memref<f32x8x16>', "
        "D: 'memref<f32x16x16x?>', *, group_size: 'int | tuple[int, int, int] | None' = None) -> None")
    assert signature.bind(1.0, "A", C="C", B="B", D="D").args == (1.0, "A", "B", "C", "D")
    assert [*inspect.signature(scaling()).bind(x=1).arguments] == ["x"]
    assert [*inspect.signature(tl_dpnp.Kernel).parameters] == ["program", "options", "queue", "has_axes"]


@TARGETS
def test_help_lists_what_a_kernel_takes(target):
    text = pydoc.plain(pydoc.render_doc(tl_dpnp.compile(FUSED, target=target)))
    for words in ("fused(alpha: f32, A: group<memref<f32x16x8>>,", "alpha  f32 ", "a number",
                  "a list of arrays or a tl_dpnp.group, each an array of float32, shape (16, 8), strides (1, 16); read",
                  "an array of float32, shape (16, 16, any), strides (1, 16, 256); read and written",
                  "group_size: the number of work-groups, by default as many as the batches have"):
        assert words in text, words
    assert "by default 0.1" in pydoc.plain(pydoc.render_doc(scaling(target=target)))
    assert tl_dpnp.Kernel.__doc__.startswith("A function of the tensor language that can be called")


def test_packed_integers_and_truth_values_in_help():
    kernel = tl_dpnp.compile("func @f(%a: i1, %n: index, %A: memref<i4x8x3>) {}", target="reference")
    assert re.search(r"a +i1 +True or False\n", kernel.__doc__)
    assert re.search(r"n +index +an integer\n", kernel.__doc__)
    assert "an array of uint8 with 2 elements in each byte, as tl_dpnp.pack makes it; not used" in kernel.__doc__


def test_arrays_of_dpctl_by_name():
    x, y = dpt.ones(4, dtype="float32"), dpt.zeros(4, dtype="float32")
    tl_dpnp.compile(AXPY)(x=x, y=y, alpha=2.0)
    assert dpt.asnumpy(y).tolist() == [2.0] * 4


def test_notebooks_show_parameters_compilations_and_the_source():
    """As well-formed markup, in which the source is text."""
    kernel = tl_dpnp.compile("func @f(%a: f32, %x: memref<f32x4>) { ; <b>&\n store %a, %x[0] : memref<f32x4> }")
    before = ElementTree.fromstring(f"<div>{kernel._repr_html_()}</div>")
    assert [cell.text for cell in before.iter("td")] == [
        "a", "f32", "a number", "x", "memref<f32x4>", "an array of float32, shape (4,), strides (1,); written"]
    assert next(before.iter("pre")).text == kernel.source_text
    kernel(1.0, dpnp.zeros(4, dtype="float32"))
    after = ElementTree.fromstring(f"<div>{kernel._repr_html_()}</div>")
    assert [cell.text for cell in after.iter("td")][-2:] == [kernel.signatures[0].device, "vector"]
    assert "0 hits, 1 misses" in "".join(after.itertext()) or "1 hits, 0 misses" in "".join(after.itertext())
    assert "source" in tl_dpnp.compile(AXPY, target="reference")._repr_html_()


def outcome(function, *arguments, **named):
    """Return what a function returns, or the words of the error that it raises for its arguments."""
    try:
        return function(*arguments, **named)
    except TLTypeError as error:
        return error.diagnostics[0].message
    except TypeError as error:
        return str(error).partition(". Did you mean")[0]


def test_random_calls_go_as_in_python():
    """Which argument goes where, and the words of errors, for functions with and without defaults at the end."""
    draw = random.Random(11)
    refused = 0
    for _ in range(500):
        names = "a b c d e".split()[:draw.randrange(6)]
        first = draw.randrange(len(names) + 1)
        defaults = dict.fromkeys(names[first:], -1.0)
        types = dict.fromkeys(names, F32)
        signature = Program(FunctionBuilder("f", types, defaults=defaults).build().functions[0]).signature
        names_of_python: dict[str, object] = {}
        parameters = ", ".join(f"{name}={defaults[name]}" if name in defaults else name for name in names)
        exec(f"def f({parameters}): return ({''.join(f'{name}, ' for name in names)})", names_of_python)
        arguments = tuple(float(draw.randrange(9)) for _ in range(draw.randrange(len(names) + 2)))
        named = dict.fromkeys(draw.sample([*names, "zz"], draw.randrange(len(names) + 2)), 10.0)
        expected = outcome(names_of_python["f"], *arguments, **named)
        assert outcome(signature.arranged, arguments, named) == expected
        refused += isinstance(expected, str)
    assert 100 < refused < 450
