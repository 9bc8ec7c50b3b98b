"""The schedule language: primitives that rewrite a loop nest and keep what it computes."""

from tl_dpnp.lowering.schedule.loops import Split
from tl_dpnp.lowering.schedule.schedule import Schedule
from tl_dpnp.lowering.schedule.step import Step

__all__ = ["Schedule", "Split", "Step"]
