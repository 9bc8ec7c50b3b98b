"""Tensors of PyTorch that share memory, of which functions write to one: on a GPU where there is one, else in the
interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.cuda.test_pytorch import DEVICE, TARGET, _fresh, fuse, random  # noqa: E402, F401
from tl_dpnp.errors import UnsupportedError  # noqa: E402
from tl_dpnp.graph.pytorch.backend import Backend  # noqa: E402


def update(first, second):
    first.mul_(2)
    second.add_(1)
    return first * second


@pytest.mark.parametrize("places", [(1, 0), (4, 0), (8, 4), (30, 30), (0, 1)])
def test_tensors_may_share_memory_in_some_calls_and_not_in_others(fuse, places):  # noqa: F811
    fused = fuse(update)
    for first, second in (None, None), places, (None, None), (40, 40), places:
        mine, its = (torch.arange(64.0, device=DEVICE) for _ in range(2))

        def tensors(memory, first=first, second=second):
            return [memory[:20].clone() if start is None else memory[start : start + 20] for start in (first, second)]

        assert torch.equal(fused(*tensors(mine)), update(*tensors(its))), (first, second)
        assert torch.equal(mine, its), (first, second)


def test_ways_to_share_memory_are_kept_up_to_a_number(fuse, monkeypatch):  # noqa: F811
    monkeypatch.setattr("tl_dpnp.graph.pytorch.fused.WAYS", 2)
    fused = fuse(update)
    for start in (1, 2, 3, 1, 4):
        mine, its = (torch.arange(64.0, device=DEVICE) for _ in range(2))
        assert torch.equal(fused(mine[:20], mine[start : start + 20]), update(its[:20], its[start : start + 20]))
        assert torch.equal(mine, its)
        assert len(fused.of("torch")._apart) <= 2


def test_tensors_in_lists_may_share_memory(fuse):  # noqa: F811
    def of_lists(several, named):
        return update(*several) + named["x"].sum()

    fused = fuse(of_lists)
    for start in (24, 0, 12, 24):
        mine, its = (torch.arange(64.0, device=DEVICE) for _ in range(2))
        found = [function([memory[4:20], memory[start : start + 16]], {"x": memory[start + 2 : start + 9]})
                 for function, memory in ((fused, mine), (of_lists, its))]
        assert torch.equal(*found), start
        assert torch.equal(mine, its), start


@pytest.mark.parametrize("places", [[(None, None), (1, 0)], [(1, 0), (None, None)], [(4, 0), (8, 0)]])
def test_torch_compile_takes_no_code_for_tensors_that_share_memory_in_another_way(places):
    compiled = torch.compile(update, backend=Backend(TARGET))
    for place in [places[0], places[0], places[1]]:
        mine, its = (torch.arange(64.0, device=DEVICE) for _ in range(2))
        first, second = ([memory[:20].clone() if start is None else memory[start : start + 20] for start in place]
                         for memory in (mine, its))
        assert torch.equal(compiled(*first), update(*second))
        assert torch.equal(mine, its)


def test_that_tensors_share_memory_in_another_way_is_an_error_where_that_is_asked_for():
    compiled = torch.compile(update, backend=Backend(TARGET, "error"))
    memory = torch.arange(64.0, device=DEVICE)
    compiled(memory[:20].clone(), memory[20:40].clone())
    with pytest.raises(UnsupportedError, match="share memory in another way"):
        compiled(memory[:20], memory[1:21])
    assert torch.equal(memory, torch.arange(64.0, device=DEVICE))


def test_modules_may_come_to_have_the_same_parameter(fuse):  # noqa: F811
    first, second = torch.nn.Linear(3, 3, device=DEVICE), torch.nn.Linear(3, 3, device=DEVICE)

    @fuse
    @torch.no_grad()
    def averaged():
        for own, other in zip(first.parameters(), second.parameters(), strict=True):
            own.mul_(0.5).add_(other, alpha=0.5)

    averaged()
    first.weight = second.weight
    expected = second.weight.detach() * 0.75
    averaged()
    torch.testing.assert_close(second.weight.detach(), expected)


def test_variables_may_share_memory_with_tensors_that_are_written(fuse):  # noqa: F811
    mine, its = (torch.arange(64.0, device=DEVICE) for _ in range(2))

    def function(x, added):
        x.add_(1)
        added.mul_(2)
        return x * added

    kept = {}
    fused = fuse(lambda x: function(x, kept["tensor"]))
    for first, second in ((0, 30), (0, 1), (0, 0), (4, 1), (0, 30)):
        kept["tensor"] = mine[second : second + 20]
        result = fused(mine[first : first + 20])
        assert torch.equal(result, function(its[first : first + 20], its[second : second + 20]))
        assert torch.equal(mine, its)
        mine /= 4
        its /= 4


def test_torch_compile_takes_any_tensors_that_nobody_writes_to():
    compiled = torch.compile(lambda x, y: x * 2 + y, backend=Backend(TARGET))
    memory = torch.arange(64.0, device=DEVICE)
    for first, second in ((memory[:20].clone(), memory[30:50].clone()), (memory[:20], memory[4:24])):
        assert torch.equal(compiled(first, second), first * 2 + second)


def test_what_a_tensor_is_written_with_is_read_before(fuse):  # noqa: F811
    """PyTorch itself refuses the first two, and NumPy does so."""
    def shifted(x):
        x[1:] = x[:-1]

    def summed(x):
        x[1:] += x[:-1]

    def transposed(x):
        x[:] = x.T * 2

    for function in (shifted, summed, transposed):
        x = random(6, 6)
        expected = x.cpu().numpy().copy()
        function_of_arrays = {shifted: lambda a: a[:-1].copy(), summed: lambda a: a[1:] + a[:-1]}.get(function)
        if function_of_arrays is None:
            expected[:] = expected.T.copy() * 2
        else:
            expected[1:] = function_of_arrays(expected)
        fuse(function)(x)
        np.testing.assert_allclose(x.cpu().numpy(), expected, rtol=1e-6)
