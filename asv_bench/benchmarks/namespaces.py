"""The array namespaces in which realistic programs run, and the programs in each of them."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .draw import Draw, program

__all__ = ["Call", "agree", "arrays_of", "classes", "in_turn", "make", "names", "varied"]

#: How many calls there are between two with equal numbers.
_VARIATIONS = 4
#: Largest error of results, relative to their largest element.
_TOLERANCE = {"f32": 1e-3, "f64": 1e-9}
_FOLDER = Path(__file__).parent / "realistic"


def names() -> dict[str, str]:
    """Return the names of the programs with the file of each, without loading what they need."""
    return {name: path.stem for path in sorted(_FOLDER.glob("[a-z]*.py"))
            for name in re.findall(r"^@program\ndef (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}


@dataclass(frozen=True)
class Call:
    """A function of a user and the arguments of a call."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        """Call it as it is."""
        return self.function(*self.arguments)


def make(namespace: str, name: str, batch: int, element: str = "f32", seed: int = 0, data: int = 0) -> Call:
    """Return a program as a call in one of ``numpy``, ``dpnp``, ``cupy``, ``jax`` and ``torch``.

    Seed, element and name give the sizes, and together with `batch` and `data` the values, of its arguments.
    """
    module = importlib.import_module(f"{_package(namespace)}.{names()[name]}")
    draw = Draw(name, seed, batch, element, _NAMESPACES[namespace]().asarray, data)
    return Call(*getattr(module, name)(draw, batch))


def classes(namespace: str, name: str) -> list[type]:
    """Return the classes that the file of a program defines, but for named tuples."""
    module = importlib.import_module(f"{_package(namespace)}.{names()[name]}")
    return [value for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__ and not issubclass(value, tuple)]


def varied(call: Call, count: int = _VARIATIONS) -> list[tuple[Any, ...]]:
    """Return the arguments of so many calls: floats differ from one to the next, all else is the same."""
    return [tuple(value * (1.0 + 0.01 * k) if type(value) is float else value for value in call.arguments)
            for k in range(count)]


def in_turn(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Callable[[], Any]:
    """Return a call of a function with one after another of these arguments."""
    following = itertools.cycle(calls).__next__
    return lambda: function(*following())


def arrays_of(value: Any) -> list[Any]:
    """Return the arrays and numbers in a result, in order."""
    if isinstance(value, list | tuple):
        return [array for part in value for array in arrays_of(part)]
    if isinstance(value, dict):
        return [array for part in value.values() for array in arrays_of(part)]
    if type(value).__module__.startswith(_package("")):
        return [array for part in vars(value).values() for array in arrays_of(part)]
    return [value]


def agree(what: str, found: Any, expected: Any, element: str) -> None:
    """Compare the arrays of two results, shapes and dtypes included; raises `AssertionError` where they differ."""
    import numpy as np

    found, expected = ([np.asarray(array) for array in arrays] for arrays in (found, expected))
    shapes = [[(array.shape, array.dtype) for array in arrays] for arrays in (found, expected)]
    if shapes[0] != shapes[1]:
        raise AssertionError(f"{what}: the result has {shapes[0]}, and {shapes[1]} was expected")
    for one, other in zip(found, expected, strict=True):
        error = np.max(np.abs(one - other), initial=0.0) / np.max(np.abs(other), initial=1e-30)
        if not error <= _TOLERANCE[element]:
            raise AssertionError(f"{what}: the result is wrong, its relative error is {error}")


def _package(namespace: str) -> str:
    """Return the name of the package that has the files of `realistic` with ``xp`` being this namespace."""
    package = f"{__package__}.realistic_{namespace}"
    if namespace and package not in sys.modules:
        module = types.ModuleType(package)
        module.__path__ = [str(_FOLDER)]
        vars(module).update(xp=_NAMESPACES[namespace](), Draw=Draw, program=program)
        sys.modules[package] = module
    return package


def _torch() -> Any:
    """Return PyTorch's functions by NumPy's names; the argument axis= they take as it is."""
    import torch

    space = types.ModuleType("torch_namespace")
    for name in "einsum exp log sqrt sin cos tanh where stack ones_like zeros_like swapaxes moveaxis eye".split():
        setattr(space, name, getattr(torch, name))

    def maximum(a: Any, b: Any) -> Any:
        return torch.maximum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, min=b)

    def minimum(a: Any, b: Any) -> Any:
        return torch.minimum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, max=b)

    def largest(a: Any, axis: int, keepdims: bool = False) -> Any:
        return torch.amax(a, dim=axis, keepdim=keepdims)

    def concatenate(arrays: Sequence[Any], axis: int) -> Any:
        return torch.cat(arrays, dim=axis)

    def take(a: Any, indices: Any, axis: int) -> Any:
        return torch.index_select(a, axis, indices)

    vars(space).update(maximum=maximum, minimum=minimum, max=largest, concatenate=concatenate, take=take,
                       asarray=torch.from_numpy)
    return space


def _module(name: str) -> Callable[[], Any]:
    return lambda: importlib.import_module(name)


_NAMESPACES: dict[str, Callable[[], Any]] = {
    "numpy": _module("numpy"), "dpnp": _module("dpnp"), "cupy": _module("cupy"),
    "jax": _module("jax.numpy"), "torch": _torch,
}
