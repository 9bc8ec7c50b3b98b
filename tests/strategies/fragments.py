"""Random programs whose cooperative matrices are of whole blocks, so that CUDA devices hold them in registers."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.strategies.abstract import Retry
from tests.strategies.matrices import STORED, Matrix, MatrixProgram
from tl_dpnp.scalars import BF16, F32, F64, I8, I32, U8, U32

__all__ = ["FragmentProgram"]

#: The rows and columns that a sub-group stores at most, those of what is read, and how many matrices it may store.
_ROWS, _COLUMNS, _READ, _SLOTS = 32, 24, 48, 2
#: Types of factors and of the sums that tensor cores make of them; f32 with less than the highest precision.
_PRODUCTS = ((BF16, F32), (BF16, BF16), (F64, F64), (I8, I32), (U8, U32), (U8, I32), (F32, F32))


class FragmentProgram(MatrixProgram):
    """See the module; what it computes does not depend on the work-item, and is a whole number.

    Factors are what was loaded or what was computed before, so that some matrices are sums and factors.
    """

    #: Columns at odd distances are no multiples of what a work-item accesses at once.
    read = _READ, _READ + 1
    stored = _ROWS * _SLOTS, _COLUMNS

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.precision = self.random.choice(("highest", "high", "default"))
        self.count = self.bytes = 0
        self.matrices: list[Matrix] = []
        self.slots = dict.fromkeys(STORED, 0)
        self.lines += ["%s = subgroup_linear_id : i32", "%n = cast %s : index",
                       f"%width = constant {_COLUMNS} : index", "%o = mul %n, %width : index",
                       "%two = constant 2 : i32", "%parity = rem %s, %two : i32", "%zero = constant 0 : i32",
                       "%odd = not_equal %parity, %zero : bool"]
        makers = [self.binary, self.unary, self.cast, self.product, self.product, self.product, self.scale, self.apply,
                  self.branch, self.loop, self.load, self.constant, self.construct]
        sums = self.random.choice([kept for factor, kept in _PRODUCTS if factor != F32 or self.precision != "highest"])
        self.factor(Matrix("", sums, self.random.choice((8, 16, 32)), self.random.choice((8, 16, 24)), "acc"))
        for _ in range(self.random.randint(2, 5)):
            self.first(self.random.sample(makers, k=len(makers)))
            with suppress(Retry):
                self.product()
        for matrix in [*self.matrices[-3:], *self.random.sample(self.matrices, k=min(len(self.matrices), 4))]:
            self.store(matrix)
        if not any(self.slots.values()):
            self.store(next(matrix for matrix in self.matrices if matrix.component in STORED))

    def made(self, like: Matrix, bound: int, name: str, copies: int = 1) -> Matrix:
        self.fits(like.component, bound)
        self.bytes += copies * like.component.bytes_of(like.rows * like.columns)
        if self.bytes > 16 << 10:
            raise Retry
        self.matrices.append(Matrix(name, like.component, like.rows, like.columns, like.use, bound))
        return self.matrices[-1]

    def blank(self) -> Matrix:
        return Matrix("", self.random.choice(STORED), self.random.choice((8, 16, 32)),
                      self.random.choice((8, 16, 24)), self.random.choice(("a", "b", "acc")))

    def load(self, like: Matrix | None = None) -> Matrix:
        like = like or self.blank()
        transpose, check = self.random.choice(("", ".n", ".t")), self.random.choice(("", "", ".both_checked"))
        extents = (like.columns, like.rows) if transpose == ".t" else (like.rows, like.columns)
        most = _READ - extents[0], _READ + 1 - extents[1]
        place = [self.random.randint(-9, 50) if check else self.random.choice((0, 8 * (end // 8),
                 self.random.randint(0, end))) for end in most]
        indices = ", ".join(map(str, place))
        return self.new(like, 3, f"cooperative_matrix_load{transpose}{check} %x{like.component}[{indices}]")

    def product(self) -> None:
        factor, kept = self.random.choice(_PRODUCTS)
        if factor == F32 and self.precision == "highest":
            raise Retry
        added = self.pick(lambda each: each.use == "acc" and each.component == kept)
        inner = self.random.choice((8, 16, 32) if factor.bits > 8 else (16, 32))
        a = self.factor(Matrix("", factor, added.rows, inner, "a"))
        b = self.factor(Matrix("", factor, inner, added.columns, "b"))
        self.new(added, added.bound + a.bound * b.bound * a.columns,
                 f"cooperative_matrix_mul_add {a.name}, {b.name}, {added.name}")

    def factor(self, like: Matrix) -> Matrix:
        """Return a factor: one of those that there are, of a bound that no rounding loses, or a new one."""
        found = [each for each in self.matrices if (each.component, each.rows, each.columns) == (
            like.component, like.rows, like.columns) and each.use in (like.use, "acc") and each.bound <= 256]
        if found and self.random.random() < 0.7:
            matrix = self.random.choice(found)
            if matrix.use == like.use:
                return matrix
            return self.new(like, matrix.bound, f"cast {matrix.name}")
        if like.component in STORED:
            return self.load(like)
        return self.new(like, 3, f"cast {self.load(Matrix('', F32, like.rows, like.columns, like.use)).name}")

    def apply(self) -> None:
        first, second = self.pair()
        made = self.made(first, first.bound + second.bound + 64, self.name())
        index, n, t = self.random.choice(("%i", "%j", "%s")), self.count, first.component
        self.lines.append(
            f"{made.name} = cooperative_matrix_apply (%i, %j, %p, %q)={first.name},{second.name} -> {first.type} {{ "
            f"%f{n} = cast {index} : {t} %g{n} = sub %p, %f{n} : {t} %h{n} = add %g{n}, %q : {t} yield (%h{n}) }}")

    def store(self, matrix: Matrix) -> None:
        if matrix.component not in STORED or self.slots[matrix.component] == _SLOTS or matrix.columns > _COLUMNS:
            return
        row, self.slots[matrix.component] = _ROWS * self.slots[matrix.component], self.slots[matrix.component] + 1
        place, check = f"%r{self.name()[1:]}", self.random.choice(("", ".both_checked"))
        self.lines += [f"{place} = constant {row} : index",
                       f"cooperative_matrix_store{check} {matrix.name}, %z{matrix.component}[{place}, %o]"]
