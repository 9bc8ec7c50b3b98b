"""Which instruction of an engine a loop stands for, and the multiplication in loops that all of them are put on."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple, TypeVar

from tl_dpnp.kernels import simd_rows
from tl_dpnp.kernels.amx.micro_kernel import TileKernel, tile_kernel_named
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel, micro_kernel_named
from tl_dpnp.kernels.instructions import MatrixInstruction
from tl_dpnp.kernels.mma import rows as mma_rows
from tl_dpnp.lowering.expressions import Access, Convert, Expression, MultiplyAdd
from tl_dpnp.lowering.nest import Assign, Loop, Nest

__all__ = ["Multiplication", "instruction_named", "instruction_of", "multiplication_in", "whole_instruction"]

_Kind = TypeVar("_Kind", bound="MatrixInstruction | MicroKernel | TileKernel")


@functools.cache
def instruction_named(name: str) -> MatrixInstruction | MicroKernel | TileKernel | None:
    """Return what `tensorize` knows by a name: a row, or a micro-kernel, which computes a whole product by one."""
    return (simd_rows.ROWS.get(name) or mma_rows.ROWS.get(name) or micro_kernel_named(name)
            or tile_kernel_named(name))


def instruction_of(loop: Loop, kind: type[_Kind]) -> _Kind | None:
    """Return what a loop is tensorized to, if it is something of a kind."""
    found = None if loop.instruction is None else instruction_named(loop.instruction)
    return found if isinstance(found, kind) else None


def whole_instruction(nest: Nest, kind: type[_Kind]) -> _Kind | None:
    """Return what computes a whole nest, if it is something of a kind."""
    match nest.body:
        case (Loop() as loop,):
            return instruction_of(loop, kind)
    return None


class Multiplication(NamedTuple):
    """A part of a nest that adds ``A[m, k] * B[k, n]`` to ``C[m, n]``: what an instruction means, whatever its sizes.

    `loops` are those that it consists of, outermost first.  `left` and `right` are the factors, which read `a` and `b`.
    Around the loop over the sum there may be what begins it, and what is done with it in the end, `finish`.
    """

    loops: tuple[Loop, ...]
    update: Assign
    left: Expression
    right: Expression
    a: Access
    b: Access
    finish: Assign | None = None

    @property
    def target(self) -> Access:
        """The element of C."""
        return self.update.target

    @property
    def m(self) -> Loop | None:
        """The loop over the rows of A and C, None where there is one row, or several such loops."""
        return self._loop(self.a, self.target, self.b)

    @property
    def n(self) -> Loop | None:
        """The loop over the columns of B and C."""
        return self._loop(self.b, self.target, self.a)

    @property
    def k(self) -> Loop | None:
        """The loop over the sum."""
        return self._loop(self.a, self.b, self.target)

    def _loop(self, one: Access, other: Access, neither: Access) -> Loop | None:
        found = [loop for loop in self.loops
                 if _reads(one, loop) and _reads(other, loop) and not _reads(neither, loop)]
        return found[0] if len(found) == 1 else None

    def is_plain(self, *kinds: str) -> bool:
        """Whether the loops are of these kinds, without guards, and nothing is derived from them."""
        return all(loop.kind in kinds and not (loop.guards or loop.derived or loop.pipelined) for loop in self.loops)

    def tensorized(self, instruction: str, order: tuple[Loop, ...] = ()) -> Loop:
        """Return the loops as one instruction; in another order where nothing but loops is around the innermost one."""
        body = self.loops[-1].body
        for place, loop in reversed(list(enumerate(order or self.loops))):
            loop = replace(loop, kind="tensorized", body=body)
            if place:
                body = tuple(loop if node == self.loops[place] else node for node in self.loops[place - 1].body)
        return replace(loop, instruction=instruction)


def multiplication_in(loop: Loop) -> Multiplication | None:
    """Return the multiplication that a loop and those inside it are, None where they are none."""
    loops = [loop]
    finish: Assign | None = None
    while True:
        match loops[-1].body:
            case (Loop() as inner,):
                loops.append(inner)
            case (Assign(part="init"), Loop(body=(Assign(),)) as inner, Assign() as last):
                loops.append(inner)
                finish = last
            case (Assign(target, MultiplyAdd(left, right, addend), "update", "set") as update,) if addend == target:
                a, b = _element(left), _element(right)
                return None if a is None or b is None else Multiplication(
                    tuple(loops), update, left, right, a, b, finish)
            case _:
                return None


def _element(factor: Expression) -> Access | None:
    match factor:
        case (Access() as access) | Convert(Access() as access):
            return access
    return None


def _reads(access: Access, loop: Loop) -> bool:
    return any(loop.variable in index for index in access.indices)
