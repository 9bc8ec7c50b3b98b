"""The other doors: the context manager and the module."""

import operator

import dpnp
import numpy as np
import pytest

import tl_dpnp
import tl_dpnp.xp as xp
from tests.graph.support import compare, shares
from tl_dpnp.errors import TLTypeError
from tl_dpnp.graph.kernels import clear_kernels
from tl_dpnp.graph.plan import KernelStep


def _random(*shape, seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


A, B, C = _random(3, 4, 4), _random(4, 4, seed=1), _random(3, 4, 4, seed=2)


def test_a_block_is_fused():
    with (block := tl_dpnp.fusing(A, B)) as (a, b):
        result = C @ (a @ b) + xp.exp(a)
    assert type(result) is dpnp.ndarray
    compare("result", result, C @ (A @ B) + dpnp.exp(A))
    assert len(block.explanation.kernels) == 1
    assert not block.explanation.breaks
    assert type(a) is dpnp.ndarray
    assert shares(a, A)


def test_a_block_changes_the_arrays_that_it_was_given():
    q = C.copy()
    with tl_dpnp.fusing(q) as (a,):
        a += A @ B
        a *= 2
    compare("q", q, (C + A @ B) * 2)


def test_functions_of_dpnp_in_a_block_compute_at_once():
    with (block := tl_dpnp.fusing(A)) as (a,):
        result = dpnp.exp(a @ a) + 1
    compare("result", result, dpnp.exp(A @ A) + 1)
    assert block.explanation.breaks[0].line > 0


def test_an_error_in_a_block_is_not_hidden():
    q = C.copy()
    with pytest.raises(TypeError), tl_dpnp.fusing(q) as (a,):
        a.__iadd__(1).__iadd__(object())  # the first one would have been done in dpnp
    compare("q", q, C + 1)
    with pytest.raises(TLTypeError, match="fusing takes dpnp arrays"):
        tl_dpnp.fusing(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp: xp.einsum("bij,jk,bkl->bil", A, B, C),
        lambda xp: xp.linalg.multi_dot([B, B, B]),
        lambda xp: xp.add(A, 1),
        lambda xp: xp.linalg.det(A),
        lambda xp: xp.zeros((2, 2), dtype=xp.float32),
        lambda xp: xp.cumsum(A, axis=1),
        lambda xp: [xp.pi, xp.float64, xp.ndarray is dpnp.ndarray],
    ],
)
def test_the_module_has_what_dpnp_has(call):
    compare("call", call(xp), call(dpnp))


@pytest.mark.parametrize(("name", "arguments"), [
    ("add", (A, 1)), ("matmul", (A, B)), ("linalg.multi_dot", ([B, B, B],)), ("einsum", ("bij,jk,bkl->bil", A, B, C)),
])
def test_single_calls_are_one_kernel(name, arguments, monkeypatch):
    kernels = []
    plain = KernelStep.run
    monkeypatch.setattr(KernelStep, "run", lambda step, *call: (kernels.append(step), plain(step, *call)))
    for _ in range(2):
        operator.attrgetter(name)(xp)(*arguments)
    assert len(kernels) == 2
    assert kernels[0].launch is kernels[1].launch


def test_single_calls_see_what_is_in_their_lists():
    operands = [B, B, B]
    for value in (B, B * 2, B):
        operands[1] = value
        compare("product", xp.linalg.multi_dot(operands), dpnp.linalg.multi_dot(operands))


def test_the_module_records_in_fused_functions():
    explanation = tl_dpnp.explain(lambda a, b: xp.exp(xp.matmul(a, b)) + 1)(A, B)
    assert len(explanation.kernels) == 1
    assert not explanation.breaks
    assert set(dir(dpnp)) <= set(dir(xp))
    with pytest.raises(AttributeError, match="nothing"):
        xp.nothing  # noqa: B018


def test_fused_functions_run_on_their_arrays_devices_whatever_kernels_are_compiled_for():
    """`TL_DPNP_TARGET` is for `compile`; kernels for it stayed behind for calls that came later."""
    f = tl_dpnp.fuse(lambda x: x * 2.5 - 3)
    clear_kernels()
    with tl_dpnp.config.scope(TARGET="reference"):
        compare("inside", f(A), A * 2.5 - 3)
    compare("outside", tl_dpnp.fuse(lambda x: x * 2.5 - 3)(A), A * 2.5 - 3)


@pytest.mark.parametrize(("options", "message"), [
    ({"fullgraph": "yes"}, "fullgraph='yes' is not understood: it takes True or False"),
    ({"fullgraph": True, "on_break": "warn"}, "fullgraph=True raises an error for breaks, on_break='warn' does not"),
    ({"recompile_limit": True}, "recompile_limit=True is not understood"),
])
def test_options_that_say_nothing_or_two_things(options, message):
    with pytest.raises(TLTypeError, match=message):
        tl_dpnp.fuse(lambda x: x, **options)
    tl_dpnp.fuse(lambda x: x, fullgraph=True, on_break="error")
