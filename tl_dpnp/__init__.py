"""A compiler for a small tensor language, with kernels that run on dpnp arrays.

>>> import dpnp, tl_dpnp
>>> kernel = tl_dpnp.compile('''
... func @axpy(%alpha: f32, %x: memref<f32x?>, %y: memref<f32x?>) {
...   axpby.n %alpha, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>
... }''')
>>> x, y = dpnp.arange(4, dtype="float32"), dpnp.ones(4, dtype="float32")
>>> kernel(2.0, x, y)
>>> y.asnumpy()
array([1., 3., 5., 7.], dtype=float32)

Importing this package loads neither numba nor dpctl nor numpy: the names below are loaded when they are first used.
It does prepare the shared libraries that ``import dpnp`` needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tl_dpnp.runtime import bootstrap as _bootstrap
from tl_dpnp.runtime import forking as _forking
from tl_dpnp.runtime.fresh_stack import import_whole as _import_whole

if TYPE_CHECKING:
    from tl_dpnp.errors import (
        CacheWarning,
        FusionWarning,
        LayoutError,
        LoweringError,
        OccupancyWarning,
        OverlapWarning,
        ScheduleError,
        SettingWarning,
        TLBindingError,
        TLBoundsError,
        TLError,
        TLSyntaxError,
        TLTypeError,
        TLVerifyError,
        TLWarning,
        UnsupportedError,
    )
    from tl_dpnp.graph.fused import explain, fuse
    from tl_dpnp.graph.fusing import fusing
    from tl_dpnp.graph.placeholders import spec
    from tl_dpnp.language.parser import parse
    from tl_dpnp.lowering.schedule import Schedule
    from tl_dpnp.runtime.api import compile
    from tl_dpnp.runtime.call.arrays import rev
    from tl_dpnp.runtime.call.group import Group
    from tl_dpnp.runtime.group_memory import empty_group
    from tl_dpnp.runtime.grouping import group
    from tl_dpnp.runtime.kernel import Kernel
    from tl_dpnp.runtime.module import Module
    from tl_dpnp.runtime.packing import pack, unpack
    from tl_dpnp.runtime.profiling import profile
    from tl_dpnp.runtime.recording import Graph, record
    from tl_dpnp.runtime.sycl.devices import devices
    from tl_dpnp.runtime.waiting import wait

#: Public names and the modules that hold them.
_NAMES = {
    "compile": "runtime.api",
    "Kernel": "runtime.kernel",
    "Module": "runtime.module",
    "Schedule": "lowering.schedule",
    "group": "runtime.grouping",
    "Group": "runtime.call.group",
    "empty_group": "runtime.group_memory",
    "record": "runtime.recording",
    "Graph": "runtime.recording",
    "rev": "runtime.call.arrays",
    "devices": "runtime.sycl.devices",
    "pack": "runtime.packing",
    "unpack": "runtime.packing",
    "profile": "runtime.profiling",
    "wait": "runtime.waiting",
    "parse": "language.parser",
    "explain": "graph.fused",
    "fuse": "graph.fused",
    "fusing": "graph.fusing",
    "spec": "graph.placeholders",
    **dict.fromkeys(
        (
            "CacheWarning",
            "FusionWarning",
            "LayoutError",
            "LoweringError",
            "OccupancyWarning",
            "OverlapWarning",
            "ScheduleError",
            "SettingWarning",
            "TLBindingError",
            "TLBoundsError",
            "TLError",
            "TLSyntaxError",
            "TLTypeError",
            "TLVerifyError",
            "TLWarning",
            "UnsupportedError",
        ),
        "errors",
    ),
}
#: The modules of names that have another where dpnp is not installed.
_WITHOUT_DPNP = {"explain": "graph.without_dpnp", "fuse": "graph.without_dpnp"}
_SUBMODULES = ("config", "errors", "graph", "language", "lowering", "runtime", "xp")

__all__ = [
    "CacheWarning",
    "FusionWarning",
    "Graph",
    "Group",
    "Kernel",
    "LayoutError",
    "LoweringError",
    "Module",
    "OccupancyWarning",
    "OverlapWarning",
    "Schedule",
    "ScheduleError",
    "SettingWarning",
    "TLBindingError",
    "TLBoundsError",
    "TLError",
    "TLSyntaxError",
    "TLTypeError",
    "TLVerifyError",
    "TLWarning",
    "UnsupportedError",
    "compile",
    "config",
    "devices",
    "empty_group",
    "explain",
    "fuse",
    "fusing",
    "group",
    "pack",
    "parse",
    "profile",
    "record",
    "rev",
    "spec",
    "unpack",
    "wait",
]

_bootstrap.install()
_forking.install()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        try:
            value = getattr(_import_whole(f"{__name__}.{_home_of(name)}"), name)
        except ModuleNotFoundError as error:
            from tl_dpnp.runtime.missing import stand_in

            value = stand_in(f"{__name__}.{name}", error)  # raises the error for other packages than those of SYCL
    elif name in _SUBMODULES:
        value = _import_whole(f"{__name__}.{name}")
    elif name == "__version__":
        value = _version()
    else:
        from tl_dpnp.errors import nearest

        near = nearest(name, __all__) if not name.startswith("_") else None
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}"
                             + (f": did you mean {near}?" if near else ""))
    globals()[name] = value
    return value


def _home_of(name: str) -> str:
    """Return the module that holds a public name here."""
    from tl_dpnp.runtime.package_name import NAME

    return _NAMES[name] if NAME == "dpnp" else _WITHOUT_DPNP.get(name, _NAMES[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES, "__version__"})


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("tl_dpnp")
    except metadata.PackageNotFoundError:
        return "0+unknown"
