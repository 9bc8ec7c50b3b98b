"""What the compiler knows about a device, and what the user may ask of the compiler, as plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import Precision
from tl_dpnp.target.catalog import CORES, H200
from tl_dpnp.target.device import Device

__all__ = ["H200", "LoweringOptions"]


@dataclass(frozen=True)
class LoweringOptions:
    """What the user asks of the compiler.

    `form` is None where the device decides.  `debug` compiles bounds checks into every access.  `schedules` are the
    user's, by the name of the instruction's nest, as JSON; the other instructions get the default.
    `precision` is what products of f32 matrices may lose on a matrix engine (`matrix_engine.MatrixEngine`);
    `emulate_dpas` is the execution size, 8 or 16, of the matrix instruction to compute lane by lane, 0 not to.
    `smaller_tiles` is how often the default tiles of the matrix engine are halved, for a compiler that needs it.
    `amx` says whether the tiles of a processor may be used, or are emulated.  `core` is the name of the core that
    kernels for CPUs are made for in place of the device's.
    """

    form: Form | None = None
    debug: bool = False
    schedules: tuple[tuple[str, str], ...] = ()
    precision: Precision = "highest"
    emulate_dpas: int = 0
    smaller_tiles: int = 0
    amx: Literal["on", "off", "emulate"] = "off"
    core: str | None = None

    def in_form(self, form: Form | None) -> LoweringOptions:
        """Return the options with a form in place of theirs, which stays where it is None."""
        return self if form is None else replace(self, form=form)

    def applied_to(self, device: Device) -> Device:
        """Return the device to compile for; raises UnsupportedError for a core with wider vectors than it has."""
        if self.core is None or not device.is_cpu:
            return device
        core = CORES[self.core]
        if core.vector_bytes > device.vector_bytes:
            raise UnsupportedError(
                f"kernels for the core {core} have vectors of {core.vector_bytes} bytes, and {device.name} has vectors "
                f"of {device.vector_bytes}: set TL_DPNP_CORE to another, or to auto")
        return replace(device, core=core)
