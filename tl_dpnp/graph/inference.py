"""Dtypes of results, asked of dpnp itself.

dpnp's rules of promotion depend on the device and differ from NumPy's, so the function in question is called with
arrays of one element.  The answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tl_dpnp.runtime.array_package import content_of, ones

__all__ = ["result_dtype", "takes_in_place"]

_MOST = 4096
_answers: dict[tuple[Any, ...], np.dtype[Any] | None] = {}


def result_dtype(
    function: Callable[..., Any], operands: tuple[Any, ...], queue: Any, **keywords: Any
) -> np.dtype[Any] | None:
    """Return the dtype of what `function` gives for operands of these dtypes, None where it refuses them.

    An operand is a NumPy dtype, which stands for an array, or a scalar.
    """
    return _asked(function, operands, queue, keywords, in_place=False)


def takes_in_place(function: Callable[..., Any], operands: tuple[Any, ...], queue: Any) -> bool:
    """Return whether `function` takes the first of such operands, an array, as ``out=`` as well.

    dpnp 0.20 has other rules for that, and refuses it of functions such as `dpnp.maximum`.
    """
    return _asked(function, operands, queue, {}, in_place=True) is not None


def _asked(
    function: Callable[..., Any], operands: tuple[Any, ...], queue: Any, keywords: dict[str, Any], *, in_place: bool
) -> np.dtype[Any] | None:
    named = tuple((type(x), x if isinstance(x, bool | int | np.dtype) else None) for x in operands)
    key = (function, named, queue, tuple(sorted((name, str(value)) for name, value in keywords.items())), in_place)
    if key not in _answers:
        if len(_answers) >= _MOST:
            _answers.clear()
        given = [ones((1,), x, queue) if isinstance(x, np.dtype) else x for x in operands]
        out = {"out": given[0]} if in_place else {}
        try:
            _answers[key] = content_of(function(*given, **keywords, **out)).dtype
        except Exception:  # whatever it raises, dpnp will raise it again where the user can see it
            _answers[key] = None
    return _answers[key]
