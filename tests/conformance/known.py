"""What is refused in some mappings although the pages accept it, with the reasons: the rest of the table runs.

The run fails where one of these is not refused, as it fails where something else is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.programs import Case

#: All mappings, the interpreter included: what the verifier refuses.
EVERYWHERE = ("interpreter", "vector", "subgroup", "cuda")


@dataclass(frozen=True)
class Refusal:
    """Cases that are refused in some mappings, with an error that `error` is found in; `reason` is for the table."""

    mappings: tuple[str, ...]
    of: Callable[[Case], bool]
    error: str
    reason: str

    def explains(self, failure: str) -> bool:
        """Return whether this is the error."""
        return re.search(self.error, failure) is not None


#: The first that is of a case counts.
REFUSALS = (
    Refusal(EVERYWHERE, lambda case: case.entry.harness == "iterations", "stands inside a foreach",
            "only in `parallel` and `foreach_tile` yet: which iterations of a `foreach` run together, is left open"),
    Refusal(("vector", "subgroup", "cuda"), lambda case: ".cross_device" in case.spelling,
            "has the scope .cross_device", "kernels are atomic within one device"),
)


def refusal(case: Case, mapping: str) -> Refusal | None:
    """Return why a case that the pages accept is refused in a mapping, None if it runs."""
    return next((each for each in REFUSALS if mapping in each.mappings and each.of(case)), None)
