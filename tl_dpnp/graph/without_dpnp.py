"""`fuse` and `explain` where there is no dpnp: for functions of CuPy's arrays, or of PyTorch's tensors.

The arguments of a call say which, and what is in them; without an array there, the modules that the function names.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tl_dpnp.errors import TLTypeError, UnsupportedError
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.fuse_options import check_options

__all__ = ["FusedFunction", "explain", "fuse"]

_NAMES = {"cupy": "CuPy", "torch": "PyTorch"}
#: How deep arrays are looked for in lists, tuples and dicts.
_DEPTH = 4


class FusedFunction(FunctionWrapper):
    """A function that is fused; made by `tl_dpnp.fuse`."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        if not callable(function) or isinstance(function, type):
            raise TLTypeError(f"fuse takes a function, not a {type(function).__name__}"
                              + ("; tl_dpnp.compile takes source text" if isinstance(function, str) else ""))
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.like = functools.partial(FusedFunction, options=options)
        self._options = options
        self._of: dict[str, Any] = {}
        #: What runs calls by position, by the types of the arguments where these decide.
        self._by_types: dict[tuple[type, ...], Callable[..., Any]] = {}

    def __repr__(self) -> str:
        return f"<tl_dpnp.fuse of {getattr(self.function, '__qualname__', repr(self.function))}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function; results are arrays of the package that its arguments are from.

        Raises `UnsupportedError` for arrays of several packages.
        """
        run = self._by_types.get((*map(type, arguments),))
        if run is None or keywords:
            run = self.chosen(arguments, keywords)
        return run(*arguments, **keywords)

    def chosen(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return the fused function of the package that the arrays of a call are from."""
        given = (*arguments, *keywords.values())
        packages = {*_packages(given)}
        if len(packages) > 1:
            raise UnsupportedError("fuse takes arrays of one package, and these are of CuPy and PyTorch: give it "
                                   "cupy.asarray(tensor) or torch.as_tensor(array), which are the same memory")
        package = packages.pop() if packages else _named_by(self.function)
        fused = self.of(package)
        if not keywords and package in map(_package_of, map(type, arguments)):
            self._by_types[tuple(map(type, arguments))] = fused
        return fused

    def of(self, package: str) -> Any:
        """Return the fused function for arrays of a package, ``"cupy"`` or ``"torch"``."""
        if package not in self._of:
            fuse = _fuse_of(package)
            self._of[package] = fuse(self.function, **self._options)
        return self._of[package]

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function and return what became of it."""
        return self.chosen(arguments, keywords).explain(*arguments, **keywords)

    def warmup(self, *arguments: Any, **keywords: Any) -> None:
        """Compile for calls with such arguments, of CuPy's arrays (`tl_dpnp.graph.fused.FusedFunction.warmup`)."""
        self.of("cupy").warmup(*arguments, **keywords)

    @property
    def stats(self) -> Any:
        """Counts of the calls with CuPy's arrays so far, and of what became of them."""
        return self.of("cupy").stats

    def clear(self) -> None:
        """Forget all that was compiled; a kernel stays for other functions that need it."""
        self._by_types.clear()
        self._of.clear()


def _fuse_of(package: str) -> Callable[..., Any]:
    if importlib.util.find_spec(package) is None:
        others = [name for name in _NAMES if importlib.util.find_spec(name) is not None]
        has = f"{_NAMES[package]}, which is not installed here" if others else (
            "dpnp, CuPy or PyTorch, and none of them is installed here")
        raise UnsupportedError(f"fuse needs {has}: docs/installing.md and docs/cuda.md say how")
    if package == "cupy":
        from tl_dpnp.graph import fused
    else:
        from tl_dpnp.graph.pytorch import fused  # type: ignore[no-redef]
    return fused.fuse


def _package_of(kind: type) -> str | None:
    """Return the package whose arrays have a class, None for other classes."""
    if kind.__module__.partition(".")[0] in _NAMES and hasattr(kind, "__dlpack__"):
        return kind.__module__.partition(".")[0]
    return None


def _packages(values: Iterable[Any], depth: int = _DEPTH) -> Iterable[str]:
    """Yield the packages of arrays among values, in lists, tuples and dicts, and in attributes of objects."""
    for value in values:
        package = _package_of(type(value))
        if package is not None:
            yield package
        elif depth and not isinstance(value, type | types.ModuleType | types.FunctionType):
            yield from _packages(_parts(value), depth - 1)


def _parts(value: Any) -> Iterable[Any]:
    """Return what a list, tuple or dict holds, or the attributes of an object; no code of the user's runs."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, dict):
        return value.values()
    found = [member.__get__(value) for base in type(value).__mro__ for member in vars(base).values()
             if type(member) is types.MemberDescriptorType and base.__module__ != "builtins"
             and _is_set(member, value)]
    looked_up_by: Any = type(value).__getattribute__
    attributes = getattr(value, "__dict__", None) if looked_up_by is object.__getattribute__ else None
    return [*found, *(attributes.values() if type(attributes) is dict else ())]


def _is_set(member: Any, value: Any) -> bool:
    try:
        member.__get__(value)
    except AttributeError:
        return False
    return True


def _named_by(function: Any) -> str:
    """Return the package whose module a function names, or else the module that it is from; where that names both or
    neither, PyTorch if it is installed.
    """
    code = getattr(function, "__code__", None)
    variables = getattr(function, "__globals__", {})
    named = [variables.get(name) for name in code.co_names] if code is not None else []
    named += [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _has_value(cell)]
    for values in named, variables.values():
        modules = {value.__name__.partition(".")[0] for value in values if isinstance(value, types.ModuleType)}
        if len(modules & _NAMES.keys()) == 1:
            return (modules & _NAMES.keys()).pop()
    return "torch" if importlib.util.find_spec("torch") is not None else "cupy"


def _has_value(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def fuse(
    function: Callable[..., Any] | None = None, *, fullgraph: bool = False, on_break: str = "quiet",
    recompile_limit: int = 8, dynamic: bool | None = None,
) -> Any:
    """Run a function of arrays on a CUDA device fused into kernels; a decorator, with or without options.

    A function of CuPy's arrays is traced as one of dpnp's is (docs/fusion.md), a function of PyTorch's tensors by
    `torch.compile` (docs/pytorch.md).  What has no kernel is left to the package.  `on_break` says what happens then:
    nothing, a `FusionWarning`, or an `UnsupportedError`; `fullgraph=True` is the last one.  `dynamic` says whether
    kernels are given sizes: with None those that change, with True all, with False none.

    Raises `TLTypeError` for options that are not understood, and `UnsupportedError` for a `recompile_limit` with
    PyTorch's tensors, which is one of PyTorch's settings: ``torch._dynamo.config.recompile_limit``.
    """
    check_options(fullgraph, on_break, recompile_limit, dynamic)
    options = {"fullgraph": fullgraph, "on_break": on_break, "recompile_limit": recompile_limit, "dynamic": dynamic}

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        if isinstance(function, types.MethodType):
            return types.MethodType(decorate(function.__func__), function.__self__)
        fused = FusedFunction(function, options)
        if importlib.util.find_spec("cupy") is None and importlib.util.find_spec("torch") is not None:
            fused.of("torch")  # which may refuse the options
        return fused

    return decorate if function is None else decorate(function)


def explain(function: Any) -> Callable[..., Any]:
    """Return a function that calls `function`, fused or not, and returns what became of it.

    The result prints as text: the kernels with their operations and source, and what is left to the package, with
    file, line, reason and hint.  ``to_dict()`` gives the same as data.  Raises `TLTypeError` for what is no function.
    """
    if hasattr(function, "__func__") and isinstance(function.__func__, FusedFunction):  # a method
        bound = function.__self__
        return lambda *arguments, **keywords: function.__func__.explain(bound, *arguments, **keywords)
    fused = function if isinstance(function, FusedFunction) else fuse(function)
    explained: Callable[..., Any] = fused.explain
    return explained
