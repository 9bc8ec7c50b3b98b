"""An `IRBuilder` that computes instead of writing: values are arrays with an element for each thread of a block.

It knows the instructions that products by warps are written in, on one memory of whole elements.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, LOCAL
from tl_dpnp.kernels.mma import operands, padded_product
from tl_dpnp.kernels.mma.operands import Finish, Matrix
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.mma.rows import LANES, MmaRow

__all__ = ["compute"]

Array = np.ndarray[Any, Any]
_TYPES = {"float64": ir.DoubleType(), "float32": ir.FloatType(), "float16": ir.HalfType()}
_COMPARISONS = {"<": operator.lt, ">=": operator.ge}


@dataclass
class _Value:
    type: ir.Type
    data: Array


@dataclass
class _Stored:
    align: int = 1


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., _Value]:
    return lambda self, a, b: _Value(a.type, function(self.data(a), self.data(b)))


@dataclass
class _Lockstep:
    memory: dict[str, Array]
    warps: int
    team: int
    active: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        self.active = [np.ones(LANES * self.warps, bool)]

    add, mul, urem, udiv = (_binary(f) for f in (operator.add, operator.mul, operator.mod, operator.floordiv))
    lshr, shl, and_, or_, xor = (
        _binary(f) for f in (operator.rshift, operator.lshift, operator.and_, operator.or_, operator.xor))

    def data(self, value: Any) -> Array:
        return value.data if isinstance(value, _Value) else np.full(LANES * self.warps, value.constant or 0)

    def register(self, name: str) -> _Value:
        warp, lane = divmod(np.arange(LANES * self.warps), LANES)
        return _Value(I64, {"tid.x": lane, "tid.y": warp % self.team, "tid.z": warp // self.team}[name])

    def icmp_unsigned(self, kind: str, a: Any, b: Any) -> _Value:
        return _Value(ir.IntType(1), _COMPARISONS[kind](self.data(a), self.data(b)))

    def select(self, condition: Any, a: Any, b: Any) -> _Value:
        return _Value(a.type, np.where(self.data(condition), self.data(a), self.data(b)))

    def if_then(self, condition: Any, body: Callable[[], None]) -> None:
        self.active.append(self.active[-1] & self.data(condition))
        body()
        self.active.pop()

    def gep(self, pointer: Any, indices: Sequence[Any]) -> _Value:
        return _Value(pointer.type, pointer.data + self.data(indices[0]))

    def bitcast(self, value: Any, type_: ir.Type) -> _Value:
        """Pointers count elements, whatever they point to."""
        if isinstance(type_, ir.PointerType):
            return _Value(type_, self.data(value))
        return _Value(type_, self.data(value).astype(np.float16).view(np.uint16))

    def zext(self, value: Any, type_: ir.Type) -> _Value:
        return _Value(type_, value.data.astype(np.int64))

    def trunc(self, value: Any, type_: ir.Type) -> _Value:
        data = self.data(value)
        assert (data >= 0).all()
        assert (data < 1 << type_.width).all(), "numbers of tiles and lines have 32 bits"
        return _Value(type_, data)

    def load(self, pointer: Any, align: int = 1) -> _Value:
        memory, type_ = self.memory[self._memory(pointer)], pointer.type.pointee
        places = np.where(self.active[-1], pointer.data, 0)
        assert places.min() >= 0
        if isinstance(type_, ir.VectorType):
            assert not (places % 2).any()
            return _Value(type_, np.stack([memory[places], memory[places + 1]]))
        if type_ == I32:
            assert not (places % 2).any()
            low, high = (memory[places + part].view(np.uint16).astype(np.int64) for part in (0, 1))
            return _Value(type_, low | high << 16)
        return _Value(type_, memory[places])

    def store(self, value: Any, pointer: Any) -> _Stored:
        memory, active = self.memory[self._memory(pointer)], self.active[-1]
        for part, data in enumerate(np.atleast_2d(value.data)):
            memory[pointer.data[active] + part] = data[active]
        return _Stored()

    def _memory(self, pointer: Any) -> str:
        type_ = pointer.type.pointee
        if type_ == I32:  # a word of two elements
            type_ = ir.HalfType()
        return str(type_.element if isinstance(type_, ir.VectorType) else type_)

    def extract_element(self, vector: Any, place: ir.Constant) -> _Value:
        return _Value(vector.type.element, vector.data[place.constant])

    def insert_element(self, vector: Any, value: Any, place: ir.Constant) -> _Value:
        data = vector.data.copy() if isinstance(vector, _Value) else np.zeros((2, LANES * self.warps))
        data[place.constant] = value.data
        return _Value(vector.type, data)

    def mma(self, row: MmaRow, a: list[Any], b: list[Any], c: list[Any]) -> list[_Value]:
        results = [np.array(self.data(word), float) for word in c]
        for first in range(0, LANES * self.warps, LANES):
            left, right = np.zeros((row.m, row.k)), np.zeros((row.k, row.n))
            for matrix, operand, words in ((left, "a", a), (right, "b", b)):
                for number, word in enumerate(words):
                    data = self.data(word)[first : first + LANES]
                    parts = np.asarray(data, np.uint32).view(np.float16).reshape(LANES, 2) if row.a.bits == 16 else data
                    for lane in range(LANES):
                        for part in range(row.parts(operand)):
                            matrix[row.place(operand, lane, number, part)] = np.atleast_1d(parts[lane])[part]
            product = left @ right
            for lane in range(LANES):
                for number, result in enumerate(results):
                    result[first + lane] += product[row.place("d", lane, number, 0)]
        return [_Value(ir.DoubleType(), result) for result in results]


def compute(
    product: PaddedProduct, matrices: Sequence[Array], strides: Sequence[tuple[int, int]], alignment: int,
    finish: Callable[[Array, Array], Array],
) -> None:
    """Run the code of a product on one-dimensional arrays, which hold A, B and C with the given strides.

    `finish(sum, old)` is what is stored in C.
    """
    kinds = [_TYPES[str(matrix.dtype)] for matrix in matrices]
    memory, pointers = {}, []
    for kind in dict.fromkeys(map(str, kinds)):
        # Each begins at an even place, as pairs need it.
        memory[kind] = np.concatenate([np.pad(matrix, (0, matrix.size % 2))
                                       for matrix, own in zip(matrices, kinds, strict=True) if str(own) == kind])
    starts = dict.fromkeys(memory, 0)
    builder = _Lockstep(memory, product.warps, product.warps // product.teams)
    for matrix, kind, own in zip(matrices, kinds, strides, strict=True):
        place = np.full(LANES * product.warps, starts[str(kind)])
        pointers.append(Matrix(_Value(kind.as_pointer(LOCAL), place), own, alignment))
        starts[str(kind)] += matrix.size + matrix.size % 2

    def store(total: Any, old: Callable[[], Any]) -> _Value:
        return _Value(total.type, finish(total.data, old().data))

    given: Finish = store
    with (
        mock.patch.multiple(padded_product, special_register=lambda b, name: b.register(name),
                            if_then=lambda b, condition, body: b.if_then(condition, body)),
        mock.patch.multiple(operands, special_register=lambda b, name: b.register(name),
                            mma=lambda b, *words: b.mma(*words), _tf32=lambda _, value: value),
    ):
        product.emit(builder, *pointers, given)  # type: ignore[arg-type]
    result, size = memory[str(kinds[2])], matrices[2].size
    matrices[2][:] = result[result.size - size - size % 2 :][:size]
