"""`fusing`: recording a block of code instead of a function."""

from __future__ import annotations

from typing import Any

from tl_dpnp.errors import TLTypeError, UnsupportedError
from tl_dpnp.graph.explain import Explanation
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.trace import Trace, active_trace
from tl_dpnp.runtime.array_package import settles_in_place, xp
from tl_dpnp.runtime.forking import check_process
from tl_dpnp.runtime.package_name import NAME

__all__ = ["fusing"]


class fusing:  # noqa: N801  # a function to its users, like contextlib's
    """Record what a block does with arrays, and run it as kernels when the block ends.

    >>> with tl_dpnp.fusing(A, Q) as (A, Q):            # doctest: +SKIP
    ...     R = K @ (Q @ A)
    >>> type(R)                                         # doctest: +SKIP
    <class 'dpnp.dpnp_array.dpnp_array'>

    The arrays that the block works on are given, and taken from ``as``: always a tuple, of arrays that share memory
    with those given.  Their operators and methods are recorded, and the functions of `tl_dpnp.xp`; functions of dpnp
    itself compute what they need at once.  When the block ends all arrays that are left are plain `dpnp.ndarray`
    objects.

    A block in a fused function, or in another block, is a part of the graph around it, whose end is then its own.

    A block runs once, so its graph is recorded each time; kernels are kept as those of `tl_dpnp.fuse` are.
    ``explanation``, of the context manager, says afterwards what became of the block.
    """

    def __init__(self, *arrays: Any) -> None:
        if not settles_in_place:
            raise UnsupportedError(f"fusing takes no block of {NAME}'s arrays: write a function, for tl_dpnp.fuse")
        for array in arrays:
            if not isinstance(array, xp.ndarray):
                raise TLTypeError(f"fusing takes {NAME} arrays, not a {type(array).__name__}")
        self._arrays = arrays
        self._trace = Trace()
        self._outer: Trace | None = None

    def __enter__(self) -> tuple[Any, ...]:
        check_process()
        self._outer = active_trace()
        if self._outer is not None:
            self._trace = self._outer
            return tuple(array if type(array) is LazyArray else self._trace.capture(array) for array in self._arrays)
        self._trace.__enter__()
        return tuple(map(self._trace.argument, self._arrays))

    def __exit__(self, *exception: object) -> None:
        if self._outer is not None:
            return
        try:
            self._trace.finish()  # after an error too: dpnp would have done what comes before it
        finally:
            self._trace.let_go()
            self._trace.__exit__(*exception)

    @property
    def explanation(self) -> Explanation:
        """What became of the block: the kernels and the places where fusion ended."""
        return Explanation.of_block(self._trace)
