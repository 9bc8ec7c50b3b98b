"""The arrays of dpctl and what came with them, where the installed packages have them.

dpctl has had them as ``dpctl.tensor`` up to 0.20.  dpnp 0.20 took them over as ``dpnp.tensor``, with the error for
arrays on different queues.  Tested with dpctl 0.17.0 and 0.22.1, dpnp 0.15.0 and 0.20.0.  Private is
``tensor._usmarray``, the module that defines `usm_ndarray`, for its C interface.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

__all__ = ["ExecutionPlacementError", "array_module", "get_coerced_usm_type", "tensor", "usm_ndarray"]

_is_dpctl = find_spec("dpctl.tensor") is not None
#: The module with the functions of the array API on `usm_ndarray`.
tensor = import_module("dpctl.tensor" if _is_dpctl else "dpnp.tensor")
#: The module that defines `usm_ndarray`, and its C interface.
array_module = import_module(f"{tensor.__name__}._usmarray")
usm_ndarray = tensor.usm_ndarray
ExecutionPlacementError = import_module("dpctl.utils" if _is_dpctl else "dpnp.exceptions").ExecutionPlacementError
get_coerced_usm_type = import_module("dpctl.utils" if _is_dpctl else "dpnp.tensor").get_coerced_usm_type
