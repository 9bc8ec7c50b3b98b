"""What calls have to know of a function, without the instructions that it consists of.

It is kept beside the IR in the disk cache, so that a kernel whose code is there is called without reading that.
"""

from __future__ import annotations

from dataclasses import field

from tl_dpnp.errors import Span
from tl_dpnp.language.codec import Codec
from tl_dpnp.language.ir import Assertion, Value
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.relations import Extent, Relation, Shapes

__all__ = ["INTERFACES", "BatchMode", "Interface", "Usage"]


@dataclass(frozen=True)
class BatchMode:
    """A mode of a memref parameter, or the elements of a group parameter, indexed directly by ``group_id``.

    `axis` is that of the ``group_id``, `parameter` the position of the parameter, `mode` that of the mode, None for a
    group.  `conditional` is true if the access stands inside an ``if`` or a loop, so that not every work-group need
    reach it.
    """

    parameter: int
    mode: int | None
    conditional: bool
    axis: str
    span: Span = field(compare=False)

    def size(self, shapes: Shapes) -> int:
        """Return the size of the mode or the number of elements, given the shapes of the arguments."""
        shape = shapes[self.parameter]
        return len(shape) if self.mode is None else shape[self.mode]  # type: ignore[return-value]


@dataclass(frozen=True)
class Usage:
    """What a function does with its parameters; `written` and `read` hold the positions of those whose elements are.

    `open_modes` are the modes of memref parameters, by position and mode, which products of matrices run along and
    whose size or stride is known at run time only; `whole_modes` are those that anything but an index is used with.
    A function makes use of the place of work-groups along the `indexing_axes`, and `has_axes` if it knows others than
    the first one.  It asks of the parameters at the positions `asked` whether there are arrays for them.  It
    `has_fixed_work` if linear algebra is all that a work-group does, once and on sizes that do not
    vary.  It `has_tiles` if it multiplies cooperative matrices.
    """

    written: frozenset[int]
    read: frozenset[int]
    open_modes: frozenset[tuple[int, int]]
    whole_modes: frozenset[tuple[int, int]]
    batch_modes: tuple[BatchMode, ...]
    indexing_axes: frozenset[str]
    has_axes: bool
    asked: frozenset[int]
    relations: tuple[Relation, ...]
    has_fixed_work: bool
    has_matrix_product: bool
    has_tiles: bool


@dataclass(frozen=True)
class Interface:
    """How a function is called, and its `usage` of what it is called with; the other fields are the function's."""

    name: str
    parameters: tuple[Value, ...]
    defaults: tuple[tuple[str, bool | int | float | complex], ...]
    span: Span
    usage: Usage
    assertions: tuple[Assertion, ...] = ()

    @property
    def asserts_addresses(self) -> bool:
        """Whether arrays are taken at some addresses only."""
        return any(assertion.alignment is not None for assertion in self.assertions)


#: Writes and reads interfaces as plain data.
INTERFACES = Codec((Interface, Assertion, Usage, BatchMode, Relation, Extent, Value, MemrefType, GroupType, Span))
