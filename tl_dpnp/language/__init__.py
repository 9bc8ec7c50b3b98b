"""The tensor language: types, operations, parser, printer, verifier and builder.

The names here are loaded at their first use, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tl_dpnp.language.builder import ALL, FunctionBuilder, build_module, coopmatrix, group, memref
    from tl_dpnp.language.parser import parse
    from tl_dpnp.language.printer import print_function, print_module, print_operation, print_region
    from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType
    from tl_dpnp.language.verifier import verify

__all__ = [
    "ALL",
    "CooperativeMatrixType",
    "FunctionBuilder",
    "GroupType",
    "MemrefType",
    "build_module",
    "coopmatrix",
    "group",
    "memref",
    "parse",
    "print_function",
    "print_module",
    "print_operation",
    "print_region",
    "verify",
]

_MODULES = {
    "ALL": "builder",
    "CooperativeMatrixType": "types",
    "FunctionBuilder": "builder",
    "GroupType": "types",
    "MemrefType": "types",
    "build_module": "builder",
    "coopmatrix": "builder",
    "group": "builder",
    "memref": "builder",
    "parse": "parser",
    "print_function": "printer",
    "print_module": "printer",
    "print_operation": "printer",
    "print_region": "printer",
    "verify": "verifier",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
