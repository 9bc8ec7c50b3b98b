"""Programs for the staged form, with arguments that the copy engine takes and others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """A program whose last parameter is written; `shapes` are those of the arrays, the batch mode given by None.

    Parameters named in `groups`, by position, are passed as lists; `precision` is for the compiler.
    """

    name: str
    source: str
    shapes: tuple[tuple[int | None, ...], ...]
    dtypes: tuple[str, ...]
    groups: tuple[int, ...] = ()
    precision: Literal["highest", "high", "default"] = "highest"

    def arguments(self, batch: int, seed: int = 0) -> list[np.ndarray]:
        """Return column-major arrays of small whole numbers."""
        random = np.random.default_rng(seed)
        return [
            np.asfortranarray(random.integers(-3, 4, [batch if size is None else size for size in shape]).astype(dtype))
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]


def product(m: int, n: int, k: int, element: str, beta: float, transposes: str = "n.n", result: str = "") -> Case:
    """Return C[g] := A[g] B[g] + beta C[g] for batches in one array."""
    rows, columns = (m, k) if transposes[0] == "n" else (k, m), (k, n) if transposes[2] == "n" else (n, k)
    result = result or element
    a, b, c = (f"{name}x{r}x{s}" for name, (r, s) in ((element, rows), (element, columns), (result, (m, n))))
    source = f"""func @product(%A: memref<{a}x?>, %B: memref<{b}x?>, %C: memref<{c}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : memref<{a}x?>
      %b = subview %B[:,:,%g] : memref<{b}x?>
      %c = subview %C[:,:,%g] : memref<{c}x?>
      gemm.{transposes} 1.0, %a, %b, {beta}, %c : {result}, memref<{a}>, memref<{b}>, {result}, memref<{c}>
    }}"""
    dtype = {"f32": "float32", "f64": "float64", "f16": "float16"}[element]
    name = f"{m}x{n}x{k}_{element}_{transposes}_beta{beta:g}"
    kinds = (dtype, dtype, "float32" if result == "f32" else dtype)
    return Case(name, source, ((*rows, None), (*columns, None), (m, n, None)), kinds)


def grouped(m: int, n: int, k: int) -> Case:
    """Return C[g] := A[g] B + C[g] for groups A and C and one B."""
    a, b, c = f"f32x{m}x{k}", f"f32x{k}x{n}", f"f32x{m}x{n}"
    source = f"""func @grouped(%A: group<memref<{a}>>, %B: memref<{b}>, %C: group<memref<{c}>>) {{
      %g = group_id
      %a = load %A[%g] : group<memref<{a}>>
      %c = load %C[%g] : group<memref<{c}>>
      gemm.n.n 1.0, %a, %B, 1.0, %c : f32, memref<{a}>, memref<{b}>, f32, memref<{c}>
    }}"""
    return Case(f"groups_{m}x{n}x{k}", source, ((m, k, None), (k, n), (m, n, None)), ("float32",) * 3, (0, 2))


_CHAIN = """func @chain(%A: memref<f32x16x8x?>, %B: memref<f32x8x8>, %C: memref<f32x8x16>, %D: memref<f32x16x16x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x16x8x?>
  %d = subview %D[:,:,%g] : memref<f32x16x16x?>
  %t = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %a, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n 2.0, %t, %C, 1.0, %d : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}"""


def volume(m: int, n: int, element: str, in_groups: bool = False) -> Case:
    """Return Q[g] += Σ_d K_d (I[g] S_d[g]), the kernel of examples/seissol_volume.py."""
    dofs, star, matrix = (f"memref<{element}x{rows}x{columns}>" for rows, columns in ((m, n), (n, n), (m, m)))

    def batch(type_: str) -> str:
        return f"group<{type_}>" if in_groups else f"{type_[:-1]}x?>"

    def own(name: str, value: str, type_: str) -> str:
        place = f"load %{name}[%g]" if in_groups else f"subview %{name}[:,:,%g]"
        return f"%{value} = {place} : {batch(type_)}"

    steps = "\n".join(f"""
      {own(f"S{d}", f"s{d}", star)}
      gemm.n.n 1.0, %i, %s{d}, 0.0, %t : {element}, {dofs}, {star}, {element}, {dofs}
      gemm.n.n 1.0, %K{d}, %t, 1.0, %q : {element}, {matrix}, {dofs}, {element}, {dofs}""" for d in range(3))
    parameters = [*(f"%S{d}: {batch(star)}" for d in range(3)), *(f"%K{d}: {matrix}" for d in range(3))]
    source = f"""func @volume(%I: {batch(dofs)}, {", ".join(parameters)}, %Q: {batch(dofs)}) {{
      %g = group_id
      {own("I", "i", dofs)}
      {own("Q", "q", dofs)}
      %t = alloca -> {dofs}{steps}
    }}"""
    shapes = ((m, n, None), *[(n, n, None)] * 3, *[(m, m)] * 3, (m, n, None))
    dtype = {"f32": "float32", "f64": "float64"}[element]
    name = f"volume_{m}x{n}_{element}{'_groups' if in_groups else ''}"
    return Case(name, source, shapes, (dtype,) * 8, (0, 1, 2, 3, 7) if in_groups else (), "default")


#: Products of f16, one of them transposed, by a matrix that all work-groups read, and what is no product.
_HALVES = """func @halves(%A: memref<f16x56x40>, %B: memref<f16x40x9x?>, %C: memref<f16x9x40x?>,
             %D: memref<f32x56x9x?>) {
  %g = group_id
  %b = subview %B[:,:,%g] : memref<f16x40x9x?>
  %c = subview %C[:,:,%g] : memref<f16x9x40x?>
  %d = subview %D[:,:,%g] : memref<f32x56x9x?>
  %t = alloca -> memref<f32x56x9>
  %u = alloca -> memref<f32x56x9>
  gemm.n.n 1.0, %A, %b, 0.0, %t : f32, memref<f16x56x40>, memref<f16x40x9>, f32, memref<f32x56x9>
  gemm.n.t 2.0, %A, %c, 0.0, %u : f32, memref<f16x56x40>, memref<f16x9x40>, f32, memref<f32x56x9>
  axpby.n 1.0, %t, 1.0, %u : f32, memref<f32x56x9>, f32, memref<f32x56x9>
  gemm.n.n 1.0, %A, %b, 1.0, %u : f32, memref<f16x56x40>, memref<f16x40x9>, f32, memref<f32x56x9>
  axpby.n 1.0, %u, 1.0, %d : f32, memref<f32x56x9>, f32, memref<f32x56x9>
}"""
#: A temporary whose sums take more registers than two warps have.
_LARGE_CHAIN = """func @large(%A: memref<f64x52x52x?>, %B: memref<f64x52x52>, %C: memref<f64x52x52>,
            %D: memref<f64x52x52x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f64x52x52x?>
  %d = subview %D[:,:,%g] : memref<f64x52x52x?>
  %t = alloca -> memref<f64x52x52>
  gemm.n.n 1.0, %B, %a, 0.0, %t : f64, memref<f64x52x52>, memref<f64x52x52>, f64, memref<f64x52x52>
  gemm.t.n 2.0, %t, %C, 1.0, %d : f64, memref<f64x52x52>, memref<f64x52x52>, f64, memref<f64x52x52>
}"""
_PART = """func @part(%A: memref<f32x6x4x?>, %x: memref<f32x4x?>, %D: memref<f32x6x9x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x6x4x?>
  %v = subview %x[:,%g] : memref<f32x4x?>
  %d = subview %D[:,:,%g] : memref<f32x6x9x?>
  %c = subview %d[:,3] : memref<f32x6x9>
  gemv.n 1.0, %a, %v, 0.0, %c : f32, memref<f32x6x4>, memref<f32x4>, f32, memref<f32x6>
}"""
#: Temporaries that teams of several warps share.
_LONG_CHAIN = """func @long(%A: memref<f32x64x8x?>, %B: memref<f32x8x64>, %D: memref<f32x64x64x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x64x8x?>
  %d = subview %D[:,:,%g] : memref<f32x64x64x?>
  %t = alloca -> memref<f32x64x64>
  gemm.n.n 1.0, %a, %B, 0.0, %t : f32, memref<f32x64x8>, memref<f32x8x64>, f32, memref<f32x64x64>
  axpby.t 1.0, %t, 1.0, %d : f32, memref<f32x64x64>, f32, memref<f32x64x64>
}"""

#: A large result that is written and not read, by instructions that no thread computes in one go.
_LARGE_RESULT = """func @large_result(%A: memref<f32x64x8x?>, %B: memref<f32x8x64>, %D: memref<f32x64x64x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x64x8x?>
  %d = subview %D[:,:,%g] : memref<f32x64x64x?>
  %t = alloca -> memref<f32x64x64>
  gemm.n.n 1.0, %a, %B, 0.0, %t : f32, memref<f32x64x8>, memref<f32x8x64>, f32, memref<f32x64x64>
  axpby.n 2.0, %t, 0.0, %d : f32, memref<f32x64x64>, f32, memref<f32x64x64>
}"""

CASES = {
    case.name: case for case in (
        product(8, 8, 8, "f32", 0.0), product(16, 16, 16, "f32", 1.0), product(32, 32, 32, "f64", 0.0),
        product(64, 64, 64, "f32", 0.0), product(56, 9, 56, "f32", 0.0), product(56, 9, 56, "f64", 1.0),
        product(3, 5, 7, "f32", 0.0), product(13, 1, 2, "f64", 2.0), product(9, 9, 9, "f16", 0.0),
        product(16, 8, 24, "f32", 0.0, "t.n"), product(12, 20, 5, "f32", 1.0, "t.t"),
        product(64, 64, 64, "f64", 0.0), product(32, 48, 24, "f64", 1.0, "t.n"), product(64, 16, 20, "f64", 2.0, "n.t"),
        product(32, 32, 32, "f16", 0.0, "n.n", "f32"), product(64, 64, 64, "f16", 1.0, "t.t", "f32"),
        product(16, 8, 24, "f16", 2.0, "n.t", "f32"), product(16, 16, 16, "f16", 0.0, "t.n", "f32"),
        product(64, 64, 64, "f16", 0.0, "n.n", "f32"), product(48, 16, 32, "f16", 0.0, "n.t", "f32"),
        product(64, 24, 48, "f16", 0.0, "t.n", "f32"),
        *(replace(case, name=f"{case.name}_{precision}", precision=precision)
          for precision in ("high", "default")
          for case in (product(64, 64, 64, "f32", 0.0), product(48, 8, 12, "f32", 1.0, "t.n"),
                       product(32, 16, 8, "f32", 0.0, "n.t"))),
        product(35, 9, 35, "f64", 2.0), product(50, 12, 20, "f16", 1.0, "t.n", "f32"),
        product(61, 25, 64, "f64", 1.0, "n.t"), product(61, 52, 61, "f16", 1.0), product(42, 51, 10, "f16", 1.0, "t.n"),
        product(38, 30, 29, "f16", 2.0, "n.t", "f32"), product(35, 20, 9, "f64", 0.0, "t.t"),
        product(27, 20, 14, "f16", 0.0, "n.t", "f32"),
        grouped(16, 16, 8), grouped(5, 3, 2),
        Case("chain", _CHAIN, ((16, 8, None), (8, 8), (8, 16), (16, 16, None)), ("float32",) * 4),
        volume(56, 9, "f64"), volume(35, 9, "f64"), volume(56, 9, "f64", in_groups=True),
        volume(56, 9, "f32"), volume(35, 9, "f32", in_groups=True),
        Case("halves", _HALVES, ((56, 40), (40, 9, None), (9, 40, None), (56, 9, None)),
             ("float16", "float16", "float16", "float32")),
        Case("large_chain", _LARGE_CHAIN, ((52, 52, None), (52, 52), (52, 52), (52, 52, None)), ("float64",) * 4),
        Case("part_of_a_result", _PART, ((6, 4, None), (4, None), (6, 9, None)), ("float32",) * 3),
        Case("large_result", _LARGE_RESULT, ((64, 8, None), (8, 64), (64, 64, None)), ("float32",) * 3),
        Case("long_chain", _LONG_CHAIN, ((64, 8, None), (8, 64), (64, 64, None)), ("float32",) * 3),
    )
}
