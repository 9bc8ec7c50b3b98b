"""The matrix engine that products are compiled for."""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.kernels.amx.rows import ROWS
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.memory import aligned
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import Precision
from tl_dpnp.target.device import Device

__all__ = ["NO_ENGINE", "MatrixEngine", "engine_of"]


@dataclass(frozen=True)
class MatrixEngine:
    """The engine of a device: DPAS with `lanes`.

    `precision` is what products of f32 matrices may lose (`tl_dpnp.lowering.tactics.rounding`).
    `emulated` computes lane by lane what the engine would.  `local_memory` are the bytes that a product may take to
    stage its operands; default tiles are halved `smaller_tiles` times.  `tiles` are the flags of a processor's tiles
    that may be used (`tl_dpnp.lowering.tactics.amx`), and are emulated where `emulates_tiles` says so.
    """

    lanes: int
    precision: Precision = "highest"
    emulated: bool = False
    local_memory: int = 0
    smaller_tiles: int = 0
    tiles: tuple[str, ...] = ()
    emulates_tiles: bool = False

    def at(self, precision: Precision | None) -> MatrixEngine:
        """Return the engine with the precision of one instruction, None for its own."""
        return self if precision is None else replace(self, precision=precision)


#: What a device without a matrix engine has.
NO_ENGINE = MatrixEngine(0)


def engine_of(device: Device, options: LoweringOptions, temporaries: int = 0) -> MatrixEngine:
    """Return the matrix engine to compile for, where temporaries take bytes of local memory; one of 0 lanes is none."""
    lanes = options.emulate_dpas or device.dpas_lanes
    rest = device.local_memory - aligned(temporaries)
    tiles = {"off": (), "on": device.amx, "emulate": tuple(row.flag for row in ROWS) if device.is_cpu else ()}
    return MatrixEngine(lanes, options.precision, emulated=bool(options.emulate_dpas), local_memory=rest,
                        smaller_tiles=options.smaller_tiles, tiles=tiles[options.amx],
                        emulates_tiles=options.amx == "emulate")
