"""The entry: from source to kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast, overload

from tl_dpnp import config
from tl_dpnp.errors import TLBindingError, TLSyntaxError, TLTypeError, nearest
from tl_dpnp.language import ir
from tl_dpnp.lowering.mappings.frames import FRAMES, Form
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.fresh_stack import with_room
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.module import Module
from tl_dpnp.runtime.options import KernelOptions
from tl_dpnp.runtime.store.source_cache import Defined, programs_of
from tl_dpnp.scalars import Precision
from tl_dpnp.target.targets import TARGETS, TargetName

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tl_dpnp.language.builder import FunctionBuilder
    from tl_dpnp.lowering.schedules import GivenSchedule

    Source = str | os.PathLike[str] | ir.Module | ir.Function | FunctionBuilder

__all__ = ["compile"]

_TARGETS = ("auto", *TARGETS)
_FORMS = (None, *FRAMES)
_PRECISIONS = (None, "highest", "high", "default")
#: What to do instead where an option has no such value.
_INSTEAD_OF = {
    **dict.fromkeys((("target", "cpu"), ("target", "gpu")),
                    "; leave it away: a kernel runs on the device of its arrays"),
    **dict.fromkeys((("precision", "tf32"), ("precision", "bf16")), "; 'default' rounds so"),
}


class _Options(TypedDict, total=False):
    """The options of `compile` that do not decide what it returns."""

    target: Literal["auto", "sycl", "cuda", "reference"]
    queue: Any
    form: Form | None
    cache: bool
    debug: bool | None
    schedule: Mapping[str, GivenSchedule] | None
    tuned: bool | None
    precision: Precision | None
    emulate_dpas: Literal[0, 8, 16] | None
    define: Mapping[str, bool | int | float | str] | None


@overload
def compile(src: Source, *, name: str, **options: Unpack[_Options]) -> Kernel: ...
@overload
def compile(src: ir.Function | FunctionBuilder, **options: Unpack[_Options]) -> Kernel: ...
@overload
def compile(src: str | os.PathLike[str] | ir.Module, **options: Unpack[_Options]) -> Kernel | Module: ...
def compile(
    src: Source,
    *,
    name: str | None = None,
    target: Literal["auto", "sycl", "cuda", "reference"] = "auto",
    queue: Any = None,
    form: Form | None = None,
    cache: bool = True,
    debug: bool | None = None,
    schedule: Mapping[str, GivenSchedule] | None = None,
    tuned: bool | None = None,
    precision: Precision | None = None,
    emulate_dpas: Literal[0, 8, 16] | None = None,
    define: Mapping[str, bool | int | float | str] | None = None,
) -> Kernel | Module:
    """Compile tensor-language source to a `Kernel`, or to a `Module` where it has several functions.

    `src` is the text, a path to it, or what a builder gives.  `name` picks one function.  `define` gives compile-time
    variables of a text: ``{"n": 8, "t": "f32"}`` is ``$n = 8 $t = f32`` in front of it.
    `target` is ``"sycl"``, ``"cuda"`` (NVIDIA GPUs, docs/cuda.md), ``"reference"`` (the NumPy interpreter) or
    ``"auto"``: the setting ``TL_DPNP_TARGET``. A kernel is compiled at its first call, for the device of its arguments;
    with `queue` (a `dpctl.SyclQueue`) at once, and then all arguments must be on that queue. `form` says how a
    work-group runs: ``"vector"``, one work-item with vectors, ``"divided"``, several of those that share one product,
    ``"subgroup"``, or ``"staged"``, ``"packed"``, ``"spread"``, ``"tiled"`` and ``"blocked"`` on CUDA devices
    (docs/cuda.md); by default the setting ``TL_DPNP_FORM`` or the device and the call decide. `schedule` replaces the
    default schedules of one function: it maps the names of instructions (``gemm_0``, see `Kernel.schedules`) to a
    `Schedule`, to what its ``to_json`` returned, or to a function that is called with a fresh `Schedule`. `tuned` says
    whether to use what `Kernel.tune` found for the other instructions; by default the setting ``TL_DPNP_TUNED``
    decides. `precision` is what products of f32 matrices may lose on a matrix engine: nothing (``"highest"``, the
    default), or the rounding of operands to sums of bf16 or tf32 (``"high"``) or to tf32 or bf16 (``"default"``):
    docs/xmx.md, docs/cuda.md. `emulate_dpas` computes the engine's instruction lane by lane, with 8 or 16 lanes, on
    devices without one; by default the setting ``TL_DPNP_EMULATE_DPAS`` decides. The reference target takes none of the
    six. `cache=False` leaves the disk cache alone. `debug` compiles bounds checks in and refuses written arguments that
    overlap others; by default the setting ``TL_DPNP_DEBUG`` decides.

    Raises `TLSyntaxError` or `TLVerifyError` for errors in the source, `TLTypeError` for unfit options and
    `TLBindingError` if there is no function `name`, `ScheduleError` for a schedule that is not legal; with `queue`,
    what the compiler raises.
    """
    options = KernelOptions(
        target=cast(TargetName, config.get("TARGET") if _choice("target", target, _TARGETS) == "auto" else target),
        form=_choice("form", form, _FORMS) or (None if config.get("FORM") == "auto" else config.get("FORM")),
        debug=config.get("DEBUG") if debug is None else _flag("debug", debug),
        cache=_flag("cache", cache) and config.get("CACHE"),
        tuned=config.get("TUNED") if tuned is None else _flag("tuned", tuned),
        precision=_choice("precision", precision, _PRECISIONS) or "highest",
        emulate_dpas=int(config.get("EMULATE_DPAS")) if emulate_dpas is None else _choice(
            "emulate_dpas", emulate_dpas, (0, 8, 16)),
        amx=config.get("AMX"),
        core=config.get("CORE"),
        specialize=config.get("SPECIALIZE"),
    )
    if TARGETS[options.target].follows_arrays and queue is not None:
        raise TLTypeError('queue= takes a SYCL queue; with target="cuda" kernels run where their arrays are')
    _check_queue(queue)
    if TARGETS[options.target].is_interpreted:
        _refuse_any(queue=queue, form=form, schedule=schedule, tuned=tuned, precision=precision,
                    emulate_dpas=emulate_dpas)
    return with_room(_kernels, src, name, options, schedule, queue, {} if define is None else define)


def _kernels(
    src: Any, name: str | None, options: KernelOptions, schedule: Mapping[str, GivenSchedule] | None, queue: Any,
    define: Defined,
) -> Kernel | Module:
    every = programs = _programs_of(src, options.cache, define)
    if name is not None:
        programs = tuple(program for program in every if program.name == name)
        if not programs:
            known = [program.name for program in every]
            near = nearest(str(name).removeprefix("@"), known)
            raise TLBindingError(f"the source has no function {name!r}; it has {', '.join(known)}"
                                 + (f": write name={near!r}" if near else ""))
    if schedule is not None:
        options = replace(options, schedules=_schedules(programs, schedule))
    kernels = {program.name: Kernel(program, options, queue) for program in programs}
    return next(iter(kernels.values())) if len(kernels) == 1 else Module(kernels)


def _schedules(programs: tuple[Program, ...], given: Mapping[str, GivenSchedule]) -> tuple[tuple[str, str], ...]:
    from tl_dpnp.lowering.schedules import resolve_schedules

    if not isinstance(given, Mapping):
        raise TLTypeError(f"schedule= takes a mapping from names of instructions to schedules, not a "
                          f"{type(given).__name__}")
    if len(programs) != 1:
        raise TLTypeError(f"schedule= is for one function, and the source has {len(programs)}: name= picks one")
    return resolve_schedules(programs[0].function, given)


def _choice(option: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        near = nearest(str(value), [choice for choice in choices if isinstance(choice, str)])
        hint = f"; did you mean {near!r}?" if near else _INSTEAD_OF.get((option, str(value).lower()), "")
        raise TLTypeError(f"{option}={value!r} is not understood: it takes {', '.join(map(repr, choices))}{hint}")
    return value


def _flag(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TLTypeError(f"{option}={value!r} is not understood: it takes True or False")
    return value


def _refuse_any(**given: Any) -> None:
    """Raise for the first option that was given and that the reference target has no use for."""
    for option, value in given.items():
        if value is not None:
            raise TLTypeError(f'{option}= says how a device runs a kernel; with target="reference" it has no meaning')


def _check_queue(queue: Any) -> None:
    if queue is not None:
        import dpctl

        if not isinstance(queue, dpctl.SyclQueue):
            raise TLTypeError(f"queue= takes a dpctl.SyclQueue, not a {type(queue).__name__}: "
                              f"dpctl.SyclQueue({repr(queue) if isinstance(queue, str) else 'device'}) makes one")


def _programs_of(src: Any, cache: bool, define: Defined) -> tuple[Program, ...]:
    """Return the functions of any kind of source, verified."""
    if not isinstance(define, Mapping):
        raise TLTypeError(f"define= takes a mapping from names to values, not a {type(define).__name__}")
    if define and not isinstance(src, str | os.PathLike):
        raise TLTypeError("define= gives compile-time variables of a text, and this source is none")
    match src:
        case str():
            if _names_file(src):
                raise TLTypeError(f"{src!r} is the name of a file; compile(pathlib.Path({src!r})) reads it"
                                  + ("" if os.path.isfile(src) else f", once it is there: {os.getcwd()} has no such"))
            return programs_of(src, cache=cache, define=define)
        case os.PathLike():
            return programs_of(_read(src), os.fspath(src), cache, define)
        case ir.Module() | ir.Function():
            from tl_dpnp.language.verifier import verify

            module = ir.Module((src,)) if isinstance(src, ir.Function) else src
            verify(module)
            return tuple(map(Program, module))
    from tl_dpnp.language.builder import FunctionBuilder

    if isinstance(src, FunctionBuilder):
        return tuple(map(Program, src.build()))
    hint = ("; text.decode() makes text of bytes" if isinstance(src, bytes | bytearray) else
            "; tl_dpnp.fuse takes Python functions" if callable(src) else "")
    raise TLTypeError(f"compile takes source text, a path or what a builder gives, not a {type(src).__name__}{hint}")


def _names_file(text: str) -> bool:
    """Whether a text looks like the name of a file, and not like a program."""
    return "{" not in text and (os.path.isfile(text) or bool(re.fullmatch(r"[^\s]+\.\w+|[^\n]*\.tl", text.strip())))


def _read(path: os.PathLike[str]) -> str:
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TLSyntaxError(f"{os.fspath(path)} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}") \
            from None
