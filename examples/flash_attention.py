"""Flash attention in cooperative matrices: softmax(q kᵀ / √d) v without ever having all scores.

A work-group takes some queries of one head and goes over the keys in blocks.  From block to block it carries the sum of
the weights of each query and the weighted sum of the values.  So memory for the scores is that of one block, however
long the sequences are (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
"FlashAttention", 2022).

Weights are 2^(score - m), where any number m of a query does as far as nothing overflows: it is in both sums, whose
quotient is the result.  So m is the largest score of the first block of keys, and no other score is compared with it:
one that is larger by 24 makes the sum of the weights so large that both sums are made again, with the largest score of
all keys.  That takes more than twice the time, is rare where the first scores tell how large others are, and is right
for any.

Matrices are those of the transposed problem, as arrays are in memory: keys by queries, components by queries.  Where
Intel's matrix units have sums of products in registers, a block of weights is a factor of the next product so, number
by number, and values need not be transposed.

With --cuda the factors are bf16 and the sums f32, on an NVIDIA GPU with the arrays of PyTorch.
"""

import argparse
import math
import timeit

import numpy as np

import tl_dpnp

BATCH, HEADS, LENGTH, DIMENSION = 2, 4, 500, 64
#: The queries and the keys of a block.
QUERIES, KEYS = 16, 16
#: Devices have an instruction for powers of 2: exp(x / √d) = 2^(x log2(e) / √d).
SCALE = DIMENSION ** -0.5 * math.log2(math.e)

#: From this sum of weights on, sums are made again: f32 has room for values times it, and for the weights of f16.
MOST = 2 ** 24

#: The scores of a block of keys that is not whole: what is no key gets -inf added, and weighs 2^-inf = 0.
LAST_SCORES = """
      %outside = cooperative_matrix_apply (%key,%one,%x)=%no_mask -> $column {
        %is_key = less_than %key, %last : bool
        %y = if %is_key -> (f32) { yield (%x) } else { yield (-inf) }
        yield (%y)
      }
      %outside_a = cast %outside : $spread_column
      %mask = cooperative_matrix_mul_add %outside_a, %to_queries, ADDED : $S
      %K = cooperative_matrix_load.t.rows_checked %kh[%c0,%j] : $K
      %S = cooperative_matrix_mul_add %K, %Q, %mask : $S
"""

#: The number of each query, -m: the negative of its largest score among some keys.  A row of numbers, one for each
#: query, times a column of ones gives them to all components of a column, as broadcasting does in NumPy.
LARGEST = """
    %largest# = for %j = %c0, WHOLE, %keys init(%X=%lowest) -> ($S) {
      %K = cooperative_matrix_load.t %kh[%c0,%j] : $K
      %S = cooperative_matrix_mul_add %K, %Q, %no_score : $S
      %Y = max %X, %S : $S
      yield (%Y)
    }
    %scores# = for %j = %whole, LENGTH, %keys init(%X=%largest#) -> ($S) {
      LAST_SCORES
      %Y = max %X, %S : $S
      yield (%Y)
    }
    %m# = cooperative_matrix_reduce_max.column %scores# : $row
    %minus# = neg %m# : $row
    %minus_b# = cast %minus# : $spread_row
    %M# = cooperative_matrix_mul_add %to_keys, %minus_b#, %no_score : $S
"""

#: What is done with the scores %S of a block of keys: weights and values are added to the sums.
BLOCK = """
      %weights = cooperative_matrix_apply (%key,%query,%x)=%S -> $S {
        %z = mul %x, %scale : f32
        %w = exp2 %z : f32
        yield (%w)
      }
      %P = cast %weights : $P
      %l_new = cooperative_matrix_mul_add %ones, %P, %WEIGHT : $L
      %V = cooperative_matrix_load.cols_checked %vh[%c0,%j] : $V
      %O_new = cooperative_matrix_mul_add %V, %P, %VALUES : $O
      yield (%l_new, %O_new)
"""

#: The sums over all keys.  The block that is not whole comes first, so that nothing is carried to it.  Whole blocks
#: have a loop of their own, in which nothing is compared.
SUMS = """
    %l_last#, %O_last# = for %j = %whole, %length, %keys init(%l=%no_weight, %O=%none) -> ($L, $O) {
      LAST_SCORES
      FIRST_BLOCK
    }
    %l#, %O# = for %j = %c0, %whole, %keys init(%l=%l_last#, %O=%O_last#) -> ($L, $O) {
      %K = cooperative_matrix_load.t %kh[%c0,%j] : $K
      %S = cooperative_matrix_mul_add %K, %Q, %M# : $S
      BLOCK
    }
    %sum# = cooperative_matrix_reduce_max.column %l# : $row
"""

SOURCE = """
$Q = coopmatrix<$factor x $dimension x $queries, matrix_b>
$K = coopmatrix<$factor x $keys x $dimension, matrix_a>
$V = coopmatrix<$factor x $dimension x $keys, matrix_a>
$P = coopmatrix<$factor x $keys x $queries, matrix_b>
$S = coopmatrix<f32 x $keys x $queries, matrix_acc>
$O = coopmatrix<f32 x $dimension x $queries, matrix_acc>
$L = coopmatrix<f32 x 16 x $queries, matrix_acc>
$row = coopmatrix<f32 x 1 x $queries, matrix_acc>
$spread_row = coopmatrix<f32 x 1 x $queries, matrix_b>
$column = coopmatrix<f32 x $keys x 1, matrix_acc>
$spread_column = coopmatrix<f32 x $keys x 1, matrix_a>
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
  %few = min %keys, %length : index
  %few_whole = min %keys, %whole : index
  %qh = subview %q[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %kh = subview %k[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %vh = subview %v[0:$dimension,0:?,%head] : memref<$factor x $dimension x ?>
  %oh = subview %o[0:$dimension,0:?,%head] : memref<f32 x $dimension x ?>
  %none = constant 0 : $O
  %no_score = constant 0 : $S
  %no_mask = constant 0 : $column
  %no_weight = constant 0 : $L
  %lowest = constant -inf : $S
  %ones = constant 1 : coopmatrix<$factor x 16 x $keys, matrix_a>
  %to_keys = constant 1 : coopmatrix<f32 x $keys x 1, matrix_a>
  %to_values = constant 1 : coopmatrix<f32 x $dimension x 1, matrix_a>
  %to_queries = constant 1 : $spread_row
  parallel {
    %Q = cooperative_matrix_load.cols_checked %qh[%c0,%i] : $Q
    LARGEST(_1, %few_whole, %few)
    SUMS(_1)
    %top = cooperative_matrix_reduce_max.row %sum_1 : coopmatrix<f32 x 1 x 1, matrix_acc>
    %own = cooperative_matrix_extract %top[0] : f32
    %most = subgroup_reduce_max %own : f32
    %is_small = less_than %most, MOST : bool
    %weight, %values = if %is_small -> ($row, $O) {
      yield (%sum_1, %O_1)
    } else {
      LARGEST(_2, %whole, %length)
      SUMS(_2)
      yield (%sum_2, %O_2)
    }
    %weight_b = cast %weight : $spread_row
    %sums = cooperative_matrix_mul_add %to_values, %weight_b, %none : $O
    %result = div %values, %sums : $O
    cooperative_matrix_store.cols_checked %result, %oh[%c0,%i]
  }
}
"""


def _written(source):
    """Return the program with its parts in their places."""
    def last(added):
        return LAST_SCORES.replace("ADDED", added)

    first_block, block = (BLOCK.replace("%WEIGHT", weight).replace("%VALUES", values)
                          for weight, values in (("%no_weight", "%none"), ("%l", "%O")))
    sums = SUMS.replace("LAST_SCORES", last("%M#")).replace("FIRST_BLOCK", first_block).replace("BLOCK", block)
    for turn, whole, length in (("_1", "%few_whole", "%few"), ("_2", "%whole", "%length")):
        largest = LARGEST.replace("LAST_SCORES", last("%no_score")).replace("WHOLE", whole).replace("LENGTH", length)
        source = source.replace(f"LARGEST({turn}, {whole}, {length})", largest.replace("#", turn))
        source = source.replace(f"SUMS({turn})", sums.replace("#", turn))
    return source.replace("MOST", f"{MOST:.1f}")


SOURCE = _written(SOURCE)


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
