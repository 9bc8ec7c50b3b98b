"""One application of a primitive, as a value."""

from __future__ import annotations

from typing import Any

from tl_dpnp.errors import ScheduleError
from tl_dpnp.records import dataclass

__all__ = ["Step"]

#: What a primitive takes: names, numbers, and lists of them.
Argument = str | int | None | tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """A primitive and its arguments: those given by position, then those given by name."""

    primitive: str
    positional: tuple[Argument, ...]
    named: tuple[tuple[str, Argument], ...] = ()

    def __str__(self) -> str:
        arguments = [*map(str, self.positional), *(f"{name}={value}" for name, value in self.named)]
        return f"{self.primitive}({', '.join(arguments)})"

    def to_json(self) -> list[Any]:
        """Return ``[primitive, positional arguments, named arguments]``."""
        return [self.primitive, list(self.positional), dict(self.named)]

    @classmethod
    def from_json(cls, data: Any) -> Step:
        """Rebuild the step that `to_json` returned; raises ScheduleError for anything else."""
        match data:
            case [str(primitive), list(positional), dict(named)] if all(isinstance(name, str) for name in named):
                values = [*positional, *named.values()]
                if all(value is None or isinstance(value, (str, int)) for value in values):
                    return cls(primitive, tuple(positional), tuple(named.items()))
        raise ScheduleError(f"{data!r} is not a step of a schedule: [primitive, [arguments], {{name: argument}}]")
