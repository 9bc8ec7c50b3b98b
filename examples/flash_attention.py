"""Flash attention in cooperative matrices: softmax(q kᵀ / √d) v without ever having all scores.

A work-group takes some queries of one head and goes over the keys in blocks.  From block to block it carries, for each
query, the largest score so far, the sum of the weights, and the weighted sum of the values; where the largest score
grows, the sums are scaled down (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
"FlashAttention", 2022).  So memory for the scores is that of one block, however long the sequences are.

With --cuda the factors are bf16 and the sums f32, on an NVIDIA GPU with the arrays of PyTorch.
"""

import argparse
import math
import timeit

import numpy as np

import tl_dpnp

BATCH, HEADS, LENGTH, DIMENSION = 2, 4, 500, 64
#: The queries and the keys of a block.
QUERIES, KEYS = 32, 32
#: Devices have an instruction for powers of 2: exp(x / √d) = 2^(x log2(e) / √d).
SCALE = DIMENSION ** -0.5 * math.log2(math.e)

#: What is done with the scores %S of a block of keys.  A column of numbers, one for each query, times a row of ones
#: gives them to all components of a row, as broadcasting does in NumPy.  The product of a number and 1 is exact.
BLOCK = """
      %highest = cooperative_matrix_reduce_max.row %S : $column
      %m_new = max %m, %highest : $column
      %scaled = cooperative_matrix_scale %scale, %m_new : $column
      %minus = neg %scaled : $column
      %minus_a = cast %minus : $spread
      %shift = cooperative_matrix_mul_add %minus_a, %to_keys, %no_score : $S
      %weights = cooperative_matrix_apply (%row,%key,%x,%y)=%S,%shift -> $S {
        %z = math.fma %x, %scale, %y : f32
        %w = exp2 %z : f32
        yield (%w)
      }
      %change = sub %m, %m_new : $column
      %shrink = cooperative_matrix_apply (%row,%key,%x)=%change -> $column {
        %z = mul %x, %scale : f32
        %w = exp2 %z : f32
        yield (%w)
      }
      %l_shrunk = mul %l, %shrink : $column
      %more = cooperative_matrix_reduce_add.row %weights : $column
      %l_new = add %l_shrunk, %more : $column
      %shrink_a = cast %shrink : $spread
      %shrinks = cooperative_matrix_mul_add %shrink_a, %to_values, %none : $O
      %shrunk = mul %O, %shrinks : $O
      %P = cast %weights : $P
      %V = cooperative_matrix_load.t.rows_checked %vh[%c0,%j] : $V
      %O_new = cooperative_matrix_mul_add %P, %V, %shrunk : $O
      yield (%m_new, %l_new, %O_new)
"""

#: Blocks of keys that are all there have a loop of their own, in which no score is compared with anything.
SOURCE = """
$Q = coopmatrix<$factor x $queries x $dimension, matrix_a>
$K = coopmatrix<$factor x $dimension x $keys, matrix_b>
$V = coopmatrix<$factor x $keys x $dimension, matrix_b>
$P = coopmatrix<$factor x $queries x $keys, matrix_a>
$S = coopmatrix<f32 x $queries x $keys, matrix_acc>
$O = coopmatrix<f32 x $queries x $dimension, matrix_acc>
$column = coopmatrix<f32 x $queries x 1, matrix_acc>
$spread = coopmatrix<f32 x $queries x 1, matrix_a>
$array = memref<$factor x $dimension x ? x ?>

; Modes: components of a vector, positions in the sequence, heads of all batches.
func @attention(%scale: f32, %q: $array, %k: $array, %v: $array, %o: memref<f32 x $dimension x ? x ?>) {
  %block = group_id.x : index
  %head = group_id.y : index
  %step = constant $queries : index
  %i = mul %block, %step : index
  %c0 = constant 0 : index
  %keys = constant $keys : index
  %length = size %k[1] : index
  %blocks = div %length, %keys : index
  %whole = mul %blocks, %keys : index
  %left = sub %length, %whole : index
  %last = cast %left : i32
  %qh = subview %q[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %kh = subview %k[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %vh = subview %v[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %oh = subview %o[0:$dimension,0:?,%head] : memref<f32 x $dimension x ?>
  %none = constant 0 : $O
  %no_score = constant 0 : $S
  %no_weight = constant 0 : $column
  %lowest = constant -inf : $column
  %to_keys = constant 1 : coopmatrix<f32 x 1 x $keys, matrix_b>
  %to_values = constant 1 : coopmatrix<f32 x 1 x $dimension, matrix_b>
  parallel {
    %Q = cooperative_matrix_load.t.rows_checked %qh[%c0,%i] : $Q
    %m1, %l1, %O1 = for %j = %c0, %whole, %keys
        init(%m=%lowest, %l=%no_weight, %O=%none) -> ($column, $column, $O) {
      %K = cooperative_matrix_load %kh[%c0,%j] : $K
      %S = cooperative_matrix_mul_add %Q, %K, %no_score : $S
      BLOCK
    }
    %m2, %l2, %O2 = for %j = %whole, %length, %keys
        init(%m=%m1, %l=%l1, %O=%O1) -> ($column, $column, $O) {
      %K = cooperative_matrix_load.cols_checked %kh[%c0,%j] : $K
      %all = cooperative_matrix_mul_add %Q, %K, %no_score : $S
      %S = cooperative_matrix_apply (%row,%key,%x)=%all -> $S {
        %is_key = less_than %key, %last : bool            ; the weight of what is no key is 2^-inf = 0
        %y = if %is_key -> (f32) { yield (%x) } else { yield (-inf) }
        yield (%y)
      }
      BLOCK
    }
    %l_a = cast %l2 : $spread
    %sums = cooperative_matrix_mul_add %l_a, %to_values, %none : $O
    %result = div %O2, %sums : $O
    cooperative_matrix_store.t.rows_checked %result, %oh[%c0,%i]
  }
}
""".replace("BLOCK", BLOCK)


def plain(q, k, v):
    """Return attention by NumPy, in the type of the arrays."""
    scores = q @ k.swapaxes(-1, -2) * q.dtype.type(DIMENSION ** -0.5)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def kernel_for(factor, **options):
    """Return the kernel for factors of a type, and its work-groups."""
    kernel = tl_dpnp.compile(SOURCE, define={
        "factor": factor, "queries": QUERIES, "keys": KEYS, "dimension": DIMENSION}, **options)
    return kernel, (-(-LENGTH // QUERIES), BATCH * HEADS, 1)


def on_cuda(q, k, v):
    """Return a call that computes with factors of bf16 on an NVIDIA GPU, and one that returns what it computed."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(f"PyTorch {torch.__version__} finds no CUDA device: nvidia-smi lists those that there are")
    kernel, groups = kernel_for("bf16", target="cuda")
    arrays = [torch.from_numpy(array).cuda().bfloat16() for array in (q, k, v)]
    result = torch.zeros(q.shape, device="cuda")
    passed = [tl_dpnp.rev(array) for array in (*arrays, result)]

    def call():
        kernel(SCALE, *passed, group_size=groups)
        torch.cuda.synchronize()

    return call, lambda: result.cpu().numpy()


def on_cpu(q, k, v):
    """Return a call that computes in f32 on the default device, and one that returns what it computed."""
    import dpnp

    kernel, groups = kernel_for("f32")
    arrays = [dpnp.asarray(array) for array in (q, k, v)]
    result = dpnp.zeros(q.shape, dtype=dpnp.float32)
    passed = [tl_dpnp.rev(array) for array in (*arrays, result)]
    return lambda: kernel(SCALE, *passed, group_size=groups), result.asnumpy


def main():
    """Run it on random heads, compare with NumPy in f64, and time it beside NumPy in f32."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="compute on an NVIDIA GPU (needs PyTorch)")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((BATCH * HEADS, LENGTH, DIMENSION), dtype=np.float32) for _ in range(3))
    call, result = (on_cuda if options.cuda else on_cpu)(q, k, v)
    call()
    error = np.abs(result() - plain(*(array.astype(np.float64) for array in (q, k, v)))).max()
    assert error < (2e-2 if options.cuda else 1e-5), f"the result is wrong: error {error}"
    rounds = [[timeit.timeit(run, number=1) for run in (call, lambda: plain(q, k, v))] for _ in range(7)]
    own, numpy = map(min, zip(*rounds, strict=True))
    print(f"{BATCH} batches of {HEADS} heads, {LENGTH} vectors of {DIMENSION}: "
          f"{QUERIES * KEYS} scores at a time instead of {LENGTH**2}")
    print(f"{numpy / own:.2f} times the speed of NumPy's attention in f32")
    print("checked against NumPy, " + (f"largest error {error:.1e}" if error else "all bits agree"))


if __name__ == "__main__":
    main()
