"""Programs in the tensor language, as text."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FUSED_SAMPLE", "TRIVIAL", "TRIVIAL_OF_GROUPS", "batched", "gemm"]

#: D[:,:,g] += alpha A[g] Bᵀ C: the example of the tensor language's reference.
FUSED_SAMPLE = """
func @fused_kernel(%alpha: f32,
                   %A: group<memref<f32x16x8>>,
                   %B: memref<f32x8x8>,
                   %C: memref<f32x8x16>,
                   %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %tmp0 = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %tmp0
      : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %tmp0, %C, 1.0, %2
      : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""

#: Next to nothing to do.
TRIVIAL = """
func @trivial(%x: memref<f32x16>, %y: memref<f32x16>) {
  axpby.n 1.0, %x, 0.0, %y : f32, memref<f32x16>, f32, memref<f32x16>
}
"""
TRIVIAL_OF_GROUPS = """
func @trivial_of_groups(%X: group<memref<f32x16>>, %y: memref<f32x16x?>) {
  %g = group_id
  %x = load %X[%g] : group<memref<f32x16>>
  %column = subview %y[:, %g] : memref<f32x16x?>
  axpby.n 1.0, %x, 0.0, %column : f32, memref<f32x16>, f32, memref<f32x16>
}
"""


def batched(
    operands: Mapping[str, str],
    instructions: str,
    *,
    shared: Mapping[str, str] | None = None,
    looped: bool = False,
    groups: bool = False,
) -> str:
    """Return a program that runs `instructions` for each element of a batch.

    `operands` maps names in capitals to types without their batch, ``"f32x16x8"``; the instructions see an element by
    the name in small letters.  `shared` operands are the same for the whole batch and keep their names.  A work-group
    does one element; with `looped` it does the whole batch, so that a launch can run it as often as it has
    work-groups.  With `groups` the operands are groups of separate arrays.
    """
    shared = shared or {}
    whole = {name: f"group<memref<{t}>>" if groups else f"memref<{t}x?>" for name, t in operands.items()}
    parameters = [f"%{n}: {t}" for n, t in whole.items()] + [f"%{n}: memref<{t}>" for n, t in shared.items()]
    views = [
        f"%{n.lower()} = load %{n}[%i] : {whole[n]}" if groups
        else f"%{n.lower()} = subview %{n}[{':, ' * t.count('x')}%i] : {whole[n]}"
        for n, t in operands.items()
    ]
    body = "\n    ".join([*views, *instructions.strip().splitlines()])
    if looped:
        if groups:
            raise ValueError("a kernel does not know how many elements a group has, and cannot loop over them")
        last, kind = next(iter(operands)), next(iter(whole.values()))
        count = next(iter(operands.values())).count("x")
        body = f"%count = size %{last}[{count}] : {kind}\n  for %i = 0, %count {{\n    {body}\n  }}"
    else:
        body = f"%i = group_id\n    {body}"
    return f"func @batched({', '.join(parameters)}) {{\n  {body}\n}}\n"


def gemm(
    m: int, n: int, k: int, element: str = "f32", transposes: str = "n.n", beta: float = 0.0, dynamic: bool = False,
    **form: bool
) -> str:
    """Return the program C := op(A) · op(B) + beta C for each element of a batch; `form` as in `batched`.

    With `dynamic` the program knows none of the sizes.
    """
    transpose_a, transpose_b = transposes.split(".")
    a = f"{element}x{m}x{k}" if transpose_a == "n" else f"{element}x{k}x{m}"
    b = f"{element}x{k}x{n}" if transpose_b == "n" else f"{element}x{n}x{k}"
    c = f"{element}x{m}x{n}"
    if dynamic:
        a = b = c = f"{element}x?x?"
    instruction = (f"gemm.{transposes} 1.0, %a, %b, {beta}, %c : "
                   f"{element}, memref<{a}>, memref<{b}>, {element}, memref<{c}>")
    return batched({"A": a, "B": b, "C": c}, instruction, **form)
