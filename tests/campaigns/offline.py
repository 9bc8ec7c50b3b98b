"""Campaigns that execute machine code of Intel GPUs, which the offline tools compile and disassemble."""

from __future__ import annotations

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome

__all__ = ["run_offline"]


def run_offline(
    campaign: Campaign, seed: int, minutes: float, count: int | None, kind: str | None, workers: int | None
) -> Outcome:
    """Run a campaign that needs the tools of `make tools`; without them, it is said that nothing was tried."""
    from tl_dpnp.runtime.offline.tools import missing_tools

    missing = missing_tools(("ocloc", "iga64"))
    without = {name: f"{', '.join(missing)} not installed" for name in campaign.kinds} if missing else None
    return run_campaign(campaign, seed, minutes, count, kind=kind, workers=workers, without=without)
