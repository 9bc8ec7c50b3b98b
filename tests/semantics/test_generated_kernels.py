"""Kernels as generators write them today: 0.4 mixed with older spellings in one function.

They are written in the style of SeisSol's generator: named constants, local memory as a type, groups with ``x ?`` and
annotated results beside ``arith.mul``, ``gemm.n.n.atomic``, ``for %0=0,9`` and ``subview %A[0:?,0:?,%g]``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]
_GROUPS, _BASIS, _FACE, _QUANTITIES = 5, 20, 10, 9

#: K (I star) summed over three dimensions: stiffness is the same for all elements.
VOLUME = """
func @volume(%Q: group<memref<f64x20x9>x?>, %I: group<memref<f64x20x9>x?>, %K0: memref<f64x20x20>,
             %K1: memref<f64x20x20>, %star: group<memref<f64x9x9x2>x?>) attributes{subgroup_size=16,
             work_group_size=[16,1]} {
  %g = group_id.x : index
  %q = load %Q[%g] : memref<f64x20x9>
  %i = load %I[%g] : memref<f64x20x9>
  %s = load %star[%g] : group<memref<f64x9x9x2>>
  %one = constant 1.0 : f64
  %zero = constant 0 : f64
  %s0 = subview %s[0:?,0:?,0] : memref<f64x9x9x2>
  %s1 = subview %s[0:9,0:9,1] : memref<f64x9x9>
  %tmp = alloca : memref<f64x20x9,local>
  gemm.n.n %one, %i, %s0, %zero, %tmp
  gemm.n.n %one, %K0, %tmp, %one, %q
  gemm.n.n 1.0, %i, %s1, 0.0, %tmp : f64, memref<f64x20x9>, memref<f64x9x9>, f64, memref<f64x20x9>
  gemm.n.n 1.0, %K1, %tmp, 1.0, %q : f64, memref<f64x20x20>, memref<f64x20x9,local>, f64, memref<f64x20x9>
}
"""


def volume(Q, integrated, K0, K1, star):
    for q, i, s in zip(Q, integrated, star, strict=True):
        q += K0 @ (i @ s[:, :, 0]) + K1 @ (i @ s[:, :, 1])


#: R (F I) A: to the face, through the solver and back; two temporaries that are not alive together.
LOCAL_FLUX = """
func @localFlux(%Q: memref<f64x20x9x?>, %I: memref<f64x20x9x?>, %F: memref<f64x10x20>, %R: memref<f64x20x10>,
                %A: group<memref<f64x9x9>x?>) {
  %g = group_id.x : index
  %c1 = constant 1 : f64
  %q = subview %Q[0:?,0:?,%g] : memref<f64x20x9x?>
  %i = subview %I[0:20,0:9,%g] : memref<f64x20x9>
  %a = load %A[%g] : memref<f64x9x9>
  %face = alloca : memref<f64x10x9,local>
  %c0 = constant 0 : f64
  gemm %c1, %F, %i, %c0, %face
  %solved = alloca -> memref<f64x10x9>
  gemm.n.n %c1, %face, %a, %c0, %solved
  lifetime_stop %face
  gemm.n.n.atomic %c1, %R, %solved, %c1, %q
}
"""


def local_flux(Q, integrated, F, R, A):
    for g, a in enumerate(A):
        Q[:, :, g] += R @ (F @ integrated[:, :, g] @ a)


#: Neighbours add to shared memory: the same element for two work-groups.
NEIGHBOUR = """
func @neighbour(%Q: memref<f32x20x9x?>, %I: group<memref<f32x20x9>x?>, %N: memref<f32x20x20>, %to: memref<i64x?>) {
  %g = group_id.x : index
  %t = load %to[%g] : i64
  %h = cast %t : index
  %i = load %I[%g] : memref<f32x20x9>
  %q = subview %Q[0:?,0:?,%h] : memref<f32x20x9>
  %one = constant 1.0 : f32
  gemm.atomic.t.n %one, %N, %i, %one, %q
}
"""


def neighbour(Q, integrated, N, to):
    for i, t in zip(integrated, to, strict=True):
        Q[:, :, t] += N.T @ i


#: The Taylor series in time: factors are computed beside the products.
TAYLOR = """
func @taylor(%dt: f64, %D: group<memref<f64x20x9x4>x?>, %I: memref<f64x20x9x?>) {
  %g = group_id.x : index
  %d = load %D[%g] : memref<f64x20x9x4>
  %i = subview %I[0:?,0:?,%g] : memref<f64x20x9x?>
  %zero = constant 0 : f64
  %n = constant 4 : index
  %first = constant 0 : index
  %r = for %o = %first, %n init(%p=%dt) -> (f64) {
    %dd = subview %d[0:?,0:?,%o] : memref<f64x20x9>
    %is_first = equal %o, %first : bool
    %beta = if %is_first -> (f64) { yield (%zero) } else { yield (1.0) }
    axpby.n %p, %dd, %beta, %i
    %m = arith.add %o, 2 : index
    %f = cast %m : f64
    %x = arith.mul %p, %dt : f64
    %y = div %x, %f : f64
    yield (%y)
  }
}
"""


def taylor(dt, D, integrated):
    for g, d in enumerate(D):
        power = dt
        integrated[:, :, g] = 0
        for order in range(4):
            integrated[:, :, g] += power * d[:, :, order]
            power = power * dt / (order + 2)


#: Element by element, with a condition; both kinds of loops.
LIMITER = """
func @limiter(%bound: f32, %Q: group<memref<f32x20x9>x?>, %count: memref<i32x9x?>) {
  %g = group_id.x : index
  %q = load %Q[%g] : memref<f32x20x9>
  %i0 = constant 0 : index
  %rows = size %q[0] : index
  %columns = constant 9 : index
  foreach (%j) = (%i0), (%columns) {
    %none = constant 0 : i32
    %n = for %i = %i0, %rows init(%n=%none) -> (i32) {
      %v = load %q[%i,%j] : f32
      %a = abs %v : f32
      %large = greater_than %a, %bound : bool
      %w, %m = if %large -> (f32, i32) {
        %s = arith.div %bound, %a : f32
        %t = mul %v, %s : f32
        %k = add %n, 1 : i32
        yield (%t, %k)
      } else {
        yield %v, %n : f32, i32
      }
      store %w, %q[%i,%j]
      yield (%m)
    }
    store %n, %count[%j,%g]
  }
}
"""


def limiter(bound, Q, count):
    for g, q in enumerate(Q):
        large = np.abs(q) > np.float32(bound)
        count[:, g] = large.sum(0)
        q[large] = q[large] * (np.float32(bound) / np.abs(q[large]))


#: ``for %0=0,9`` over quantities, columns as vectors.
COLUMNS = """
func @columns(%A: memref<f64x20x20>, %X: memref<f64x20x9x?>, %Y: memref<f64x20x9x?>, %w: memref<f64x9>) {
  %g = group_id.x : index
  %x = subview %X[0:?,0:?,%g] : memref<f64x20x9x?>
  %y = subview %Y[0:?,0:?,%g] : memref<f64x20x9x?>
  %c0 = constant 0 : f64
  for %0=0,9 {
    %1 = subview %x[0:?,%0] : memref<f64x20x9>
    %2 = subview %y[0:20,%0:0] : memref<f64x20>
    %3 = load %w[%0] : memref<f64x9>
    %4 = arith.mul %3, 0.5 : f64
    gemv.n %4, %A, %1, %c0, %2
  }
}
"""


def columns(A, X, Y, w):
    for g in range(_GROUPS):
        Y[:, :, g] = A @ X[:, :, g] * (0.5 * w)


#: Outer products, sums and products of elements.
MOMENTS = """
func @moments(%Q: group<memref<f64x20x9>x?>, %w: memref<f64x20>, %M: memref<f64x9x9x?>, %E: memref<f64x?>) {
  %g = group_id.x : index
  %q = load %Q[%g] : memref<f64x20x9>
  %m = subview %M[0:?,0:?,%g] : memref<f64x9x9x?>
  %one = constant 1.0 : f64
  %zero = constant 0 : f64
  %v = alloca : memref<f64x9,local>
  gemv.t %one, %q, %w, %zero, %v
  ger %one, %v, %v, %zero, %m
  %square = alloca : memref<f64x9,local>
  hadamard %one, %v, %v, %zero, %square
  %total = alloca : memref<f64,local>
  sum.n %one, %square, %zero, %total
  %t = load %total[] : f64
  %r = math.sqrt %t : f64
  store %r, %E[%g]
}
"""


def moments(Q, w, M, E):
    for g, q in enumerate(Q):
        v = q.T @ w
        M[:, :, g], E[g] = np.outer(v, v), np.sqrt(v @ v)


#: Modes are joined and split around one product.
TENSOR = """
func @tensor(%X: memref<f32x4x5x9x?>, %B: memref<f32x9x6>, %Y: memref<f32x4x5x6x?>) {
  %g = group_id.x : index
  %x = subview %X[0:?,0:?,0:?,%g] : memref<f32x4x5x9x?>
  %y = subview %Y[0:?,0:?,0:?,%g] : memref<f32x4x5x6>
  %a = fuse %x[0,1] : memref<f32x20x9>
  %c = fuse %y[0,1] : memref<f32x4x5x6>
  %t = alloca : memref<f32x20x6,local>
  %one = constant 1.0 : f32
  %zero = constant 0 : f32
  gemm.n.n %one, %a, %B, %zero, %t
  %u = expand %t[0 -> 4x5] : memref<f32x4x5x6,local>
  %five = constant 5 : index
  %none = constant 0 : index
  for %j=0,5 {
    %from = subview %u[0:?,%j,0:?] : memref<f32x4x6,strided<1,20>,local>
    %to = subview %y[0:?,%j,0:?] : memref<f32x4x5x6>
    axpby.n 2.0, %from, 1.0, %to : f32, memref<f32x4x6,strided<1,20>>, f32, memref<f32x4x6,strided<1,20>>
  }
}
"""


def tensor(X, B, Y):
    Y += 2 * np.einsum("ijkg,kl->ijlg", X, B)


#: What leaves memory has another type than what is computed.
MIXED_TYPES = """
func @mixedTypes(%scale: f32, %A: group<memref<f32x10x10>x?>, %n: memref<i32x10x?>, %C: group<memref<f64x10x10>x?>) {
  %g = group_id.x : index
  %a = load %A[%g] : memref<f32x10x10>
  %c = load %C[%g] : memref<f64x10x10>
  %s = cast %scale : f32 -> f64
  %zero = constant 0.0 : f64
  gemm.t.t %s, %a, %a, %zero, %c
  foreach %i=0,10 {
    %k = load %n[%i,%g] : i32
    %three = constant 3 : i32
    %odd = arith.and %k, 1 : i32
    %is = not_equal %odd, 0 : bool
    if %is {
      %e = load %c[%i,%i] : f64
      %f = cast %k : f64
      %h = add %e, %f : f64
      store %h, %c[%i,%i]
    }
    %m = rem %k, %three : i32
    store %m, %n[%i,%g]
  }
}
"""


def mixed_types(scale, A, n, C):
    for g, (a, c) in enumerate(zip(A, C, strict=True)):
        a = a.astype(np.float64)
        c[...] = np.float64(np.float32(scale)) * (a.T @ a.T)
        odd = n[:, g] & 1 != 0
        c[np.diag_indices(10)] += np.where(odd, n[:, g], 0)
        n[:, g] = np.fmod(n[:, g], 3)


#: Sizes that only the call knows, and the size of the launch.
DYNAMIC = """
func @dynamic(%A: memref<f64x?x?>, %X: group<memref<f64x?x9>x?>, %Y: group<memref<f64x?x9>x?>, %W: memref<f64x?>) {
  %g = group_id.x : index
  %n = num_groups.x : index
  %x = load %X[%g] : memref<f64x?x9>
  %y = load %Y[%g] : group<memref<f64x?x9>>
  %half = constant 0.5 : f64
  %one = constant 1 : f64
  gemm %half, %A, %x, %one, %y
  %rows = size %x[0] : index
  %last = arith.sub %n, 1 : index
  %is_last = equal %g, %last : bool
  %two = constant 2 : index
  %k = min %rows, %two : index
  if %is_last {
    %head = subview %x[0:%k,0] : memref<f64x?>
    %w = subview %W[0:%k] : memref<f64x?>
    axpby %one, %head, %half, %w
  } else { }
}
"""


def dynamic(A, X, Y, W):
    for x, y in zip(X, Y, strict=True):
        y += 0.5 * (A @ x)
    W[:2] = X[-1][:2, 0] + 0.5 * W[:2]


#: A loop with a named step that stores every other column in the reverse order.
REVERSED = """
func @reversed(%X: memref<f32x20x9x?>, %Y: memref<f32x20x9x?>) work_group_size(32,1) subgroup_size(16) {
  %g = group_id
  %x = subview %X[0:?,0:?,%g] : memref<f32x20x9>
  %y = subview %Y[0:?,0:?,%g] : memref<f32x20x9x?>
  %first = constant 0 : i32
  %end = constant 9 : i32
  %step = constant 2 : i32
  for %j = %first, %end, %step {
    %k = arith.sub 8, %j : i32
    %from = cast %j : i32 -> index
    %to = cast %k : index
    %a = subview %x[0:?,%from] : memref<f32x20>
    %b = subview %y[0:?,%to] : memref<f32x20x9>
    axpby.n 1.0, %a, 0.0, %b : f32, memref<f32x20>, f32, memref<f32x20>
  } attributes{unroll=true}
}
"""


def reversed_columns(X, Y):
    Y[:, ::-2] = X[:, ::2]


#: Several tensors in one group, by an offset that the type gives.
OFFSET = """
func @offset(%Q: group<memref<f64x20x9>x?, offset: 180>, %P: group<memref<f64x20x9>x5>) {
  %g = group_id.x : index
  %q = load %Q[%g] : memref<f64x20x9>
  %p = load %P[%g] : memref<f64x20x9>
  %c = constant -2 : f64
  axpby %c, %q, 1.0, %p
}
"""


def offset(Q, P):
    for q, p in zip(Q, P, strict=True):
        p -= 2 * q[:, :, 1]


def _kernels():
    """Return each kernel with its meaning and its arguments: types and shapes, those of a list's arrays, or values."""
    q = (np.float64, _BASIS, _QUANTITIES)
    single = (np.float32, _BASIS, _QUANTITIES)
    batch, singles = (*q, _GROUPS), (*single, _GROUPS)
    square = (np.float64, _BASIS, _BASIS)
    return {
        "volume": (VOLUME, volume, [[q], [q], square, square, [(np.float64, 9, 9, 2)]]),
        "local_flux": (LOCAL_FLUX, local_flux, [batch, batch, (np.float64, _FACE, _BASIS), (np.float64, _BASIS, _FACE),
                                                [(np.float64, 9, 9)]]),
        "neighbour": (NEIGHBOUR, neighbour, [singles, [single], (np.float32, _BASIS, _BASIS),
                                             np.array([1, 0, 1, 4, 1])]),
        "taylor": (TAYLOR, taylor, [0.25, [(*q, 4)], batch]),
        "limiter": (LIMITER, limiter, [0.5, [single], (np.int32, 9, _GROUPS)]),
        "columns": (COLUMNS, columns, [square, batch, batch, (np.float64, 9)]),
        "moments": (MOMENTS, moments, [[q], (np.float64, _BASIS), (np.float64, 9, 9, _GROUPS), (np.float64, _GROUPS)]),
        "tensor": (TENSOR, tensor, [(np.float32, 4, 5, 9, _GROUPS), (np.float32, 9, 6),
                                    (np.float32, 4, 5, 6, _GROUPS)]),
        "mixed_types": (MIXED_TYPES, mixed_types, [1.5, [(np.float32, 10, 10)], (np.int32, 10, _GROUPS),
                                                   [(np.float64, 10, 10)]]),
        "dynamic": (DYNAMIC, dynamic, [square, [q], [q], (np.float64, 3)]),
        "reversed": (REVERSED, reversed_columns, [singles, singles]),
        "offset": (OFFSET, offset, [[(*q, 2)], [q]]),
    }


KERNELS = _kernels()


def _argument(template, rng):
    match template:
        case np.ndarray():  # a sequence in NumPy 2.5
            return template.copy()
        case [inner]:
            return [_argument(inner, rng) for _ in range(_GROUPS)]
        case (type_, *shape):
            values = rng.uniform(-9, 9, shape) if np.dtype(type_).kind == "i" else rng.uniform(-1, 1, shape)
            return np.asfortranarray(values.astype(type_))
    return template


def _copied(argument):
    if isinstance(argument, list):
        return [array.copy(order="F") for array in argument]
    return argument.copy(order="F") if isinstance(argument, np.ndarray) else argument


def _is_of_offset(name, position):
    return name == "offset" and position == 0


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_a_generated_kernel_is_that_of_numpy(name, target):
    source, meaning, templates = KERNELS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    arguments = [_argument(template, rng) for template in templates]
    expected, given = [list(map(_copied, arguments)) for _ in range(2)]
    meaning(*expected)
    passed = [[array[:, :, 0] for array in argument] if _is_of_offset(name, position) else argument
              for position, argument in enumerate(given)]
    target.run(source, *passed)
    for found, right in zip(given, expected, strict=True):
        for one, other in zip(*(x if isinstance(x, list) else [x] for x in (found, right)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4 if np.asarray(one).dtype == np.float32 else 1e-11,
                                       atol=1e-5 if np.asarray(one).dtype == np.float32 else 1e-12)
