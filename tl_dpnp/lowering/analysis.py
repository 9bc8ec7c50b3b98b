"""What is known of a function on a device before its loops are scheduled."""

from __future__ import annotations

import functools
from collections.abc import Mapping as Table
from dataclasses import field
from typing import NamedTuple

from tl_dpnp.errors import Diagnostic, LoweringError
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_function
from tl_dpnp.lowering.barriers import insert_barriers
from tl_dpnp.lowering.canonicalize import canonicalize, rename_uniquely
from tl_dpnp.lowering.contraction import Contraction, contractions_of
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.fragment_choice import FragmentChoice
from tl_dpnp.lowering.matrix_engine import MatrixEngine, engine_of
from tl_dpnp.lowering.memory import Placement, place_temporaries
from tl_dpnp.lowering.memory import local_memory as local_memory_of
from tl_dpnp.lowering.requirements import check_requirements
from tl_dpnp.lowering.tactics.dpas import default_micro_kernel
from tl_dpnp.lowering.tactics.rounding import Engine, is_rounded, rounding
from tl_dpnp.lowering.work_items import has_work_items
from tl_dpnp.records import dataclass
from tl_dpnp.target.device import Device

__all__ = ["STAGES", "Analysis", "Passes", "analyse"]

#: The names of the stages, in order.
STAGES = ("parsed", "canonical", "memory", "barriers")


@dataclass(frozen=True)
class Analysis:
    """A function and what a mapping is chosen by.

    `parsed` became `canonical`, in some mappings that of another function, whose temporaries have their `placements` in
    so many bytes of local memory.  `fragments` are the regions whose matrices are in registers.
    """

    device: Device
    options: LoweringOptions
    parsed: ops.Function
    canonical: ops.Function
    placements: Table[str, Placement]
    temporaries: int
    engine: MatrixEngine
    fragments: FragmentChoice = field(default_factory=FragmentChoice)

    @functools.cached_property
    def function(self) -> ops.Function:
        """The canonical function with barriers."""
        return insert_barriers(self.canonical, self.placements)

    @functools.cached_property
    def products(self) -> list[tuple[Contraction, MicroKernel]]:
        """The instructions that the matrix engine takes, with their micro-kernels."""
        found = [(contraction, default_micro_kernel(contraction.nest, self.engine.at(operation.precision)))
                 for operation, contraction in contractions_of(self.canonical)]
        return [(contraction, kernel) for contraction, kernel in found if kernel is not None]

    def refusal(self, message: str, hint: str) -> LoweringError:
        """Return an error at the place of the function."""
        return LoweringError(message, [Diagnostic(message, self.parsed.span, hint)])

    @functools.cached_property
    def raised(self) -> Analysis | str | None:
        """The analysis of the ``gemm`` that all tiles of the function are, or why there is none.

        None where the device has no form that computes products whatever the work-groups are, or options ask for the
        function as it is.
        """
        from tl_dpnp.lowering.raising.product import Unraised, has_tiles, raised  # which few programs need

        if not self.device.has_persistent_blocks or self.options.debug or self.options.schedules or (
            not has_tiles(self.parsed)
        ):
            return None
        try:
            function = raised(self.parsed)
        except Unraised as reason:
            return str(reason)
        if self.fragments.kept and self._only_tiles_are_rounded(function):
            return f"of f32 with precision {self.options.precision!r} tensor cores multiply tiles only"
        return analyse(function, self.device, self.options)

    def _only_tiles_are_rounded(self, function: ops.Function) -> bool:
        """Whether tensor cores multiply what the tiles in registers hold, but not a product of the whole matrices."""
        (types,) = ([ops.memref_type(memref).element.name for memref in (*operation.inputs, operation.output)]
                    for operation in function.body if isinstance(operation, ops.Contraction))
        engines: tuple[Engine, ...] = ("mma.sync", "wgmma")
        of_tiles, of_all = (rounding(types, self.options.precision, engine) for engine in engines)
        return is_rounded(types) and of_tiles is not None and (of_all is None or not self.device.warpgroup_products)

    @property
    def passes(self) -> Passes:
        """The IR after each pass."""
        return Passes(self.parsed, self.canonical, tuple(self.placements.values()), self.function)


class Passes(NamedTuple):
    """A function after each pass, and where its temporaries are; printed when somebody asks."""

    parsed: ops.Function
    canonical: ops.Function
    placements: tuple[Placement, ...]
    barriers: ops.Function

    def stages(self) -> dict[str, str]:
        """Return the IR as text after each pass, by the names of `STAGES`."""
        canonical = print_function(self.canonical)
        memory = "".join(f"; {placement}\n" for placement in self.placements)
        texts = print_function(self.parsed), canonical, memory + canonical, print_function(self.barriers)
        return dict(zip(STAGES, texts, strict=True))


def analyse(function: ops.Function, device: Device, options: LoweringOptions) -> Analysis:
    """Rewrite a verified function and find what a mapping is chosen by.

    Raises UnsupportedError for types that the target or the device does not compute with and for temporaries that do
    not fit.
    """
    check_requirements(function, device)
    fragments = FragmentChoice()
    if has_work_items(function):
        from tl_dpnp.lowering.fragments import choose_fragments

        fragments = choose_fragments(rename_uniquely(function), device, options)
    canonical = canonicalize(function, fragments.kept, fragments.unrolled)
    placements = place_temporaries(canonical, device.local_memory)
    temporaries = local_memory_of(list(placements.values()))
    engine = engine_of(device, options, temporaries)
    return Analysis(device, options, function, canonical, placements, temporaries, engine, fragments)
