"""Programs of several products in bf16, on the tiles of Intel's processors (AMX) and by vectors: attention, a chain."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from .contests import Contest, have
from .tiles import ERRORS
from .timing import Contestant
from .torch_peer import TorchProgram

__all__ = ["CASES", "drawn", "program"]

#: Sizes that are held to a target, and more that are drawn: positions and components of attention; rows, columns of
#: each factor of a chain.
_NAMED = {"attention": ((32, 32), (64, 64)), "chain": ((35, 24, 33, 40), (64, 64, 64, 64))}
_SEED, _DRAWN, _SMALLEST = 20, 5, 16
#: The scores of attention and their weights have to fit into the temporaries of a work-group.
_LARGEST = {"attention": 70, "chain": 96}
#: Bytes of the operands of a launch, which holds each of them so many times.
_MEGABYTES, _PASSES = 0.5, 64

_ATTENTION = """
func @attention(%Q: group<$x>, %K: group<$x>, %V: group<$x>, %O: group<$x>) {
  %g = group_id
  %q = load %Q[%g] : group<$x>
  %k = load %K[%g] : group<$x>
  %v = load %V[%g] : group<$x>
  %o = load %O[%g] : group<$x>
  %s = alloca -> $s
  %p = alloca -> $p
  %highest = alloca -> $n
  %sums = alloca -> $n
  %first = constant 0 : index
  %length = constant $l : index
  gemm.t.n $scale, %q, %k, 0.0, %s : f32, $x, $x, f32, $s
  foreach %i = %first, %length {
    store -inf, %highest[%i] : $n
    store 0.0, %sums[%i] : $n
  }
  for %j = %first, %length {
    foreach %i = %first, %length {
      %x = load %s[%i, %j] : $s
      %h = load %highest[%i] : $n
      %h1 = max %h, %x : f32
      store %h1, %highest[%i] : $n
    }
  }
  foreach (%i, %j) = (%first, %first), (%length, %length) {
    %x = load %s[%i, %j] : $s
    %h = load %highest[%i] : $n
    %d = sub %x, %h : f32
    %e = exp %d : f32
    store %e, %s[%i, %j] : $s
  }
  for %j = %first, %length {
    foreach %i = %first, %length {
      %e = load %s[%i, %j] : $s
      %t = load %sums[%i] : $n
      %t1 = add %t, %e : f32
      store %t1, %sums[%i] : $n
    }
  }
  foreach (%i, %j) = (%first, %first), (%length, %length) {
    %e = load %s[%i, %j] : $s
    %t = load %sums[%i] : $n
    %w = div %e, %t : f32
    %b = cast %w : bf16
    store %b, %p[%i, %j] : $p
  }
  gemm.n.t 1.0, %v, %p, 0.0, %o : bf16, $x, $p, bf16, $x
}
"""
_CHAIN = """
func @chain(%A: group<$a>, %B: group<$b>, %C: group<$c>, %D: group<$d>) {
  %g = group_id
  %a = load %A[%g] : group<$a>
  %b = load %B[%g] : group<$b>
  %c = load %C[%g] : group<$c>
  %d = load %D[%g] : group<$d>
  %t = alloca -> $t
  gemm.n.n 1.0, %a, %b, 0.0, %t : bf16, $a, $b, bf16, $t
  gemm.n.n 1.0, %t, %c, 0.0, %d : bf16, $t, $c, bf16, $d
}
"""


class _Program(NamedTuple):
    """A text of the language, what it computes of matrices in NumPy, and their rows and columns, the result's last."""

    source: str
    exact: Callable[..., Any]
    shapes: tuple[tuple[int, int], ...]
    operations: int


def drawn(seed: int) -> tuple[str, ...]:
    """Return the named sizes of each program, and as many drawn ones as there are in all cases."""
    draw = random.Random(seed)
    return tuple(f"{name} {'x'.join(map(str, sizes))}" for name, named in _NAMED.items() for sizes in (
        *named, *(tuple(draw.randint(_SMALLEST, _LARGEST[name]) for _ in named[0]) for _ in range(_DRAWN))))


CASES = drawn(_SEED)


def program(case: str) -> Contest:
    """One core; groups of separate arrays of bf16 of 0.5 MB in all, in its second-level cache, 64 times in a launch.

    The peers are tl_dpnp's own kernels with TL_DPNP_AMX=off, and PyTorch (scaled_dot_product_attention, two bmm) with
    one thread and one batch.  Attention has softmax in f32; of a chain the first product is rounded to bf16."""
    import numpy as np

    import tl_dpnp
    from tl_dpnp import config
    from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

    name, sizes = case.split()[0], tuple(map(int, case.split()[1].split("x")))
    found = _PROGRAMS[name](*sizes)
    size = 2 * sum(rows * columns for rows, columns in found.shapes)
    batch = max(1, int(_MEGABYTES * 1e6) // size)
    numbers = np.random.default_rng(_SEED)
    stored = [(numbers.standard_normal((batch, columns, rows)).astype(np.float32).view(np.uint32) >> 16)
              .astype(np.uint16) for rows, columns in found.shapes]
    exact = found.exact(*(_wide(each) for each in stored[:-1]))
    arrays = [[dpt.asarray(np.ascontiguousarray(matrix)) for matrix in each] for each in stored]
    groups = [tl_dpnp.group([tl_dpnp.rev(array) for array in each] * _PASSES) for each in arrays]
    contestants, errors = {}, []
    for who, setting in (("tl_dpnp", "auto"), ("vectors", "off")):
        with config.scope(AMX=setting):
            kernel = tl_dpnp.compile(found.source)
        kernel(*groups)
        result = _wide(np.stack([dpt.to_numpy(array) for array in arrays[-1]]))
        errors.append(float(np.abs(result - exact).max() / np.abs(exact).max()))
        contestants[who] = Contestant(functools.partial(kernel, *groups), _PASSES)
    if have("torch"):
        contestants["torch"] = TorchProgram.of(name, sizes, batch)
    return Contest(contestants, found.operations * batch, size * batch, facts=dict(zip(ERRORS, errors, strict=True)))


def _wide(stored: Any) -> Any:
    """Return bf16 as f64."""
    import numpy as np

    return (stored.astype(np.uint32) << 16).view(np.float32).astype(float)


def _attention(length: int, components: int) -> _Program:
    def exact(q: Any, k: Any, v: Any) -> Any:
        import numpy as np

        scores = q @ k.swapaxes(1, 2) * components**-0.5
        weights = np.exp(scores - scores.max(2, keepdims=True))
        return weights / weights.sum(2, keepdims=True) @ v

    types = {"x": f"memref<bf16x{components}x{length}>", "s": f"memref<f32x{length}x{length}>",
             "p": f"memref<bf16x{length}x{length}>", "l": str(length), "n": f"memref<f32x{length}>",
             "scale": repr(float(components) ** -0.5)}
    return _Program(_filled(_ATTENTION, types), exact, ((components, length),) * 4, 4 * length * length * components)


def _chain(m: int, first: int, second: int, n: int) -> _Program:
    shapes = {"a": (m, first), "b": (first, second), "c": (second, n), "t": (m, second), "d": (m, n)}
    types = {name: f"memref<bf16x{rows}x{columns}>" for name, (rows, columns) in shapes.items()}
    return _Program(_filled(_CHAIN, types), lambda a, b, c: c @ (b @ a), tuple(shapes[name] for name in "abcd"),
                    2 * m * second * (first + n))


def _filled(text: str, values: dict[str, str]) -> str:
    import string

    return string.Template(text).substitute(values)


_PROGRAMS: dict[str, Callable[..., _Program]] = {"attention": _attention, "chain": _chain}
