"""Random Python programs, each in plain dpnp and fused: results, exceptions and all that they change must be equal.

Kernels of the kind ``modules`` are those that users get; those of ``interleaved`` have matrices of a batch side by side
wherever that is possible, two in each work-group, so that small batches have chunks that are full and others.  Modules
of the kind ``repeated`` are short, make each call some times, and machine code runs calls as a whole as soon as it can;
those of the kind ``resized`` are short, and each call has batches of another size.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import gc
import importlib.util
import inspect
import io
import itertools
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.python_programs import random_module
from tests.campaigns.worker import Verdict

__all__ = ["CAMPAIGN", "run"]

_numbers = itertools.count()
#: How often each call is made in the kind that repeats them: traced, by the plan until machine code is there, by that.
_REPEATS = 5
#: Seconds that a program may take in plain dpnp, where most take a tenth of one.
_LONGEST = 20.0
#: Functions whose results libraries round differently, by the names that dpnp and NumPy have for them.
_FUNCTIONS = ("power", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "arctan", "arctan2", "hypot", "logaddexp")


def make(kind: str, seed: int) -> str:
    """Return the text of the module of a seed."""
    with _without_warnings():  # of odd expressions
        return random_module(seed, is_short=kind in ("repeated", "resized"), changes_size=kind == "resized")


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """`warnings.catch_warnings` takes an action from Python 3.11 on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(kind: str, case: str) -> Verdict:
    """Run the calls of a module, plain and fused, and compare after each."""
    from tests.campaigns.snapshots import difference

    with _without_warnings(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"random_module_{next(_numbers)}.py"
        path.write_text(case, encoding="utf-8")
        labels: Counter[str] = Counter()
        repeats = _REPEATS if kind == "repeated" else 1
        try:
            with _interrupted():
                plain = list(_states(path, lambda function: function, repeats))
        except _WithoutEnd:
            return Verdict(labels=("calls without end",))
        with _counted(labels), _conditions(kind):
            functions: list[Any] = []
            fused = list(_states(path, _fusing(functions, case), repeats))
        labels.update(_kept(functions[-1:]))
        labels["calls that raised"] += sum(state[0][0] == "raised" for state in plain)
        for number, (one, other) in enumerate(zip(plain, fused, strict=True)):
            if _is_without_end(one):  # how deep it came, and what it did there, depends on frames of ours
                labels["calls without end"] += 1
                break
            if _is_refused_by_mistake(one):
                labels["calls that dpnp refuses by mistake"] += 1
                break
            found = difference(one, other)
            if found and _gives_another_result(path, plain, repeats):
                labels["results that plain dpnp gives differently each time"] += 1
                break
            if found and _rounding_decides(path, one, other, number, repeats):
                labels["results that the last bits of products and functions decide"] += 1
                break
            if found:
                texts = [f"\n{name}: {state[0][1][-1500:]}" for name, state in (("plain", one), ("fused", other))
                         if state[0][0] == "raised"]
                return Verdict(f"differs: call {number}: {found}{''.join(texts)}")
    return Verdict(labels=tuple(labels.elements()))


def _conditions(kind: str) -> contextlib.AbstractContextManager[None]:
    """Return what makes kernels have the layout of a kind, or calls leave Python and OpenCL early."""
    from tests.graph.support import interleaved_wherever_possible, short_calls_after

    if kind == "interleaved":
        return interleaved_wherever_possible()
    return short_calls_after(1) if kind == "repeated" else contextlib.nullcontext()


def _is_without_end(state: Any) -> bool:
    """Whether a call ended near the limit of recursion, with whatever error that became on the way."""
    kind, text, *rest = state[0]
    return kind == "raised" and (
        rest[0] == "RecursionError" or text.count("\n  File ") > sys.getrecursionlimit() // 2)


def _is_refused_by_mistake(state: Any) -> bool:
    """Whether a call ended where dpnp 0.15 assigns an array that is read backwards to ``real`` or ``imag``."""
    return state[0][0] == "raised" and "could not be converted to usm_ndarray" in state[0][3]


class _WithoutEnd(BaseException):
    """A program that does not end in plain dpnp either; nothing in a random program catches it."""


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    """Interrupt a program that takes far longer than any that ends."""

    def interrupt(*_: Any) -> None:
        raise _WithoutEnd

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _fusing(functions: list[Any], case: str) -> Callable[[Any], Any]:
    """Return the decorator of a module; the option `dynamic` is drawn by its text."""
    import tl_dpnp

    rng = random.Random(case)
    dynamics = iter(lambda: rng.choice([None, None, True, False]), "no value")

    def decorate(function: Any) -> Any:
        dynamic = next(dynamics)
        functions.append(tl_dpnp.fuse(function, recompile_limit=1000, dynamic=dynamic))
        return functions[-1]

    return decorate


def _kept(functions: list[Any]) -> Iterator[str]:
    for function in functions:
        plans = [s.plan for s in function._plans]
        yield "kept a plan" if plans else "kept no plan"
        yield from itertools.repeat("calls by a plan", sum(plan.calls for plan in plans))


@contextlib.contextmanager
def _counted(labels: Counter[str]) -> Iterator[None]:
    """Count kernels that were compiled, and those that were there, calls that were traced, and plans that machine code
    runs as a whole, with the modules that have one."""
    from tl_dpnp.graph import fused, kernels, resized_plans, short_plans

    prepare, traced, shorten = kernels.KernelRequest.prepared, fused.FusedFunction._trace_call, short_plans.short_plan
    resize = resized_plans.ResizedPlans.plan

    def counting(request: Any, *where: Any) -> Any:
        prepared = prepare(request, *where)
        labels["kernels compiled" if prepared.compiled else "kernels shared"] += 1
        labels["kernels with interleaved matrices"] += request.region.placement.is_interleaved
        labels["kernels with dynamic sizes"] += any(p.name.startswith("n") for p in prepared.kernel.parameters)
        return prepared

    def tracing(*arguments: Any) -> Any:
        labels["calls traced"] += 1
        return traced(*arguments)

    def shortening(*arguments: Any) -> Any:
        found = shorten(*arguments)
        if found is not None:
            labels["plans run as a whole by machine code"] += 1
            labels["modules with such plans"] = 1
        return found

    def resizing(*arguments: Any) -> Any:
        found = resize(*arguments)
        labels["plans for other sizes without a trace"] += found is not None
        return found

    with mock.patch.object(kernels.KernelRequest, "prepared", counting), \
            mock.patch.object(resized_plans.ResizedPlans, "plan", resizing), \
            mock.patch.object(fused.FusedFunction, "_trace_call", tracing), \
            mock.patch.object(short_plans, "short_plan", shortening):
        yield


def _gives_another_result(path: Path, states: list[Any], repeats: int) -> bool:
    """Return whether plain dpnp itself gives other results when it is run again.

    dpnp 0.15 does: of a transposed array times one of bool, more than half are wrong, each time other ones.
    """
    from tests.campaigns.snapshots import difference

    return any(
        difference(one, other)
        for _ in range(4)
        for one, other in zip(states, _states(path, lambda function: function, repeats), strict=True)
    )


def _rounding_decides(path: Path, plain: Any, fused: Any, number: int, repeats: int) -> bool:
    """Return whether a state is among those that plain dpnp gives where its products and functions are a bit off.

    What is left of large terms that cancel is, and integers that are cut from floats: dpnp's ``(3 ** 0.5) ** 2`` is a
    bit above 3, NumPy's and ours a bit below.
    """
    from tests.campaigns.snapshots import is_among

    others = []
    for sign in (1, -1):
        with _rounded_otherwise(sign):
            states = list(itertools.islice(_states(path, lambda function: function, repeats), number + 1))
        others += states[number:]
    return len(others) == 2 and is_among(fused, plain, others)


@contextlib.contextmanager
def _rounded_otherwise(sign: int) -> Iterator[None]:
    """Have plain dpnp's products, sums and functions be off to one side by what rounding may take.

    A product may be off by n u |A| |B|, where n is at least 2 here and u half of eps, in whatever order it is added up
    (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.5), a sum by n u of that of the
    absolute terms (section 4.2), and a function by two units.
    """
    import dpnp

    with contextlib.ExitStack() as stack:
        for name in ("matmul", *_FUNCTIONS):
            stack.enter_context(mock.patch.object(dpnp, name, _off(name, getattr(dpnp, name), sign)))
        for name in ("sum", "mean"):
            stack.enter_context(mock.patch.object(dpnp, name, _sum_off(name, getattr(dpnp, name), sign)))
        yield


def _off(name: str, function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Return a function of dpnp's whose results are off to one side."""
    import dpnp
    import numpy as np

    def off(*operands: Any, **keywords: Any) -> Any:
        values = [np.array(dpnp.asnumpy(operand) if isinstance(operand, dpnp.ndarray) else operand)
                  for operand in operands]
        result = function(*operands, **keywords)
        if result.dtype.kind not in "fc" or keywords.keys() - {"out"}:
            return result
        exactly = getattr(np, name)
        return _moved(result, sign, exactly, exactly if name == "matmul" else None, values)

    return off


def _sum_off(name: str, function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """Return a function of dpnp's that adds elements up, whose results are off to one side."""
    import dpnp
    import numpy as np

    signature = inspect.signature(function)

    def off(*operands: Any, **keywords: Any) -> Any:
        result = function(*operands, **keywords)
        given = signature.bind(*operands, **keywords).arguments
        values = dpnp.asnumpy(given.pop("a"))
        shape = {key: given.pop(key) for key in ("axis", "keepdims") if key in given}
        given.pop("out", None)
        if result.dtype.kind not in "fc" or any(value is not None and value is not True for value in given.values()):
            return result
        exactly = functools.partial(getattr(np, name), **shape)
        return _moved(result, sign, exactly, exactly, [values])

    return off


def _moved(result: Any, sign: int, exactly: Callable[..., Any], adds: Callable[..., Any] | None, values: Any) -> Any:
    """Return a result that is off to one side: by units of what it `adds` without signs, or by two of its own."""
    import dpnp
    import numpy as np

    wide = np.longdouble if result.dtype.kind == "f" else np.clongdouble
    with np.errstate(all="ignore"):
        exact = exactly(*(value.astype(wide) for value in values))
        size = 2 * np.abs(exact) if adds is None else adds(*map(np.abs, values))
        exact += sign * np.finfo(result.dtype).eps * size
    result[...] = dpnp.asarray(exact.astype(result.dtype))
    return result


def _states(path: Path, decorator: Callable[[Any], Any], repeats: int) -> Iterator[Any]:
    """Yield after each call what it returned or raised, and the state of all variables; each is made some times."""
    from tests.campaigns.snapshots import Snapshot

    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.fused, module.random_array = decorator, _random_array
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        for number in itertools.count():
            before = getattr(module, f"before_{number}", None)
            if before is None:
                return
            try:
                arguments, keywords = before()
            except Exception:  # what a call has left cannot be changed like that
                continue
            for _ in range(repeats):
                yield _called(module, arguments, keywords, Snapshot(module))
    finally:
        del sys.modules[name]
        vars(module).clear()
        gc.collect(0)


def _called(module: Any, arguments: Any, keywords: Any, snapshot: Any) -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = module.f(*arguments, **keywords)
            if type(result).__name__ in ("generator", "map"):
                result = list(result)
        except Exception as error:
            text = str(error).replace(" object at 0x", "\0").partition("\0")[0]
            outcome: tuple[Any, ...] = "raised", _Text(traceback.format_exc()), type(error).__name__, text
        else:
            outcome = "returned", None, snapshot.of(result)
    return outcome, snapshot.of(list(arguments)), snapshot.globals(), printed.getvalue()


class _Text(str):
    """A traceback: shown, not compared."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _random_array(seed: int, *shape: int, dtype: str = "f4") -> Any:
    """Return an array of small multiples of a half, whole numbers for integer types, in both parts of complex ones."""
    import dpnp
    import numpy as np

    values = np.random.default_rng(seed).integers(-6, 7, shape) / 2
    return dpnp.asarray((values - 1j * values[::-1] if dtype.startswith("c") else values).astype(dtype))


def simpler(kind: str, case: str) -> Iterator[str]:
    """Yield the module without some of its statements, most of them first, and with parts of expressions alone."""
    tree = ast.parse(case)
    blocks = [block for node in ast.walk(tree) for _, block in ast.iter_fields(node)
              if isinstance(block, list) and block and all(isinstance(part, ast.stmt) for part in block)]
    seen = {case}
    for text in itertools.chain(_without(tree, blocks), _parts(tree)):
        if text not in seen:
            seen.add(text)
            yield text


def _without(tree: ast.Module, blocks: list[list[ast.stmt]]) -> Iterator[str]:
    size = max(map(len, blocks), default=1)
    while size:
        for block in blocks:
            for start in range(0, len(block) if size <= len(block) else 0, size):
                removed = block[start : start + size]
                if len(removed) == len(block) and len(block) == 1 and isinstance(block[0], ast.Pass):
                    continue
                block[start : start + size] = [] if len(removed) < len(block) or block is tree.body else [ast.Pass()]
                yield ast.unparse(ast.fix_missing_locations(tree))
                block[start : start + (0 if len(removed) < len(block) + len(removed) else 1)] = []
                if block == [] or isinstance(block[0], ast.Pass):
                    block.clear()
                block[start:start] = removed
        size //= 2


def _parts(tree: ast.Module) -> Iterator[str]:
    """Yield the module with an expression replaced by a part of it."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if not isinstance(value, ast.expr) or isinstance(getattr(value, "ctx", None), ast.Store):
                continue
            for part in ast.iter_child_nodes(value):
                if isinstance(part, ast.expr) and not isinstance(part, ast.Starred):
                    setattr(node, field, copy.copy(part))
                    with contextlib.suppress(ValueError):
                        yield ast.unparse(tree)
                    setattr(node, field, value)


def text(kind: str, case: str) -> str:
    """Return the module."""
    return case


CAMPAIGN = Campaign("fusion", ("modules", "interleaved", "repeated", "resized"), make, check, simpler, text, limit=60.0)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
