"""Kernels for the sizes that calls have, where a program leaves sizes of its products open.

A product of known sizes is several times as fast as one that has to be right for any.  So the first calls with sizes
not seen before are compiled for just these; once there are many, further sizes take the program as it was written.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from tl_dpnp.language.types import MemrefType, canonical_strides
from tl_dpnp.runtime.call.arguments import BoundCall, MemrefArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.options import KernelOptions
from tl_dpnp.runtime.overloads import Overloads
from tl_dpnp.runtime.platforms import Platform
from tl_dpnp.runtime.watching import span, timed

__all__ = ["MOST_SPECIALIZATIONS", "Specialization", "Specializations"]

#: Sizes of calls that one program is compiled for.
MOST_SPECIALIZATIONS = 8


class Specialization(NamedTuple):
    """A program for some sizes: its compilations, and how arguments that the general program took become its own."""

    binding: Binding
    overloads: Overloads


class Specializations:
    """The specializations of a program that calls made so far; safe for several threads."""

    def __init__(self, program: Program, options: KernelOptions, platform: Platform, queue: Any) -> None:
        self._program, self._options, self._platform, self._queue = program, options, platform, queue
        self._made: dict[Hashable, Specialization | None] = {}
        self._lock = threading.Lock()
        self._modes: dict[int, list[int]] = {}
        for position, mode in sorted(program.usage.open_modes):
            if isinstance(program.parameters[position].type, MemrefType):
                self._modes.setdefault(position, []).append(mode)

    def __iter__(self) -> Iterator[Specialization]:
        """Iterate over the specializations there are."""
        return iter([made for made in [*self._made.values()] if made is not None])

    def of(self, call: BoundCall) -> Specialization | None:
        """Return the specialization for a call that was checked, None where that is the program as it is."""
        if not self._modes:
            return None
        types = {position: self._type_for(call, position) for position in self._modes}
        key = tuple(types.items())
        with self._lock:
            if key not in self._made:
                if len(self._made) >= MOST_SPECIALIZATIONS:
                    return None
                self._made[key] = self._make(types)
            return self._made[key]

    def _type_for(self, call: BoundCall, position: int) -> MemrefType:
        """Return the type of a parameter with the sizes and strides of an argument.

        Other modes keep what is declared, such as the one that work-groups have slices of; strides are also taken from
        an argument without gaps.
        """
        declared = self._program.parameters[position].type
        argument = call.arguments[position]
        assert isinstance(declared, MemrefType)
        assert isinstance(argument, MemrefArgument)
        modes = self._modes[position]
        shape = tuple(argument.shape[mode] if mode in modes else size for mode, size in enumerate(declared.shape))
        strides = tuple(
            found if wanted is None and (mode in modes or found == packed) else wanted
            for mode, (wanted, found, packed) in enumerate(zip(
                declared.strides, argument.strides, canonical_strides(shape), strict=True)))
        return MemrefType(declared.element, shape, strides)

    def _make(self, types: dict[int, MemrefType]) -> Specialization | None:
        from tl_dpnp.lowering.specialize import specialize  # brings the verifier, which few kernels need

        parameters = self._program.parameters
        known = {parameters[position].name: type_ for position, type_ in types.items()}
        sizes = ", ".join(map(str, known.values()))
        with span("compile", f"specialization of @{self._program.name} for {sizes}", timed):
            function = specialize(self._program.function, known)
        if function is None:
            return None
        program = Program(function, self._program.text, self._program.defined,
                          takes_extents=self._program.takes_extents)
        overloads = Overloads(program, self._options, self._platform, self._queue)
        return Specialization(Binding(program, self._platform.arrays), overloads)
