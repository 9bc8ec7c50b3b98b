"""Random programs whose views and elements are checked at run time, with several sub-groups, against the interpreter.

``python -m tests.differential.checked_programs FIRST COUNT`` prints each seed before it runs it, so that the last line
names the program on which the process died.  It exits with 1 where a result is wrong.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field

import numpy as np

import tl_dpnp
from tests.differential.device import queue
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: Work-group and sub-group sizes: one sub-group, several along each mode, and the sub-group sizes of CPUs.
SIZES = [((64, 2), 16), ((48, 3), 16), ((64, 1), 16), ((64, 4), 8), ((128, 2), 32), ((32, 8), 8), ((64, 3), 32),
         ((80, 1), 16), ((24, 3), 8), ((16, 1), 16), ((32, 2), 16)]
_DTYPES = {"i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64"}


@dataclass
class CheckedProgram:
    """Instructions on small matrices: D is m x n, p a group of such with another stride, t and w are temporaries."""

    seed: int
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.type = self.random.choice(list(_DTYPES))
        self.m, self.n = self.random.randint(1, 24), self.random.randint(1, 24)
        self.stride = self.m + self.random.randint(0, 4)
        self.element = f"memref<{self.type}x{self.m}x{self.n},strided<1,{self.stride}>>"
        self.matrix, self.transposed = self.memref(self.m, self.n), self.memref(self.n, self.m)
        self.row, self.column = self.memref(self.n), self.memref(self.m)
        self.count, self.loaded = 0, ""
        self.lines += [f"%t = alloca -> {self.transposed}", f"%w = alloca -> {self.row}", "%g = group_id"]
        first = [self.gemv, self.transpose]
        self.random.shuffle(first)
        further = [self.add, self.add_row, self.add_column, self.multiply, self.sum, self.outer, self.scale, self.copy]
        for write in (*first, *self.random.choices(further, k=self.random.randint(1, 5))):
            write()

    @property
    def source(self) -> str:
        """The text of the function."""
        (rows, columns), lanes = SIZES[self.seed % len(SIZES)]
        parameters = (f"%n: index, %x: {self.column}, %y: {self.row}, %z: {self.memref(self.m, 2)}, "
                      f"%p: group<{self.element}>, %D: {self.matrix}")
        attributes = f"work_group_size({rows},{columns}) subgroup_size({lanes})"
        return "\n  ".join([f"func @f({parameters}) {attributes} {{", *self.lines]) + "\n}"

    def disagreements(self, debug: bool = True) -> list[str]:
        """Run the program on the device, and return the arrays that the interpreter leaves otherwise."""
        numbers = np.random.default_rng(self.seed)
        shapes = [(self.m,), (self.n,), (self.m, 2), (self.stride, self.n), (self.m, self.n)]
        host = [np.asfortranarray(numbers.integers(-3, 4, shape)).astype(_DTYPES[self.type], order="F")
                for shape in shapes]
        device = [dpt.asarray(array, order="F", sycl_queue=queue()) for array in host]
        size = int(numbers.integers(1, min(self.m, self.n) + 1))
        kernel = tl_dpnp.compile(self.source, form="subgroup", cache=False, debug=debug)
        kernel(size, *device[:3], [device[3][: self.m]], device[4], group_size=1)
        (function,) = parse(self.source)
        interpret(function, [size, *host[:3], [host[3][: self.m]], host[4]], 1)
        return [name for name, expected, actual in zip("xyzpD", host, device, strict=True)
                if not np.allclose(expected, dpt.asnumpy(actual), rtol=1e-4)]

    # --- text --------------------------------------------------------------------------------------------------------

    def memref(self, *shape: int) -> str:
        return f"memref<{self.type}{''.join(f'x{size}' for size in shape)}>"

    def number(self, *choices: int) -> str:
        value = self.random.choice(choices or range(-2, 4))
        return str(value) if self.type[0] == "i" else f"{value}.0"

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def assign(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def element_of_group(self) -> str:
        """Load the work-group's element of the group, once."""
        self.loaded = self.loaded or self.assign(f"load %p[%g] : group<{self.element}>")
        return self.loaded

    def instruction(
        self, name: str, inputs: dict[str, str], beta: str, output: str, type_: str, alpha: str = ""
    ) -> None:
        self.lines.append(f"{name} {alpha or self.number()}, {', '.join(inputs)}, {beta}, {output} : {self.type}, "
                          f"{', '.join(inputs.values())}, {self.type}, {type_}")

    # --- what programs are made of -----------------------------------------------------------------------------------

    def gemv(self) -> None:
        self.instruction("gemv.t", {"%D": self.matrix, "%x": self.column}, self.number(0), "%w", self.row)

    def transpose(self) -> None:
        self.instruction("axpby.t", {"%D": self.matrix}, self.number(0), "%t", self.transposed)

    def add(self) -> None:
        self.instruction("axpby.n", {"%D": self.matrix}, self.number(1), self.element_of_group(), self.element)

    def add_row(self) -> None:
        element, from_row, to_row = self.element_of_group(), *map(self.random.randrange, (self.n, self.m))
        source = self.assign(f"subview %t[{from_row}:1,0:%n] : {self.transposed}")
        target = self.assign(f"subview {element}[{to_row}:1,0:%n] : {self.element}")
        narrow = [f"memref<{self.type}x1x?,strided<1,{stride}>>" for stride in (self.n, self.stride)]
        self.instruction("axpby.n", {source: narrow[0]}, self.number(1), target, narrow[1])

    def add_column(self) -> None:
        element, part = self.element_of_group(), f"memref<{self.type}x?>"
        source = self.assign(f"subview %x[0:%n] : {self.column}")
        target = self.assign(f"subview {element}[0:%n,%g] : {self.element}")
        self.instruction("axpby.n", {source: part}, self.number(1), target, part)

    def multiply(self) -> None:
        self.instruction("gemv.n", {"%t": self.transposed, "%x": self.column}, self.number(0, 1, 3), "%w", self.row)

    def sum(self) -> None:
        self.instruction("sum.n", {"%t": self.transposed}, self.number(0, 1, 3), "%w", self.row)

    def outer(self) -> None:
        self.instruction("ger", {"%x": self.column, "%w": self.row}, self.number(1), self.element_of_group(),
                         self.element)

    def scale(self) -> None:
        factor = self.assign(f"load %D[%g,%g] : {self.matrix}")
        self.instruction("axpby.n", {"%w": self.row}, self.number(0, 1, 3), "%y", self.row, factor)

    def copy(self) -> None:
        variable = self.fresh()
        self.lines.append(f"foreach {variable} = 0, %n {{")
        value = self.assign(f"load %x[{variable}] : {self.column}")
        self.lines += [f"store {value}, %z[{variable},%g] : {self.memref(self.m, 2)}", "}"]


def main(first: int, count: int) -> int:
    """Run programs and return the exit status."""
    status = 0
    for seed in range(first, first + count):
        print(f"seed {seed}, sizes {SIZES[seed % len(SIZES)]}", flush=True)
        program = CheckedProgram(seed)
        if found := program.disagreements():
            print(f"wrong: {', '.join(found)}\n{program.source}", flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
