"""The types of the tensor language: scalars, memrefs, groups and cooperative matrices.

Source: tensor language reference, section "Types"; language 0.4, section "Cooperative matrices".
"""

from __future__ import annotations

from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = [
    "DYNAMIC", "MATRIX_USES", "CooperativeMatrixType", "GroupType", "MemrefType", "Size", "Type", "canonical_strides",
]

#: A mode size, stride or offset: a constant, or `DYNAMIC` where it is known only at run time (written ``?``).
Size = int | None
DYNAMIC: None = None
#: What a cooperative matrix is in products: the first factor, the second, or what is added and results.
MATRIX_USES = ("matrix_a", "matrix_b", "matrix_acc")


def canonical_strides(shape: tuple[Size, ...], first: Size = 1) -> tuple[Size, ...]:
    """Return the packed column-major strides of `shape`: each the product of the one before and its size."""
    strides: list[Size] = []
    stride = first
    for size in shape:
        strides.append(stride)
        stride = None if stride is None or size is None else stride * size
    return tuple(strides)


def _text(size: Size) -> str:
    return "?" if size is None else str(size)


@dataclass(frozen=True)
class MemrefType:
    """A reference to memory with an element type, a shape and a strided layout (in elements).

    ``MemrefType(F32, (16, 8))`` has the packed layout; a layout equal to it is the same type.
    """

    element: ScalarType
    shape: tuple[Size, ...] = ()
    strides: tuple[Size, ...] = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        if self.strides is None:
            object.__setattr__(self, "strides", canonical_strides(self.shape))

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def is_packed(self) -> bool:
        """Whether the layout is the default one and is therefore not printed."""
        return self.strides == canonical_strides(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether all sizes and strides are constants."""
        return None not in self.shape and None not in self.strides

    def __str__(self) -> str:
        shape = "".join(f"x{_text(size)}" for size in self.shape)
        layout = "" if self.is_packed else f",strided<{','.join(map(_text, self.strides))}>"
        return f"memref<{self.element}{shape}{layout}>"


@dataclass(frozen=True)
class GroupType:
    """A collection of pointers to memrefs, each with its own dynamic sizes and strides.

    `offset` is added to each pointer, in elements; `length` is how many there are, None for any number.
    """

    memref: MemrefType
    offset: Size = 0
    length: Size = None

    def __str__(self) -> str:
        offset = "" if self.offset == 0 else f", offset: {_text(self.offset)}"
        length = "" if self.length is None else f" x {self.length}"
        return f"group<{self.memref}{length}{offset}>"


@dataclass(frozen=True)
class CooperativeMatrixType:
    """A matrix of `rows` × `columns` components that a sub-group holds together; `use` is one of `MATRIX_USES`."""

    component: ScalarType
    rows: int
    columns: int
    use: str

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return self.rows, self.columns

    def __str__(self) -> str:
        return f"coopmatrix<{self.component}x{self.rows}x{self.columns},{self.use}>"


Type = ScalarType | MemrefType | GroupType | CooperativeMatrixType
