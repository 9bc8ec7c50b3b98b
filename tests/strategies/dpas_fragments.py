"""Random programs whose cooperative matrices sub-groups with DPAS hold in registers, where messages can move blocks."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from dataclasses import replace

import numpy as np

from tests.strategies.abstract import Retry
from tests.strategies.fragments import FragmentProgram
from tests.strategies.matrices import SUBGROUPS, Matrix
from tests.strategies.values import fortran
from tl_dpnp.kernels.dpas.sums import LANES
from tl_dpnp.scalars import BF16, F16, F32, I8, I32, U8, ScalarType

__all__ = ["DpasFragmentProgram"]

#: The rows and columns that a sub-group stores of a matrix at most, how many of them, and those of what is read.
_ROWS, _COLUMNS, _SLOTS, _READ = 32, 32, 3, (128, 100)
#: Types of factors, the sums that DPAS makes of them, its terms, and what sums may be stored as.
_PRODUCTS = (((BF16, BF16), F32, 16), ((F16, F16), F32, 16), ((I8, I8), I32, 32), ((U8, I8), I32, 32),
             ((I8, U8), I32, 32))
_STORED = (BF16, F16, F32, I32)
_STORAGE = {"bf16": "uint16", "f16": "float16", "f32": "float32", "i32": "int32", "i8": "int8", "u8": "uint8"}


class DpasFragmentProgram(FragmentProgram):
    """See the module; all numbers are whole ones, which the sums have exactly."""

    read = _READ
    stored = _ROWS * _SLOTS, _COLUMNS

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.count = self.bytes = 0
        self.matrices: list[Matrix] = []
        self.factors, self.kept, self.terms = self.random.choice(_PRODUCTS)
        self.slots = dict.fromkeys(_STORED, 0)
        self.lines += ["%s = subgroup_linear_id : i32", "%n = cast %s : index",
                       f"%width = constant {_COLUMNS} : index", "%o = mul %n, %width : index",
                       "%two = constant 2 : i32", "%parity = rem %s, %two : i32", "%zero = constant 0 : i32",
                       "%odd = not_equal %parity, %zero : bool", "%inner = size %xf32[1] : index",
                       "%first = constant 0 : index"]
        makers = [self.binary, self.unary, self.scale, self.product, self.product, self.sum_up, self.sum_up,
                  self.branch, self.loop, self.load, self.constant, self.construct, self.apply,
                  self.reduce, self.reduce, self.spread, self.spread, self.spread]
        self.shape = self.random.choice((16, 32)), self.random.choice((8, 16, 24))
        self.constant()
        for _ in range(self.random.randint(2, 5)):
            self.first(self.random.sample(makers, k=len(makers)))
        self.first([self.product])
        with suppress(Retry):
            self.straight(random.Random(f"straight {self.seed}"))
        drawn, self.random = self.random, random.Random(f"turned {self.seed}")
        with suppress(Retry):
            self.turned()
        self.random = random.Random(f"rows {self.seed}")
        lines, matrices = len(self.lines), [*self.matrices]
        try:
            self.rows()
        except Retry:  # what is loaded for nothing would be in no registers
            del self.lines[lines:]
            self.matrices = matrices
        self.random = drawn
        for matrix in {id(each): each for each in (*self.matrices[-2:], *self.random.sample(
                self.matrices, k=min(len(self.matrices), 3)))}.values():
            self.store(matrix)

    @property
    def source(self) -> str:
        memory = f"x{self.read[0]}x?"
        types = [*_STORED, I8, U8]
        parameters = [f"%x{type}: memref<{type}{memory}>" for type in types]
        parameters += [f"%z{type}: memref<{type}x{self.stored[0]}x?>" for type in _STORED]
        return f"func @f({', '.join(parameters)}) {{ parallel {{\n" + "\n".join(self.lines) + "\n} }"

    def arguments(self) -> list[np.ndarray]:
        numbers, arrays = np.random.default_rng(self.seed), []
        for type in (*_STORED, I8, U8):
            values = numbers.integers(0 if type == U8 else -3, 4, self.read)
            arrays.append(_stored(values, type))
        return arrays + [_stored(np.zeros((self.stored[0], SUBGROUPS * _COLUMNS)), type) for type in _STORED]

    def blank(self) -> Matrix:
        return Matrix("", self.kept, *self.shape)

    def place(self, extents: tuple[int, int], multiple: int) -> tuple[str, str]:
        """Return a check and a place that may be outside of what is read where it is checked."""
        check = self.random.choice(("", ".both_checked"))
        most = [size if check else size - extent for size, extent in zip(_READ, extents, strict=True)]
        row = multiple * self.random.randint(0, most[0] // multiple)
        return check, f"{row}, {self.random.randint(0, most[1])}"

    def load(self, like: Matrix | None = None) -> Matrix:
        like = self.blank()
        letter = self.random.choice("nt")
        check, place = self.place(_extents(letter, like.rows, like.columns), 1)
        return self.new(like, 3, f"cooperative_matrix_load.{letter}{check} %x{like.component}[{place}]")

    def loaded(self, place: int, rows: int, columns: int, letter: str = "") -> str:
        """Return a factor of a product, which is loaded as it is in memory, or transposed."""
        type, name, letter = self.factors[place], self.name(), letter or self.random.choice("nt")
        check, where = self.place(_extents(letter, rows, columns), 4)
        self.lines.append(f"{name} = cooperative_matrix_load.{letter}{check} %x{type}[{where}] : "
                          f"coopmatrix<{type}x{rows}x{columns},matrix_{'ab'[place]}>")
        return name

    def product(self) -> None:
        """A product of factors that are loaded, or rounded from matrices that were computed."""
        added, inner = self.pick(_is_whole), self.terms * self.random.randint(1, 2)
        computed = [each for each in self.matrices if each.component == F32 and each.bound <= 128 and _is_whole(each)]
        firsts = [each for each in computed if (each.rows, each.columns) == (added.rows, self.terms)]
        if firsts and self.random.random() < 0.5:
            inner = self.terms
        else:
            firsts = []
        seconds = [each for each in computed if (each.rows, each.columns) == (inner, added.columns)]
        sources = firsts, seconds if seconds and self.random.random() < 0.5 else []
        bound, names = inner, []
        for place, (rows, columns) in enumerate(((added.rows, inner), (inner, added.columns))):
            found = self.random.choice(sources[place]) if sources[place] else None
            bound *= 3 if found is None else found.bound
            if found is None:
                names.append(self.loaded(place, rows, columns))
                continue
            names.append(self.name())
            self.lines.append(f"{names[-1]} = cast {found.name} : "
                              f"coopmatrix<{self.factors[place]}x{rows}x{columns},matrix_{'ab'[place]}>")
        self.new(added, added.bound + bound, f"cooperative_matrix_mul_add {names[0]}, {names[1]}, {added.name}")

    def sum_up(self) -> None:
        """A loop over all columns of what is read, the last factors of which are cut off.

        Where it does nothing but add products, it may be unrolled.
        """
        added, inner, types = self.pick(_is_whole), self.terms, self.factors
        made = self.made(added, added.bound + 9 * 132, self.name())
        a, b = (f"coopmatrix<{type}x{rows}x{columns},matrix_{use}>" for type, rows, columns, use in (
            (types[0], added.rows, inner, "a"), (types[1], inner, added.columns, "b")))
        row, letter, column = 4 * self.random.randint(0, 20), self.random.choice("nt"), 4 * self.random.randint(0, 20)
        place = f"{column}, %k" if letter == "t" else f"%k, {column}"
        first, stop = self.random.choice((("%first", "%inner"),) * 2 + ((0, 4 * self.random.randint(1, 33)),
                                                                      (4 * self.random.randint(0, 9), "%inner")))
        yielded = self.random.choice(("%d", "%d", "%e"))
        largest = f"%e = max %d, %c : {added.type} " if yielded == "%e" or self.random.random() < 0.3 else ""
        self.lines.append(
            f"{made.name} = for %k = {first}, {stop}, {inner} init(%c={added.name}) -> ({added.type}) {{ "
            f"%a = cooperative_matrix_load.both_checked %x{types[0]}[{row}, %k] : {a} "
            f"%b = cooperative_matrix_load.{letter}.both_checked %x{types[1]}[{place}] : {b} "
            f"%d = cooperative_matrix_mul_add %a, %b, %c : {added.type} "
            f"{largest}yield ({yielded}) }}")

    def reduce(self) -> None:
        matrix, kind = self.pick(_is_whole), self.random.choice(("add", "max", "min"))
        bound = matrix.bound * (matrix.columns if kind == "add" else 1)
        self.new(replace(matrix, columns=1), bound, f"cooperative_matrix_reduce_{kind}.row {matrix.name}")

    def spread(self) -> None:
        """The product of a column and a row of equal numbers, added to a matrix, or to a constant one."""
        column, factor = self.pick(lambda matrix: matrix.columns == 1), self.random.choice((1, 1, 2, 0))
        added = self.pick(_is_whole)
        a, b, c = self.name(), self.name(), added.name
        self.lines += [f"{a} = cast {column.name} : {replace(column, use='a').type}",
                       f"{b} = constant {factor} : {Matrix('', added.component, 1, added.columns, 'b').type}"]
        if self.random.random() < 0.5:
            c = self.name()
            self.lines.append(f"{c} = constant {self.random.randint(0, 2)} : {added.type}")
        self.new(added, added.bound + 2 * column.bound + 2, f"cooperative_matrix_mul_add {a}, {b}, {c}")

    def straight(self, random: random.Random) -> None:
        """A body of instructions that registers have; drawn by itself, so that it changes no programs but by more.

        Operands are components of two matrices, whose rows may be equal, what was computed before, a number of the
        sub-group, and known ones.
        """
        first = random.choice([each for each in self.matrices if each.columns > 1])
        second = random.choice([each for each in self.matrices if (each.component, each.rows, each.columns) == (
            first.component, first.rows, first.columns)])
        n, t = self.name()[1:], first.component
        bounds, body = {"%p": first.bound, "%q": second.bound, f"%u{n}": SUBGROUPS, "2": 2, "-1": 1}, list[str]()
        kinds = ["add", "sub", "min", "max", "add", "sub", *(("mul", "fma", "exp2") if t == F32 else ())]
        last = "%p"
        for place in range(random.randint(1, 4)):
            kind, name = random.choice(kinds), f"%w{n}_{place}"
            operands = [last, *(random.choice([*bounds]) for _ in range({"fma": 2, "exp2": 0}.get(kind, 1)))]
            random.shuffle(operands)
            sizes = [bounds[each] for each in operands]
            bounds[name] = 32 if kind == "exp2" else math.prod(sizes) if kind == "mul" else sum(sizes)
            if kind == "fma":
                bounds[name] = sizes[0] * sizes[1] + sizes[2]
            self.fits(t, bounds[name])
            if kind == "exp2":  # of what gives whole numbers
                body += [f"%l{name[1:]} = max {last}, 0 : {t}", f"%m{name[1:]} = min %l{name[1:]}, 5 : {t}"]
                operands = [f"%m{name[1:]}"]
            body.append(f"{name} = {'math.' * (kind == 'fma')}{kind} {', '.join(operands)} : {t}")
            last = name
        made = self.made(first, bounds[last], self.name())
        self.lines += [f"%u{n} = cast %s : {t}",
                       f"{made.name} = cooperative_matrix_apply (%i, %j, %p, %q)={first.name},{second.name} -> "
                       f"{first.type} {{ {' '.join(body)} yield ({last}) }}"]

    def turned(self) -> None:
        """A product whose second factor has columns that follow one another in memory, and what is computed of it.

        Registers may have columns in another order then; drawn by itself, too.
        """
        if self.factors[0].bits != F16.bits:
            raise Retry
        inner = self.terms * self.random.randint(1, 2)
        blank = Matrix("", self.kept, LANES * self.random.randint(1, 2), self.random.choice((16, 32, 24)), "acc")
        number = self.random.randint(0, 3)
        matrix = self.new(blank, number, f"cooperative_matrix_construct {number}")
        for _ in range(self.random.randint(1, 2)):
            a, b = self.loaded(0, blank.rows, inner), self.loaded(1, inner, blank.columns, "t")
            matrix = self.new(blank, matrix.bound + 9 * inner, f"cooperative_matrix_mul_add {a}, {b}, {matrix.name}")
        t, kinds = self.kept, self.random.sample(("apply", "if", "spread", "reduce"), k=self.random.randint(1, 4))
        for kind in kinds:
            name = self.name()
            if kind == "apply":
                made, n = self.made(blank, matrix.bound + 64, name), name[1:]
                self.lines.append(
                    f"{name} = cooperative_matrix_apply (%i, %j, %p)={matrix.name} -> {blank.type} {{ "
                    f"%j{n} = cast %j : {t} %g{n} = sub %p, %j{n} : {t} yield (%g{n}) }}")
            elif kind == "if":
                made = self.made(blank, 2 * matrix.bound, name)
                self.lines.append(f"{name} = if %odd -> ({blank.type}) {{ %d = add {matrix.name}, {matrix.name} : "
                                  f"{blank.type} yield (%d) }} else {{ yield ({matrix.name}) }}")
            elif kind == "spread":
                column, spread = (replace(blank, columns=1, use=use).type for use in ("acc", "a"))
                made = self.made(blank, 2 * matrix.bound, name)
                self.lines += [f"{name}_c = cooperative_matrix_reduce_max.row {matrix.name} : {column}",
                               f"{name}_a = cast {name}_c : {spread}",
                               f"{name}_b = constant 1 : {replace(blank, rows=1, use='b').type}",
                               f"{name} = cooperative_matrix_mul_add {name}_a, {name}_b, {matrix.name} : {blank.type}"]
            else:
                self.store(self.new(replace(blank, columns=1), matrix.bound * matrix.columns,
                                    f"cooperative_matrix_reduce_add.row {matrix.name}"), "t")
                continue
            matrix = made
        self.store(matrix, self.random.choice("tttn"))

    def rows(self) -> None:
        """Columns that are reduced to a row, which is spread over a matrix, and a product that is added to that.

        What is added may be used once more; a branch is taken by the largest component of the row.
        """
        source, kind = self.pick(_is_whole), self.random.choice(("add", "max", "min"))
        factor, t, n = self.random.choice((1, 2)), source.component, self.name()
        rows, columns, inner = source.rows, source.columns, self.terms * self.random.randint(1, 2)
        bound = 2 * source.bound * (rows if kind == "add" else 1)
        row, row_b, ones, one = (Matrix("", t, *shape, use).type for shape, use in (
            ((1, columns), "acc"), ((1, columns), "b"), ((rows, 1), "a"), ((1, 1), "acc")))
        added, total = source.name, source.bound
        if self.random.random() < 0.6:
            added, total = f"{n}_c", 1
            self.lines.append(f"{added} = constant {self.random.randint(0, 1)} : {source.type}")
        self.fits(t, factor * bound + total)
        changed = self.random.choice(("neg {0}", "add {0}, {0}", "max {0}, {0}")).format(f"{n}_q")
        self.lines += [f"{n}_q = cooperative_matrix_reduce_{kind}.column {source.name} : {row}",
                       f"{n}_r = {changed} : {row}",
                       f"{n}_b = cast {n}_r : {row_b}", f"{n}_o = constant {factor} : {ones}",
                       f"{n}_m = cooperative_matrix_mul_add {n}_o, {n}_b, {added} : {source.type}"]
        spread = Matrix(f"{n}_m", t, rows, columns, source.use, factor * bound + total)
        a, b = self.loaded(0, rows, inner), self.loaded(1, inner, columns)
        made = self.made(source, spread.bound + 9 * inner, f"{n}_p")
        self.lines.append(f"{made.name} = cooperative_matrix_mul_add {a}, {b}, {spread.name} : {source.type}")
        if self.random.random() < 0.5:
            both = self.made(source, made.bound + spread.bound, f"{n}_s")
            self.lines.append(f"{both.name} = add {made.name}, {spread.name} : {source.type}")
            made = both
        last = self.made(source, 2 * made.bound, f"{n}_l")
        self.lines += [f"{n}_t = cooperative_matrix_reduce_max.row {n}_q : {one}",
                       f"{n}_e = cooperative_matrix_extract {n}_t[0] : {t}", f"{n}_u = subgroup_reduce_max {n}_e : {t}",
                       f"{n}_y = greater_than {n}_u, {self.random.randint(0, 9)} : bool",
                       f"{last.name} = if {n}_y -> ({source.type}) {{ {n}_d = add {made.name}, {made.name} : "
                       f"{source.type} yield ({n}_d) }} else {{ yield ({made.name}) }}"]
        self.store(last)

    def store(self, matrix: Matrix, letter: str = "") -> None:
        types = [type for type in _STORED if type.is_float == matrix.component.is_float
                 and self.slots[type] < _SLOTS and (_is_whole(matrix) or type == matrix.component)
                 and (type.is_integer or matrix.bound <= 1 << type.mantissa)]
        if not types:
            return
        type = self.random.choice(types)
        if type != matrix.component:
            lines = len(self.lines)
            with suppress(Retry):
                matrix = self.new(Matrix("", type, matrix.rows, matrix.columns), matrix.bound, f"cast {matrix.name}")
            if len(self.lines) == lines:
                return
        row, self.slots[type] = _ROWS * self.slots[type], self.slots[type] + 1
        check, letter = self.random.choice(("", ".both_checked")), letter or self.random.choice("nt")
        self.lines.append(f"cooperative_matrix_store.{letter}{check} {matrix.name}, %z{type}[{row}, %o]")


def _extents(letter: str, rows: int, columns: int) -> tuple[int, int]:
    """Return how many elements a matrix has along the modes of memory."""
    return (columns, rows) if letter == "t" else (rows, columns)


def _is_whole(matrix: Matrix) -> bool:
    return matrix.columns > 1


def _stored(numbers: np.ndarray, type: ScalarType) -> np.ndarray:
    """Return an array of whole numbers as memrefs have it."""
    if type == BF16:
        return fortran(numbers.astype("f4").view("u4") >> 16, "uint16")
    return fortran(numbers, _STORAGE[type.name])
