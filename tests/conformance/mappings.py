"""The ways in which a program may run, and what becomes of the cases of the conformance run in each of them."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tl_dpnp
from tests.conformance.pages import COMPLEX, FLOATS
from tests.conformance.programs import Case, batches, joined
from tl_dpnp.errors import TLError
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.ops import Function
from tl_dpnp.language.parser import parse

#: Error of a function of `math`, in units in the last place; all else is exact, of the small numbers that there are.
ULPS = 16
_MANTISSA = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53, "c32": 24, "c64": 53}


@dataclass(frozen=True)
class Mapping:
    """A way to run programs: `run` does it, in place on NumPy arrays, or only compiles; `needs` is a package.

    Without `run` it is the interpreter, which gives what the others are compared with. `run` raises `TLError` for what
    it refuses. It is given so many programs at once.
    """

    name: str
    title: str
    needs: str
    run: Callable[[Function, list[Any]], None] | None
    together: int = 12
    only_compiles: bool = False

    @property
    def is_here(self) -> bool:
        """Whether this environment has what it needs."""
        return importlib.util.find_spec(self.needs) is not None

    def failures(self, cases: Sequence[Case]) -> dict[Case, str]:
        """Return what is wrong with those cases that do not run, or give other numbers than the interpreter."""
        found: dict[Case, str] = {}
        for batch in batches(cases, self.together):
            if self.failure(batch) is not None:
                found |= {case: failure for case in batch if (failure := self.failure([case])) is not None}
        return found

    def failure(self, batch: Sequence[Case]) -> str | None:
        """Return what is wrong with programs that run together."""
        try:
            (function,) = parse(joined(batch)[0])
            expected = [] if self.only_compiles else _interpreted(tuple(batch))
            arguments = [array for case in batch for array in case.arrays()]
            if self.run is not None:
                self.run(function, arguments)
        except TLError as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        except Exception as error:  # whatever a compiler breaks with is a finding
            return f"no error of the language, but {type(error).__name__}: {error}"
        if self.run is None or self.only_compiles:
            return None
        types = [type for case in batch for type in case.parameters.values()]
        return next((f"{type}: the interpreter gives {a.ravel(order='K')}, this {b.ravel(order='K')}"
                     for type, a, b in zip(types, expected, arguments, strict=True)
                     if not isinstance(a, list) and not _agree(type, a, b)), None)


def _agree(type: str, expected: np.ndarray, actual: np.ndarray) -> bool:
    element = next((name for name in (*FLOATS, *COMPLEX) if type.startswith(name)), None)
    if element is None:
        return bool(np.array_equal(expected, actual))
    if element == "bf16":
        expected, actual = ((array.astype(np.uint32) << np.uint32(16)).view(np.float32) for array in (expected, actual))
    wide = np.complex128 if element in COMPLEX else np.float64
    return np.allclose(actual.astype(wide), expected.astype(wide), rtol=ULPS * 2.0 ** -_MANTISSA[element], atol=0,
                       equal_nan=True)


@functools.cache
def _interpreted(batch: tuple[Case, ...]) -> list[Any]:
    """Return the arguments of some programs after a run by the interpreter."""
    (function,) = parse(joined(batch)[0])
    arguments = [array for case in batch for array in case.arrays()]
    interpret(function, arguments, (1, 1, 1))
    return arguments


def _on_device(form: str, work_group_size: tuple[int, int] | None, subgroup_size: int | None) -> Any:
    def run(function: Function, arguments: list[Any]) -> None:
        from tests.semantics.support import Target

        target = Target(form, (form, work_group_size, subgroup_size))
        sized = replace(function, work_group_size=work_group_size, subgroup_size=subgroup_size)
        target.call(tl_dpnp.compile(sized, target="sycl", form=form, cache=False), *arguments, group_size=(1, 1, 1))

    return run


def _for_cuda(function: Function, arguments: list[Any]) -> None:
    sized = replace(function, work_group_size=(32, 1), subgroup_size=32)
    assert tl_dpnp.compile(sized, target="cuda", cache=False).inspect_ptx()


MAPPINGS = (
    Mapping("interpreter", "interpreter", "numpy", None),
    Mapping("vector", "vectors", "dpctl", _on_device("vector", None, None)),
    Mapping("subgroup", "sub-groups", "dpctl", _on_device("subgroup", (16, 1), 16)),
    Mapping("cuda", "CUDA", "numba_cuda", _for_cuda, only_compiles=True),
)
