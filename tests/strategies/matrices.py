"""Random programs on cooperative matrices, for any number of sub-groups; each stores into a part of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tests.strategies.abstract import Retry
from tests.strategies.values import DTYPES, fortran
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

#: The sub-groups of the layout that has the most, the largest part of each in memory, and how many it may store.
SUBGROUPS, ROWS, COLUMNS, SLOTS = 9, 32, 8, 3
#: The columns of what is read, and the bytes that the matrices of all sub-groups may take.
READ, ROOM = 40, 20 << 10
#: Components of matrices; those that arrays have are the ones of memrefs.
TYPES = [SCALAR_TYPES[name] for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "bf16")]
STORED = [type for type in TYPES if type.name in DTYPES]
USES = ("a", "b", "acc")


@dataclass(frozen=True)
class Matrix:
    """A value: its name, its type, and a bound of its components, which are whole numbers."""

    name: str
    component: ScalarType
    rows: int
    columns: int
    use: str = "acc"
    bound: int = 0

    @property
    def type(self) -> str:
        return f"coopmatrix<{self.component}x{self.rows}x{self.columns},matrix_{self.use}>"


@dataclass
class MatrixProgram:
    """A program of one function; the seed reproduces it."""

    seed: int
    lines: list[str] = field(default_factory=list)
    precision = "highest"
    #: Rows and columns of what is read, and of what each sub-group stores.
    read: ClassVar[tuple[int, int]] = ROWS, READ
    stored: ClassVar[tuple[int, int]] = ROWS * SLOTS, COLUMNS

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.count, self.bytes = 0, 0
        self.matrices: list[Matrix] = []
        self.slots = dict.fromkeys(STORED, 0)
        self.lines += ["%s = subgroup_linear_id : i32", "%lane = subgroup_local_id : i32", "%n = cast %s : index",
                       f"%width = constant {COLUMNS} : index", "%o = mul %n, %width : index",
                       "%two = constant 2 : i32", "%parity = rem %s, %two : i32", "%zero = constant 0 : i32",
                       "%odd = not_equal %parity, %zero : bool"]
        makers = [self.binary, self.unary, self.cast, self.product, self.scale, self.reduce, self.apply, self.insert,
                  self.branch, self.loop, self.load, self.constant, self.construct]
        self.load()
        for _ in range(self.random.randint(2, 6)):
            self.first(self.random.sample(makers, k=len(makers)))
        for matrix in self.random.sample(self.matrices, k=min(len(self.matrices), 5)):
            self.store(matrix)
        if not any(self.slots.values()):
            self.store(next(matrix for matrix in self.matrices if matrix.component in STORED))

    def __repr__(self) -> str:
        return f"MatrixProgram({self.seed})\n{self.source}"

    @property
    def source(self) -> str:
        """The text of the function: a memref to read and one to write for each type."""
        parameters = ", ".join(f"%x{type}: memref<{type}x{self.read[0]}x?>, %z{type}: memref<{type}x{self.stored[0]}x?>"
                               for type in STORED)
        return f"func @f({parameters}) {{ parallel {{\n" + "\n".join(self.lines) + "\n} }"

    def arguments(self) -> list[np.ndarray]:
        """Return new arrays for the parameters."""
        numbers, arrays = np.random.default_rng(self.seed), []
        for type in STORED:
            least = 0 if type.kind == "unsigned" else -3
            arrays.append(fortran(numbers.integers(least, 4, self.read), DTYPES[type.name]))
            arrays.append(fortran(np.zeros((self.stored[0], SUBGROUPS * self.stored[1])), DTYPES[type.name]))
        return arrays

    # --- text --------------------------------------------------------------------------------------------------------

    def first(self, makers: list[Callable[[], object]]) -> None:
        """Write what the first maker writes that finds what it needs."""
        for make in makers:
            lines, matrices, used = len(self.lines), len(self.matrices), self.bytes
            with suppress(Retry):
                make()
                return
            del self.lines[lines:], self.matrices[matrices:]
            self.bytes = used

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def fits(self, component: ScalarType, bound: int) -> None:
        """Raise `Retry` for whole numbers that a type does not have all; those of integers wrap around."""
        if component.is_float and bound > 1 << component.mantissa:
            raise Retry

    def made(self, like: Matrix, bound: int, name: str, copies: int = 1) -> Matrix:
        """Add a value of the type of `like`, which takes the memory of so many."""
        self.fits(like.component, bound)
        self.bytes += copies * SUBGROUPS * like.component.bytes_of(like.rows * like.columns)
        if self.bytes > ROOM:
            raise Retry
        self.matrices.append(replace(like, name=name, bound=bound))
        return self.matrices[-1]

    def new(self, like: Matrix, bound: int, text: str) -> Matrix:
        """Add a value of the type of `like`, which a text with its type behind it defines."""
        made = self.made(like, bound, self.name())
        self.lines.append(f"{made.name} = {text} : {made.type}")
        return made

    def pick(self, fits: Callable[[Matrix], bool] = lambda matrix: True) -> Matrix:
        found = [matrix for matrix in self.matrices if fits(matrix)]
        if not found:
            raise Retry
        return self.random.choice(found)

    def pair(self) -> tuple[Matrix, Matrix]:
        """Return two values of one type."""
        first = self.pick()
        return first, self.pick(lambda each: each.type == first.type)

    def blank(self) -> Matrix:
        return Matrix("", self.random.choice(STORED), 1 << self.random.randint(0, 5), self.random.randint(1, COLUMNS),
                      self.random.choice(USES))

    # --- instructions ------------------------------------------------------------------------------------------------

    def load(self, like: Matrix | None = None) -> Matrix:
        like = like or self.blank()
        transpose, check = self.random.choice(("", ".n", ".t")), self.random.choice(("", ".both_checked"))
        extents = (like.columns, like.rows) if transpose == ".t" else (like.rows, like.columns)
        most = ROWS - extents[0], READ - extents[1]
        place = [self.random.randint(-3, 36) if check else self.random.randint(0, end) for end in most]
        word = self.random.choice(("load", "atomic_load")) if like.component.bits >= 32 else "load"
        indices = ", ".join(map(str, place))
        return self.new(like, 3, f"cooperative_matrix_{word}{transpose}{check} %x{like.component}[{indices}]")

    def constant(self) -> None:
        value = self.random.randint(0, 3)
        self.new(self.blank(), value, f"{self.random.choice(('constant', 'cooperative_matrix_construct'))} {value}")

    def construct(self) -> None:
        """Each sub-group fills its matrix with its number."""
        like = self.blank()
        number = f"%n{self.name()[1:]}"
        self.lines.append(f"{number} = cast %s : {like.component}")
        self.new(like, SUBGROUPS, f"cooperative_matrix_construct {number}")

    def binary(self) -> None:
        left, right = self.pair()
        bits = ["and", "or", "xor"] if left.component.is_integer else []
        kind = self.random.choice(["add", "sub", "mul", "min", "max", *bits])
        bound = left.bound * right.bound if kind == "mul" else left.bound + right.bound
        self.new(left, bound, f"{kind} {left.name}, {right.name}")

    def unary(self) -> None:
        matrix = self.pick()
        kind = self.random.choice(("neg", "abs", *(("not",) if matrix.component.is_integer else ())))
        self.new(matrix, matrix.bound + (kind == "not"), f"{kind} {matrix.name}")

    def cast(self) -> None:
        """Integers may have wrapped: they become integers again, as do floats that any of these has."""
        matrix = self.pick()
        integers = matrix.component.is_integer
        targets = [type for type in TYPES if (type.is_integer if integers else type.is_float)]
        use = self.random.choice(USES) if matrix.use == "acc" else matrix.use
        self.new(replace(matrix, component=self.random.choice(targets), use=use), matrix.bound, f"cast {matrix.name}")

    def product(self) -> None:
        added = self.pick(lambda each: each.use == "acc" and each.component in STORED)
        inner = 1 << self.random.randint(0, 3)
        a = self.load(Matrix("", added.component, added.rows, inner, "a"))
        b = self.load(Matrix("", added.component, inner, added.columns, "b"))
        self.new(added, added.bound + 9 * inner, f"cooperative_matrix_mul_add {a.name}, {b.name}, {added.name}")

    def scale(self) -> None:
        matrix, factor = self.pick(), self.random.randint(0, 3)
        self.new(matrix, factor * matrix.bound, f"cooperative_matrix_scale {factor}, {matrix.name}")

    def reduce(self) -> None:
        matrix, direction = self.pick(), self.random.choice(("row", "column"))
        like = replace(matrix, columns=1) if direction == "row" else replace(matrix, rows=1)
        kind = self.random.choice(("add", "max", "min"))
        self.new(like, matrix.bound * ROWS, f"cooperative_matrix_reduce_{kind}.{direction} {matrix.name}")

    def apply(self) -> None:
        """The body may use the number of the work-item that runs it."""
        first, second = self.pair()
        made = self.made(first, first.bound + second.bound + 64, self.name())
        index, n, t = self.random.choice(("%i", "%j", "%lane")), self.count, first.component
        self.lines.append(
            f"{made.name} = cooperative_matrix_apply (%i, %j, %p, %q)={first.name},{second.name} -> {first.type} {{ "
            f"%f{n} = cast {index} : {t} %g{n} = sub %p, %f{n} : {t} %h{n} = add %g{n}, %q : {t} yield (%h{n}) }}")

    def insert(self) -> None:
        source, target = self.pair()
        component = f"%e{self.name()[1:]}"
        self.lines.append(f"{component} = cooperative_matrix_extract {source.name}[0] : {source.component}")
        self.new(target, max(source.bound, target.bound), f"cooperative_matrix_insert {component}, {target.name}[0]")

    def branch(self) -> None:
        first, second = self.pair()
        made = self.made(first, max(2 * first.bound, second.bound), self.name(), copies=2)
        self.lines.append(f"{made.name} = if %odd -> ({first.type}) {{ %d = add {first.name}, {first.name} : "
                          f"{first.type} yield (%d) }} else {{ yield ({second.name}) }}")

    def loop(self) -> None:
        """Some loops pass two matrices on crosswise, and sub-groups leave them at different times."""
        first, second = self.pair()
        bound = 4 * (first.bound + second.bound)
        names = [self.made(first, bound, self.name(), copies=2).name for _ in range(2)]
        yielded = self.random.choice(("%b, %c", "%c, %b", "%c, %a", "%a, %c"))
        self.lines.append(f"{names[0]}, {names[1]} = for %k = %zero, {self.random.choice(('%two', '%parity'))} "
                          f"init(%a={first.name}, %b={second.name}) -> ({first.type}, {first.type}) {{ "
                          f"%c = add %a, %b : {first.type} yield ({yielded}) }}")

    def store(self, matrix: Matrix) -> None:
        if matrix.component not in STORED or self.slots[matrix.component] == SLOTS:
            return
        row, self.slots[matrix.component] = ROWS * self.slots[matrix.component], self.slots[matrix.component] + 1
        place = f"%r{self.name()[1:]}"
        self.lines += [f"{place} = constant {row} : index",
                       f"cooperative_matrix_store {matrix.name}, %z{matrix.component}[{place}, %o]"]
