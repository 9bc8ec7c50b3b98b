"""`tl_dpnp.fuse` for functions of CuPy's arrays: CuPy on a GPU where there is one, else a stand-in on NumPy."""

from __future__ import annotations

import heapq
import inspect
import pathlib
import re

import numpy as np
import pytest

import tl_dpnp
from asv_bench.benchmarks.namespaces import arrays_of, make, names
from tests.cuda.cupy_support import STANDS_IN, compare, cupy, fuse, here, shares
from tests.graph.source_text import with_source
from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError


@pytest.fixture(autouse=True)
def _cupy(monkeypatch):
    here(monkeypatch)


# --- calls -----------------------------------------------------------------------------------------------------------


def random(*shape, dtype="f4", seed=0):
    return cupy.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def step(A, K, Q):
    return cupy.matmul(K, Q @ A) * 2.0 + cupy.exp(Q)


def test_a_chain_is_one_kernel_whose_plan_is_kept():
    fused = fuse(step)
    explanation = fused.explain(*(random(5, 4, 4, seed=n) for n in range(3)))
    assert (explanation.launches_before, explanation.launches) == (5, 1)
    for seed in range(4):
        given = [random(5, 4, 4, seed=seed + n) for n in range(3)]
        result = fused(*given)
        assert result.flags.c_contiguous
        compare("step", result, step(*given))
    assert fused.stats.plan_hits == 4


def checked(function, make, calls=3, **options):
    """Compare calls of a function, fused, with the same in CuPy, the arguments afterwards too; return the first one's
    explanation."""
    fused = fuse(function, **options)
    explanation = None
    for number in range(calls):
        mine, theirs = make(), make()
        if number == 0:
            explanation = fused.explain(*make())
        result, expected = fused(*mine), function(*theirs)
        compare(f"call {number}", result, expected)
        for one, other in zip(mine, theirs, strict=True):
            if isinstance(other, cupy.ndarray):
                compare(f"an argument of call {number}", one, other)
    return explanation


def test_results_are_cupy_s_and_objects_of_their_own():
    def function(x):
        y = x + 1
        return y, y[...], x[...], y.T, x

    fused = fuse(function)
    x = random(3, 4)
    for _ in range(2):
        y, whole, view, turned, own = fused(x)
        assert own is x
        assert {type(each) for each in (y, whole, view, turned)} == {cupy.ndarray}
        assert len({id(each) for each in (y, whole, view, turned, x)}) == 5
        assert shares(y, whole)
        assert shares(y, turned)
        assert shares(view, x)
        assert not shares(y, x)


def test_arrays_begin_anywhere_and_in_any_order():
    memory = random(4000)

    def part(start, *shape):
        count = int(np.prod(shape))
        return memory[start : start + count].reshape(shape)

    fused = fuse(lambda x, y: (x @ y + 1, x.T * 2))
    for start in (0, 1, 3, 4, 7, 1):
        x, y = part(start, 6, 8, 8), part(start + 777, 6, 8, 8)
        compare(f"from {start} on", fused(x, y), (x @ y + 1, x.T * 2))
        for turned in (x.transpose(0, 2, 1), x[::-1], x[:, ::2, ::-2]):
            compare(f"turned, from {start} on", fuse(lambda x: x * 2 + x)(turned), turned * 2 + turned)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_axes_may_interleave_in_memory(size):
    checked(lambda x: (x * 2)[:, ::2] + 1, lambda: [random(size, size)])

    def assigned(x):
        x[:, ::2] = x[:, ::2] + 1
        return x

    checked(assigned, lambda: [random(size, size)])


def test_arguments_are_changed_in_place_as_cupy_changes_them():
    def function(x, y):
        x += y
        x[:, 0] = 7
        x[1:] = x[:-1]
        cupy.multiply(y, 2, out=y)
        y[y > 1] = 0
        return x @ y.T

    checked(function, lambda: [random(4, 6), random(4, 6, seed=1)])
    memory = random(200)
    checked(function, lambda: [(given := memory.copy())[1:25].reshape(4, 6), given[101:125].reshape(4, 6)])


@pytest.mark.parametrize("places", [(0, 24), (0, 0), (0, 6), (3, 0)])
def test_arguments_may_share_memory(places):
    def function(x, y):
        x *= 2
        y += x[0, 0]
        return x * y

    fused = fuse(function)
    for first, second in ((0, 24), places, (0, 24)):
        results = []
        for run in (fused, function):
            memory = random(60)
            results.append([run(memory[first : first + 24].reshape(4, 6), memory[second : second + 24].reshape(4, 6)),
                            memory])
        compare(f"{first}, {second}", *results)


SCALE = 2.0
WEIGHTS = random(4, 4, seed=9)


def test_globals_closures_and_attributes_are_looked_at_again():
    global SCALE, WEIGHTS
    before = SCALE, WEIGHTS
    shift = 1.0

    class Model:
        def __init__(self):
            self.weights, self.bias = random(4, 4, seed=5), 0.5

        def __call__(self, x):
            return x @ self.weights + self.bias

    model = Model()

    def function(x):
        return cupy.tanh(model(x)) * SCALE @ WEIGHTS - shift

    fused, x = fuse(function), random(7, 4)
    for change in range(7):
        if change == 1:
            SCALE = 3.0
        elif change == 2:
            WEIGHTS = random(4, 4, seed=10)
        elif change == 3:
            shift = -2.5
        elif change == 4:
            model.bias = 2
        elif change == 5:
            model.weights = random(4, 4, seed=11, dtype="f8")
        elif change == 6:
            model.weights[...] = 1
        for _ in range(2):
            compare(f"after change {change}", fused(x), function(x))
    SCALE, WEIGHTS = before


def test_shapes_dtypes_and_numbers_may_change():
    def function(x, a, n):
        return (x * a + n) @ x.T

    fused = fuse(function, recompile_limit=100)
    for shape in ((3, 4), (5, 4), (5, 6), (1, 1), (8, 4), (9, 7), (10, 7)):
        for dtype in ("f4", "f8", "i4"):
            for a, n in ((0.5, 1), (2, 3), (np.float32(0.5), np.int64(2)), (True, 1.5)):
                x = random(*shape, dtype="f8").astype(dtype)
                compare(f"{shape} {dtype} {a!r} {n!r}", fused(x, a, n), function(x, a, n))


def test_what_depends_on_values_is_traced_at_each_call():
    def function(x):
        if (x > 0).any():
            return cupy.sqrt(abs(x)) * 2
        return x - float(x.sum())

    fused = fuse(function)
    for values in ([1, 2], [-1, -2], [3, -1], [-1, -1]):
        x = cupy.asarray(np.array(values, "f4"))
        compare(str(values), fused(x), function(x))
    assert fused.stats.plan_hits == 0
    with pytest.raises(UnsupportedError, match=r"__bool__ of an array|any is not fused"):
        fuse(function, fullgraph=True)(x)


def test_what_cupy_computes_in_between_cuts_kernels():
    explanation = checked(lambda x: cupy.sort(x * 2, axis=1) @ x.T + 1, lambda: [random(6, 6)])
    assert (len(explanation.kernels), explanation.calls) == (2, ("sort",))
    assert "cupy.sort is not fused" in str(explanation)
    assert "func @fused" in str(explanation)
    with pytest.raises(UnsupportedError, match=r"test_cupy\.py:\d+: sort: cupy\.sort is not fused"):
        fuse(lambda x: cupy.sort(x * 2), on_break="error")(random(6, 6))
    with pytest.warns(FusionWarning, match=r"sort"):
        fuse(lambda x: cupy.sort(x * 2), on_break="warn")(random(6, 6))


def test_functions_of_numpy_are_those_of_cupy_for_its_arrays():
    explanation = checked(lambda x: np.exp(x) * np.float64(2) + 3 / x, lambda: [random(3, 4, dtype="f8")])
    assert (len(explanation.kernels), explanation.calls, explanation.again) == (1, (), ())
    checked(lambda x: np.sum(x * 2, axis=0) + np.linalg.norm(x), lambda: [random(3, 4)])


def test_arrays_that_are_kept_are_cupy_s_own():
    class State:
        pass

    state, kept, names = State(), [], {}

    def function(x):
        y = x * 2
        state.last = y
        kept.append(y + 1)
        names["z"] = (y, x)
        return y - 1

    fused = fuse(function)
    for seed in range(3):
        x = random(3, 4, seed=seed)
        compare("the result", fused(x), x * 2 - 1)
        compare("an attribute", state.last, x * 2)
        compare("in a list", kept[-1], x * 2 + 1)
        compare("in a tuple", names["z"], (x * 2, x))
        assert names["z"][1] is x
        assert type(state.last) is type(kept[-1]) is cupy.ndarray


def test_code_that_is_not_followed_sees_what_was_computed():
    seen = []

    class Box:
        def __init__(self, value):
            self.value = value

        def __add__(self, other):
            seen.append(other.get().copy())
            other += 1
            return cupy.asarray(other) * 2

    def function(x):
        y = x * 3
        z = Box(1) + y
        return y + z

    for _ in range(2):
        mine, theirs = random(3, 4), random(3, 4)
        compare("the result", fuse(function)(mine), function(theirs))
        np.testing.assert_array_equal(seen[-2], seen[-1])


def test_code_in_c_changes_and_returns_the_lists_that_it_is_given():
    heap, lists = [], ([-1, 3], [0, 2])

    def function(x, number):
        y = x * 2
        heapq.heappush(heap, (number, y))
        heapq.heappush(heap, (number + 0.5, [x, {"y": y}]))
        largest = max(*lists)
        largest.append(number)
        y += 1
        return y, largest is lists[1]

    fused = fuse(function)
    for number in (3, 1, 2):
        x = random(3, seed=number)
        y, is_second = fused(x, number)
        compare("what was changed later", y, x * 2 + 1)
        assert is_second
        held = dict(heap)
        assert held[number] is held[number + 0.5][1]["y"] is y
        assert held[number + 0.5][0] is x
    assert (lists[1], [number for number, _ in sorted(heap)]) == ([0, 2, 3, 1, 2], [1, 1.5, 2, 2.5, 3, 3.5])


def test_generators_and_what_outlives_the_trace_hold_arrays():
    def function(x):
        held = iter([x + 1, x * 2])
        next(held)
        return held, x.sum()

    x = random(3, 4)
    held, total = fuse(function)(x)
    compare("the sum", total, x.sum())
    (last,) = held
    assert isinstance(last, cupy.ndarray)
    compare("what an iterator holds", cupy.asarray(last + 0), x * 2 + 0)


def test_options_stats_and_warmup():
    fused = fuse(lambda x, factor: factor * (x @ x))
    fused.warmup(tl_dpnp.spec((5, 4, 4), "float32"), 1.0)
    x = random(5, 4, 4)
    compare("after a warmup", fused(x, 0.5), 0.5 * (x @ x))
    assert (fused.stats.plan_hits, fused.stats.calls) == (1, 1)
    fused.clear()
    assert fused.stats.calls == 0
    with pytest.raises(TLTypeError, match="on_break='loud'"):
        fuse(on_break="loud")
    with pytest.raises(UnsupportedError, match="fusing takes no block of cupy's arrays"):
        tl_dpnp.fusing(x)


def test_arrays_of_two_packages_are_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"cupy\.asarray"):
        fuse(lambda x, y: x * 2 + y)(random(3, 4), np.ones((3, 4), "f4"))
    compare("the way out", fuse(lambda x, y: x * 2 + cupy.asarray(y))(random(3, 4), np.ones((3, 4), "f4")),
            random(3, 4) * 2 + 1)

    class Tensor:
        __module__ = "torch"

        def __dlpack__(self):
            """Be an array."""

    with pytest.raises(UnsupportedError, match=r"cupy\.asarray\(tensor\)"):
        fuse(lambda x, y: x * 2 + y)(random(3, 4), [Tensor()])


def test_arrays_in_objects_say_whose_function_it_is():
    class Slots:
        __slots__ = ("empty", "x")

        def __init__(self):
            self.x = random(3, 4)

    class Model:
        def __init__(self):
            self.parts = {"one": [Slots()]}

    fused = fuse(lambda model: model.parts["one"][0].x * 2)
    fused.of = lambda package: (chosen.append(package), type(fused).of(fused, package))[1]
    chosen: list[str] = []
    compare("of an object", fused(Model()), random(3, 4) * 2)
    assert chosen == ["cupy"]


def test_methods_and_nested_functions_are_fused():
    @fuse
    def inner(x):
        return x * 2

    class Model:
        @fuse
        def run(self, x, scale=2):
            return cupy.exp(inner(x)) * scale

    x = random(3, 4)
    compare("a method", Model().run(x, scale=3), cupy.exp(x * 2) * 3)
    explanation = tl_dpnp.explain(Model().run)(x)
    assert (len(explanation.kernels), explanation.breaks) == (1, ())


@pytest.mark.parametrize("shape", [(6, 3, 3), (3, 3), (2, 2, 4, 4)])
def test_small_matrices_are_solved_in_the_kernel(shape):
    def function(a, b):
        vectors = cupy.linalg.solve(a, b) if a.ndim == 2 else b
        return cupy.linalg.inv(a) @ b.swapaxes(-1, -2) if a.ndim > 2 else vectors * 2, cupy.linalg.det(a)

    explanation = checked(function, lambda: [random(*shape, dtype="f8") + 3 * cupy.asarray(np.eye(shape[-1])),
                                             random(*shape, dtype="f8", seed=1) if len(shape) > 2
                                             else random(shape[-1], dtype="f8", seed=1)])
    assert (explanation.calls, explanation.breaks) == ((), ())


@pytest.mark.skipif(STANDS_IN, reason="it has no cupyx")
def test_settings_of_cupy_are_looked_at():
    import cupyx

    fused = fuse(lambda a: cupy.linalg.inv(a) * 2)
    singular = cupy.zeros((3, 2, 2))
    for _ in range(2):
        fused(singular)
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        fused(singular)
    fused(singular)


@pytest.mark.skipif(STANDS_IN, reason="it has no kernels of its own")
def test_kernels_and_functions_of_cupyx_are_given_arrays_in_memory():
    import cupyx
    import cupyx.scipy.special

    twice = cupy.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice")
    raw = cupy.RawKernel('extern "C" __global__ void add_one(float* x, int n) '
                         "{ int i = threadIdx.x; if (i < n) x[i] += 1; }", "add_one")

    def function(x):
        y = twice(x + 1) - x
        raw((1,), (64,), (y, np.int32(y.size)))
        cupyx.scatter_add(y, (slice(None), 0), y[:, 1] * 2)
        return cupyx.scipy.special.erf(y * 0.5) + y

    checked(function, lambda: [random(3, 4)])


@pytest.mark.skipif(STANDS_IN, reason="it has one stream")
def test_kernels_run_on_the_current_stream_and_in_graphs():
    fused, x = fuse(step), [random(500, 8, 8, seed=seed) * 0.1 for seed in range(3)]
    expected = step(*x)
    for _ in range(5):
        fused(*x)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        result = fused(*x)
        stream.synchronize()
        compare("on another stream", result, expected)
        stream.begin_capture()
        captured = fused(*x)
        graph = stream.end_capture()
        x[0] *= 0
        graph.launch()
        stream.synchronize()
        compare("of a graph", captured, step(*x))


@pytest.mark.parametrize("function", [
    lambda a, b: a @ b, lambda a, b: a + b, lambda a, b: a.reshape(7, 7), lambda a, b: a.sum(axis=5),
    lambda a, b: cupy.einsum("ij,jk->ik", a, b), lambda a, b: cupy.add(a, a, out=b), lambda a, b: a[9],
    lambda a, b: cupy.exp(a, nonsense=1), lambda a, b: a.nothing, lambda a, b: cupy.nothing(a),
    lambda a, b: cupy.concatenate([a, b]), lambda a, b: {a: b}, lambda a, b: bool(a), lambda a, b: np.asarray(a),
    lambda a, b: a.astype("nonsense"), lambda a, b: a.sycl_queue,
])
def test_what_is_wrong_raises_what_cupy_raises(function):
    operands = random(3, 4), random(3, 5)
    with pytest.raises(Exception) as plain:  # noqa: PT011  # whatever CuPy raises
        function(*operands)
    with pytest.raises(type(plain.value)) as fused:
        fuse(function)(*operands)
    assert str(fused.value) == str(plain.value)


def test_repeated_calls_launch_by_what_looks_at_the_arrays():
    shared = random(4, 4, seed=9)
    fused = fuse(lambda x, y, factor: (p := cupy.matmul(x, y @ shared) * factor, p + y))
    run = fused.of("cupy")._recent
    for number in range(8):
        x, y = random(30, 4, 4, seed=number), random(30, 4, 4, seed=number + 50)
        compare(f"call {number}", fused(x, y, 0.5 * number), fused.function(x, y, 0.5 * number))
        assert len(run.short) == (number >= 3)
    assert fused.stats.plan_hits == 7
    (short,) = run.short
    others = [(x, x, 1.0), (x, y, 1), (x, y), (x.swapaxes(1, 2), y, 1.0), (x.astype("f8"), y, 1.0), (x[:2], y, 1.0),
              (random(481)[1:].reshape(30, 4, 4), y, 1.0)]
    for other in others:
        assert short(other) is False
    for x, y, factor in others[0], others[1], others[3], others[6]:
        compare("another kind", fused(x, y, factor), fused.function(x, y, factor))
    shared = random(4, 4, seed=10)
    compare("another closure", fused(x, y, 2.0), fused.function(x, y, 2.0))
    shared = random(4, 4, seed=10, dtype="f8")
    assert short((x, y, 2.0)) is False
    compare("another closure", fused(x, y, 2.0), fused.function(x, y, 2.0))


# --- programs as users write them -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [
    lambda x, y: x @ (y @ x) * 2.0 + y, lambda x: 0.5 * cupy.exp(x - 1) + 3, lambda x, a, y: x * a + y * 2.5,
    lambda x, a, b: x * b - a,
])
def test_repeated_calls_of_functions_with_numbers_in_them_are_as_short(function):
    """Numbers of the function's own are given to the kernel beside those of the call."""
    fused, random = fuse(function), np.random.default_rng(7)
    names = inspect.signature(function).parameters
    for _ in range(6):
        given = [cupy.asarray(random.random((4, 8, 8)).astype("f4")) if name in "xy" else random.random()
                 for name in names]
        compare("a call", fused(*given), function(*given))
    assert len(fused.of("cupy")._recent.short) == 1


@pytest.mark.parametrize("name", [name for name, file in names().items()
                                  if file in ("attention", "elements", "filters", "tensors")])
def test_programs_are_what_cupy_computes(name):
    call = make("cupy", name, 3, "f64")
    try:
        expected = call()
    except (AttributeError, TypeError):
        pytest.skip("CuPy, or what stands for it, has not all functions")
    fused = fuse(call.function)
    for _ in range(4):
        found = fused(*call.arguments)
        for one, other in zip(arrays_of(found), arrays_of(expected), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            scale = float(abs(other).max())
            np.testing.assert_allclose(one.get(), other.get(), rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("seed", range(6))
def test_drawn_programs_are_what_cupy_computes(seed):
    generator = np.random.default_rng(seed)
    unary = [cupy.tanh, abs, lambda x: x.swapaxes(-1, -2), lambda x: x[..., ::-1],
             lambda x: x - x.max(axis=-1)[..., None],
             lambda x: cupy.where(x > 0, x, x * 0.5), lambda x: x * 2 + 1, lambda x: x / (1 + cupy.square(x))]
    binary = [lambda x, y: x @ y, cupy.maximum, lambda x, y: x - y * 0.5, cupy.arctan2,
              lambda x, y: cupy.einsum("bij,bkj->bik", x, y), lambda x, y: x + y.sum(axis=0)]
    chosen = [(unary[generator.integers(len(unary))], None) if generator.random() < 0.5 else
              (binary[generator.integers(len(binary))], int(generator.integers(3))) for _ in range(10)]

    def function(*given):
        values = list(given)
        for operation, other in chosen:
            values.append(operation(values[-1]) if other is None else operation(values[-1], values[other]) * 0.25)
        return values[-1], values[-3]

    checked(function, lambda: [random(6, 5, 5, dtype="f8", seed=10 * seed + number) for number in range(3)])


def test_the_code_of_the_page_runs():
    page = pathlib.Path(tl_dpnp.__file__).parents[1] / "docs" / "cupy.md"
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)):
        exec(with_source(block, f"<block {number} of {page.name}>", "exec"), names)
    assert "largest" in names
