"""Products of complex numbers: two sums of products of pairs and real numbers, in the tiles of a real product."""

from __future__ import annotations

import pytest

from tests.lowering.support import CPU
from tl_dpnp.language import parse
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.contraction import Contraction, contractions_of
from tl_dpnp.lowering.tiling import vector_tiling


def contraction(a: str, b: str, c: str, size: int = 16, factors: tuple[str, str] = ("1", "0")) -> Contraction:
    """Return the nest of a product of square matrices of these types."""
    types = [f"memref<{type_}x{size}x{size}>" for type_ in (a, b, c)]
    alpha, beta = factors
    text = f"""func @f(%A: {types[0]}, %B: {types[1]}, %C: {types[2]}) {{
      gemm.n.n {alpha}, %A, %B, {beta}, %C : {c}, {types[0]}, {types[1]}, {c}, {types[2]}
    }}"""
    ((_, found),) = contractions_of(canonicalize(parse(text).functions[0]))
    return found


@pytest.mark.parametrize(("a", "b", "updates", "result"), [
    ("c32", "c32", ["T[m, n] = fma(A[m, k], B[k, n].re, T[m, n])", "U[m, n] = fma(A[m, k], B[k, n].im, U[m, n])"],
     "T[m, n] + 1j * U[m, n]"),
    ("c32", "f32", ["T[m, n] = fma(A[m, k], B[k, n], T[m, n])"], "T[m, n]"),
    ("f32", "c32", ["T[m, n] = fma(B[k, n], A[m, k], T[m, n])"], "T[m, n]"),
    ("f32", "f16", ["T[m, n] = fma(c32(A[m, k]), f32(B[k, n]), T[m, n])"], "T[m, n]"),
])
def test_sums(a: str, b: str, updates: list[str], result: str) -> None:
    """A second sum is there where both factors are complex; a factor that is real stays so."""
    found = contraction(a, b, "c32")
    lines = [line.strip() for line in str(found.nest).splitlines()]
    assert [line for line in lines if "fma" in line] == updates
    assert lines[-1] == f"C[m, n] = {result}"
    assert found.sums == len(updates)


@pytest.mark.parametrize(("factors", "line"), [
    (("2", "1"), "C[m, n] = fma(2.0, T[m, n] + 1j * U[m, n], C[m, n])"),
    (("[0, 1]", "[3, 0]"), "C[m, n] = fma(3.0, C[m, n], 1j * (T[m, n] + 1j * U[m, n]))"),
])
def test_factors(factors: tuple[str, str], line: str) -> None:
    assert str(contraction("c32", "c32", "c32", factors=factors).nest).splitlines()[-1].strip() == line


@pytest.mark.parametrize(("type_", "real"), [("c32", "f32"), ("c64", "f64")])
@pytest.mark.parametrize("size", [16, 32, 64])
def test_tiles_have_the_registers_of_real_ones(type_: str, real: str, size: int) -> None:
    """A tile has half as many columns as one of reals with as many vectors, or it would not fit in registers."""
    core = CPU.core
    ours, other = (vector_tiling(contraction(each, each, each, size), core) for each in (type_, real))
    assert 2 * ours.vectors * ours.columns <= core.registers
    assert ours.vectors * ours.columns <= max(other.vectors * other.columns, core.accumulators)
