"""Products of the package as machine code: drawn at random, compiled offline, executed, compared with NumPy."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.xe_machine.launch import Binary, global_memory, run
from tests.xe_machine.memory import Arena
from tests.xe_machine.types import bf16_of, f32_of_bf16
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.runtime.offline.binary import read_binary
from tl_dpnp.runtime.offline.program import DeviceProgram
from tl_dpnp.runtime.offline.targets import TARGETS
from tl_dpnp.scalars import SCALAR_TYPES, Precision

__all__ = ["KINDS", "TYPES", "Product", "binary_of", "compiled", "draw", "wrong"]

#: Types of A and B, of the result, and the precision of f32.
TYPES: dict[str, tuple[str, str, Precision | None]] = {
    "bf16": ("bf16", "f32", None), "bf16-bf16": ("bf16", "bf16", None), "f16": ("f16", "f32", None),
    "f16-f16": ("f16", "f16", None), "i8": ("i8", "i32", None), "u8": ("u8", "i32", None),
    "tf32": ("f32", "f32", "default"), "f32-high": ("f32", "f32", "high"),
}
KINDS = ("static", "dynamic", "batch", "group", "chain")
#: Largest size of a mode, and multiply-adds of a call: each takes the interpreter some microseconds for 1000 of them.
_LARGEST, _MOST_WORK = 200, 1_200_000
#: What a result may differ by, relative to what was added: sums of whole numbers are exact, their rounding is not.
_ROUNDING = {"f32": 0.0, "i32": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11}
#: The same for ordinary numbers: docs/xmx.md.
_ORDINARY = {"high": 2.0**-18, "default": 2.0**-7}


@dataclass(frozen=True)
class Product:
    """C := alpha op(A) op(B) + beta C for `groups` matrices; a chain is C := alpha (A B) D + beta C.

    `padding` are elements behind each column of A, B and C where strides are dynamic, `offsets` those in front of the
    first one.  `ordinary` operands are normally distributed, others small whole numbers.  A `micro_kernel` is given by
    its name in place of the default one.
    """

    kind: str
    types: str
    m: int
    n: int
    k: int
    seed: int
    transposes: str = "nn"
    alpha: int = 1
    beta: int = 0
    groups: int = 1
    padding: tuple[int, int, int] = (0, 0, 0)
    offsets: tuple[int, int, int] = (0, 0, 0)
    ordinary: bool = False
    micro_kernel: str = ""

    @property
    def is_open(self) -> bool:
        """Whether sizes, strides and factors are known at the call only."""
        return self.kind in ("dynamic", "group")

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The shapes of A, B and C as they are stored."""
        m, n, k = self.m, self.n, self.k
        first = (k, m) if self.transposes[0] == "t" else (m, k)
        return first, (n, k) if self.transposes[1] == "t" else (k, n), (m, n)

    @property
    def elements(self) -> tuple[str, str, str]:
        """The types of A, B and C."""
        operand, result, _ = TYPES[self.types]
        return operand, operand, result

    @property
    def source(self) -> str:
        """The program."""
        return _chain_source(self) if self.kind == "chain" else _product_source(self)

    @property
    def key(self) -> tuple[object, ...]:
        """What a compiled kernel depends on."""
        return self.source, TYPES[self.types][2], self.micro_kernel

    def stride(self, number: int) -> int:
        """Return the elements from a column to the next one of A, B or C."""
        return self.shapes[number][0] + (self.padding[number] if self.is_open else 0)


def _constant(value: int, name: str) -> str:
    return f"{value}.0" if SCALAR_TYPES[name].is_float else str(value)


def _product_source(product: Product) -> str:
    result = product.elements[2]
    parameters, loads, views, names = [], [], [], []
    for name, element, (rows, columns) in zip("ABC", product.elements, product.shapes, strict=True):
        view = f"memref<{element}x?x?>" if product.is_open else f"memref<{element}x{rows}x{columns}>"
        views.append(view)
        match product.kind:
            case "group":
                parameters.append(f"%{name}: group<{view}>")
                loads.append(f"%{name.lower()} = load %{name}[%g] : group<{view}>")
            case "batch":
                batch = f"memref<{element}x{rows}x{columns}x?>"
                parameters.append(f"%{name}: {batch}")
                loads.append(f"%{name.lower()} = subview %{name}[:,:,%g] : {batch}")
            case _:
                parameters.append(f"%{name}: {view}")
        names.append(f"%{name.lower()}" if loads else f"%{name}")
    alpha, beta = _constant(product.alpha, result), _constant(product.beta, result)
    if product.is_open:
        parameters = [f"%alpha: {result}", f"%beta: {result}", *parameters]
        alpha, beta = "%alpha", "%beta"
    if loads:
        loads.insert(0, "%g = group_id")
    body = "\n  ".join([*loads, f"gemm.{product.transposes[0]}.{product.transposes[1]} {alpha}, {names[0]}, {names[1]},"
                                f" {beta}, {names[2]}"])
    return (f"func @product({', '.join(parameters)}) {{\n  {body}\n"
            f"    : {result}, {views[0]}, {views[1]}, {result}, {views[2]}\n}}")


def _chain_source(product: Product) -> str:
    """Two products by way of local memory, A (m x k) B (k x k) D (k x n); the middle has the type of the operands."""
    operand, _, result = product.elements
    m, n, k = product.m, product.n, product.k
    a, b, d, c = (f"memref<{name}x{rows}x{columns}>" for name, rows, columns in (
        (operand, m, k), (operand, k, k), (operand, k, n), (result, m, n)))
    one, zero = _constant(1, operand), _constant(0, operand)
    alpha, beta = _constant(product.alpha, result), _constant(product.beta, result)
    return (f"func @chain(%A: {a}, %B: {b}, %C: {c}, %D: {d}) {{\n  %t = alloca -> {a}\n"
            f"  gemm.n.n {one}, %A, %B, {zero}, %t : {operand}, {a}, {b}, {operand}, {a}\n"
            f"  gemm.n.n {alpha}, %t, %D, {beta}, %C : {result}, {a}, {d}, {result}, {c}\n}}")


# --- compiling and running --------------------------------------------------------------------------------------------


def compiled(product: Product, device: str = "pvc") -> tuple[Any, DeviceProgram]:
    """Return the kernel of a product, and what it is compiled to for a device."""
    import tl_dpnp

    def tensorized(schedule: Any) -> None:
        schedule.tensorize("m", product.micro_kernel)

    given = {"gemm_0": tensorized} if product.micro_kernel else None
    kernel = tl_dpnp.compile(product.source, precision=TYPES[product.types][2], schedule=given, cache=False)
    program = kernel.compile_offline(device)
    assert product.micro_kernel in program.schedule
    return kernel, program


def binary_of(program: DeviceProgram) -> Binary:
    """Return what the machine runs of an offline compiled program."""
    parts = read_binary(program.binary)
    (name,) = parts.code
    return Binary.of(program.assembly, parts.information, name, TARGETS[program.target.name].register_bytes)


def _stored(values: np.ndarray, name: str) -> np.ndarray:
    return bf16_of(values) if name == "bf16" else values.astype(SCALAR_TYPES[name].storage)


def _computed(stored: np.ndarray, name: str) -> np.ndarray:
    return (f32_of_bf16(stored) if name == "bf16" else stored).astype(np.float64)


class _Operands:
    """The matrices of a call in the machine's memory, as columns one behind the other, and NumPy's copies."""

    def __init__(self, product: Product, memory: Arena) -> None:
        self.product, self.memory = product, memory
        self._random = np.random.default_rng(product.seed)
        shapes, elements = product.shapes, product.elements
        if product.kind == "chain":
            shapes, elements = (shapes[0], (product.k, product.k), shapes[2], (product.k, product.n)), (
                *elements, elements[0])
        self.elements = elements
        self.matrices: list[list[np.ndarray]] = []
        self.addresses: list[list[int]] = []
        for number, (name, shape) in enumerate(zip(elements, shapes, strict=True)):
            self._add(number, name, shape)

    def _add(self, number: int, name: str, shape: tuple[int, int]) -> None:
        product, size = self.product, SCALAR_TYPES[name].bytes
        stride = product.stride(number) if number < 3 else shape[0]
        offset = product.offsets[min(number, 2)] * size
        whole = [_stored(self._values(name, (shape[1], stride)), name) for _ in range(product.groups)]
        label = "ABCD"[number]
        if product.kind == "batch":
            first = self.memory.place(label, np.stack(whole), writable=number == 2, offset=offset)
            addresses = [first + group * shape[1] * stride * size for group in range(product.groups)]
        else:
            addresses = [self.memory.place(f"{label}[{group}]", each, writable=number == 2, offset=offset)
                         for group, each in enumerate(whole)]
        self.matrices.append(whole)
        self.addresses.append(addresses)

    def _values(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        if self.product.ordinary:
            return self._random.normal(size=shape).astype(np.float32)
        most = 1 if self.product.kind == "chain" else 3
        low = 0 if name.startswith("u") else -most
        return self._random.integers(low, most + 1, shape).astype(np.float32)

    def matrix(self, number: int, group: int) -> np.ndarray:
        """Return a matrix as floats."""
        rows = self.product.shapes[number][0] if number < 3 else self.product.k
        return _computed(self.matrices[number][group], self.elements[number]).T[:rows]

    def flat(self, parameters: Sequence[Any]) -> list[float | int]:
        """Return the arguments in the order of the calling convention (`tl_dpnp.lowering.plan`)."""
        product, flat = self.product, list[float | int]()
        factors = iter((product.alpha, product.beta))
        numbers = iter(range(len(self.elements)))
        for parameter in parameters:
            match parameter.type:
                case MemrefType() as memref:
                    number = next(numbers)
                    flat += [self.addresses[number][0], *self._dynamic(memref, number)]
                case GroupType(memref=memref):
                    number = next(numbers)
                    table = np.array(self.addresses[number], np.uint64)
                    flat.append(self.memory.place("a table of addresses", table, writable=False))
                    dope = np.array([self._dynamic(memref, number)] * product.groups, np.int64)
                    if dope.size:
                        flat.append(self.memory.place("a table of sizes", dope, writable=False))
                case scalar:
                    value = next(factors)
                    flat.append(float(value) if scalar.is_float else value)
        return [*flat, product.groups, 1, 0]

    def _dynamic(self, memref: MemrefType, number: int) -> list[int]:
        rows, columns = self.product.shapes[number] if number < 3 else (self.product.k, self.product.n)
        stride = self.product.stride(number) if number < 3 else rows
        sizes, strides = (rows, columns, self.product.groups), (1, stride, stride * columns)
        return [have for known, have in (*zip(memref.shape, sizes, strict=False),
                                         *zip(memref.strides, strides, strict=False)) if known is None]


def wrong(product: Product, kernel: Any, binary: Binary) -> tuple[str, int]:
    """Run a call on the machine; returns what is wrong with its result, or nothing, and the executed instructions.

    Raises `MachineError` for what the kernel must not do, or what is not known.
    """
    memory = global_memory()
    operands = _Operands(product, memory)
    steps = run(binary, operands.flat(kernel.parameters), memory, (1, product.groups, 1), product.seed)
    return "\n".join(_differences(product, operands)), steps


def _differences(product: Product, operands: _Operands) -> Iterator[str]:
    (m, n), name = product.shapes[2], product.elements[2]
    stored, stride = SCALAR_TYPES[name].storage, product.stride(2)
    for group in range(product.groups):
        before = operands.matrices[2][group]
        raw = operands.memory.content(operands.addresses[2][group], before.nbytes)
        found = raw.view(stored).reshape(n, stride)
        if not np.array_equal(found[:, m:], before[:, m:]):
            yield f"group {group}: what is between the columns of C has changed"
        expected, size = _expected(product, operands, group)
        bound = _ROUNDING[name]
        if product.ordinary:
            bound = max(bound, _ORDINARY[TYPES[product.types][2] or "default"])
        off = ~(np.abs(_computed(found[:, :m], name).T - expected) <= bound * size)
        if off.any():
            row, column = (int(place[0]) for place in np.nonzero(off))
            yield (f"group {group}: {int(off.sum())} of {off.size} elements differ, first at ({row}, {column}): "
                   f"{_computed(found, name)[column, row]} instead of {expected[row, column]}")


def _expected(product: Product, operands: _Operands, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the result, and the sum of the magnitudes that go into each element."""
    a, b, c = (operands.matrix(number, group) for number in range(3))
    if product.kind == "chain":
        middle = _stored((a @ b).astype(np.float32), product.elements[0])
        a, b = _computed(middle, product.elements[0]), operands.matrix(3, group)
    else:
        a, b = (a.T if product.transposes[0] == "t" else a), (b.T if product.transposes[1] == "t" else b)
    total = product.alpha * (a @ b) + (product.beta * c if product.beta else 0.0)
    return total, abs(product.alpha) * (np.abs(a) @ np.abs(b)) + abs(product.beta) * np.abs(c)


# --- drawing ----------------------------------------------------------------------------------------------------------


def _size(draw: random.Random) -> int:
    size = draw.choice((8, 16, 32)) * draw.randint(1, 6)
    return min(_LARGEST, size if draw.random() < 0.5 else max(1, size + draw.randint(-7, 7)))


def draw(kind: str, seed: int) -> Product:
    """Return the product of a kind and a seed."""
    rng = random.Random(seed)
    types = rng.choice([name for name in TYPES if kind != "chain" or TYPES[name][1] != "i32"])
    groups = rng.choice((1, 2, 3)) if kind in ("batch", "group") else 1
    while True:
        m, n, k = (_size(rng) for _ in range(3))
        work = m * n * k + (m * k * k if kind == "chain" else 0)
        if work * groups <= _MOST_WORK and (kind != "chain" or m * k * 4 <= 32 << 10):
            break
    product = Product(
        kind, types, m, n, k, seed, "nn" if kind == "chain" else "".join(rng.choice("nt") for _ in range(2)),
        rng.choice((1, 1, 2, -1)), rng.choice((0, 0, 1, 2, -1)), groups,
        tuple(rng.choice((0, 0, 1, 8, 16, 24)) for _ in range(3)),  # type: ignore[arg-type]
        tuple(rng.choice((0, 0, 0, 1, 2, 32)) for _ in range(3)),  # type: ignore[arg-type]
    )
    is_f32 = TYPES[types][2] is not None and kind != "chain"
    return replace(product, ordinary=is_f32 and rng.random() < 0.5)
