"""Arrays of NumPy for programs, and the texts of their types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["DTYPES", "fortran", "memref", "typed", "whole"]


def fortran(array: object, dtype: object = None) -> np.ndarray:
    """Return the array in Fortran order, which is the language's packed layout."""
    return np.array(array, dtype, order="F")


def memref(element: str, *shape: int | str) -> str:
    """Return the text of a packed memref type."""
    return f"memref<{element}{''.join(f'x{size}' for size in shape)}>"


def typed(names: Sequence[str], types: Sequence[str]) -> str:
    """Return a parameter list."""
    return ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))


#: The scalar types that the device computes, and the dtypes of their arrays.
DTYPES = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64"}


def whole(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Return small whole numbers: every order of summation gives the same floats."""
    return fortran(np.random.default_rng(seed).integers(-4, 5, shape), dtype)
