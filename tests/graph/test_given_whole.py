"""Numbers in tuples, lists and other objects that are given on whole: a call never gets the result of another's."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp

#: What functions do with `k`, two numbers, and with `A`, the numbers from 0 to 59.
USES = """
dpnp.zeros(k)
dpnp.zeros(tuple(k))
dpnp.zeros(list(k))
dpnp.zeros([*k])
dpnp.zeros((k[0], k[1]))
dpnp.zeros(k[::-1])
dpnp.zeros(shape=k)
dpnp.zeros(*[k])
dpnp.zeros(**{"shape": k})
dpnp.full(k, 2.0)
dpnp.full(3, k[0])
dpnp.ones(k, dtype="f4")
A.reshape(k)
A.reshape(*k)
A.reshape(tuple(k))
dpnp.reshape(A, k)
A.reshape(1, 1, 60).squeeze(axis=(k[0] % 2, 0))
dpnp.reshape(a=A, newshape=k)
dpnp.max(A, k[0] - 2, dtype=bool)
dpnp.inner(A, A, out=A)
dpnp.matmul(a=A, b=A)
dpnp.broadcast_to(A[0], k)
dpnp.tile(A[:3], k)
dpnp.array(k)
dpnp.asarray(k)
dpnp.asarray([k, k])
dpnp.array([k[0], 7])
dpnp.take(A, dpnp.asarray(k))
dpnp.arange(*k)
dpnp.linspace(k[0], k[1], 3)
dpnp.expand_dims(A, [i % 2 for i in k])
dpnp.roll(A, k[0])
dpnp.pad(A[:2], k)
dpnp.repeat(A[:3], k[0])
dpnp.eye(*k)
dpnp.eye(k[0], M=k[1])
A[k[0]:k[1]]
A[slice(*k)]
A[list(k)]
A.reshape(10, 6)[k[0], :]
dpnp.where(A > k[0], A, k[1])
A * k[0] + k[1]
A ** k[0]
A.sum() * sum(k)
A[: max(k)]
A[: min(k)]
A[: len(k)]
A[: k[0] * k[1]]
A[: math.prod(k)]
A[: int(math.sqrt(k[1] * k[1]))]
A * math.sqrt(k[0])
A * float(k[0])
A[: int(float(k[0]))]
A[: round(k[0] / 2)]
A * np.float32(k[0])
A * np.asarray(k)[0]
dpnp.zeros(np.asarray(k).tolist())
dpnp.zeros(np.array(k))
A[: functools.reduce(operator.mul, k)]
A[: operator.itemgetter(0)(k)]
A[: operator.getitem(k, 0)]
A[: k.__getitem__(0)]
A[: tuple.__getitem__(tuple(k), 0)]
A[: next(iter(k))]
A[: next(reversed(k))]
A[: sorted(k)[0]]
A[: [*reversed(k)][0]]
A[: list(map(int, k))[0]]
A[: list(map(lambda i: i + 1, k))[0]]
A[: list(filter(None, k))[0]]
A[: list(zip(k, k))[0][1]]
A[: dict(enumerate(k))[0]]
A[: dict(zip("ab", k))["a"]]
A[: {"a": k}["a"][0]]
A[: [i for i in k][0]]
A[: [i + 1 for i in k if i > 1][0]]
A[: {i: i for i in k}[k[0]]]
A[: max({i for i in k})]
A[: sum(i for i in k)]
A[: sum(map(lambda i: i * 2, k))]
A[: next(i for i in k if i > 1)]
A[: 5 if 3 in k else 6]
A[: 5 if k == (2, 10) else 6]
A[: 5 if tuple(k) == (2, 10) else 6]
A[: 5 if k < type(k)((3, 0)) else 6]
A[: 5 if k[0] == 2 else 6]
A[: 5 if k[0] > 2 else 6]
A[: 5 if not k[0] - 2 else 6]
A[: 5 if any(i == 3 for i in k) else 6]
A[: 5 if all(k) else 6]
A[: [5, 6, 7, 8, 9, 10, 11][k[0]]]
A[: len("x" * k[0])]
A[: len(str(k))]
A[: len([0] * k[0])]
A[: len(k * k[0])]
A[: int(str(k[0]))]
A[: int(f"{k[0]}")]
A[: int("%d" % k[0])]
A[: int("{}".format(k[0]))]
A[: int("{0[0]}".format(k))]
A[: int(repr(k)[1])]
A[: len(bytes(k[0]))]
A[: bytes(k)[0]]
A[: len(range(*k))]
A[: list(range(*k))[-1]]
A[: divmod(*k[::-1])[0]]
A[: pow(k[0], 2)]
A[: abs(-k[0])]
A[: (lambda i, j: i + j)(*k)]
A[: (lambda *r: r)(*k)[0]]
A[: (lambda **r: r)(a=k)["a"][0]]
A[: helper(k)]
A[: helper(*[k])]
A[: functools.partial(helper, k)()]
A[: functools.partial(helper)(k)]
A[: Box(k).value[0]]
A[: Box(k).first()]
A[: k.count(k[0]) + 1]
A[: k.index(k[1]) + 3]
A[: (k + k)[0]]
A[: ([*k] + [1])[0]]
A[: (lambda x, *y: x)(*k)]
A[: copy.copy(k)[0]]
dpnp.zeros(copy.copy(k))
dpnp.zeros(copy.deepcopy(k))
A[: list(itertools.chain(k))[0]]
A[: list(itertools.accumulate(k))[1]]
A[: collections.deque(k)[0]]
A[: collections.Counter(k)[2] + 1]
A[: (hash(tuple(k)) % 7) + 1]
A[: k[0].bit_length()]
A[: k[0].__add__(1)]
A[: int.__add__(k[0], 1)]
A[: operator.index(k[0])]
A[: operator.add(*k)]
A[: isinstance(k[0], int) + 1]
A[: k[-1]]
A[: k[k[0] - k[0]]]
A[: (k[0] << 1)]
A[: (k[0] if k else 1)]
A[: (k[0] or 1)]
A[: (k and k[1])]
A[: unpack(k)]
A[: unpack2(k)]
A[: loop(k)]
A[: walrus(k)]
A[: appended(k)]
A[: appended2(k)]
A[: appended3(k)]
A[: appended4(k)]
A[: appended5(k)]
A[: inserted(k)]
A[: updated(k)]
A[: deq(k)]
A[: popped(k)]
A[: sliced(k)]
A[: generator(k)]
(A, k)
(A, k[0])
{"a": A * 1, "k": k}
[A * 1, *k]
A.sum() + k[0]
A + dpnp.asarray(k[0])
dpnp.add(A, k[0])
dpnp.clip(A, *k)
dpnp.clip(A, k[0], k[1])
dpnp.clip(A, min=k[0], max=k[1])
dpnp.full_like(A, k[0])
dpnp.maximum(A, k[0])
dpnp.power(A, k[0])
dpnp.einsum("i,->i", A, k[0])
dpnp.dot(A, k[0])
dpnp.sum(A.reshape(k[0], -1), axis=k[0] % 2)
dpnp.transpose(A.reshape(2, 30), [i % 2 for i in (k[0], k[0] + 1)])
dpnp.concatenate([A] * k[0])
dpnp.concatenate([A, A[:9]] * 60)[k[0]:]
dpnp.stack([A] * k[0])
dpnp.split(A, k[0])[0]
dpnp.moveaxis(A.reshape(2, 30), k[0] % 2, 0)
dpnp.tensordot(A.reshape(2, 30), A.reshape(2, 30), axes=([k[0] % 2], [k[0] % 2]))
A.reshape(2, 30).sum(axis=(k[0] % 2,))
A.reshape(2, 30).max(axis=k[0] % 2)
dpnp.diag(A[:4], k[0])
dpnp.tri(4, k=k[0])
dpnp.triu(A.reshape(6, 10), k[0])
dpnp.ndim(k)
dpnp.shape(k)
dpnp.size(k)
""".strip().splitlines()

#: What the functions stand in, which takes the numbers out of lists and tuples in ways of its own.
MODULE = '''
import collections, copy, functools, itertools, math, operator
from types import SimpleNamespace

import dpnp
import numpy as np

def helper(k): return k[0]
class Box:
    def __init__(self, value): self.value = value
    def first(self): return self.value[0]
def unpack(k):
    a, b = k
    return a
def unpack2(k):
    *a, b = k
    return a[0]
def loop(k):
    total = 0
    for i in k:
        total += i
    return total
def walrus(k):
    if (n := k[0]) > 2: return n
    return 1
def appended(k):
    l = []
    l.extend(k)
    return l[0]
def appended2(k):
    l = []
    l += k
    return l[0]
def appended3(k):
    l = [k]
    return l.pop()[0]
def appended4(k):
    s = set()
    s.update(k)
    return max(s)
def appended5(k):
    s = set()
    s.add(tuple(k))
    return 4 if (2, 10) in s else 5
def inserted(k):
    l = [1]
    l.insert(0, k)
    return l[0][0]
def updated(k):
    d = {}
    d.update(a=k)
    d.update({"b": k})
    return d["a"][0] + d["b"][0]
def deq(k):
    d = collections.deque()
    d.extend(k)
    return d.popleft()
def popped(k):
    l = list(k)
    l.sort()
    l.reverse()
    return l.pop()
def sliced(k):
    l = [0, 0, 0]
    l[:2] = k
    return l[0] + 1
def generator(k):
    def g():
        yield from k
    return next(g())
STATE = SimpleNamespace()
K = None
Pair = collections.namedtuple("Pair", "x y")
'''

#: By name: the parameters, how the function finds `k`, and what gives the arguments of a call for a module and values.
GIVEN: dict[str, tuple[str, str, Callable[[ModuleType, tuple[Any, Any]], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "a tuple": ("A, k", "k", lambda module, k: ((k,), {})),
    "a list": ("A, k", "k", lambda module, k: (([*k],), {})),
    "a named tuple": ("A, k", "k", lambda module, k: ((module.Pair(*k),), {})),
    "arguments": ("A, *k", "k", lambda module, k: (k, {})),
    "a keyword": ("A, **named", "named['k']", lambda module, k: ((), {"k": k})),
    "in a dict": ("A, d", "d['k']", lambda module, k: (({"k": [*k]},), {})),
    "in lists": ("A, d", "d[0][1]", lambda module, k: (([[0, k]],), {})),
    "an attribute": ("A, o", "o.k", lambda module, k: ((SimpleNamespace(k=k),), {})),
    "an attribute of a global": ("A", "STATE.k", lambda module, k: (setattr(module.STATE, "k", k) or (), {})),
    "a global": ("A", "K", lambda module, k: (setattr(module, "K", k) or (), {})),
    "a global list": ("A", "K", lambda module, k: (setattr(module, "K", [*k]) or (), {})),
}
#: The values of `k`, call by call; the first come again.
VALUES = {
    "int": [(2, 10), (3, 10), (5, 12), (2, 10)],
    "float": [(2.0, 10.5), (3.0, 10.5), (5.25, 12.0), (2.0, 10.5)],
    "numpy": [(np.int64(a), np.int32(b)) for a, b in [(2, 10), (3, 10), (5, 12), (2, 10)]],
}


def _module(folder: Path, body: str) -> ModuleType:
    path = folder / f"given_whole_{folder.name}.py"
    path.write_text(MODULE + body)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _outcome(function: Callable[..., Any], arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    array = dpnp.asarray(np.arange(60, dtype="f4"))
    try:
        return function(array, *arguments[0], **arguments[1])
    except Exception as error:  # compared, too
        return type(error)


def _are_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    if isinstance(one, dict):
        return [*one] == [*other] and all(map(_are_same, one.values(), other.values()))
    if isinstance(one, dpnp.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and np.allclose(
            dpnp.asnumpy(one), dpnp.asnumpy(other), rtol=1e-5, equal_nan=True)
    return one == other


@pytest.mark.parametrize("number", range(len(USES)))
def test_what_is_given_whole_is_read_at_each_call(number: int, tmp_path: Path) -> None:
    """Each use with one way in which the numbers are given and one type of them, drawn by its number."""
    rng = random.Random(number)
    given, values = rng.choice([*GIVEN]), rng.choice(["int", "int", "int", "numpy", "float"])
    parameters, found, give = GIVEN[given]
    text = f"\n\ndef function({parameters}):\n    k = {found}\n    return {USES[number]}\n"
    module = _module(tmp_path, text)
    fused = tl_dpnp.fuse(module.function)
    for k in VALUES[values]:
        plain = _outcome(module.function, give(module, k))
        result = _outcome(fused, give(module, k))
        assert _are_same(result, plain), f"{USES[number]} where k is {k}, {given}: {result}, not {plain}"
