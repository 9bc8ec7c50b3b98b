"""Run a piece of tensor language in the interpreter."""

import numpy as np

from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.parser import parse
from tl_dpnp.language.verifier import verify


def run(parameters: str, body: str, *arguments: object, group_size: int = 1, **options: object) -> None:
    """Parse, verify and interpret one function of these parameters and this body."""
    source = f"func @f({parameters}) {{\n{body}\n}}\n"
    module = parse(source)
    verify(module)
    interpret(module.functions[0], arguments, group_size, source=source, **options)


def evaluate(expression: str, result: str, storage: str, parameters: str = "", *arguments: object, **options: object):
    """Return the value of one instruction of the result type `result`."""
    out = np.zeros((), storage)
    separator = ", " if parameters else ""
    run(f"{parameters}{separator}%out: memref<{result}>", f"%r = {expression}\nstore %r, %out[] : memref<{result}>",
        *arguments, out, **options)
    return out[()]


def fortran(array: object, dtype: object = None) -> np.ndarray:
    """Return the array in Fortran order, which is the language's packed layout."""
    return np.array(array, dtype, order="F")
