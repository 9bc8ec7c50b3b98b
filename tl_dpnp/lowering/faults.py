"""What goes wrong inside the compiler, as errors of `tl_dpnp` that show the instruction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tl_dpnp.errors import Diagnostic, LoweringError, Span, TLError
from tl_dpnp.language.ops import NO_SPAN

__all__ = ["MACHINE_ERRORS", "defect", "located"]

#: What the machine lacks, memory, depth of the stack or files, is no defect of the compiler.
MACHINE_ERRORS = (MemoryError, RecursionError, OSError)


def defect(error: Exception, span: Span | None) -> LoweringError:
    """Return the error for something that goes wrong in the compiler itself."""
    message = (f"the compiler failed with {type(error).__name__}: {error}; this is a defect of tl_dpnp, not of the "
               "program: please report it with the program")
    return LoweringError(message, [] if span is None or span == NO_SPAN else [Diagnostic(message, span)])


@contextlib.contextmanager
def located(span: Span | None) -> Iterator[None]:
    """Give what is raised inside the place of an instruction, where it has none; it is a `TLError` then."""
    try:
        yield
    except MACHINE_ERRORS:
        raise
    except Exception as error:
        if span is None or span == NO_SPAN or (isinstance(error, TLError) and error.diagnostics):
            raise
        if not isinstance(error, TLError):
            raise defect(error, span) from error
        placed = type(error)(error.message, [Diagnostic(error.message, span)])
        raise placed.with_traceback(error.__traceback__) from error.__cause__
