"""Chains of products on the GPU, beside PyTorch and ``torch.compile``: ``python -m asv_bench.cuda_chains``.

The volume kernel of a seismic solver at orders 3 to 7, A B C and Y'X'AXY + D of drawn sizes, where A and D are batches
and X and Y are read by all, and a matrix along each axis of spectral elements of 8 x 8 x 8 points.  Results are
compared with float64 before; medians of rounds in turns.  Needs PyTorch and a GPU.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import multiprocessing
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import click

from tl_dpnp.records import dataclass

__all__ = ["Chain", "chains_of"]

#: Sizes that are drawn, orders of the solver, its quantities, and points along an axis of an element.
_LEAST, _MOST, _ORDERS, _QUANTITIES, _POINTS = 8, 32, (3, 4, 5, 6, 7), 9, 8
#: Bytes that a case moves, rounds that are timed, and calls of a graph.
_BYTES, _ROUNDS, _CALLS = 400_000_000, 7, 2
#: Relative errors that a result may have: the norm of the difference over that of the result in float64.
_TOLERANCES = {"f32": 3e-6, "f64": 1e-13}
#: Elements of a batch whose results are compared.
_SAMPLE = 300
_LOCK = Path("/tmp/tl_dpnp_cuda_chains.lock")


@dataclass(frozen=True)
class Chain:
    """A program whose last parameter is written; `shapes` are those of the arrays, None for the batch, which is last.

    `eager` is the same for tensors of PyTorch, whose axes are in the opposite order; it returns the last one's new
    value, to which the program adds if it `adds`.
    """

    name: str
    element: str
    source: str
    shapes: tuple[tuple[int | None, ...], ...]
    eager: str
    adds: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of one work-group: those that are only read by all of them not counted."""
        moved = [shape for shape in self.shapes if None in shape] + [self.shapes[-1]] * self.adds
        return sum(math.prod(filter(None, shape)) for shape in moved) * int(self.element[1:]) // 8


def _batch(element: str, *shape: int) -> tuple[str, str]:
    """Return the types of a matrix and of a batch of them."""
    sizes = "x".join(map(str, shape))
    return f"memref<{element}x{sizes}>", f"memref<{element}x{sizes}x?>"


def volume(element: str, order: int) -> Chain:
    """Return Q[g] += Σ_d K_d I[g] S_d[g]."""
    basis, count = order * (order + 1) * (order + 2) // 6, _QUANTITIES
    (dofs, all_dofs), (star, stars) = _batch(element, basis, count), _batch(element, count, count)
    matrix = f"memref<{element}x{basis}x{basis}>"
    parameters = [f"%I: {all_dofs}", *(f"%S{d}: {stars}" for d in range(3)), *(f"%K{d}: {matrix}" for d in range(3))]
    steps = "\n".join(f"""
      %s{d} = subview %S{d}[:,:,%g] : {stars}
      gemm.n.n 1.0, %i, %s{d}, 0.0, %t : {element}, {dofs}, {star}, {element}, {dofs}
      gemm.n.n 1.0, %K{d}, %t, 1.0, %q : {element}, {matrix}, {dofs}, {element}, {dofs}""" for d in range(3))
    source = f"""func @volume({", ".join(parameters)}, %Q: {all_dofs}) {{
      %g = group_id
      %i = subview %I[:,:,%g] : {all_dofs}
      %q = subview %Q[:,:,%g] : {all_dofs}
      %t = alloca -> {dofs}{steps}
    }}"""
    shapes = ((basis, count, None), *[(count, count, None)] * 3, *[(basis, basis)] * 3, (basis, count, None))
    return Chain(f"volume of order {order}", element, source, shapes, "volume", adds=True)


def three_factors(element: str, m: int, n: int, k: int, j: int) -> Chain:
    """Return D[g] := A[g] B[g] C[g]."""
    (a, all_a), (b, all_b), (c, all_c), (d, all_d) = (
        _batch(element, *shape) for shape in ((m, k), (k, j), (j, n), (m, n)))
    t = f"memref<{element}x{m}x{j}>"
    source = f"""func @three(%A: {all_a}, %B: {all_b}, %C: {all_c}, %D: {all_d}) {{
      %g = group_id
      %a = subview %A[:,:,%g] : {all_a}
      %b = subview %B[:,:,%g] : {all_b}
      %c = subview %C[:,:,%g] : {all_c}
      %d = subview %D[:,:,%g] : {all_d}
      %t = alloca -> {t}
      gemm.n.n 1.0, %a, %b, 0.0, %t : {element}, {a}, {b}, {element}, {t}
      gemm.n.n 1.0, %t, %c, 0.0, %d : {element}, {t}, {c}, {element}, {d}
    }}"""
    return Chain(f"A B C, {m}x{k}, {k}x{j}, {j}x{n}", element, source,
                 ((m, k, None), (k, j, None), (j, n, None), (m, n, None)), "three_factors")


def two_sided(element: str, n: int, m: int, p: int) -> Chain:
    """Return D[g] += Y' X' A[g] X Y for matrices A of n x n, X of n x m and Y of m x p."""
    (a, all_a), (d, all_d) = _batch(element, n, n), _batch(element, p, p)
    x, y, r, s, t = (f"memref<{element}x{rows}x{columns}>"
                     for rows, columns in ((n, m), (m, p), (n, m), (n, p), (m, p)))
    source = f"""func @two_sided(%A: {all_a}, %X: {x}, %Y: {y}, %D: {all_d}) {{
      %g = group_id
      %a = subview %A[:,:,%g] : {all_a}
      %d = subview %D[:,:,%g] : {all_d}
      %r = alloca -> {r}
      %s = alloca -> {s}
      %t = alloca -> {t}
      gemm.n.n 1.0, %a, %X, 0.0, %r : {element}, {a}, {x}, {element}, {r}
      gemm.n.n 1.0, %r, %Y, 0.0, %s : {element}, {r}, {y}, {element}, {s}
      gemm.t.n 1.0, %X, %s, 0.0, %t : {element}, {x}, {s}, {element}, {t}
      gemm.t.n 1.0, %Y, %t, 1.0, %d : {element}, {y}, {t}, {element}, {d}
    }}"""
    return Chain(f"Y'X'AXY + D, A {n}x{n}, X {n}x{m}, Y {m}x{p}", element, source,
                 ((n, n, None), (n, m), (m, p), (p, p, None)), "two_sided", adds=True)


def spectral(element: str, n: int) -> Chain:
    """Return V[g] := U[g] with a matrix D applied along each of its three axes."""
    element_, all_ = _batch(element, n, n, n)
    d, flat, long = (f"memref<{element}x{rows}x{columns}>" for rows, columns in ((n, n), (n, n * n), (n * n, n)))
    source = f"""func @spectral(%U: {all_}, %D: {d}, %V: {all_}) {{
      %g = group_id
      %u = subview %U[:,:,:,%g] : {all_}
      %v = subview %V[:,:,:,%g] : {all_}
      %s = alloca -> {element_}
      %t = alloca -> {element_}
      %u0 = fuse %u[1,2] : {element_}
      %s0 = fuse %s[1,2] : {element_}
      %t2 = fuse %t[0,1] : {element_}
      %v2 = fuse %v[0,1] : {element_}
      gemm.n.n 1.0, %D, %u0, 0.0, %s0 : {element}, {d}, {flat}, {element}, {flat}
      for %k = 0, {n} {{
        %a = subview %s[:,:,%k] : {element_}
        %b = subview %t[:,:,%k] : {element_}
        gemm.n.t 1.0, %a, %D, 0.0, %b : {element}, {d}, {d}, {element}, {d}
      }}
      gemm.n.t 1.0, %t2, %D, 0.0, %v2 : {element}, {long}, {d}, {element}, {long}
    }}"""
    return Chain(f"spectral {n}x{n}x{n}", element, source, ((n, n, n, None), (n, n), (n, n, n, None)), "spectral")


def _eager_volume(i: Any, s0: Any, s1: Any, s2: Any, k0: Any, k1: Any, k2: Any, q: Any) -> Any:
    return q + (s0 @ i) @ k0 + (s1 @ i) @ k1 + (s2 @ i) @ k2


def _eager_three_factors(a: Any, b: Any, c: Any, d: Any) -> Any:
    return c @ (b @ a)


def _eager_two_sided(a: Any, x: Any, y: Any, d: Any) -> Any:
    return d + ((y @ (x @ a)) @ x.T) @ y.T


def _eager_spectral(u: Any, d: Any, v: Any) -> Any:
    count, n = u.shape[:2]
    u = d.T @ (u @ d)
    return (d.T @ u.reshape(count, n, n * n)).reshape(u.shape)


_EAGER: dict[str, Callable[..., Any]] = {
    "volume": _eager_volume, "three_factors": _eager_three_factors, "two_sided": _eager_two_sided,
    "spectral": _eager_spectral,
}


def chains_of(element: str, seed: int, count: int) -> list[Chain]:
    """Return the chains of a type; `count` of either kind whose sizes are drawn."""
    draw = random.Random(f"{seed} {element}")
    drawn = [three_factors(element, *(draw.randint(_LEAST, _MOST) for _ in range(4))) for _ in range(count)]
    drawn += [two_sided(element, *(draw.randint(_LEAST, _MOST) for _ in range(3))) for _ in range(count)]
    return [*(volume(element, order) for order in _ORDERS), *drawn, spectral(element, _POINTS)]


@contextlib.contextmanager
def _device(kind: int) -> Iterator[None]:
    """Share the device with other processes (`fcntl.LOCK_SH`), or have it alone (`fcntl.LOCK_EX`)."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def _measured(chain: Chain) -> tuple[Chain, list[float], float, str]:
    """Return the seconds of ours, a copy of as many bytes, PyTorch and torch.compile, the error, and how ours runs."""
    import torch

    import tl_dpnp
    from asv_bench.cuda_graphs import graph_of, interleaved_seconds

    torch.backends.cuda.matmul.allow_tf32 = False
    dtype = {"f32": torch.float32, "f64": torch.float64}[chain.element]
    batch = _BYTES // chain.bytes
    eager = _EAGER[chain.eager]
    compiled = torch.compile(eager, dynamic=False)
    kernel = tl_dpnp.compile(chain.source, target="cuda")
    with _device(fcntl.LOCK_SH):
        arrays = [torch.randn([batch if size is None else size for size in reversed(shape)], device="cuda", dtype=dtype)
                  for shape in chain.shapes]
        some = [array[:_SAMPLE].double() if None in shape else array.double()
                for array, shape in zip(arrays, chain.shapes, strict=True)]
        expected = eager(*some)
        views = [tl_dpnp.rev(array) for array in arrays]
        kernel(*views)
        error = float((arrays[-1][:_SAMPLE].double() - expected).norm() / expected.norm())
        compiled(*arrays)
        source = torch.empty(chain.bytes * batch // 2 // dtype.itemsize, device="cuda", dtype=dtype).normal_()
        target = torch.empty_like(source)
        torch.cuda.synchronize()
    with _device(fcntl.LOCK_EX):
        graphs = [graph_of(call, _CALLS) for call in (
            lambda: kernel(*views), lambda: target.copy_(source), lambda: eager(*arrays), lambda: compiled(*arrays))]
        times = [statistics.median(own) / _CALLS for own in interleaved_seconds(graphs, _ROUNDS)]
        del graphs
    (plan, *_), = (text.splitlines() for text in kernel.inspect_source().values())
    return chain, times, error, plan


def _summary(title: str, ratios: Sequence[float]) -> str:
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return f"{title}: geometric mean {mean:.2f}, least {min(ratios):.2f}, {sum(ratio < 2 for ratio in ratios)} under 2"


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True, help="Draws the sizes.")
@click.option("--count", default=4, show_default=True, help="Chains of either kind and type whose sizes are drawn.")
@click.option("--element", "elements", multiple=True, type=click.Choice(list(_TOLERANCES)), default=("f32", "f64"),
              show_default=True)
@click.option("--processes", default=7, show_default=True, help="Processes that compile; one measures at a time.")
def main(seed: int, count: int, elements: tuple[str, ...], processes: int) -> None:
    """Print a line for each chain, and geometric means; end with 1 where a result is wrong."""
    chains = [chain for element in elements for chain in chains_of(element, seed, count)]
    wrong, ratios = 0, []
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for chain, (ours, copy, eager, compiled), error, plan in pool.map(_measured, chains):
            is_right = error <= _TOLERANCES[chain.element]
            wrong += not is_right
            ratios.append((eager / ours, compiled / ours))
            print(f"{chain.element} {chain.name}: {ours * 1e6:.1f} us, {copy / ours:.2f} of a copy, "
                  f"{eager / ours:.2f} of PyTorch, {compiled / ours:.2f} of torch.compile; {plan}"
                  f"{'' if is_right else f'; WRONG: error {error:.1e}'}", flush=True)
    for place, way in enumerate(("PyTorch", "torch.compile")):
        print(_summary(f"{len(ratios)} chains, seed {seed}, of {way}", [ratio[place] for ratio in ratios]))
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
