"""Recorded launches on CUDA devices: they are captured into a CUDA graph, which the driver launches as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import TLBindingError
from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.watching import door

if TYPE_CHECKING:
    from tl_dpnp.runtime.cuda.platform import CudaLaunch

__all__ = ["CudaTogether", "FixedCudaLaunch"]


class FixedCudaLaunch:
    """A launch with its scalars and addresses; `owners` live as long.  See `tl_dpnp.runtime.platforms.FixedLaunch`."""

    def __init__(
        self, launch: CudaLaunch, arguments: Sequence[Any], addresses: Sequence[int], owners: tuple[object, ...]
    ) -> None:
        self.queue, self.launch, self._owners = launch.queue, launch, owners
        self._arguments, self._addresses = list(arguments), list(addresses)
        for scalar in launch.flat.scalars:
            scalar.convert(arguments[scalar.position])  # what does not fit is refused now

    @property
    def extent(self) -> str:
        """The thread blocks in words."""
        return self.launch.extent

    def start(self, stream: int) -> None:
        """Start the kernel on a stream, which may be one that is captured."""
        self.launch.on(stream, self._arguments, self._addresses)


class CudaTogether:
    """Fixed launches of one device; see `tl_dpnp.runtime.platforms.Together`.

    Those that wait for the end of their kernels, to look at its bounds checks, are started one by one.
    """

    def __init__(self, launches: Sequence[FixedCudaLaunch]) -> None:
        self._ordinal = launches[0].queue.ordinal
        self._streams = list(dict.fromkeys(launch.launch.stream for launch in launches))
        self._parts: list[Callable[[int], None]] = []
        for waits, stretch in itertools.groupby(launches, key=lambda launch: launch.launch.waits):
            if waits:
                self._parts += [launch.start for launch in stretch]
            else:
                starts = [launch.start for launch in stretch]
                self._parts.append(driver.ExecutableGraph(self._ordinal, starts).start)
        self._launches = launches

    def run(self) -> None:
        """Start everything on the current stream of the arrays; raises `TLBindingError` where these differ."""
        stream = self._stream()
        for part in self._parts:
            part(stream)

    def start(self, depends: Sequence[Any]) -> driver.Event:
        """Start everything after events and return the event of the end."""
        stream = self._stream()
        driver.hold(stream, depends)
        for part in self._parts:
            part(stream)
        return driver.Event(self._ordinal, stream)

    def _stream(self) -> int:
        streams = {stream() for stream in self._streams}
        if len(streams) != 1:
            raise TLBindingError(f"the arrays of a graph have several current streams ({', '.join(map(hex, streams))}):"
                                 " make one the current stream of all their packages")
        return streams.pop()


door(CudaTogether, "run", lambda together: (f"{len(together._launches)} launches", "CUDA graph", {}))
door(CudaTogether, "start", lambda together: (f"{len(together._launches)} launches", "CUDA graph", {}))
