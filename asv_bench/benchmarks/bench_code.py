"""What the inner loops are made of, without noise: see `code`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from . import programs
from .code import inner_loop
from .limits import host_vector_bytes
from .tables import ELEMENTS, QUICK, SHAPES

_CASES = [f"{element} {shape}" for element in ELEMENTS for shape in SHAPES][: 2 if QUICK else None]


class InnerLoop:
    """The loop with the most multiply-adds of a batched product."""

    params = (_CASES,)
    param_names = ("case",)

    def setup_cache(self) -> dict[str, dict[str, Any]]:
        """Compile all cases and count."""
        import tl_dpnp

        loops = {}
        for case in _CASES:
            element, shape = case.split()
            kernel = tl_dpnp.compile(programs.gemm(*map(int, shape.split("x")), element))
            loop = inner_loop(kernel, max(32, host_vector_bytes()))
            loops[case] = asdict(loop) | {"share": loop.fma_share}
        return loops

    def track_instructions(self, loops: dict[str, dict[str, Any]], case: str) -> float:
        """Instructions of an iteration."""
        return loops[case]["instructions"]

    def track_fma_share(self, loops: dict[str, dict[str, Any]], case: str) -> float:
        """Multiply-adds among them."""
        return loops[case]["share"]

    def track_memory_per_fma(self, loops: dict[str, dict[str, Any]], case: str) -> float:
        """Bytes that an iteration loads and stores, for each multiply-add."""
        return loops[case]["moved"] / max(1, loops[case]["fma"])

    def track_spills(self, loops: dict[str, dict[str, Any]], case: str) -> float:
        """Instructions that touch the stack."""
        return loops[case]["spills"]

    track_instructions.unit = "instructions"  # type: ignore[attr-defined]
    track_fma_share.unit = "of all"  # type: ignore[attr-defined]
    track_memory_per_fma.unit = "bytes"  # type: ignore[attr-defined]
    track_spills.unit = "instructions"  # type: ignore[attr-defined]
