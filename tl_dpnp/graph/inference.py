"""Dtypes of results, asked of dpnp itself.

dpnp's rules of promotion depend on the device and differ from NumPy's, so the function in question is called with
arrays of one element.  The answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tl_dpnp.runtime.sycl.dpnp_adapter import usm_array_of

__all__ = ["result_dtype"]

_MOST = 4096
_answers: dict[tuple[Any, ...], np.dtype[Any] | None] = {}


def result_dtype(
    function: Callable[..., Any], operands: tuple[Any, ...], queue: Any, **keywords: Any
) -> np.dtype[Any] | None:
    """Return the dtype of what `function` gives for operands of these dtypes, None where it refuses them.

    An operand is a NumPy dtype, which stands for an array, or a scalar.
    """
    import dpnp

    named = tuple((type(x), x if isinstance(x, bool | int | np.dtype) else None) for x in operands)
    key = (function, named, queue, tuple(sorted((name, str(value)) for name, value in keywords.items())))
    if key not in _answers:
        if len(_answers) >= _MOST:
            _answers.clear()
        given = [dpnp.ones((1,), dtype=x, sycl_queue=queue) if isinstance(x, np.dtype) else x for x in operands]
        try:
            _answers[key] = usm_array_of(function(*given, **keywords)).dtype
        except Exception:  # whatever it raises, dpnp will raise it again where the user can see it
            _answers[key] = None
    return _answers[key]
