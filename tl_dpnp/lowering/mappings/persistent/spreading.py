"""The spread form of a kernel: the staged form for few products, which all multiprocessors share.

Blocks of the staged form compute several work-groups at a time, so that few of them keep few multiprocessors busy, and
each takes as long as one team needs.  Here a block has no more than one work-group, and where columns of the result can
be divided, several teams of few columns each, which are in one block or in several: the launch says how many a block
has, as few as leave each multiprocessor one block.  A block copies what it needs, computes it, and ends.
"""

from __future__ import annotations

from dataclasses import fields, replace

from tl_dpnp.kernels.ring import Ring
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.division import Parts, in_parts, static_product
from tl_dpnp.lowering.mappings.mapping import Mapping, OfParts
from tl_dpnp.lowering.mappings.persistent.staging import Persistent, find_staging
from tl_dpnp.lowering.tactics.warps import sizes_of
from tl_dpnp.lowering.variants import FewBlocks
from tl_dpnp.records import dataclass

__all__ = ["Spread"]

#: Columns that instructions of tensor cores with operands of 16 bits have.
_COLUMNS = 8


@dataclass(frozen=True, kw_only=True)
class Spread(OfParts, Persistent):
    """The staged form of a function whose work-groups are `parts` of those of another, in order.

    A block has `teams` at most, of one work-group, and a single stage.
    """

    form = "spread"
    purpose = "one product of known sizes of slices of batches, on CUDA devices from Hopper on, without schedules,"

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Spread | None:
        numbers, product = analysis.device.persistent, static_product(analysis.canonical)
        if analysis.options.form != cls.form and (not isinstance(other, Persistent) or other.parts > 1):
            return None
        options = analysis.options
        if product is None or options.debug or options.schedules or not analysis.device.copy_engine:
            return None
        _, n, _ = sizes_of(product)
        is_narrow = ops.memref_type(product.inputs[0]).element.bits == 16
        least, step = (numbers.columns_of_narrow, _COLUMNS) if is_narrow else (numbers.columns_of_a_part, 1)
        counts = [count for count in range(1, n + 1)
                  if n % count == 0 and n // count >= least and n // count % step == 0]
        count = max(counts, default=1)
        found = cls._of(analysis, in_parts(analysis.canonical, product, 1, count)) if count > 1 else None
        return found or cls._of(analysis, None)

    @classmethod
    def _of(cls, analysis: Analysis, parts: Parts | None) -> Spread | None:
        """Return how such parts of work-groups run, or whole ones; None where they cannot."""
        canonical = analysis.canonical if parts is None else parts.function
        staged = find_staging(replace(analysis, canonical=canonical).function, analysis.device, analysis.temporaries,
                              precision=analysis.options.precision, parts=parts, is_few=True)
        if staged is None:
            return None
        copied = {name for operand in staged.operands for name in operand.values} | set(staged.direct)
        if parts is not None and not {value.name for value in parts.slices} <= copied:
            return None
        given = {each.name: getattr(staged, each.name) for each in fields(Persistent)}
        return cls(**{**given, "parts": 1 if parts is None else parts.count, "function": canonical})

    @property
    def awaits_call(self) -> bool:
        return True

    def condition(self, analysis: Analysis) -> FewBlocks | None:
        if analysis.options.form is not None:
            return None
        numbers = analysis.device.persistent
        blocks = numbers.blocks_of_few_on_tensor_cores if self.instructions else numbers.blocks_of_few
        return FewBlocks(self.parts, self.teams * blocks)

    @property
    def teams_share_warps(self) -> bool:
        return self.parts == 1 and super().teams_share_warps

    @property
    def ring(self) -> Ring:
        return replace(super().ring, is_open=self.parts > 1)

    def __str__(self) -> str:
        return self._described(f"spread form, {self.parts} parts of a work-group")
