"""What the adapters of numba-dpex and numba-cuda share: a kernel's shell as a function that Numba can compile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tl_dpnp.errors import Diagnostic, LoweringError, Span, TLError, UnsupportedError
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.language.ops import NO_SPAN
from tl_dpnp.lowering.shell import Shell
from tl_dpnp.scalars import ScalarType

__all__ = [
    "DeviceCode", "TypedIntrinsic", "defect", "faults_of", "numba_types", "shell_function", "signature_of",
    "typed_intrinsics",
]

_NAMES = {
    "i1": "boolean", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float32", "bf16": "float32", "f32": "float32",
    "f64": "float64",
}


@dataclass(frozen=True)
class DeviceCode:
    """A compiled kernel: its SPIR-V module or PTX, its name in there, and the LLVM IR that it was made from."""

    binary: bytes
    entry: str
    llvm: str


@dataclass(frozen=True)
class TypedIntrinsic:
    """An intrinsic of a shell with its signature in Numba's types.

    What its emission raises is kept in `faults`, which a shell's intrinsics share: Numba raises an error of its own.
    """

    signature: Any
    entry: Intrinsic
    faults: list[Exception]

    def generate(self, context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        """Emit its LLVM IR, as Numba asks for it."""
        try:
            value = self.entry.emit(builder, list(arguments))
        except Exception as error:
            self.faults.append(_placed(error, self.entry.span))
            raise
        return context.get_dummy_value() if value is None else value


def _placed(error: Exception, span: Span | None) -> Exception:
    """Return an error of the emission with the place of the instruction that was emitted."""
    if span is None or span == NO_SPAN or (isinstance(error, TLError) and error.diagnostics):
        return error
    if isinstance(error, TLError):
        placed: TLError = type(error)(error.message, [Diagnostic(error.message, span)])
    else:
        placed = defect(error, span)
        placed.__cause__ = error
    return placed.with_traceback(error.__traceback__)


def defect(error: Exception, span: Span | None) -> LoweringError:
    """Return the error for something that goes wrong in the compiler itself."""
    message = (f"the compiler failed with {type(error).__name__}: {error}; this is a defect of tl_dpnp, not of the "
               "program: please report it with the program")
    return LoweringError(message, [] if span is None or span == NO_SPAN else [Diagnostic(message, span)])


@contextlib.contextmanager
def faults_of(intrinsics: Mapping[str, TypedIntrinsic]) -> Iterator[None]:
    """Raise what the emission of an intrinsic has raised in place of what Numba makes of it."""
    try:
        yield
    except Exception:
        for intrinsic in intrinsics.values():
            for fault in intrinsic.faults:
                raise fault from fault.__cause__
        raise


def numba_types(types: Any) -> dict[str, Any]:
    """Return Numba's types by the language's names, taken from a module such as ``numba.core.types``."""
    return {scalar: getattr(types, name) for scalar, name in _NAMES.items()}


def signature_of(shell: Shell, types: Mapping[str, Any]) -> list[Any]:
    """Return the Numba types of the shell's arguments."""
    return [types[argument.type.name] for argument in shell.arguments]


def typed_intrinsics(shell: Shell, types: Mapping[str, Any], void: Any) -> dict[str, TypedIntrinsic]:
    """Return the intrinsics of a shell by name; raises `UnsupportedError` for one with a type that Numba lacks."""

    def numba_type(scalar: ScalarType | None) -> Any:
        if scalar is not None and scalar.name not in types:
            raise UnsupportedError(f"device targets do not compute with {scalar} yet; use target='reference'")
        return void if scalar is None else types[scalar.name]

    faults: list[Exception] = []
    return {name: TypedIntrinsic(numba_type(entry.result)(*map(numba_type, entry.parameters)), entry, faults)
            for name, entry in shell.intrinsics.items()}


def shell_function(shell: Shell, intrinsics: Mapping[str, Any]) -> Callable[..., None]:
    """Return the shell as a Python function; `intrinsics` are what Numba knows as those of these names."""
    namespace: dict[str, Any] = {"inf": float("inf"), "nan": float("nan"), **intrinsics}
    exec(compile(shell.text, "<tl_dpnp kernel>", "exec"), namespace)
    function: Callable[..., None] = namespace[shell.name]
    return function
