"""Determinants, inverses and linear systems of small matrices in kernels, against dpnp, which calls LAPACK."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import IS_CURRENT, compare

fuse = tl_dpnp.fuse
det, inv, solve = dpnp.linalg.det, dpnp.linalg.inv, dpnp.linalg.solve
SIZES = [1, 2, 3, 4]
#: Units in the last place that one elimination may lose, by the norm of what it works on.
LOST = 8


def _random(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _matrices(size, dtype):
    """Return matrices of many kinds: random, badly conditioned, badly scaled, with tiny or no leading pivots."""
    rng = np.random.default_rng(size)
    random = rng.normal(size=(40, size, size))
    tiny = random.copy()
    tiny[:, 0, 0] *= np.finfo(dtype).eps ** 2
    none = random.copy()
    none[:, 0, 0] = 0 if size > 1 else 1
    later = random.copy()  # the second pivot is lost but for an exchange
    if size > 1:
        later[:, 1] = later[:, 0] * 2
        later[:, 1, size - 1] += 1
    hilbert = 1 / (np.arange(size)[:, None] + np.arange(size) + 1.0)
    close = random[:, :1] + np.sqrt(np.finfo(dtype).eps) * random
    scales = 10.0 ** rng.integers(-6, 7, size=(40, size))
    scaled = random * scales[:, :, None]
    orders = np.eye(size)[np.argsort(rng.random((24, size)), axis=1)]
    columns = random * scales[:, None]
    kinds = [random, tiny, none, later, hilbert[None], close, scaled, orders, columns]
    return np.concatenate(kinds).astype(dtype)


def _residual(left, solution, right, dtype):
    """Return how far ``left @ solution`` is from `right`, in units of what rounding of the solution explains."""
    left, solution, right = (np.asarray(x, dtype=np.longdouble) for x in (left, solution, right))
    size = np.abs(left) @ np.abs(solution)
    norm = size.max(axis=(-1, -2)) * np.finfo(dtype).eps
    return (np.abs(left @ solution - right).max(axis=(-1, -2)) / norm).max()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("size", SIZES)
def test_solutions_and_inverses_are_as_exact_as_those_of_lapack(size, dtype):
    a, b = _matrices(size, dtype), _random(1, size, 3, dtype=dtype)
    b = np.broadcast_to(b, (len(a), size, 3)).copy()
    x, y = dpnp.asarray(a), dpnp.asarray(b)
    f = fuse(lambda x, y: (solve(x, y), inv(x)))
    solution, inverse = f(x, y)
    bound = LOST * size
    assert _residual(a, solution.asnumpy(), b, dtype) <= bound
    turned = np.swapaxes(a, 1, 2)  # dpnp factors the transposed matrices, and so do kernels
    assert _residual(turned, np.swapaxes(inverse.asnumpy(), 1, 2), np.eye(size), dtype) <= bound
    inverses = np.swapaxes(inv(x).asnumpy(), 1, 2)
    for plain, left, right in ((solve(x, y).asnumpy(), a, b), (inverses, turned, np.eye(size))):
        assert _residual(left, plain, right, dtype) <= bound  # the bound is one that LAPACK keeps as well
    assert solution.dtype == inverse.dtype == x.dtype
    assert f.stats.plans == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("size", SIZES)
def test_determinants_are_as_exact_as_those_of_lapack(size, dtype):
    a = _matrices(size, dtype)
    exact = np.stack([_exact_determinant(matrix) for matrix in a.astype(np.longdouble)])
    bound = LOST * size * np.finfo(dtype).eps * np.prod(np.linalg.norm(a.astype("f8"), axis=-1), axis=-1)
    f = fuse(lambda x: det(x))
    fused, plain = f(dpnp.asarray(a)), det(dpnp.asarray(a))
    assert (np.abs(fused.asnumpy() - exact) <= bound).all()
    assert (np.abs(plain.asnumpy() - exact) <= bound).all()
    assert fused.dtype == plain.dtype
    assert fused.shape == plain.shape
    assert f.stats.dpnp_calls == 0
    assert tl_dpnp.explain(lambda x: det(x))(dpnp.asarray(a)).launches == 1


def _exact_determinant(matrix):
    if len(matrix) == 1:
        return matrix[0, 0]
    return sum((-1) ** column * matrix[0, column] * _exact_determinant(np.delete(matrix[1:], column, axis=1))
               for column in range(len(matrix)))


def test_what_stands_around_them_is_in_the_same_kernel():
    a, b = dpnp.asarray(_random(50, 3, 3)), dpnp.asarray(_random(50, 3, 2, seed=1))

    def step(a, b, t):
        whole = a @ dpnp.swapaxes(a, 1, 2) + t * dpnp.eye(3, dtype="f4")
        return inv(whole) @ b, det(whole) - 1

    f = fuse(step)
    for t in (1.5, 2.0):
        for fused, plain in zip(f(a, b, t), step(a, b, t), strict=True):
            compare(f"{t}", fused, plain)
    assert tl_dpnp.explain(f)(a, b, 1.5).kernels
    assert f.stats.plan_hits == 1
    assert f.stats.compilations == 1
    for size in (7, 1, 1000):  # another batch needs no new kernel
        a, b = dpnp.asarray(_random(size, 3, 3)), dpnp.asarray(_random(size, 3, 2, seed=1))
        for fused, plain in zip(f(a, b, 1.5), step(a, b, 1.5), strict=True):
            compare(f"batch of {size}", fused, plain)
    assert f.stats.compilations == 1


def _right_sides(b):
    """Right-hand sides with one axis less than the matrices are vectors in dpnp 0.15, and matrices in dpnp 0.20."""
    return b[..., None] if IS_CURRENT else b


#: What a singular matrix behind the first one is in a batch of systems; in dpnp 0.20 the error is MKL's.
_SINGULAR_ERROR = RuntimeError if IS_CURRENT else dpnp.linalg.LinAlgError


@pytest.mark.drawn(2)
@pytest.mark.parametrize("shape", [pytest.param((5, 3), marks=pytest.mark.skipif(
    IS_CURRENT, reason="matrices of right-hand sides in dpnp 0.20")), (5, 3, 1), (5, 3, 4), (5, 3, 40)])
@pytest.mark.parametrize("dtypes", ["f4 f4", "f8 f4", "i4 f4", "f4 f8", "i8 i4", "f8 ?"])
def test_shapes_and_dtypes_are_those_of_dpnp(shape, dtypes):
    first, second = dtypes.split()
    a = dpnp.asarray((_random(5, 3, 3) * 9).astype(first))
    b = dpnp.asarray((_random(*shape) * 9).astype(second))
    f = fuse(lambda a, b: (solve(a, b), inv(a), det(a)))
    for fused, plain in zip(f(a, b), (solve(a, b), inv(a), det(a)), strict=True):
        assert fused.dtype == plain.dtype
        assert fused.shape == plain.shape
        single = min(array.dtype.itemsize for array in (a, b, plain)) == 4
        close, largest = 1e-3 if single else 1e-9, float(abs(plain).max())  # whether a 0 is exact depends on the CPU
        np.testing.assert_allclose(fused.asnumpy(), plain.asnumpy(), rtol=close, atol=1e-6 * close * largest)


def test_views_and_several_batch_axes():
    a, b = dpnp.asarray(_random(4, 6, 3, 3, dtype="f8")), dpnp.asarray(_random(4, 6, 3, 2, dtype="f8", seed=2))
    cases = [
        lambda a, b: (inv(a), det(a), solve(a, b)), lambda a, b: inv(dpnp.swapaxes(a, 2, 3)),
        lambda a, b: (det(a[::2, :, ::-1]), inv(a[:, 1:4, :2, 1:])), lambda a, b: inv(dpnp.swapaxes(a, 0, 1)) * 2,
        lambda a, b: solve(dpnp.swapaxes(a, 2, 3), b[:, :, ::-1]), lambda a, b: det(a[0, 0]) + det(a)[1],
        lambda a, b: solve(a, _right_sides(b[..., 0])).sum(axis=0), lambda a, b: inv(inv(a)) - a,
        lambda a, b: det(a.sum(0))[:, None, None] * b,
        lambda a, b: dpnp.linalg.inv(a.reshape(24, 3, 3)).reshape(4, 6, 9), lambda a, b: det(a * b[..., :1]),
        lambda a, b: dpnp.concatenate([inv(a), solve(a, b)], axis=-1), lambda a, b: det(a=a) + inv(a=a)[..., 0, 0],
    ]
    for number, case in enumerate(cases):
        f = fuse(case)
        for _ in range(2):
            fused, plain = f(a, b), case(a, b)
            pairs = zip(fused, plain, strict=True) if isinstance(plain, tuple) else [(fused, plain)]
            for one, other in pairs:
                assert one.dtype == other.dtype
                assert one.shape == other.shape
                np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-9, atol=1e-9, err_msg=f"{number}")


#: Singular matrices whose elimination is exact by rows and by columns, in any order of sums.
SINGULAR = [[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 2, 4], [2, 4, 8], [1, 1, 1]], [[0, 1, 2], [0, 3, 4], [0, 5, 7]],
            [[0]], [[4, 1, 2, 3], [4, 1, 2, 3], [1, 0, 1, 0], [2, 2, 2, 5]]]


@pytest.mark.parametrize("matrix", SINGULAR)
def test_a_singular_matrix_is_what_it_is_in_dpnp(matrix):
    size = len(matrix)
    regular = dpnp.asarray(_random(3, size, size, dtype="f8"))
    a = regular.copy()
    a[1] = dpnp.asarray(np.array(matrix, dtype="f8"))
    b = _right_sides(dpnp.asarray(_random(3, size, dtype="f8")))
    determinant, inverse, solution = (fuse(function) for function in (
        lambda a: det(a) * 1, lambda a: inv(a) * 1, lambda a, b: solve(a, b) * 1))
    for x in (a, regular, a):
        np.testing.assert_allclose(determinant(x).asnumpy(), det(x).asnumpy(), rtol=1e-12)
        if IS_CURRENT and x is a:
            with pytest.raises(dpnp.linalg.LinAlgError, match="Singular matrix"):
                inverse(x)
        else:
            fused, plain = inverse(x).asnumpy(), inv(x).asnumpy()
            np.testing.assert_array_equal(np.isfinite(fused).all(axis=(1, 2)), np.isfinite(plain).all(axis=(1, 2)))
            np.testing.assert_allclose(fused[[0, 2]], plain[[0, 2]], rtol=1e-9)
        if x is regular:
            np.testing.assert_allclose(solution(x, b).asnumpy(), solve(x, b).asnumpy(), rtol=1e-9)
            continue
        with pytest.raises(_SINGULAR_ERROR) as fused_error:
            solution(x, b)
        with pytest.raises(_SINGULAR_ERROR) as plain_error:
            solve(x, b)
        assert IS_CURRENT or str(fused_error.value) == str(plain_error.value)


def test_a_plan_raises_the_error_after_what_is_done_before_it():
    a, b = dpnp.asarray(_random(4, 2, 2)), _right_sides(dpnp.asarray(_random(4, 2, seed=1)))
    singular = a.copy()
    singular[2] = 1

    @fuse
    def f(a, b, written):
        written += 1
        x = solve(a, b)
        written += 1
        return x

    counted = dpnp.zeros(3)
    for _ in range(2):
        np.testing.assert_allclose(f(a, b, counted).asnumpy(), solve(a, b).asnumpy(), rtol=1e-4)
    assert f.stats.plan_hits == 1
    with pytest.raises(_SINGULAR_ERROR):
        f(singular, b, counted)
    assert (counted == 5).all()

    @fuse
    def caught(a, b):
        try:
            return solve(a, b)
        except _SINGULAR_ERROR:
            return b * 0

    for x, zero in ((a, False), (singular, True), (a, False)):
        assert (caught(x, b) == 0).all() == zero


def test_nan_and_infinities_stay_visible():
    a = dpnp.asarray(_random(3, 3, 3))
    a[1] = dpnp.nan
    f = fuse(lambda a: (det(a) * 1, inv(a) * 1, solve(a, _right_sides(a[..., 0])) * 1))
    for fused, plain in zip(f(a), (det(a), inv(a), solve(a, _right_sides(a[..., 0]))), strict=True):
        np.testing.assert_array_equal(np.isnan(fused.asnumpy()), np.isnan(plain.asnumpy()))


@pytest.mark.parametrize(("function", "arguments", "reason"), [
    (lambda a: det(a), [_random(3, 5, 5)], "LAPACK"), (lambda a: inv(a), [_random(3, 3)], "single matrix"),
    (lambda a, b: solve(a, b), [_random(3, 3), _random(3)], "single matrix"),
    (lambda a: det(a), [_random(0, 3, 3)], "no square"), (lambda a: det(a), [_random(3, 2, 3)], "no square"),
    (lambda a: inv(a), [_random(3, 2, 2, dtype="f2")], "half floats"), (lambda a: det(a), [_random(3)], "no square"),
    (lambda a, b: solve(a, b), [_random(3, 2, 2), _random(2, 2)], "right-hand sides"),
    (lambda a, b: solve(a, b), [_random(3, 2, 2), _random(1, 2, 2)], "right-hand sides"),
])
def test_what_is_left_to_dpnp_is_said(function, arguments, reason):
    arrays = [dpnp.asarray(argument) for argument in arguments]
    outcomes = []
    for called in (function, fuse(function)):
        try:
            outcomes.append(called(*arrays).asnumpy())
        except Exception as error:
            outcomes.append((type(error), str(error)))
    if isinstance(outcomes[0], tuple):
        assert outcomes[0] == outcomes[1]
        return
    np.testing.assert_array_equal(*outcomes)
    assert reason in str(tl_dpnp.explain(fuse(function))(*arrays))


def test_the_end_of_a_kernel_before_the_check_is_said():
    a = dpnp.asarray(_random(4, 2, 2))
    explanation = tl_dpnp.explain(fuse(lambda a: solve(a @ a, _right_sides(a[..., 0])) * 2))(a)
    assert [(b.what, b.reason) for b in explanation.breaks] == [
        ("linalg.solve", "a singular matrix is an error, so a kernel ends here")]
    assert not explanation.again
