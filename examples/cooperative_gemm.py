"""A tiled matrix product in cooperative matrices: C := A · B for matrices of any sizes.

Each work-group computes one tile of C: it loads tiles of A and B and sums up their products, one after another.  Loads
and stores are checked, so that the last tiles may reach beyond the matrices: loads give 0 there, stores leave it out.
Beside it stands `gemm`, the same product in one instruction, for which the compiler chooses the tiles.

With --cuda the factors are bf16 and the sums f32, on the tensor cores of an NVIDIA GPU, with the arrays of PyTorch.
"""

import argparse
import timeit

import numpy as np

import tl_dpnp

#: No multiples of the tiles.
ROWS, COLUMNS, TERMS = 500, 390, 270

SOURCE = """
$A = coopmatrix<$factor x $rows x $depth, matrix_a>
$B = coopmatrix<$factor x $depth x $columns, matrix_b>
$C = coopmatrix<f32 x $rows x $columns, matrix_acc>

func @product(%A: memref<$factor x?x?>, %B: memref<$factor x?x?>, %C: memref<f32x?x?>) {
  %row = group_id.x : index
  %column = group_id.y : index
  %rows = constant $rows : index
  %columns = constant $columns : index
  %depth = constant $depth : index
  %first = constant 0 : index
  %terms = size %A[1] : index
  %i = mul %row, %rows : index
  %j = mul %column, %columns : index
  %zero = constant 0 : $C
  parallel {
    %sum = for %k = %first, %terms, %depth init(%c=%zero) -> ($C) {
      %a = cooperative_matrix_load.both_checked %A[%i,%k] : $A
      %b = cooperative_matrix_load.both_checked %B[%k,%j] : $B
      %d = cooperative_matrix_mul_add %a, %b, %c : $C
      yield (%d)
    }
    cooperative_matrix_store.both_checked %sum, %C[%i,%j]
  }
}
"""

#: The same in one instruction: the matrix is cut into tiles, which work-groups share, by the compiler.
GEMM = """
func @product(%A: memref<$factor x?x?>, %B: memref<$factor x?x?>, %C: memref<f32x?x?>) {
  gemm 1.0, %A, %B, 0.0, %C
}
"""


def compiled(factor, rows, columns, depth, **options):
    """Return calls of the two programs, each on matrices A, B and C, by what they are called."""
    tiles = tl_dpnp.compile(
        SOURCE, define={"factor": factor, "rows": rows, "columns": columns, "depth": depth}, **options)
    gemm = tl_dpnp.compile(GEMM, define={"factor": factor}, **options)
    groups = -(-ROWS // rows), -(-COLUMNS // columns), 1
    return {
        "cooperative matrices": lambda *matrices: tiles(*matrices, group_size=groups),
        "gemm": lambda *matrices: gemm(*matrices, group_size=1),
    }


def on_cuda(a, b):
    """Return programs for factors of bf16 on an NVIDIA GPU, the matrices, and functions for results and waiting."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(f"PyTorch {torch.__version__} finds no CUDA device: nvidia-smi lists those that there are")
    # Tensors are in C order: those of the transposes have the matrices in the order of the language.
    tensors = [torch.from_numpy(matrix.T.copy()).cuda().bfloat16() for matrix in (a, b)]
    result = torch.zeros((COLUMNS, ROWS), device="cuda")
    matrices = [tl_dpnp.rev(tensor) for tensor in (*tensors, result)]
    return compiled("bf16", 64, 64, 32, target="cuda"), matrices, lambda: result.cpu().numpy().T, torch.cuda.synchronize


def on_cpu(a, b):
    """Return programs for f32 on the default device, the matrices, and functions for results and waiting."""
    import dpnp

    matrices = [dpnp.asarray(matrix, order="F") for matrix in (a, b)]
    result = dpnp.zeros((ROWS, COLUMNS), dtype=dpnp.float32, order="F")
    return compiled("f32", 64, 24, 64), (*matrices, result), result.asnumpy, lambda: None


def main():
    """Run both programs, compare them with NumPy, and time all three in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="compute on an NVIDIA GPU (needs PyTorch)")
    options = parser.parse_args()
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((ROWS, TERMS), (TERMS, COLUMNS)))
    programs, matrices, result, wait = (on_cuda if options.cuda else on_cpu)(a, b)
    expected = a.astype(np.float64) @ b
    calls = {"NumPy": lambda: a @ b}
    for name, program in programs.items():
        def call(program=program):
            program(*matrices)
            wait()

        call()
        error = np.abs(result() - expected).max() / np.abs(expected).max()
        assert error < (1e-2 if options.cuda else 1e-6), f"{name} is wrong: relative error {error}"
        calls[name] = call
    rounds = [[timeit.timeit(call, number=3) for call in calls.values()] for _ in range(7)]
    times = dict(zip(calls, map(min, zip(*rounds, strict=True)), strict=True))
    own = times["cooperative matrices"]
    print(f"C := A · B, {ROWS} x {COLUMNS} x {TERMS}: cooperative matrices have {times['gemm'] / own:.2f} of the speed "
          f"of gemm, and {times['NumPy'] / own:.2f} of that of NumPy's f32")
    print(f"checked {len(programs)} programs against NumPy")


if __name__ == "__main__":
    main()
