"""Whole kernels on the matrix units, all of them: ``python -m tools.xmx_sweep``.

Each kernel is run on the CPU with DPAS emulated at 8 and 16 lanes, on sizes 1 to 70 along each of m, n and k, and
compared with NumPy; and it is compiled offline for both devices, where its inner loop must have DPAS.  The last line
says how many were wrong; so does the exit status.  Compiled for the GPUs, not run on them.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

import tl_dpnp
from tl_dpnp.errors import TLError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

#: Types of A, B and C, and the precisions of f32.
TYPES = {
    "bf16": ("bf16", "bf16", "f32", None), "bf16-bf16": ("bf16", "bf16", "bf16", None),
    "f16": ("f16", "f16", "f32", None), "f16-f16": ("f16", "f16", "f16", None),
    "i8": ("i8", "i8", "i32", None), "u8": ("u8", "i8", "i32", None),
    "i4": ("i4", "i4", "i32", None), "u4-i8": ("u4", "i8", "i32", None), "i8-i4": ("i8", "i4", "i32", None),
    "i2": ("i2", "i2", "i32", None), "u2-i4": ("u2", "i4", "i32", None), "i8-u2": ("i8", "u2", "i32", None),
    "u2-u8": ("u2", "u8", "i32", None),
    "f32-highest": ("f32", "f32", "f32", "highest"), "f32-high": ("f32", "f32", "f32", "high"),
    "f32-default": ("f32", "f32", "f32", "default"),
}
KINDS = ("dynamic", "strided", "groups", "static", "chain")
DEVICES = {8: "dg2", 16: "pvc"}
_FACTORS = ((1, 0), (1, 1), (2, -3), (0, 2), (-1, 0))
_STATIC = ((80, 19, 80), (64, 32, 128), (37, 21, 53), (1, 70, 3), (70, 1, 33))
#: Error of a product of ordinary floats, as a multiple of the sum of the products' absolute values.
_BOUNDS = {"highest": 2.0**-18, "high": 2.0**-18, "default": 2.0**-7}
#: Units in the last place that a result may differ by: sums of whole numbers are exact, their rounding is not.
_ROUNDING = {"f32": 0.0, "i32": 0.0, "bf16": 2.0**-7, "f16": 2.0**-10}


@dataclass(frozen=True)
class Case:
    """One kernel: its text, and the calls to make of it."""

    kind: str
    types: str
    transposes: str
    text: str
    shapes: tuple[tuple[int, int, int], ...]
    #: alpha and beta where they are constants of the text.
    factors: tuple[int, int] | None = None

    @property
    def precision(self) -> Any:
        """What products of f32 may lose."""
        return TYPES[self.types][3]

    @property
    def is_empty(self) -> bool:
        """Whether integers are multiplied by the constant 0, so that no product is left."""
        return self.factors is not None and self.factors[0] == 0 and TYPES[self.types][2] == "i32"


@dataclass
class Result:
    """What became of the kernels of one line of the table."""

    calls: Counter[int] = field(default_factory=Counter)
    wrong: Counter[int] = field(default_factory=Counter)
    compiled: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    scratch: Counter[str] = field(default_factory=Counter)


def _kind(name: str, rows: object, columns: object, strides: str = "") -> str:
    return f"memref<{name}x{rows}x{columns}{strides}>"


def _whole(shape: tuple[int, int, int], types: str, transposes: str) -> tuple[int, int, int]:
    """Return m, n and k, made larger such that integers below 8 bits fill whole bytes."""
    a, b = (SCALAR_TYPES[name].per_byte for name in TYPES[types][:2])
    factors = {"m": 1, "n": 1, "k": 1}
    for mode, factor in (("mk"[transposes[0] == "t"], a), ("kn"[transposes[1] == "t"], b)):
        factors[mode] = max(factors[mode], factor)
    m, n, k = (-(-size // factor) * factor for size, factor in zip(shape, factors.values(), strict=True))
    return m, n, k


def _sizes(step: int) -> tuple[tuple[int, int, int], ...]:
    sizes = range(1, 71, step)
    return tuple(shape for size in sizes for shape in ((size, 9, 35), (18, size, 20), (10, 7, size)))


def _strides(name: str) -> str:
    """Return strides that are known at the call only, as far as a type allows that."""
    return ",strided<1,?>" if SCALAR_TYPES[name].is_subbyte else ",strided<?,?>"


def _constant(value: int, name: str) -> str:
    return f"{value}.0" if SCALAR_TYPES[name].is_float else str(value)


def cases(kind: str, types: str, step: int) -> Iterator[Case]:
    """Return the kernels of a kind for some types: every combination of transposes."""
    a, b, c, _ = TYPES[types]
    if kind == "chain":
        yield _chain(types)
        return
    narrow = max(SCALAR_TYPES[name].per_byte for name in (a, b))  # as many bytes along k as other types have
    for transposes in map("".join, itertools.product("nt", repeat=2)):
        gemm = f"gemm.{transposes[0]}.{transposes[1]}"
        if kind == "static":
            for number, (m, n, k) in enumerate(_STATIC):
                m, n, k = _whole((m, n, k * narrow), types, transposes)
                first = (k, m) if transposes[0] == "t" else (m, k)
                second = (n, k) if transposes[1] == "t" else (k, n)
                x, y, z = _kind(a, *first), _kind(b, *second), _kind(c, m, n)
                alpha, beta = _FACTORS[number]
                text = (f"func @f(%A: {x}, %B: {y}, %C: {z}) {{ {gemm} {_constant(alpha, c)}, %A, %B,"
                        f" {_constant(beta, c)}, %C : {c}, {x}, {y}, {c}, {z} }}")
                yield Case(kind, types, transposes, text, ((m, n, k),), (alpha, beta))
            continue
        x, y, z = (_kind(name, "?", "?", _strides(name) if kind == "strided" else "") for name in (a, b, c))
        head, operands, body = f"%al: {c}, %be: {c}, ", ("%A", "%B", "%C"), ""
        if kind == "groups":
            operands = ("%a", "%b", "%c")
            body = "%g = group_id\n" + "".join(
                f"{local} = load {local.upper()}[%g] : group<{type_}>\n"
                for local, type_ in zip(operands, (x, y, z), strict=True))
        parameters = ", ".join(f"{name.upper()}: " + (f"group<{type_}>" if body else type_)
                               for name, type_ in zip(operands, (x, y, z), strict=True))
        text = (f"func @f({head}{parameters}) {{ {body}{gemm} %al, {operands[0]}, {operands[1]}, %be, {operands[2]} :"
                f" {c}, {x}, {y}, {c}, {z} }}")
        shapes = dict.fromkeys(_whole(shape, types, transposes) for shape in _sizes(step))
        yield Case(kind, types, transposes, text, tuple(shapes))


def _chain(types: str) -> Case:
    """Return two products through local memory, for a group: C += (A B) D; whole numbers fit all types."""
    a, b, c, _ = TYPES[types]
    middle = "i32" if c == "i32" else a
    m, n, k, inner = 40, 33, 48, 24
    x, y, t, z = _kind(a, m, k), _kind(b, k, inner), _kind(middle, m, inner), _kind(c, m, n)
    one, zero = _constant(1, middle), _constant(0, middle)
    first = f"gemm.n.n {one}, %a, %B, {zero}, %t : {middle}, {x}, {y}, {middle}, {t}"
    if middle == "i32":  # no integer of 8 bits holds the sums: two products into the same matrix instead
        second = f"gemm.n.n 1, %a, %D, 1, %c : i32, {x}, {_kind(b, k, n)}, i32, {z}"
        d, body = _kind(b, k, n), f"{first}\n{second}"
    else:
        d = _kind(b, inner, n)
        body = f"{first}\ngemm.n.n {_constant(1, c)}, %t, %D, {_constant(1, c)}, %c : {c}, {t}, {d}, {c}, {z}"
    text = (f"func @f(%A: group<{x}>, %B: {y}, %D: {d}, %C: group<{z}>) {{ %g = group_id\n%a = load %A[%g] : group<{x}>"
            f"\n%c = load %C[%g] : group<{z}>\n%t = alloca -> {t}\n{body} }}")
    return Case("chain", types, "nn", text, ((m, n, k),))


# --- running ---------------------------------------------------------------------------------------------------------


def _stored(values: Any, name: str) -> Any:
    if name == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if SCALAR_TYPES[name].is_subbyte:
        return tl_dpnp.pack(values.astype(np.int8), name)
    return values.astype(SCALAR_TYPES[name].storage)


def _computed(values: Any, name: str) -> Any:
    if name == "bf16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    if SCALAR_TYPES[name].is_subbyte:
        values = tl_dpnp.unpack(values, name)
    return values.astype(np.float64)


class Runner:
    """Makes arguments, calls kernels and compares; arrays are views of larger ones where strides are dynamic."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def matrix(self, name: str, shape: tuple[int, int], strided: bool, ordinary: bool, most: int = 5) -> Any:
        """Return a matrix of small whole numbers, or of normally distributed floats, on the device."""
        scalar = SCALAR_TYPES[name]
        low, high = (max(-most, scalar.minimum), min(most, scalar.maximum)) if scalar.is_integer else (-most, most)
        values = self.random.normal(size=shape) if ordinary else self.random.integers(low, high + 1, shape)
        stored = _stored(values.astype(np.float64), name)
        if not strided:
            return dpt.asarray(stored, order="F")
        rows, columns = stored.shape
        whole = dpt.zeros((2 * rows, columns + 3), dtype=scalar.storage, order="F")
        view = whole[1 : rows + 1, 3:] if scalar.is_subbyte else whole[: 2 * rows : 2, 3:]
        view[...] = dpt.asarray(stored)
        return view

    def scalar(self, value: int, name: str) -> Any:
        """Return alpha or beta as a kernel takes it."""
        return float(value) if SCALAR_TYPES[name].is_float else value

    def run(self, kernel: Any, case: Case) -> Iterator[tuple[str, bool]]:
        """Call a kernel on all its shapes; yields each call's name and whether it was right."""
        if case.kind == "chain":
            yield "chain", self.chain(kernel, case)
            return
        for number, shape in enumerate(case.shapes):
            factors = case.factors or _FACTORS[number % len(_FACTORS)]
            yield f"{shape} alpha, beta = {factors}", self.call(kernel, case, shape, factors, ordinary=False)
            if case.precision and number % 3 == 0:
                yield f"{shape} of ordinary floats", self.call(kernel, case, shape, factors, ordinary=True)

    def call(
        self, kernel: Any, case: Case, shape: tuple[int, int, int], factors: tuple[int, int], *, ordinary: bool
    ) -> bool:
        """Call a kernel once and return whether every element is right."""
        a, b, c, _ = TYPES[case.types]
        m, n, k = shape
        left, right = (k, m) if case.transposes[0] == "t" else (m, k), (n, k) if case.transposes[1] == "t" else (k, n)
        count = 2 if case.kind == "groups" else 1
        strided = case.kind == "strided"
        sets = [[self.matrix(name, size, strided, ordinary) for name, size in
                 ((a, left), (b, right), (c, (m, n)))] for _ in range(count)]
        before = [_computed(dpt.asnumpy(z), c) for _, _, z in sets]
        arrays = [list(group) for group in zip(*sets, strict=True)] if case.kind == "groups" else sets[0]
        scalars = [] if case.factors else [self.scalar(value, c) for value in factors]
        kernel(*scalars, *arrays)
        return all(
            self.right(case, factors, _computed(dpt.asnumpy(x), a), _computed(dpt.asnumpy(y), b), old,
                       _computed(dpt.asnumpy(z), c), ordinary)
            for (x, y, z), old in zip(sets, before, strict=True)
        )

    def right(
        self, case: Case, factors: tuple[int, int], x: Any, y: Any, old: Any, found: Any, ordinary: bool
    ) -> bool:
        """Compare a result with NumPy's, of f64."""
        x, y = (x.T if case.transposes[0] == "t" else x), (y.T if case.transposes[1] == "t" else y)
        alpha, beta = factors
        expected = alpha * (x @ y) + beta * old
        size = abs(alpha) * (np.abs(x) @ np.abs(y)) + abs(beta) * np.abs(old)
        bound = _BOUNDS[case.precision] if ordinary else _ROUNDING[TYPES[case.types][2]]
        return bool((np.abs(found - expected) <= bound * size).all())

    def chain(self, kernel: Any, case: Case) -> bool:
        """Run the chain on a group of three."""
        a, b, c, _ = TYPES[case.types]
        (m, n, k), inner = case.shapes[0], 24
        x = [self.matrix(a, (m, k), False, False, 1) for _ in range(3)]
        y = self.matrix(b, (k, inner), False, False, 1)
        d = self.matrix(b, (k if c == "i32" else inner, n), False, False, 1)
        z = [self.matrix(c, (m, n), False, False, 1) for _ in range(3)]
        before = [_computed(dpt.asnumpy(one), c) for one in z]
        kernel(x, y, d, z)
        right = True
        for left, old, result in zip(x, before, z, strict=True):
            host = _computed(dpt.asnumpy(left), a)
            middle = host if c == "i32" else host @ _computed(dpt.asnumpy(y), b)
            last = _computed(dpt.asnumpy(d), b)
            size = np.abs(middle) @ np.abs(last) + np.abs(old)
            error = np.abs(_computed(dpt.asnumpy(result), c) - (middle @ last + old))
            right &= bool((error <= _ROUNDING[c] * size).all())
        return right


def check(case: Case, lanes: Sequence[int], devices: Sequence[str], result: Result) -> Iterator[str]:
    """Run and compile one kernel; counts what came out and yields what was wrong."""
    expects = case.precision != "highest" and not case.is_empty
    for size in lanes:
        kernel = tl_dpnp.compile(case.text, emulate_dpas=size, precision=case.precision, form="subgroup", cache=False)
        if expects != ("tensorize(m, dpas_" in kernel.lower().schedule):
            result.wrong[size] += 1
            yield f"{case.text}\n  at {size} lanes: {'without' if expects else 'with'} DPAS"
        for call, right in Runner(size).run(kernel, case):
            result.calls[size] += 1
            if not right:
                result.wrong[size] += 1
                yield f"{case.text}\n  at {size} lanes: {call} is wrong"
    for device in devices:
        try:
            found = tl_dpnp.compile(case.text, precision=case.precision, cache=False).resources(device=device)
        except TLError as error:
            result.faults[device] += 1
            yield f"{case.text}\n  {device}: {error}"
            continue
        result.compiled[device] += 1
        if expects != bool(found.loop["dpas"]):
            result.faults[device] += 1
            yield f"{case.text}\n  {device}: {found.loop['dpas']} dpas in the inner loop"
        if found.scratch:
            result.scratch[device] += 1


def sweep(
    types: Sequence[str], kinds: Sequence[str], lanes: Sequence[int], devices: Sequence[str], step: int
) -> tuple[str, list[str]]:
    """Check all kernels that are asked for; returns the table and what was wrong."""
    results: dict[tuple[str, str], Result] = defaultdict(Result)
    wrong: list[str] = []
    for name, kind in itertools.product(types, kinds):
        start = time.perf_counter()
        for case in cases(kind, name, step):
            wrong += check(case, lanes, devices, results[name, kind])
        click.echo(f"{name} {kind}: {time.perf_counter() - start:.0f} s", err=True)
    head = ["types", "kernels", *(f"{size} lanes: right of" for size in lanes),
            *(f"{device}: dpas in the loop (scratch)" for device in devices)]
    lines = [head, ["---"] * len(head)]
    for (name, kind), result in results.items():
        runs = [f"{result.calls[size] - result.wrong[size]} of {result.calls[size]}" for size in lanes]
        built = [f"{result.compiled[device] - result.faults[device]} of {result.compiled[device]}"
                 f" ({result.scratch[device]})" for device in devices]
        lines.append([name, kind, *runs, *built])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines), wrong


@click.command()
@click.option("--types", multiple=True, type=click.Choice(list(TYPES)), help="Operands; all by default.")
@click.option("--kinds", multiple=True, type=click.Choice(KINDS), help="Kernels; all by default.")
@click.option("--lanes", multiple=True, type=click.Choice(["8", "16"]), help="Lanes to emulate; both by default.")
@click.option("--devices", multiple=True, type=click.Choice(["dg2", "pvc", "none"]), help="Devices; both by default.")
@click.option("--step", default=1, show_default=True, help="Step of the sizes from 1 to 70.")
def main(
    types: tuple[str, ...], kinds: tuple[str, ...], lanes: tuple[str, ...], devices: tuple[str, ...], step: int
) -> None:
    """Run every kernel under emulation, compile it for both devices, and print a table."""
    chosen = [device for device in devices or DEVICES.values() if device != "none"]
    table, wrong = sweep(
        types or list(TYPES), kinds or KINDS, [int(size) for size in lanes or ("8", "16")], chosen, step)
    click.echo(table)
    for text in wrong:
        click.echo(f"WRONG {text}")
    click.echo(f"{len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
