"""Linear algebra on every pair of integer types, with several factors, for the CUDA target."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from tl_dpnp.scalars import SCALAR_TYPES, ScalarType, is_lossless

__all__ = ["INSTRUCTIONS", "TYPES", "IntegerProgram", "programs"]

TYPES = [SCALAR_TYPES[name] for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")]
#: Instruction, and the shapes of its inputs and its output.
INSTRUCTIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "gemm.n.n": ((5, 4), (4, 3), (5, 3)), "gemm.t.n": ((7, 5), (7, 3), (5, 3)), "gemv.n": ((5, 4), (4,), (5,)),
    "gemv.t": ((8, 5), (8,), (5,)), "ger": ((5,), (3,), (5, 3)), "hadamard": ((6,), (6,), (6,)),
    "sum.n": ((5, 4), (5,)), "sum.t": ((4, 5), (5,)), "axpby.n": ((5, 4), (5, 4)), "axpby.t": ((5, 4), (4, 5)),
}


@dataclass(frozen=True)
class IntegerProgram:
    """One instruction with every pair of factors, each on a slice of `%C`; the inputs have the types `inputs`.

    `%s` is −1, or the largest value of an unsigned type.
    """

    instruction: str
    inputs: tuple[ScalarType, ...]
    output: ScalarType

    @property
    def factors(self) -> list[tuple[str, str]]:
        """The pairs of alpha and beta; a constant is at most 2⁶³ − 1."""
        last = -1 if self.output.kind == "signed" else min(self.output.maximum, 2**63 - 1)
        numbers = [str(last), "0", "1", "3"]
        return [*product(numbers, numbers), ("%s", "%s"), ("%s", "0"), ("1", "%s")]

    @property
    def source(self) -> str:
        """The text of the function."""
        *shapes, shape = INSTRUCTIONS[self.instruction]

        def memref(type_: ScalarType, *sizes: int) -> str:
            return f"memref<{type_}{''.join(f'x{size}' for size in sizes)}>"

        types = [memref(type_, *sizes) for type_, sizes in zip(self.inputs, shapes, strict=True)]
        names = ["%A", "%B"][: len(types)]
        whole, part = memref(self.output, *shape, len(self.factors)), memref(self.output, *shape)
        lines = []
        for number, (alpha, beta) in enumerate(self.factors):
            lines.append(f"%c{number} = subview %C[{':, ' * len(shape)}{number}] : {whole}")
            lines.append(f"{self.instruction} {alpha}, {', '.join(names)}, {beta}, %c{number} : {self.output}, "
                         f"{', '.join(types)}, {self.output}, {part}")
        parameters = [f"{name}: {type_}" for name, type_ in zip(names, types, strict=True)]
        return "\n  ".join([f"func @f(%s: {self.output}, {', '.join(parameters)}, %C: {whole}) {{", *lines]) + "\n}"

    def arguments(self, seed: int = 0) -> list[int | np.ndarray]:
        """Return values of all sizes, the ends of the types among them."""
        numbers = np.random.default_rng(seed)
        *shapes, shape = INSTRUCTIONS[self.instruction]
        arrays = []
        for type_, sizes in zip((*self.inputs, self.output), (*shapes, (*shape, len(self.factors))), strict=True):
            array = numbers.integers(type_.minimum, type_.maximum, sizes, type_.storage, endpoint=True)
            ends = numbers.random(sizes)
            array[ends < 0.2], array[ends > 0.8] = type_.minimum, type_.maximum
            arrays.append(np.asfortranarray(array))
        return [-1 if self.output.kind == "signed" else self.output.maximum, *arrays]


def programs(instruction: str, output: ScalarType) -> list[IntegerProgram]:
    """Return a program for each choice of input types that convert to `output` without loss."""
    types = [type_ for type_ in TYPES if is_lossless(type_, output)]
    return [IntegerProgram(instruction, inputs, output)
            for inputs in product(types, repeat=len(INSTRUCTIONS[instruction]) - 1)]
