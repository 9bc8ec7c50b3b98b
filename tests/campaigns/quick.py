"""The planted defects with a watchdog that waits one second."""

from dataclasses import replace

from tests.campaigns import planted

CAMPAIGN = replace(planted.CAMPAIGN, limit=1.0, module=__name__)
