"""Single expressions at the edges: empty batches, reversed results, diagonals, extreme integers, caught errors."""

import ast
import gc
import sys

import dpnp
import numpy as np
import pytest

import tl_dpnp
import tl_dpnp.xp as xp
from tests.graph.source_text import with_source
from tests.graph.support import compare


def _random(*shape, dtype="f4", seed=0):
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return dpnp.asarray(values.astype(dtype))


A, B = _random(3, 4, 4), _random(3, 4, 4, seed=1)


def _same(function, *arguments, calls=2):
    """Fail unless a function gives the same fused, in each call, and does the same to its arguments."""
    fused = tl_dpnp.fuse(function)
    for call in range(calls):
        plain, other = ([x.copy() if isinstance(x, dpnp.ndarray) else x for x in arguments] for _ in range(2))
        expected = function(*plain)
        compare(f"call {call}", fused(*other), expected)
        compare(f"arguments of call {call}", [x for x in other if isinstance(x, dpnp.ndarray)],
                [x for x in plain if isinstance(x, dpnp.ndarray)])
    return fused


@pytest.mark.parametrize("function", [
    lambda a, b: a @ b,
    lambda a, b: dpnp.einsum("bij,bjk->bik", a, b) + 1,
    lambda a, b: dpnp.matmul(a, b) * a[:, :, :1],
])
def test_a_batch_of_one_against_an_empty_batch_is_empty(function):
    _same(function, _random(1, 2, 4), _random(0, 4, 5))


def _product_reversed(a, o):
    dpnp.matmul(a, a, out=o[::-1])
    return o


def _rows_reversed(a, o):
    dpnp.matmul(a, a, out=o[:, ::-1])
    return o


def _columns_reversed(a, o):
    dpnp.add(a @ a, 1, out=o[:, :, ::-1])
    return o


def _all_reversed(a, o):
    view = o[::-1, ::-1, ::-1]
    view += a @ a
    return o, view


@pytest.mark.parametrize("function", [_product_reversed, _rows_reversed, _columns_reversed, _all_reversed])
def test_results_are_written_to_reversed_views(function):
    _same(function, A, B)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_extremes_of_integers(dtype):
    info = np.iinfo(dtype)
    values = dpnp.asarray(np.array([[info.min, info.max, 3], [info.max, info.max, info.max], [info.min] * 3], dtype))
    _same(lambda a: (a.max(axis=1), a.min(axis=0), dpnp.max(a), dpnp.amin(a, axis=1, keepdims=True)), values)


def test_integers_that_no_literal_of_the_language_spells():
    _same(lambda a: dpnp.maximum(a, 2**63 + 5), dpnp.asarray(np.array([1, 2**64 - 1], "u8")))
    _same(lambda a: dpnp.minimum(a, -(2**63)), dpnp.asarray(np.array([1, -5], "i8")))


T, U = _random(3, 4, 5, 6), _random(4, 5, 3, seed=1)


@pytest.mark.parametrize("function", [
    lambda a, b: dpnp.tensordot(a[:, :3, :4], b[:3, :4], axes=((1, 2), (0, 1))),
    lambda a, b: dpnp.einsum("ijkl,jkm->im", a[:, :3, :4], b[:3, :4]),
    lambda a, b: dpnp.einsum("ijkl,jkm->lim", a[:, 1:, ::2], b[:3, :3]),
    lambda a, b: dpnp.einsum("lij,ijk->lk", a[0].transpose(2, 0, 1)[:, :3, :4], b[:3, :4]),
])
def test_slices_with_two_summed_axes(function):
    _same(function, T, U)


@pytest.mark.parametrize("function", [
    lambda a, b: dpnp.einsum("bii->b", a),
    lambda a, b: dpnp.einsum("bii->b", a * 2) + 1,
    lambda a, b: dpnp.einsum("bii,bij->bj", a, b),
    lambda a, b: dpnp.einsum("bii,bjj->bij", a, b),
    lambda a, b: dpnp.einsum("ii", a[0]),
])
def test_diagonals(function):
    _same(function, A, B)


def test_diagonals_of_views_are_those_of_numpy():
    values = A.asnumpy()  # dpnp 0.15 reads other elements
    result = tl_dpnp.fuse(lambda a: dpnp.einsum("bii->b", a[::-1, ::-1, ::-1]))(A)
    np.testing.assert_allclose(result.asnumpy(), np.einsum("bii->b", values[::-1]), rtol=1e-5)


@pytest.mark.parametrize("backwards", [np.s_[..., ::-1], np.s_[::-1], np.s_[:, ::-1, ::-1]])
def test_a_choice_of_elements_read_backwards_or_a_number_is_that_of_numpy(backwards):
    values = A.asnumpy()[backwards]  # dpnp 0.15 reads memory beside the result's
    result = tl_dpnp.fuse(lambda a: dpnp.where(a[backwards] > 0, a[backwards], 3))(A)
    np.testing.assert_array_equal(result.asnumpy(), np.where(values > 0, values, 3))


def test_a_diagonal_of_a_product_that_is_in_memory():
    def traced(a, b):
        c = a @ b
        trace = dpnp.einsum("bii->b", c)
        return dpnp.cumsum(c, axis=0), trace + 1, dpnp.einsum("bii->bi", c) * 2

    _same(traced, A, B)


def test_a_kernel_with_diagonals_serves_every_batch():
    fused = _same(lambda a: dpnp.einsum("bii->b", a), A)
    for batch in (1, 2, 9):
        a = _random(batch, 4, 4, seed=batch)
        compare(f"batch {batch}", fused(a), dpnp.einsum("bii->b", a))


def test_views_of_what_is_empty():
    _same(lambda a: dpnp.sum(a[0:0, 0:8:2, 1:3], axis=(0, 1), keepdims=True), _random(0, 9, 5))
    _same(lambda a: dpnp.cumsum(a[2:2, 3:], axis=0), _random(3, 4))


def test_sizes_of_summed_axes_that_are_broadcast_are_part_of_a_kernel():
    for size in (4, 1, 3):
        a, b = (dpnp.broadcast_to(_random(1, seed=seed), (size,)) for seed in (0, 1))
        compare(f"size {size}", tl_dpnp.fuse(lambda a, b: dpnp.inner(a, b))(a, b), dpnp.inner(a, b))
        compare(f"size {size}", tl_dpnp.fuse(lambda a: a.sum(axis=0))(a), a.sum(axis=0))


def test_a_kernel_with_a_reduction_serves_every_batch():
    fused = tl_dpnp.fuse(lambda a, b: (a @ b).sum(axis=1))
    for batch in (3, 1, 10):
        a, b = _random(batch, 4, 4), _random(batch, 4, 4, seed=1)
        explanation = fused.explain(a, b)
        assert not explanation.kernels[0].compiled or batch == 3
        compare(f"batch {batch}", fused(a, b), (a @ b).sum(axis=1))


def test_results_that_are_broadcast_are_refused():
    with pytest.raises(ValueError, match="ample"):
        tl_dpnp.fuse(lambda a, o: dpnp.matmul(a, a, out=dpnp.broadcast_to(o, (3, 4, 4))))(A, _random(3, 1, 4))


def test_transposing_a_vector_gives_the_vector():
    def transposed(a):
        b = a * 2
        return b.T is b, dpnp.transpose(b) is b, a.T

    assert tl_dpnp.fuse(transposed)(A[0, 0])[:2] == (True, True)
    vector = A[0, 0]
    assert tl_dpnp.fuse(transposed)(vector)[2] is vector


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("function", [
    lambda c, x, t: dpnp.where(c, x, t), lambda c, x, t: dpnp.where(c, t, x),
    lambda c, x, t: dpnp.where(c, t, -1.5) + x,
    lambda c, x, t: dpnp.where(x > t, x, 0.0),
])
def test_where_with_a_number_that_changes_is_one_kernel(dtype, function):
    """dpnp makes an array of float64 of a Python float here."""
    x = dpnp.asarray(np.arange(-3, 3).reshape(2, 3).astype(dtype))
    f = tl_dpnp.fuse(function)
    for number in (0.1, -1e9, 1e39, np.inf, np.nan, 1 / 3):
        compare("where", f(x > 0, x, number), function(x > 0, x, number))
    explanation = f.explain(x > 0, x, 2.0)
    assert (len(explanation.kernels), explanation.calls) == (1, ())
    assert f._compilations == 1


def test_where_writes_to_out():
    def choose(a, b, o):
        result = dpnp.where(a > 0, a @ b, b, out=o)
        return result * 2

    _same(choose, A, B, A + 1)


def _masked(a, b):
    c = a @ b
    c[c < 0] = 0
    a[a > 1] = 1
    return c, a


def _listed(a, b):
    c = a @ b
    c[dpnp.asarray([0, 2])] = 0
    return c


@pytest.mark.parametrize("function", [_masked, _listed])
def test_arrays_as_indices_of_an_assignment(function):
    _same(function, A, B)


def test_a_step_that_raises_is_no_part_of_the_plan():
    def product_or_double(a, b):
        try:
            c = a @ b
        except ValueError:
            c = a * 2
        return c + 1

    _same(product_or_double, A, _random(3, 5, 5), calls=3)


def test_what_raises_for_some_values_is_tried_at_each_call():
    @tl_dpnp.fuse
    def inverse_or_itself(a):
        try:
            inverse = dpnp.linalg.inv(a)
        except dpnp.linalg.LinAlgError:
            inverse = a + 0
        return inverse * 2

    singular, regular = dpnp.ones((2, 2), dtype="f4"), dpnp.eye(2, dtype="f4") * 4
    compare("singular", inverse_or_itself(singular), singular * 2)
    compare("regular", inverse_or_itself(regular), dpnp.linalg.inv(regular) * 2)


def test_attributes_of_functions():
    _same(lambda a, b: (dpnp.add.outer(a[0, 0], b[0, 0]) * dpnp.add.nin, dpnp.multiply.nout), A, B)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_products_of_several_matrices_take_results_in_c_order_only(count):
    arrays = [_random(4, 5), _random(5, 6), _random(6, 7), _random(7, 3)][:count]
    shape = 4, arrays[-1].shape[1]
    fused = tl_dpnp.fuse(lambda arrays, out: dpnp.linalg.multi_dot(arrays, out=out))
    with pytest.raises(ValueError, match="C-contiguous"):
        fused(arrays, dpnp.empty(shape, dtype="f4", order="F"))
    with pytest.raises(ValueError, match="C-contiguous"):
        tl_dpnp.fuse(lambda a, b, o: dpnp.dot(a, b, out=o.T))(arrays[0], arrays[1], dpnp.empty((6, 4), dtype="f4"))
    out = dpnp.empty(shape, dtype="f4")
    assert fused(arrays, out) is out
    compare("product", out, dpnp.linalg.multi_dot(arrays))


def _floors(a, n, x):
    a //= n
    a %= 5
    x **= 2
    x //= 0.3
    return a, x, n // a, n % (a + 7)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8"])
def test_integers_divide_as_in_dpnp(dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 0, 1, 7, limits.min + 1, 5], dtype=dtype)
    x = dpnp.asarray(values)[:, None]
    negative = [] if dtype[0] == "u" else [-2, -3, limits.min]
    divisors = dpnp.asarray(np.array([0, 1, 2, 3, limits.max, *negative], dtype=dtype))
    _same(lambda x, y: (x // y, x % y, x[1:] // 3, x[1:] % y), x, divisors)
    _same(_floors, dpnp.asarray(values[1:]), 3, _random(5))


def test_the_least_integer_divided_by_minus_one_is_itself():
    least = np.iinfo("i4").min
    quotient = tl_dpnp.fuse(lambda x, y: (x // y, x % y))
    for size in (1, 7, 64):
        x, y = dpnp.full(size, least, dtype="i4"), dpnp.full(size, -1, dtype="i4")
        whole, rest = quotient(x, y)
        assert (whole == least).all()
        assert not rest.any()


def test_exponents_that_change_share_a_kernel():
    function = tl_dpnp.fuse(lambda x, p: abs(x) ** p + x ** 2.5)
    x = abs(_random(3, 5))
    for exponent in (0.3, 2.0, -1.5, 3.0, 0.0, 0.25, 7.5, 1.0, -0.1, 40.0, 2.25):
        compare(f"exponent {exponent}", function(x, exponent), abs(x) ** exponent + x ** 2.5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["power", "floor_divide", "remainder"])
def test_odd_floats_give_what_they_give_in_dpnp(name, dtype):
    x = dpnp.asarray(np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, -2.5, 1000, 0.1], dtype=dtype))
    y = dpnp.asarray(np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -3, 0.5, -2.5, 65, -70], dtype=dtype))

    def function(x, y):
        result = getattr(dpnp, name)(x[:, None], y)
        return result, 1 / result  # the signs of zeros

    _same(function, x, y)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", [
    lambda a, b: (dpnp.maximum(a, b), dpnp.minimum(a, b)), lambda a, b: (dpnp.maximum(b, a), dpnp.minimum(b, a)),
    lambda a, b: (dpnp.maximum(a, 0.0), dpnp.minimum(a, -0.0)), lambda a, b: (dpnp.maximum(a[::2], b[::2]),),
    lambda a, b: (dpnp.clip(a, 0.0, 1), dpnp.clip(a, -1, -0.0), dpnp.clip(b, -0.0, 0.0)),
    lambda a, b: (a[:2].max(), a[1:3].max(), b[:2].min(), b[1:3].min()),
], ids=["two arrays", "the other way", "a number", "slices", "clip", "reductions"])
def test_extremes_of_zeros_of_both_signs_have_the_sign_that_dpnp_gives(function, dtype):
    a = dpnp.asarray([-0.0, 0.0, -0.0, 0.0, 1], dtype=dtype)
    b = dpnp.asarray([0.0, -0.0, -0.0, 0.0, -1], dtype=dtype)
    for fused, plain in zip(tl_dpnp.fuse(function)(a, b), function(a, b), strict=True):
        assert np.signbit(fused.asnumpy()).tolist() == np.signbit(plain.asnumpy()).tolist()


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, -1, -2, 3, 3.5])
def test_powers_by_products_of_odd_floats(exponent):
    x = dpnp.asarray(np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, 1e200, 1e-200]))
    _same(lambda x: (x ** exponent, 1 / x ** exponent), x)


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "f8"])
def test_divisors_that_change_share_a_kernel(dtype):
    values = np.arange(14).reshape(2, 7) if dtype == "u1" else np.arange(-7, 7).reshape(2, 7)
    x = dpnp.asarray(values.astype(dtype))
    function = tl_dpnp.fuse(lambda x, n: (x % n, x // n, (x + 1) % (x + n)))
    for divisor in (3, 2, 7, 1, 0, 5) if dtype == "u1" else (3, -2, 2.5, 0, -1, 7, 0.5):
        compare(f"divisor {divisor}", list(function(x, divisor)),
                [x % divisor, x // divisor, (x + 1) % (x + divisor)])


def test_parts_at_places_that_change():
    def moved(c, x, i, n):
        c[i:, n] = x[i:, 0]
        c[i] += n
        return dpnp.concatenate([c[:i], x[i:]]), dpnp.stack([c, x], axis=i % 2), dpnp.tril(c, k=n)

    fused = tl_dpnp.fuse(moved)
    for i, n in ((0, 1), (1, 0), (2, 3), (3, 2), (1, 1)):
        plain, other = _random(4, 5), _random(4, 5)
        x = _random(4, 5, seed=1)
        compare(f"at {i}, {n}", list(fused(other, x, i, n)), list(moved(plain, x, i, n)))
        compare("the array", other, plain)


# --- found by dpnp's own tests (tests/dpnp_suite) ---------------------------------------------------------------------


@pytest.mark.parametrize("key", [
    (slice(None, None, -2), slice(None, None, 2)) * 2,
    (Ellipsis, slice(None, None, -1)),
    (slice(None), slice(None, None, -1)),
])
def test_operands_that_are_too_large_to_be_copied_in_a_work_group(key):
    large = _random(20, 20, 20, 20)[key]
    _same(lambda a: dpnp.tensordot(a, a, axes=2), large)


def test_integers_in_products_of_floats_that_are_too_large_to_be_copied_in_a_work_group():
    integers = dpnp.asarray(np.random.default_rng(0).integers(-9, 9, (200, 200)))
    _same(lambda i, x: (i @ x) @ i + i, integers, _random(3, 200, 200, dtype="f8"))


@pytest.mark.parametrize("subscripts", ["...->", "...i->i", "...i,...i->i"])
def test_an_ellipsis_that_the_result_of_einsum_lacks_is_refused(subscripts):
    operands = [A] * (1 + subscripts.count(","))
    for function in (dpnp.einsum, tl_dpnp.fuse(lambda s, *x: dpnp.einsum(s, *x))):
        with pytest.raises(ValueError, match="ellipsis"):
            function(subscripts, *operands)


_ROW = _random(1, 3)


@pytest.mark.parametrize("function", [
    lambda xp: xp.dot(_ROW, _ROW),  # an axis of size 1 is no match for one of size 3
    lambda xp: xp.inner(_ROW, _ROW[:, :1]),
    lambda xp: xp.inner(_ROW[:, :1], xp.ones((3, 3))),
    lambda xp: xp.tensordot(_ROW, _ROW, axes=([0], [1])),
    lambda xp: xp.matmul(_ROW, _ROW.T, A),
    lambda xp: xp.vdot(_ROW, _ROW, order="C"),
    lambda xp: xp.argmin(A, B),
    lambda xp: xp.copy(A, A, B, A),
    lambda xp: xp.flip(A, axis=(0, 0)),
    lambda xp: xp.broadcast_to([1, 2, 3], A),
])
def test_what_dpnp_refuses_is_refused_in_the_same_way(function):
    with pytest.raises(Exception) as expected:  # noqa: PT011 (whatever dpnp raises)
        function(dpnp)
    with tl_dpnp.fusing(), pytest.raises(expected.type) as found:
        function(xp)
    assert str(found.value).split("(")[0] == str(expected.value).split("(")[0]


def test_an_array_for_a_shape():
    with tl_dpnp.fusing():
        fused = xp.broadcast_to(_ROW, dpnp.asarray([2, 3])) + 0
    compare("shape", fused, dpnp.broadcast_to(_ROW, dpnp.asarray([2, 3])) + 0)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_functions_of_numbers(name):
    function = getattr(dpnp, name)
    fused = tl_dpnp.fuse(lambda a, number: function(a, number * 2))
    for number in (0.5, 0.0, 0.5, float("nan"), 3):
        compare(f"{number}", fused(A > 0, number), function(A > 0, number * 2))


@tl_dpnp.fuse
def einsum_into(subscripts, a, out):
    return dpnp.einsum(subscripts, a, out=out)


@pytest.mark.parametrize(("subscripts", "shape"), [("ii->i", (4,)), ("ij->ji", (4, 4)), ("ij->ij", (4, 4))])
def test_views_that_einsum_gives_are_written_to_out(subscripts, shape):
    a = dpnp.asarray(np.arange(16.0, dtype="f4").reshape(4, 4))
    for _ in range(2):
        out = dpnp.zeros(shape, dtype="f4")
        assert einsum_into(subscripts, a, out) is out
        np.testing.assert_array_equal(dpnp.asnumpy(out), np.einsum(subscripts, dpnp.asnumpy(a)))


@pytest.mark.parametrize("k", [0, 2, -1])
def test_matrices_of_a_diagonal_have_the_usm_type_of_the_vector(k):
    vector = dpnp.ones(3, dtype="f4", usm_type="shared")
    plain, fused = dpnp.diag(vector, k), tl_dpnp.fuse(lambda x: dpnp.diag(x, k))(vector)
    assert fused.usm_type == plain.usm_type == "shared"
    np.testing.assert_array_equal(fused.asnumpy(), plain.asnumpy())


def test_the_source_is_read_while_other_code_parses():
    """CPython counts the depth of all trees in one number, and fails where the collector runs code that parses."""
    more = "".join(f"def g{n}(x):\n    return [x, (x, {n})]\n" for n in range(300))
    scope = {}
    exec(with_source(f"def f(a, b):\n    return a @ b + 1\n{more}", "<parsed>", "exec"), scope)
    left = [3]

    def parses(depth):
        return parses(depth - 1) if depth else ast.parse("x = 1")

    def collected(phase, info):
        if phase == "stop" and left[0] and sys._getframe(1).f_code.co_filename == ast.__file__:
            left[0] -= 1
            parses(7)

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(50)
    try:
        fused = _same(scope["f"], A, B)
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
    assert left == [0] or sys.version_info >= (3, 12)  # where the collector only runs between bytecodes
    assert fused.stats.plan_hits == 1


def test_going_through_an_array_without_axes():
    a = dpnp.ones(3)
    for function in (lambda x: [y for y in x[0]], lambda x: list(x.sum())):  # noqa: C416
        expected, fused = [], tl_dpnp.fuse(function)
        for number, run in enumerate((function, fused, fused)):
            try:
                result = run(a)
            except TypeError as error:
                result = str(error)
            expected = expected if number else result
            assert result == expected
