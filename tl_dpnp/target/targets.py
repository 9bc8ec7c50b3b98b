"""What `target=` of `tl_dpnp.compile` may be, as data."""

from __future__ import annotations

from typing import Literal

from tl_dpnp.records import dataclass

__all__ = ["TARGETS", "Target", "TargetName"]

TargetName = Literal["sycl", "cuda", "reference"]


@dataclass(frozen=True)
class Target:
    """What a target is like.

    Its binaries are `code`; it has none if it `is_interpreted`.  If it `follows_arrays`, kernels run where these are,
    and no queue says otherwise.  `has_processors` says whether processors of this machine are among its devices.
    """

    code: str = ""
    is_interpreted: bool = False
    follows_arrays: bool = False
    has_processors: bool = False


TARGETS: dict[TargetName, Target] = {
    "sycl": Target("SPIR-V", has_processors=True),
    "cuda": Target("PTX", follows_arrays=True),
    "reference": Target(is_interpreted=True),
}
