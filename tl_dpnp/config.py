"""The settings of tl_dpnp, as one table: name, type, default, meaning.

Each setting is an environment variable, ``TL_DPNP_`` and its name, and can be overridden inside a ``with`` block:

>>> from tl_dpnp import config
>>> with config.scope(CACHE=False):
...     config.get("CACHE")
False

The environment is read when a setting is asked for, not at import.  Variables with the prefix that are no settings give
a `SettingWarning` then, each once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Literal, NamedTuple

from tl_dpnp.errors import SettingWarning, TLError, nearest, warn

__all__ = ["LOGS", "PREFIX", "SETTINGS", "Log", "Setting", "get", "scope", "table", "unknown_variables"]

PREFIX = "TL_DPNP_"


class Log(NamedTuple):
    """What a log says, and the level of its records in Python's `logging`."""

    doc: str
    level: Literal["INFO", "DEBUG"] = "INFO"


#: What can be logged, each to the logger ``tl_dpnp.`` and its name; `tl_dpnp.logs` does it.
LOGS = {
    "breaks": Log("where fusion ends"),
    "recompiles": Log("why fused functions are traced again"),
    "compile": Log("each compilation, with the time of its stages"),
    "cache": Log("what is found in the disk cache, missed and stored"),
    "launch": Log("each launch, with how it was run and its time", "DEBUG"),
    "tune": Log("what tuning tries and finds"),
}


class Setting(NamedTuple):
    """One setting: `kind` says what values it takes, `parse` reads one from text or raises `ValueError`."""

    name: str
    kind: str
    default: Any
    doc: str
    parse: Callable[[str], Any]

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return PREFIX + self.name

    @property
    def default_text(self) -> str:
        """The default as it would be written in the environment."""
        match self.default:
            case bool():
                return "1" if self.default else "0"
            case None | ():
                return "unset"
            case _:
                return str(self.default)


#: What a number may be at most: machine code counts in smaller units, with 64 bits.
_MOST = 1 << 40
_BOOLEANS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.strip().lower()]


def _flag(name: str, default: bool, doc: str) -> Setting:
    return Setting(name, "0 or 1", default, doc, _boolean)


def _choice(name: str, default: str, choices: tuple[str, ...], doc: str) -> Setting:
    values = {choice: choice for choice in choices}
    return Setting(name, ", ".join(choices), default, doc, lambda text: values[text.strip().lower()])


def _count(name: str, default: int, unit: str, doc: str) -> Setting:
    def parse(text: str) -> int:
        if not 0 <= int(text) <= _MOST:
            raise ValueError(text)
        return int(text)

    return Setting(name, f"a whole number of {unit}", default, doc, parse)


class _UnknownName(ValueError):
    """A name in a list of them is none that the setting takes; the nearest of those."""

    def __init__(self, name: str, near: str | None) -> None:
        super().__init__(name)
        self.hint = f"; it knows no {name!r}" + (f", did you mean {near}?" if near else "")


def _several(name: str, choices: tuple[str, ...], doc: str) -> Setting:
    def parse(text: str) -> tuple[str, ...]:
        wanted = [part.strip().lower() for part in text.split(",")]
        for part in wanted:
            if part not in choices:
                words = re.split(r"[\s;:|+]+", part)
                raise _UnknownName(part, ",".join(words) if set(words) <= set(choices) else nearest(part, choices))
        return tuple(dict.fromkeys(wanted))

    return Setting(name, f"{', '.join(choices)}, or several", (), doc, parse)


def _path(name: str, doc: str) -> Setting:
    return Setting(name, "a folder", None, doc, lambda text: os.path.abspath(os.path.expanduser(text)))


#: Every setting by name.
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _flag("CACHE", True, "Keep compiled kernels on disk and use them again."),
        _path("CACHE_DIR", "Where they are kept; by default the user's cache folder."),
        _flag("TUNED", True, "Use the schedules that kernel.tune found and kept on disk."),
        _flag("SPECIALIZE", True, "Compile kernels for the sizes that calls have, where a program leaves some open."),
        _flag("DEBUG", False, "Compile bounds checks into every kernel, as debug=True does for one."),
        _flag("FUSE", True, "Fuse functions that are decorated with tl_dpnp.fuse from now on; 0 leaves them alone."),
        _several("LOGS", tuple(LOGS), "What is printed on standard error: " + "; ".join(
            f"{name}, {log.doc}" for name, log in LOGS.items()) + "."),
        _flag("SHORT_CALLS", True, "Run small kernels on CPUs by calling their machine code, without OpenCL."),
        _count("SPIN_US", 200, "µs", "How long threads that help with small kernels look for the next one before they "
               "sleep; 0 for no such threads."),
        _count("POOL_MIB", 256, "MiB", "Memory that fused functions may keep to use again for results."),
        _choice("TARGET", "sycl", ("sycl", "cuda", "reference"), "What to compile for when compile() does not say."),
        _choice(
            "FORM",
            "auto",
            ("auto", "vector", "subgroup"),
            "How a work-group runs: one work-item with vectors, or sub-groups; auto asks the device.",
        ),
        _choice(
            "CORE",
            "auto",
            ("auto", "zen4", "zen5", "intel-server", "intel-client", "avx2", "sse"),
            "The kind of core that kernels for CPUs are made for; results are right on any core with such vectors.",
        ),
        _choice(
            "AMX",
            "auto",
            ("auto", "off", "emulate"),
            "Compute products on the tiles (AMX) of Intel's processors where they have them, nowhere, or by other "
            "instructions that do the same on any processor.",
        ),
        _choice(
            "EMULATE_DPAS",
            "0",
            ("0", "8", "16"),
            "Compute the matrix instruction of Intel GPUs lane by lane on devices without it, with so many lanes.",
        ),
    )
}

#: Variables of this project's benchmarks and tests, which are no settings.
_OTHERS = {PREFIX + name for name in ("BENCH", "TEST_CUDA_PROGRAMS")}
#: Variables that a warning was given for.
_reported: set[str] = set()
#: How many variables there were when it was last looked for such ones.
_environment = {"size": 0}

_overrides: ContextVar[dict[str, Any]] = ContextVar("tl_dpnp_config_overrides")


def get(name: str) -> Any:
    """Return the value of a setting: of the innermost `scope`, else of the environment, else the default.

    Raises `TLError` if the environment variable holds something that the setting does not take, and `KeyError` if
    there is no such setting.  Warns of variables that are no settings, once for each.
    """
    setting = SETTINGS[name]
    overrides = _overrides.get({})
    if name in overrides:
        return overrides[name]
    if len(os.environ) != _environment["size"]:  # looking through it takes longer than all else here
        _environment["size"] = len(os.environ)
        _report_unknown()
    text = os.environ.get(setting.variable)
    return setting.default if text is None or not text.strip() else _parse(setting, text)


def _report_unknown() -> None:
    for variable, problem in unknown_variables().items():
        if variable not in _reported:
            _reported.add(variable)
            warn(problem, SettingWarning)


def unknown_variables() -> dict[str, str]:
    """Return the environment variables that are named like settings and are none, each with a text that says so."""
    known = [setting.variable for setting in SETTINGS.values()]
    problems: dict[str, str] = {}
    allowed = {*known, *_OTHERS}
    for variable in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in allowed):
        near = nearest(variable.removeprefix(PREFIX).upper(), SETTINGS)
        hint = f"did you mean {PREFIX}{near}?" if near else f"there are {', '.join(known)}"
        problems[variable] = f"{variable} is set, and there is no such setting: {hint}"
    return problems


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text)
    except (KeyError, ValueError) as problem:
        hint = problem.hint if isinstance(problem, _UnknownName) else ""
        raise TLError(f"{setting.variable}={text!r} is not understood: it takes {setting.kind}{hint}") from None


def _setting_named(name: str) -> Setting:
    if name not in SETTINGS:
        near = nearest(name.removeprefix(PREFIX), SETTINGS)
        raise TLError(f"there is no setting {name!r}; "
                      + (f"did you mean {near}?" if near else f"there are {', '.join(SETTINGS)}"))
    return SETTINGS[name]


@contextmanager
def scope(**values: Any) -> Iterator[None]:
    """Override settings by name inside a ``with`` block, for this thread or task; None restores the default.

    What `get` returns is a value as well.  Raises `TLError` for an unknown name or a value that the setting does not
    take.
    """
    checked: dict[str, Any] = {}
    for name, value in values.items():
        setting = _setting_named(name)
        several = isinstance(value, tuple | list)
        text = "" if value is None else ",".join(map(str, value)) if several else str(value)
        checked[name] = _parse(setting, text) if text.strip() else setting.default
    token = _overrides.set({**_overrides.get({}), **checked})
    try:
        yield
    finally:
        _overrides.reset(token)


def table(separator: str = "  ") -> list[str]:
    """Return the settings as lines of aligned text: variable, values, default, meaning."""
    rows = [(s.variable, s.kind, s.default_text, s.doc) for s in SETTINGS.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        separator.join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    ]


class _Module(ModuleType):
    """This module, which refuses settings as attributes, as Numba's `config` has them: nothing would read those."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}" + (
            f": config.get({name!r}) reads the setting" if name in SETTINGS else ""))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.isupper() and name[0] != "_":
            name = _setting_named(name).name
            raise TLError(f"a setting is no attribute: write `with config.scope({name}={value!r}):`, or set "
                          f"{PREFIX}{name} in the environment")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module
