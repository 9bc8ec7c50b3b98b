"""Repeated calls of functions of PyTorch's that are fused: past Dynamo, but never past what it guards."""

from __future__ import annotations

import operator
import threading
import types

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402

from tl_dpnp.graph.pytorch import program, repeated_calls  # noqa: E402
from tl_dpnp.graph.pytorch.fused import fuse  # noqa: E402
from tl_dpnp.runtime.cuda.platform import CudaLaunch  # noqa: E402

TARGET, DEVICE = ("cuda", "cuda") if torch.cuda.is_available() else ("reference", "cpu")
FACTOR = 2.0


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    if TARGET == "reference":
        monkeypatch.setenv("TL_DPNP_TARGET", "reference")
    torch._dynamo.reset()
    torch.manual_seed(0)


def tensors(count, *shape, **options):
    return [torch.randn(*(shape or (6, 3, 3)), device=DEVICE, **options) for _ in range(count)]


def step(a, k, q):
    return k @ (q @ a) * FACTOR + q


def is_repeated(fused, *arguments, **keywords):
    """Return whether the call would not go by way of Dynamo."""
    return fused._repeated is not None and fused._repeated.find(arguments, keywords) is not None


def same(fused, function, *arguments):
    torch.testing.assert_close(fused(*arguments), function(*arguments), rtol=1e-5, atol=1e-5)


def repeated(function, *arguments):
    """Return the function fused, after a first call."""
    fused = fuse(function)
    same(fused, function, *arguments)
    assert is_repeated(fused, *arguments)
    same(fused, function, *arguments)
    return fused


def test_other_tensors_of_the_same_form_take_the_short_way():
    fused = repeated(step, *tensors(3))
    for _ in range(5):
        given = tensors(3)
        assert is_repeated(fused, *given)
        same(fused, step, *given)


def test_other_sizes_dtypes_and_strides_are_compiled_anew():
    fused = repeated(step, *tensors(3))
    others = [tensors(3, 7, 3, 3), tensors(3, 6, 2, 2), tensors(3, dtype=torch.float64),
              [each.transpose(-1, -2) for each in tensors(3)], tensors(3, 6, 1, 1)]
    for given in others:
        same(fused, step, *given)
        same(fused, step, *given)
    same(fused, step, *tensors(3))


def test_globals_that_change_are_seen(monkeypatch):
    fused = repeated(step, *tensors(3))
    given = tensors(3)
    monkeypatch.setitem(globals(), "FACTOR", -3.0)
    assert not is_repeated(fused, *given)
    same(fused, step, *given)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    same(fused, step, *given)


def test_variables_of_outer_functions_that_change_are_seen():
    factor, more = 2.0, tensors(1)[0]

    def scaled(a):
        return a @ a * factor + more  # noqa: F821  # it is deleted below

    fused = repeated(scaled, *tensors(1))
    factor = 5.0
    same(fused, scaled, *tensors(1))
    more = more + 1
    same(fused, scaled, *tensors(1))
    more = tensors(1, dtype=torch.float64)[0]
    same(fused, scaled, *tensors(1))
    del more
    with pytest.raises(NameError):
        fused(*tensors(1))


def test_attributes_defaults_and_code_that_change_are_seen():
    class Settings:
        factor = 2.0

    def scaled(a, settings, by=1.0):
        return a @ a * settings.factor * by

    settings = Settings()
    fused = fuse(scaled)
    for _ in range(3):
        same(fused, scaled, *tensors(1), settings)
    settings.factor = 7.0
    same(fused, scaled, *tensors(1), settings)
    scaled.__defaults__ = (3.0,)
    same(fused, scaled, *tensors(1), settings)
    scaled.__code__ = (lambda a, settings, by: a - by).__code__
    same(fused, scaled, *tensors(1), settings)


def test_numbers_keywords_and_methods():
    class Layer:
        def __init__(self):
            self.weight = tensors(1, 3, 3)[0]

        @fuse
        def fused(self, a, factor):
            return a @ self.weight * factor

        def plain(self, a, factor):
            return a @ self.weight * factor

    for layer in (Layer(), Layer()):
        for factor in (1.0, 1.0, 2.0, 3, True, 4.0):
            a, = tensors(1)
            same(layer.fused, layer.plain, a, factor)
            torch.testing.assert_close(layer.fused(a, factor=factor), layer.plain(a, factor), rtol=1e-5, atol=1e-5)
        layer.weight = tensors(1, 3, 3)[0]


def test_arguments_may_be_given_by_keyword_or_not_at_all():
    def scaled(a, b, by=2.0, *, negated=None):
        return a @ b * by

    def plain(a, b, by=2.0, more=None):
        return a @ b * by

    a, b = tensors(2)
    fused = fuse(plain)
    calls = [((a, b), {}), ((a,), {"b": b}), ((), {"b": b, "a": a}), ((a, b), {"by": 3.0}), ((a, b, 3.0), {}),
             ((b,), {"more": None, "b": a})]
    for arguments, keywords in calls * 2:
        torch.testing.assert_close(fused(*arguments, **keywords), plain(*arguments, **keywords), rtol=1e-5, atol=1e-5)
        assert is_repeated(fused, *arguments, **keywords)
    plain.__defaults__ = (5.0, None)
    torch.testing.assert_close(fused(a, b), plain(a, b), rtol=1e-5, atol=1e-5)
    for arguments, keywords in [((a,), {}), ((a, b), {"a": a}), ((a, b), {"other": a}), ((a, b, 1.0, None, a), {})]:
        assert not is_repeated(fused, *arguments, **keywords)
        with pytest.raises(TypeError):
            fused(*arguments, **keywords)
    fused = fuse(scaled)
    for _ in range(2):
        same(fused, scaled, a, b)
        assert not is_repeated(fused, a, b)


def test_arguments_by_position_only_are_refused_by_keyword():
    def product(a, /, b):
        return a @ b

    a, b = tensors(2)
    fused = repeated(product, a, b)
    same(lambda a, b: fused(a, b=b), product, a, b)
    with pytest.raises(TypeError):
        fused(a=a, b=b)


def test_gradients_are_recorded_where_they_are_due():
    fused = repeated(step, *tensors(3))
    given = tensors(3, requires_grad=True)
    for _ in range(3):
        found = fused(*given)
        assert found.requires_grad
        grads = torch.autograd.grad(found.square().sum(), given)
        expected = torch.autograd.grad(step(*given).square().sum(), given)
        torch.testing.assert_close(grads, expected, rtol=1e-3, atol=1e-3)
        with torch.no_grad():
            assert not fused(*given).requires_grad
        with torch.inference_mode():
            assert fused(*given).is_inference()


def test_what_is_detached_records_no_gradient():
    def apart(a, b):
        return (a.detach() @ b.detach()) * 2.0

    fused = fuse(apart)
    for _ in range(3):
        assert not fused(*tensors(2, requires_grad=True)).requires_grad


@pytest.mark.parametrize("calls", [0, 3])
def test_forward_derivatives_are_pytorch_s(calls):
    fused = fuse(lambda a, k, q: step(a, k, q).tanh())
    given, directions = tensors(3), tensors(3)
    for _ in range(calls):
        fused(*given)
    with forward_ad.dual_level():
        duals = [*map(forward_ad.make_dual, given, directions)]
        for _ in range(3):
            found, expected = (forward_ad.unpack_dual(each) for each in (fused(*duals), step(*duals).tanh()))
            torch.testing.assert_close(found.tangent, expected.tangent, rtol=1e-4, atol=1e-4)
    same(fused, lambda *operands: step(*operands).tanh(), *given)
    assert is_repeated(fused, *given)


def test_autocast_counts():
    def product(a, b):
        return (a @ b) * 2.0

    for device in {DEVICE, "cpu"}:
        given = [each.to(device) for each in tensors(2)]
        fused = fuse(product)
        for _ in range(3):
            assert fused(*given).dtype == torch.float32
            with torch.autocast(device, dtype=torch.bfloat16):
                assert fused(*given).dtype == product(*given).dtype == torch.bfloat16


def test_tensors_that_share_memory_are_right_where_one_is_written():
    def shifted(a, b):
        a += b @ b
        return a * 2.0

    fused = fuse(shifted)
    for _ in range(3):
        mine, theirs = (torch.arange(18.0, device=DEVICE).reshape(2, 3, 3) for _ in range(2))
        other, = tensors(1, 2, 3, 3)
        for left, right in ((mine, other), (mine, mine.view(2, 3, 3)), (mine[:1], mine[1:])):
            expected = shifted(theirs[: len(left)], right.clone() if right is other else theirs[-len(right):])
            torch.testing.assert_close(fused(left, right), expected)
            torch.testing.assert_close(mine, theirs)
            mine /= 100
            theirs /= 100


def test_tensors_that_share_memory_take_the_short_way_where_none_is_written():
    fused = repeated(step, *tensors(3))
    a, = tensors(1)
    for given in ((a, a.view(6, 3, 3), a), (a, a, a), (a, a.flip(0), a)):
        same(fused, step, *given)
        same(fused, step, *given)


def test_results_that_are_views_of_arguments_are_views():
    def first(a):
        return a[0], a @ a

    fused = fuse(first)
    for _ in range(3):
        a, = tensors(1)
        view, product = fused(a)
        view.zero_()
        assert not a[0].any()
        assert product.any()


def test_results_of_any_structure():
    def some(a):
        return {"product": a @ a, "rest": [a * 2.0, (None, 3, "text")]}

    fused = fuse(some)
    for _ in range(3):
        a, = tensors(1)
        found, expected = fused(a), some(a)
        assert is_repeated(fused, a)
        assert found["rest"][1] == (None, 3, "text")
        torch.testing.assert_close((found["product"], found["rest"][0]), (expected["product"], expected["rest"][0]))


def test_effects_happen_at_each_call():
    seen = []

    def noted(a):
        seen.append(1)
        return a @ a + len(seen)

    fused = fuse(noted)
    for number in range(1, 5):
        a, = tensors(1)
        torch.testing.assert_close(fused(a), a @ a + number, rtol=1e-5, atol=1e-5)
        assert len(seen) == number


def test_what_is_not_traced_runs_at_each_call():
    def broken(a):
        b = a @ a
        torch._dynamo.graph_break()
        return b @ a + 1.0

    fused = fuse(broken)
    for _ in range(4):
        same(fused, broken, *tensors(1))
        assert not is_repeated(fused, *tensors(1))


def test_resets_and_stances_count():
    fused = repeated(step, *tensors(3))
    given = tensors(3)
    with torch.compiler.set_stance("force_eager"):
        assert not is_repeated(fused, *given)
        same(fused, step, *given)
    assert is_repeated(fused, *given)
    torch._dynamo.reset()
    assert not is_repeated(fused, *given)
    same(fused, step, *given)
    assert is_repeated(fused, *given)


def test_another_pytorch_takes_the_usual_way(monkeypatch, caplog):
    def missing(function):
        raise AttributeError("no entries")

    monkeypatch.setattr(repeated_calls, "compiled_frames", missing)
    fused = fuse(step)
    with caplog.at_level("INFO", logger="tl_dpnp.fusion"):
        for _ in range(3):
            given = tensors(3)
            same(fused, step, *given)
            assert not is_repeated(fused, *given)
    assert sum("by way of Dynamo" in record.message for record in caplog.records) == 1


def test_tracers_see_what_the_function_does():
    fused = repeated(step, *tensors(3))
    given, others = tensors(3), tensors(3)
    outer = torch.compile(lambda a, k, q: fused(a, k, q) + 1.0, backend="eager", fullgraph=True)
    for each in (given, others):
        torch.testing.assert_close(outer(*each), step(*each) + 1.0, rtol=1e-5, atol=1e-5)
    mapped = torch.func.vmap(fused)(*given)
    torch.testing.assert_close(mapped, step(*given), rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="trace"):
        torch.jit.trace(fused, tuple(given), check_trace=False)


def test_threads_call_it_at_once():
    fused = repeated(step, *tensors(3))
    same(fused, step, *tensors(3, 7, 3, 3))  # PyTorch 2.11 refuses calls of compiled functions while a thread compiles
    failures = []

    def work(seed):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        try:
            for turn in range(30):
                given = [torch.randn(6 + turn % 2, 3, 3, device=DEVICE, generator=generator) for _ in range(3)]
                same(fused, step, *given)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.fixture
def known(monkeypatch):
    """Launches that know all tensors, and what they have run on, as those by machine code do after their first one."""
    if TARGET != "reference":
        pytest.skip("the launches of the interpreter")
    ran = []

    def run_if_known(launch, arguments):
        tensors = arguments[len(launch.fixed) :]
        launch.run(dict(zip(launch.slots, tensors, strict=True)))
        ran.append(arguments)
        return True

    monkeypatch.setattr(program._ReferenceLaunch, "is_known", True)
    monkeypatch.setattr(program._ReferenceLaunch, "run_if_known", run_if_known)
    return ran


def swapped(a, b, c):
    return c @ b - a * 3.0


def numbered(a, b):
    return (a @ b) * 0.5, a


def several(a, b):
    product = a @ b
    return [product * 2.0, product + 1.0]


def around(matrix):
    def inside(a, b):
        return matrix @ (a @ b), b

    return inside


@pytest.mark.parametrize("function", [step, swapped, numbered, several, lambda a: a * 2.0 + 1.0,
                                      lambda a, b: torch.matmul(a, b) / FACTOR,
                                      around(torch.full((3, 3), 0.5, device=DEVICE))])
def test_one_kernel_is_run_at_once(known, function):
    """Its results are the function's, in the same order, whatever the order of arguments in the graph."""
    count = function.__code__.co_argcount
    fused = repeated(function, *tensors(count))
    for _ in range(3):
        before = len(known)
        given = tensors(count)
        same(fused, function, *given)
        assert len(known) == before + 1
        assert type(fused(*given)) is type(function(*given))
        assert fused._repeated.short(given) is not NotImplemented
    same(fused, function, *tensors(count, 4, 3, 3))  # compiled anew
    known.clear()
    same(fused, function, *tensors(count))
    assert known


def test_what_is_missing_is_said():
    fused = repeated(step, *tensors(3))
    with pytest.raises(TypeError):
        fused(*tensors(2))
    with pytest.raises(TypeError):
        fused(*tensors(4))


def test_functions_of_any_number_of_arguments_take_the_usual_way():
    def summed(*arrays, factor=2.0):
        return sum(arrays[1:], arrays[0]) * factor

    fused = fuse(summed)
    for _ in range(3):
        same(fused, summed, *tensors(3))
    same(fused, summed, *tensors(2))


class Launched(CudaLaunch):
    """A launch that notes how it is run, by Python or by a function that takes arguments while they `fit`."""

    def __init__(self, is_direct=True):
        self.is_direct, self.fit, self.how = is_direct, True, []

    def run(self, arguments, addresses):
        self.how.append("Python")

    def direct_call(self, binding, arguments):
        def call(given):
            if self.fit:
                self.how.append(given)
            return self.fit

        return call

    binding = None


@pytest.mark.parametrize(("is_direct", "offset"), [(True, 0), (False, 0), (True, 16)])
def test_kernels_are_launched_by_machine_code_from_the_second_time_on(is_direct, offset):
    launch = Launched(is_direct)
    first, second = tensors(2)
    prepared = types.SimpleNamespace(launch=launch, operands=((1, 0), (0, offset)), fixed=(5,))
    run = program._CudaLaunch(prepared)
    for _ in range(3):
        run.run([first, second])
    launch.fit = False
    run.run([first, second])
    by_machine_code = (5, second, first)
    if is_direct and not offset:
        assert [each if each == "Python" else all(map(operator.is_, each, by_machine_code)) for each in launch.how] == [
            "Python", True, True, "Python"]
        assert run.is_known
    else:
        assert launch.how == ["Python"] * 4
        assert not run.is_known
