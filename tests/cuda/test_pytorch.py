"""The backend of `torch.compile`: on a GPU where there is one, else in the interpreter."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tl_dpnp  # noqa: E402
from tests.graph.expressions import EXPRESSIONS, groups  # noqa: E402
from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError  # noqa: E402
from tl_dpnp.graph.pytorch.backend import Backend  # noqa: E402
from tl_dpnp.graph.pytorch.backend import backend as entry_point  # noqa: E402
from tl_dpnp.graph.pytorch.explanation import Explanation  # noqa: E402
from tl_dpnp.graph.pytorch.planning import KernelStep, plan  # noqa: E402
from tl_dpnp.graph.work_groups import of_warps  # noqa: E402

TARGET, DEVICE = ("cuda", "cuda") if torch.cuda.is_available() else ("reference", "cpu")
TOLERANCE = {torch.float16: 4e-3, torch.float32: 3e-5, torch.float64: 1e-10}
DTYPES = {"?": "bool", "i1": "int8", "u1": "uint8", "i2": "int16", "i4": "int32", "i8": "int64", "f2": "float16",
          "f4": "float32", "f8": "float64"}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def fuse(monkeypatch):
    """Give `tl_dpnp.fuse` where there is no dpnp; the interpreter runs kernels where there is no GPU."""
    monkeypatch.setenv("TL_DPNP_TARGET", TARGET)
    return tl_dpnp.fuse


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).to(DEVICE)


def same(found, expected):
    """Fail unless results are PyTorch's, with their strides, but for rounding."""
    found, expected = (torch.utils._pytree.tree_leaves(value) for value in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
        if one.numel():
            assert all(size == 1 or own == its for size, own, its in
                       zip(one.shape, one.stride(), other.stride(), strict=True)), (one.stride(), other.stride())
        tolerance = TOLERANCE.get(one.dtype, 0)
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(function, *arguments, **options):
    """Compare a function that is compiled with the same without; arguments that are changed, too."""
    backend = Backend(TARGET, **options)
    mine, theirs = ([value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
                    for _ in range(2))
    same(torch.compile(function, backend=backend, fullgraph=True)(*mine), function(*theirs))
    same([value for value in mine if isinstance(value, torch.Tensor)],
         [value for value in theirs if isinstance(value, torch.Tensor)])
    return Explanation.of("the function", backend.compilations)


# --- the expressions of dpnp's conformance suite that have a counterpart ----------------------------------------------


def tensors(expression):
    """Return the operands of an expression, None where PyTorch has none like them; it has no negative strides."""
    generator = np.random.default_rng(expression.number)
    found = []
    for dtype, shape, view in expression.operands:
        if dtype not in DTYPES:
            return None
        kind = np.dtype(dtype).kind
        low, high = {"b": (0, 2), "u": (0, 4), "i": (-3, 4)}.get(kind, (-12, 13))
        values = generator.integers(low, high, shape) / (4 if kind == "f" else 1)
        tensor = torch.as_tensor(values).to(getattr(torch, DTYPES[dtype])).to(DEVICE)
        for text, other in (("::-1", ":"), ("xp.nan", "float('nan')"), ("xp.inf", "float('inf')")):
            view = view.replace(text, other)
        found.append(eval(f"a{view}", {"a": tensor}))
    return found


def expected_of(expression):
    """Return what PyTorch computes, None where it has none of the functions or takes other arguments.

    It is tried on the CPU first: on a GPU, an index that is outside ends the process.
    """
    try:
        expression.function(torch, *(tensor.cpu() for tensor in tensors(expression)))
        result = expression.function(torch, *tensors(expression))
    except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
        return None
    return result if isinstance(result, torch.Tensor) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", [name for name, _ in groups()])
def test_expressions_are_what_pytorch_computes(group):
    expressions = [each for each in EXPRESSIONS if each.group == group and tensors(each) is not None]
    expected = {each.number: expected_of(each) for each in expressions}
    chosen = [each for each in expressions if expected[each.number] is not None]
    if torch.cuda.is_available():  # PyTorch compares no kernels there that it does not have
        chosen = [each for each in chosen if expected[each.number].device.type == "cuda"]

    def together(arguments):
        return [each.function(torch, *values) for each, values in zip(chosen, arguments, strict=True)]

    if chosen:
        found = torch.compile(together, backend=Backend(TARGET), dynamic=False)([tensors(each) for each in chosen])
        for each, one in zip(chosen, found, strict=True):
            try:
                same(one, expected[each.number])
            except AssertionError as error:
                raise AssertionError(f"{each}: {error}") from None


# --- what is fused ---------------------------------------------------------------------------------------------------


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


def test_attention_is_one_kernel():
    q, k, v = (random(2, 3, 8, 16) for _ in range(3))
    found = check(attention, q, k, v)
    assert (len(found.kernels), found.left) == (1, ())


def test_chains_of_einsum_are_one_kernel():
    u, d = random(40, 4, 4, 4), random(4, 4)
    def chain(u, d):
        return torch.einsum("eijk,ai,bj,ck->eabc", u, d, d, d) + torch.einsum("ai,eijk->eajk", d, u)

    found = check(chain, u, d)
    assert (len(found.kernels), found.left) == (1, ())


def test_half_floats_are_computed_as_pytorch_does_it():
    x, w, b = (random(*shape, dtype=torch.float16) for shape in ((30, 16), (16,), (16,)))
    found = check(lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (16,), w, b)), x, w, b)
    assert found.left == ()


def test_half_floats_are_rounded_as_pytorch_does_it():
    x = torch.tensor([0.1, 0.2, 0.3, -1 / 3], dtype=torch.float16, device=DEVICE)
    check(lambda x: (x == 0.1, x < 0.1, x <= 0.2, x > 0.3, x != -1 / 3, torch.fmod(x, 0.1), x + 0.1), x)
    numbers = torch.tensor([4097, 2049, -2051, 70000], device=DEVICE)
    found = check(lambda x, i: (x * i - i, x == i, torch.add(x, i, alpha=3)), x, numbers)
    assert found.left == ()


@pytest.mark.parametrize("function", [
    lambda x: torch.where(x > 3, x, -1),
    lambda x: x + torch.full_like(x, -1),
    lambda x: torch.nn.functional.pad(x + 1, (1, 1), value=254),
    lambda x: torch.full_like(x, 2.7) + x,
])
def test_numbers_that_a_dtype_lacks_are_pytorch_s(function):
    check(function, torch.arange(6, dtype=torch.uint8, device=DEVICE))


def test_floats_that_become_integers_are_pytorch_s():
    found = check(lambda a, b: torch.zeros_like(a).copy_(b) + 1, torch.ones(3, dtype=torch.int8, device=DEVICE),
                  torch.tensor([30.7, -1.5, 2.0], device=DEVICE))
    assert [left.name for left in found.left] == ["aten.copy.default"]


def test_no_axes_are_all_or_none_as_they_are_in_pytorch():
    x = random(3, 4)
    check(lambda x: (x.any(dim=()), x.all(dim=()), x.sum(dim=()), x.mean(dim=()), torch.amax(x, ())), x)


def test_moments_of_half_floats_have_pytorch_s_dtype():
    check(lambda x: torch.native_layer_norm(x, (16,), None, None, 1e-5), random(30, 16, dtype=torch.float16))


def test_large_products_are_left_to_pytorch():
    found = check(lambda a, b: torch.relu(a @ b + 1), random(300, 300), random(300, 300))
    assert [left.name for left in found.left] == ["tl_dpnp.matmul.default"]
    assert len(found.kernels) == 1


def test_what_pytorch_computes_in_between_cuts_kernels():
    """A view of PyTorch's result is read when that is there."""
    x = random(5, 6)
    found = check(lambda x: (torch.sort(x * 2, dim=1)[0].reshape(30) + 1, x - 1), x)
    assert [left.name for left in found.left] == ["aten.sort.default"]
    assert len(found.kernels) == 2


def test_copies_of_what_pytorch_computes_are_made_after_it():
    def function(x):
        return torch.sort(torch.sort(x + 1)[0].mT.contiguous())[0] * 2

    explanation = check(function, random(3, 4, 5))
    assert [left.name for left in explanation.left] == ["aten.sort.default"] * 2


def test_inverses_check_for_singular_matrices():
    """PyTorch 2.11 drops the check while it makes graphs, for every backend."""
    def function(a):
        return torch.linalg.inv(a) @ a

    def refused(backend):
        try:
            torch.compile(function, backend=backend)(matrices)
        except torch.linalg.LinAlgError:
            return True
        return False

    matrices = random(5, 3, 3) + 3 * torch.eye(3, device=DEVICE)
    check(function, matrices)
    matrices[2] = 0
    assert refused(Backend(TARGET)) == refused("aot_eager")


def test_kernels_for_an_h200_are_made_without_one():
    backend = Backend("reference")
    q = torch.randn(2, 3, 8, 16)
    torch.compile(attention, backend=backend)(q, q, q)
    (compilation,) = backend.compilations
    planned = plan(compilation.module, q.device, {}, of_warps(1 << 16))
    for step in planned.steps:
        if isinstance(step, KernelStep):
            kernel, _ = step.request.kernel("cuda")
            assert ".entry" in next(iter(kernel.inspect_ptx().values()))


# --- results are PyTorch's -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: x.t() * 2,
    lambda x: (x.clone(), x.contiguous()),
    lambda x: (x * 2).t(),
    lambda x: (x + 1)[1:, ::2],
    lambda x: (x[0], x.reshape(-1)),
    lambda x: (x + 1).expand(2, *x.shape),
    lambda x: torch.diagonal(x @ x.t()),
    lambda x: (lambda y: (y, y.clone(), y[0]))(x + 1),
    lambda x: (x.sum(), x.sum(0).sum(), torch.zeros_like(x), x.float()),
    lambda x: torch.cat([x, x.flip(0)], 1).permute(1, 0),
    lambda x: x.split(2, 1),
    lambda x: torch.nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
    lambda x: x[:, :0] + 1,
])
def test_results_lie_as_pytorch_lays_them(function):
    check(function, random(4, 6))


@pytest.mark.parametrize("function", [
    lambda x, w: (torch.nn.functional.linear(x.float(), w) - w, x.sin() + 1),
    lambda x, w: (lambda y: (y, torch.sort(y)[0], y.reshape(-1) * 2))(x.exp()),
    lambda x, w: (lambda y: (y.reshape(-1, 16).sum(0), y))(x.float()),
])
def test_what_lies_in_another_order_is_reshaped(function):
    x = random(16, 16, 16, 16, dtype=torch.float16).permute(0, 3, 1, 2)
    check(function, x, random(16))


def test_results_are_no_views_of_one_another_but_where_pytorch_makes_them():
    def function(x):
        y = x + 1
        return y, y.clone(), y.view(-1), x.float()

    x = random(3, 4)
    one, copy, view, own = torch.compile(function, backend=Backend(TARGET))(x)
    one.zero_()
    assert view.abs().sum() == 0
    assert copy.abs().sum() > 0
    assert own.data_ptr() == x.data_ptr()


def test_arguments_are_changed_as_pytorch_changes_them():
    def function(x, y):
        x += y
        x[:, 0] = 7
        y.mul_(2)
        return x @ y.t()

    check(function, random(4, 6), random(4, 6))


def test_random_numbers_are_drawn_in_order():
    def function(x):
        return (torch.nn.functional.dropout(torch.rand_like(x) + x, 0.5), torch.bernoulli(x.sigmoid()) + 1,
                torch.rand(3, device=x.device) + 1)

    x = random(50, 6)
    results = []
    for backend in (Backend(TARGET), "aot_eager"):
        torch.manual_seed(3)
        results.append(torch.compile(function, backend=backend)(x))
    same(*results)


def test_gradients_are_pytorch_s():
    def loss(x, w):
        return (torch.softmax(torch.tanh(x @ w), -1) ** 2).sum()

    gradients = []
    for compiled in (torch.compile(loss, backend=Backend(TARGET)), loss):
        torch.manual_seed(1)
        x, w = random(7, 5).requires_grad_(), random(5, 4).requires_grad_()
        compiled(x, w).backward()
        gradients.append([x.grad, w.grad])
    same(*gradients)


TRANSFORMED = {
    "grad": lambda a, b: torch.func.grad(lambda a: (a @ b).sin().sum())(a),
    "grad of einsum": lambda a, b: torch.func.grad(lambda a: torch.einsum("ij,jk->ik", a, b).sin().sum())(a),
    "jacrev": lambda a, b: torch.func.jacrev(lambda a: a @ b)(a[0]),
    "jvp": lambda a, b: torch.func.jvp(lambda a: a @ b, (a,), (a,)),
    "vmap": lambda a, b: torch.func.vmap(torch.matmul, (0, None))(a, b),
    "hessian": lambda a, b: torch.func.hessian(lambda a: a @ (b @ b.t()) @ a)(a[0]),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_functions_are_what_they_are_in_pytorch(name):
    function, (a, b) = TRANSFORMED[name], (random(3, 4), random(4, 5))
    same(torch.compile(function, backend=Backend(TARGET))(a, b), function(a, b))


def test_gradients_of_the_parameters_of_an_optimizer_are_recorded():
    weight = torch.nn.Parameter(random(3, 3))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def loss(x):
        return (x @ weight).square().sum()

    def train(x):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()

    fused, step = (torch.compile(function, backend=Backend(TARGET)) for function in (loss, train))
    x = random(4, 3)
    step(x)  # PyTorch takes the weights for constants with a place from here on
    for _ in range(2):
        (found,), (expected,) = (torch.autograd.grad(function(x), [weight]) for function in (fused, loss))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        step(x)


def test_gradients_are_recorded_where_the_function_says_so():
    def function(x, y):
        with torch.enable_grad():
            return x @ y

    x, y = random(3, 4).requires_grad_(), random(4, 5)
    gradients = []
    for compiled in (torch.compile(function, backend=Backend(TARGET)), function):
        with torch.no_grad():
            result = compiled(x, y)
        gradients.append(torch.autograd.grad(result.sum(), x))
    same(*gradients)


@pytest.mark.parametrize("dynamic", [True, None])
def test_sizes_may_change(dynamic):
    backend = Backend(TARGET)
    compiled = torch.compile(attention, backend=backend, dynamic=dynamic)
    for batch, length in ((3, 8), (5, 8), (5, 11), (4, 6), (1, 1)):
        q = random(batch, length, 16)
        same(compiled(q, q, q), attention(q, q, q))


def test_numbers_may_change():
    compiled = torch.compile(lambda x, a, n: x * a + n, backend=Backend(TARGET))
    x = random(3, 4)
    for a, n in ((0.5, 1), (0.25, 2), (-3.0, 2), (1e-3, 7)):
        same(compiled(x, a, n), x * a + n)


def test_tensors_may_begin_anywhere():
    compiled = torch.compile(lambda x, y: x @ y + 1, backend=Backend(TARGET))
    memory = random(2000)
    for start in (0, 1, 3, 4):
        x, y = (memory[start + first : start + first + 64 * 6].view(6, 8, 8) for first in (0, 777))
        same(compiled(x, y), x @ y + 1)


@pytest.mark.parametrize(("shape", "strides"), [((100,), (0,)), ((3, 4), (0, 1)), ((10, 4), (1, 1)), ((4, 5), (9, 2)),
                                                ((), ())])
def test_tensors_that_begin_anywhere_may_repeat_elements(shape, strides):
    x = torch.as_strided(random(200), shape, strides, 1)
    same(torch.compile(lambda x: x * 2 + 1, backend=Backend(TARGET))(x), x * 2 + 1)


def test_sizes_that_depend_on_values_are_pytorch_s():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(lambda x: torch.nonzero(x > 0) * 2 + 1, random(6, 5))


# --- the doors -------------------------------------------------------------------------------------------------------


def test_fuse_takes_functions_of_tensors(fuse):
    q = random(2, 3, 8, 16)
    same(fuse(attention)(q, q, q), attention(q, q, q))

    class Model:
        @fuse
        def method(self, x, scale=2):
            return torch.exp(x) * scale

    same(Model().method(q, scale=3), torch.exp(q) * 3)
    assert "attention" in repr(fuse(attention))


@tl_dpnp.fuse
def doubled(x):
    return x * 2


def test_fused_functions_are_copied_and_pickled_as_functions_are(fuse):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(random(3, 3))
            self.fused, self.method = doubled, fuse(self.plain)

        def plain(self, x):
            return x @ self.weight

        def forward(self, x):
            return self.fused(self.method(x))

    first, x = Layer(), random(4, 3)
    with torch.no_grad():
        for layer in (first, copy.deepcopy(first)):
            same(layer(x), x @ layer.weight * 2)
            layer.weight.mul_(3)
            same(layer(x), x @ layer.weight * 2)
        linear = torch.nn.Linear(3, 3, device=DEVICE)
        of_module = fuse(linear, on_break="warn")
        same(of_module(x), linear(x))
        copied = copy.deepcopy(of_module)
        copied.function.weight.zero_()
        same(copied(x), copied.function(x))
        same(of_module(x), linear(x))
    assert copy.deepcopy([doubled])[0] is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    same(pickle.loads(pickle.dumps(fuse(torch.tanh)))(x), torch.tanh(x))


def test_explain_says_what_is_left(fuse):
    found = tl_dpnp.explain(lambda x: torch.sort(x + 1)[0] * 2)(random(4, 5))
    assert len(found.kernels) == 2
    assert "test_pytorch.py" in str(found)
    assert "aten.sort.default: there is no kernel for it" in str(found)
    assert "func @fused_add" in str(found)
    assert found.to_dict()["left"][0]["name"] == "aten.sort.default"


def test_what_is_left_is_an_error_where_that_is_asked_for(fuse):
    x = random(4, 5)
    with pytest.raises(UnsupportedError, match=r"test_pytorch.py:\d+: aten.sort.default: there is no kernel for it"):
        fuse(lambda x: torch.sort(x)[0] * 2, on_break="error")(x)
    with pytest.raises(UnsupportedError, match="are left to PyTorch"):
        fuse(lambda x: torch.sort(x)[0] * 2, fullgraph=True)(x)
    with pytest.warns(FusionWarning, match="are left to PyTorch"):
        fuse(lambda x: torch.sort(x)[0] * 2, on_break="warn")(x)


def test_options_that_are_not_understood_are_refused(fuse):
    for options, words in (({"on_break": "loud"}, "on_break='loud'"), ({"fullgraph": "yes"}, "fullgraph='yes'"),
                           ({"dynamic": 3}, "dynamic=3"), ({"recompile_limit": 0}, "recompile_limit=0"),
                           ({"fullgraph": True, "on_break": "warn"}, "leave one of them out")):
        with pytest.raises(TLTypeError, match=words):
            fuse(attention, **options)
    with pytest.raises(UnsupportedError, match=r"torch\._dynamo\.config\.recompile_limit"):
        fuse(attention, recompile_limit=3)(*[random(2, 3, 4)] * 3)
    with pytest.raises(TLTypeError, match="a function, not a int"):
        fuse(3)
    for wrong in ({"target": "sycl"}, {"size": 3}):
        with pytest.raises(Exception, match="is not understood"):
            torch.compile(attention, backend=entry_point, options=wrong)(*[random(2, 3, 4)] * 3)


def test_tensors_of_the_host_are_pytorch_s():
    backend = Backend("cuda")
    x = torch.randn(3, 4)
    same(torch.compile(lambda x: x * 2 + 1, backend=backend)(x), x * 2 + 1)
    assert Explanation.of("it", backend.compilations).whole == ("no tensor is on a CUDA device",)


def test_compiled_graphs_go_with_their_function():
    backend = Backend(TARGET)
    compiled = torch.compile(lambda x: x + 1, backend=backend)
    compiled(random(3))
    assert len(backend.compilations) == 1
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert len(backend.compilations) == 0


def test_stacked_tensors_may_have_any_strides():
    for function in (
        lambda x: torch.stack([x[0], x[:, 0]]) + 1, lambda x: torch.stack([x, x.T], 1) * 2,
        lambda x: torch.stack([x[::2], x[1::2]], -1) * 2, lambda x: torch.cat([x[::2], x.T[:3] * 2]) * 2,
    ):
        check(function, random(6, 6))


def test_programs_for_many_sizes_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr("tl_dpnp.graph.pytorch.backend.PROGRAMS", 3)
    backend = Backend(TARGET)
    compiled = torch.compile(lambda x: x * 2 + 1, backend=backend, dynamic=True)
    for size in (5, 6, 7, 8, 9, 5):
        x = random(size, 3)
        same(compiled(x), x * 2 + 1)
        assert all(1 <= len(each.programs) <= 3 for each in backend.compilations)
