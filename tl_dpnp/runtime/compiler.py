"""From a program to SPIR-V or PTX, through the disk cache.

Only a program that is not in the cache imports the compiler, and with it numba.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_dpnp.errors import TLError
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.fresh_stack import on_fresh_stack
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.runtime.store.fingerprint import PACKAGES, compiler_fingerprint, package_versions
from tl_dpnp.runtime.watching import Span, in_words, span, timed
from tl_dpnp.target.device import Device

if TYPE_CHECKING:
    from tl_dpnp.lowering import LoweredKernel
    from tl_dpnp.runtime.device_code import DeviceCode

__all__ = ["CompiledKernel", "cache_key", "compile_program", "keep", "llvm_of", "lowered"]


class CompiledKernel(NamedTuple):
    """A program compiled for one device: its plan, its SPIR-V module or PTX and the text of its kernel.

    `seconds` is the wall-clock time that this took; `from_cache` says that it was only read from disk.
    """

    plan: LaunchPlan
    binary: bytes
    source: str
    seconds: float
    from_cache: bool


def lowered(program: Program, device: Device, options: LoweringOptions) -> LoweredKernel:
    """Lower a program for a device and return all stages; raises `LoweringError` or `UnsupportedError`."""
    return on_fresh_stack(_lower, program, device, options)


def _lower(program: Program, device: Device, options: LoweringOptions) -> LoweredKernel:
    from tl_dpnp import lowering

    with span("compile", "lowering", timed), faults_in(program):
        return lowering.lower(program.function, device, options)


@contextlib.contextmanager
def faults_in(program: Program) -> Iterator[None]:
    """Give the errors of the compiler the lines that they point at; any other one is a defect of the compiler."""
    from tl_dpnp.lowering.faults import MACHINE_ERRORS, defect

    try:
        yield
    except TLError as error:
        raise program.with_source_lines(error).with_traceback(error.__traceback__) from error.__cause__
    except MACHINE_ERRORS:
        raise
    except Exception as error:
        raise program.with_source_lines(defect(error, program.interface.span)) from error


def llvm_of(kernel: LoweredKernel, device: Device) -> str:
    """Compile a lowered kernel and return its LLVM IR as text."""
    return on_fresh_stack(_BUILD[device.family], kernel, device).llvm


def _build_for_sycl(kernel: LoweredKernel, device: Device) -> DeviceCode:
    from tl_dpnp.runtime.sycl import compilation

    return compilation.build(kernel)


def _build_for_cuda(kernel: LoweredKernel, device: Device) -> DeviceCode:
    from tl_dpnp.runtime.cuda import numba_cuda_adapter

    return numba_cuda_adapter.build(kernel, device)


def _prepare_for_sycl() -> None:
    from tl_dpnp.runtime.sycl import compilation

    compilation.prepare()


#: What compiles a lowered kernel, by the family of its device.
_BUILD = {"sycl": _build_for_sycl, "cuda": _build_for_cuda}
#: What has that start before a kernel is lowered, where it takes its time.
_PREPARE = {"sycl": _prepare_for_sycl}


def cache_key(program: Program, device: Device, options: LoweringOptions) -> str:
    """Return the key of a compiled program: everything that its code depends on."""
    return key_of({
        **program.identity,
        # The checks that debug=True compiles in name the place in the source.
        "places": program.places if options.debug else None,
        "options": asdict(options),
        "device": device.to_json(),
        "packages": package_versions(PACKAGES[device.family]),
        "compiler": compiler_fingerprint(),
        "python": list(sys.version_info[:2]),
    })


def compile_program(
    program: Program,
    device: Device,
    options: LoweringOptions,
    cache: DiskCache | None,
    refresh: bool = False,
) -> CompiledKernel:
    """Return the program compiled for `device`, from the cache unless it is None, not there, or `refresh` is given.

    Raises `LoweringError` or `UnsupportedError` for what the compiler does not do.
    """
    start = time.perf_counter()
    with span("compile", f"@{program.name}", _in_words, device=device.name) as made:
        key = "" if cache is None else cache_key(program, device, options)
        compiled = None
        if cache is not None and not refresh:
            entry = cache.load(key)
            if entry is not None:
                try:
                    compiled = _from_entry(entry, start)
                except (KeyError, TypeError, ValueError, AttributeError) as problem:
                    cache.warn_of(key, problem)
        if compiled is None:
            compiled = on_fresh_stack(_compile, program, device, options, cache, key, start)
        made.details.update(form=compiled.plan.form, bytes=len(compiled.binary), from_cache=compiled.from_cache)
    return compiled


def _in_words(made: Span) -> str:
    facts = made.details
    if "form" not in facts:
        return f"{made.name} for {facts['device']}: not compiled, after {in_words(made)}"
    how = "read from the disk cache" if facts["from_cache"] else "compiled"
    return (f"{made.name} for {facts['device']}, {facts['form']} form: {how} in {in_words(made)}, "
            f"{facts['bytes']} bytes")


def _compile(
    program: Program, device: Device, options: LoweringOptions, cache: DiskCache | None, key: str,
    start: float,
) -> CompiledKernel:
    if device.family in _PREPARE:
        _PREPARE[device.family]()
    kernel = _lower(program, device, options)
    with span("compile", "host compiler", timed), faults_in(program):
        code = _BUILD[device.family](kernel, device)
    plan = LaunchPlan(**{**vars(kernel.plan), "entry": code.entry})
    compiled = CompiledKernel(plan, code.binary, kernel.source, time.perf_counter() - start, False)
    if cache is not None:
        keep(cache, key, compiled)
    return compiled


def keep(cache: DiskCache, key: str, compiled: CompiledKernel) -> None:
    """Store a compiled program under its `cache_key`."""
    cache.store(key, Entry({"plan": compiled.plan.to_json(), "source": compiled.source}, compiled.binary))


def _from_entry(entry: Entry, start: float) -> CompiledKernel:
    facts: dict[str, Any] = entry.facts
    plan = LaunchPlan.from_json(dict(facts["plan"]))
    return CompiledKernel(plan, entry.content, facts["source"], time.perf_counter() - start, True)
