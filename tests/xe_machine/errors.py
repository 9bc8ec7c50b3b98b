"""What is wrong with machine code, or not known of it."""

from __future__ import annotations

__all__ = ["MachineError"]


class MachineError(Exception):
    """An instruction or message that is not known, or one that does what it must not.

    `where` is added by the thread: the work-group, the sub-group and the instruction.
    """
