"""Random products of sizes up to 700, of all types and layouts, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from unittest import mock

import numpy as np

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.strategies.arguments import (
    Argument,
    ArrayArgument,
    GroupArgument,
    ScalarArgument,
    copied,
    differences,
)
from tl_dpnp.errors import LoweringError
from tl_dpnp.scalars import BF16, F16, F32, F64, SCALAR_TYPES, U8, ScalarType, is_lossless

__all__ = ["CAMPAIGN", "Product", "run"]

LARGEST = 700
#: Multiply-adds of a case at most, and bytes of its arrays.
MOST_WORK, MOST_BYTES = 40_000_000, 64 << 20
#: Kind → the forms that it asks for, None for what the runtime chooses.
KINDS = {"single": None, "divided": "divided", "batch": None, "groups": None, "subgroup": "subgroup",
         "streaming": "vector"}
INPUTS = [t for t in SCALAR_TYPES.values() if not t.is_boolean and not t.is_complex]
OUTPUTS = [t for t in INPUTS if not t.is_subbyte]
#: How an operand comes: as it is, as a slice of a batch or as an element of a group.
PLACES = ("shared", "batch", "group")


@dataclass(frozen=True)
class Product:
    """One case: ``C := alpha op(A) op(B) + beta C`` for each of `groups` work-groups.

    `types`, `places`, `padding` and `offsets` are those of A, B and C; `padding` has the elements between columns.
    """

    m: int
    n: int
    k: int
    types: tuple[str, str, str]
    seed: int
    transposes: tuple[bool, bool] = (False, False)
    alpha: int = 1
    beta: int = 0
    passed: bool = False  # alpha is an argument
    dynamic: bool = False
    groups: int = 1
    places: tuple[str, str, str] = ("shared", "shared", "shared")
    padding: tuple[int, int, int] = (0, 0, 0)
    offsets: tuple[int, int, int] = (0, 0, 0)
    sizes: tuple[int, int] | None = None  # of the work-group, in the sub-group form
    level: int = 0  # the caches that arrays seem to exceed

    @property
    def elements(self) -> tuple[ScalarType, ScalarType, ScalarType]:
        """The types of A, B and C."""
        a, b, c = (SCALAR_TYPES[name] for name in self.types)
        return a, b, c

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """The shapes of A, B and C as they are stored."""
        m, n, k = self.m, self.n, self.k
        return (k, m) if self.transposes[0] else (m, k), (n, k) if self.transposes[1] else (k, n), (m, n)

    @property
    def source(self) -> str:
        """The program."""
        parameters, loads, views = [], [], []
        for name, element, shape, place, gap in zip(
            "ABC", self.types, self.shapes, self.places, self.padding, strict=True
        ):
            rows, columns = ("?", "?") if self.dynamic else shape
            stride = "?" if self.dynamic else self._column(shape[0], gap, SCALAR_TYPES[element])
            view = f"memref<{element}x{rows}x{columns},strided<1,{stride}>>"
            views.append(view)
            match place:
                case "shared":
                    parameters.append(f"%{name}: {view}")
                    loads.append("")
                case "batch":
                    batch = f"memref<{element}x{rows}x{columns}x?,strided<1,{stride},?>>"
                    parameters.append(f"%{name}: {batch}")
                    loads.append(f"  %{name.lower()} = subview %{name}[:,:,%g] : {batch}\n")
                case _:
                    parameters.append(f"%{name}: group<{view}>")
                    loads.append(f"  %{name.lower()} = load %{name}[%g] : group<{view}>\n")
        result = self.types[2]
        names = [f"%{n if place == 'shared' else n.lower()}" for n, place in zip("ABC", self.places, strict=True)]
        letters = ".".join("nt"[transpose] for transpose in self.transposes)
        alpha, beta = (f"{factor}.0" if SCALAR_TYPES[result].is_float else str(factor)
                       for factor in (self.alpha, self.beta))
        if self.passed:
            parameters.insert(0, f"%alpha: {result}")
            alpha = "%alpha"
        sizes = "" if self.sizes is None else f" work_group_size{self.sizes}"
        return (f"func @product({', '.join(parameters)}){sizes} {{\n  %g = group_id\n{''.join(loads)}"
                f"  gemm.{letters} {alpha}, {names[0]}, {names[1]}, {beta}, {names[2]}\n"
                f"    : {result}, {views[0]}, {views[1]}, {result}, {views[2]}\n}}")

    @staticmethod
    def _column(rows: int, gap: int, element: ScalarType) -> int:
        return rows + gap * element.per_byte

    def arguments(self) -> list[Argument]:
        """Return the arguments of the call; integers below 8 bits are in arrays of bytes."""
        rng = random.Random(self.seed)
        result: list[Argument] = [ScalarArgument(self.alpha)] if self.passed else []
        for element, shape, place, gap, offset in zip(
            self.elements, self.shapes, self.places, self.padding, self.offsets, strict=True
        ):
            rows, columns = shape[0] // element.per_byte, shape[1]
            stride = self._column(shape[0], gap, element) // element.per_byte
            stored = U8 if element.is_subbyte else element
            array = ArrayArgument(stored, (rows, columns), (1, stride))
            array = replace(array, offset=array.offset + offset)
            if place == "batch":
                array = replace(array, shape=(*array.shape, self.groups), strides=(1, stride, stride * columns + gap))
            arrays = tuple(_filled(array, element, self.elements[2], rng)
                           for _ in range(self.groups if place == "group" else 1))
            result.append(GroupArgument(arrays) if place == "group" else arrays[0])
        return result

    def expect(self, arguments: list[Argument]) -> None:
        """Compute the product in the arguments, with NumPy."""
        *_, a, b, c = arguments
        wide = np.float64 if self.elements[2].is_float else np.int64
        for group in range(self.groups):
            left, right, old = (_matrix(x, group, element).astype(wide)
                                for x, element in zip((a, b, c), self.elements, strict=True))
            with np.errstate(all="ignore"):
                product = (left.T if self.transposes[0] else left) @ (right.T if self.transposes[1] else right)
                value = self.alpha * product + (self.beta * old if self.beta else 0)
                _stored(c, group)[...] = _narrowed(value, self.elements[2])


def _filled(array: ArrayArgument, element: ScalarType, result: ScalarType, rng: random.Random) -> ArrayArgument:
    """Return the array of an element type with random values, where sums of floats are exact in any order."""
    array = array.filled(rng)
    wide = result in (F32, F64) and (element.is_float or element.is_subbyte)
    if not result.is_float or wide:
        return array
    values = np.random.default_rng(rng.getrandbits(32)).integers(-1, 2, array.extent)
    if element.is_integer:
        values = np.maximum(values, element.minimum)
    return replace(array, buffer=_narrowed(values.astype(np.float32), element))


def _stored(argument: Argument, group: int) -> np.ndarray:
    """Return one work-group's matrix as it is stored."""
    if isinstance(argument, GroupArgument):
        return argument.arrays[group].view()
    view = argument.view()
    return view[..., group] if view.ndim == 3 else view


def _matrix(argument: Argument, group: int, element: ScalarType) -> np.ndarray:
    from tl_dpnp import unpack

    stored = _stored(argument, group)
    if element.is_subbyte:
        return unpack(stored, element.name)
    return (stored.astype(np.uint32) << 16).view(np.float32) if element == BF16 else stored


def _narrowed(values: np.ndarray, element: ScalarType) -> np.ndarray:
    if element == BF16:
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype(element.storage)


def make(kind: str, seed: int) -> Product:
    """Return the case of a seed."""
    rng = random.Random(seed)
    c = rng.choice((F32, F64) if rng.random() < 0.4 else OUTPUTS)
    inputs = [t for t in INPUTS if is_lossless(t, c) and not (t.is_subbyte and c in (F16, BF16))]
    a, b = (c, c) if rng.random() < 0.5 else (rng.choice(inputs), rng.choice(inputs))
    groups = 1 if kind in ("single", "divided") else rng.choice((1, 2, 3, 5, 9))
    transposes = (rng.random() < 0.5, rng.random() < 0.5)
    while True:
        m, n, k = (_size(rng) for _ in range(3))
        if groups * m * n * k <= MOST_WORK and groups * c.bytes * (m * k + k * n + m * n) <= MOST_BYTES:
            break
    m, k = _whole_bytes(m, a if not transposes[0] else None), _whole_bytes(k, a if transposes[0] else None)
    n, k = _whole_bytes(n, b if transposes[1] else None), _whole_bytes(k, b if not transposes[1] else None)
    if c in (BF16, F16):
        k = min(k, 300)  # else sums would be rounded
    places = {"single": ("shared",) * 3, "divided": ("shared",) * 3}.get(kind) or (
        rng.choice(PLACES), rng.choice(PLACES), rng.choice(PLACES[1:]))
    if kind == "groups":
        places = ("group" if "group" not in places[1:] else places[0], *places[1:])
    padded = rng.random() < 0.4
    factors = (1, 1, 1, 2, 0) if c.kind == "unsigned" else (1, 1, 1, 2, -1, 0)
    return Product(
        m, n, k, (a.name, b.name, c.name), seed, transposes, rng.choice(factors), rng.choice((0, 0, 1, *factors)),
        rng.random() < 0.3, kind != "divided" and rng.random() < 0.3, groups, places,
        tuple(rng.choice((0, 1, 2, 5, 16)) if padded else 0 for _ in range(3)),
        tuple(rng.choice((0, 0, 1, 3, 8, 16)) for _ in range(3)),
        rng.choice((None, (16, 1), (32, 1), (16, 2), (64, 4))) if kind == "subgroup" else None,
        rng.choice((1, 2)) if kind == "streaming" else 0,
    )


def _size(rng: random.Random) -> int:
    """Return a size: small ones, multiples of vectors and their neighbours more often than others."""
    choice = rng.random()
    if choice < 0.35:
        return rng.randint(1, 40)
    if choice < 0.55:
        return min(LARGEST, max(1, 16 * rng.randint(1, 12) + rng.randint(-1, 1)))
    return rng.randint(1, 130) if choice < 0.8 else rng.randint(1, LARGEST)


def _whole_bytes(size: int, element: ScalarType | None) -> int:
    per_byte = 1 if element is None else element.per_byte
    return -(-size // per_byte) * per_byte


def check(kind: str, case: Product) -> Verdict:
    """Call the product on the device and compare with NumPy, all bytes of all buffers."""
    import tl_dpnp
    from tests.differential.device import call
    from tl_dpnp.runtime.sycl import launch

    arguments = case.arguments()
    expected = copied(arguments)
    case.expect(expected)
    kernel = tl_dpnp.compile(case.source, form=KINDS[kind], cache=False)
    exceeded = {"side_effect": lambda *_: case.level} if case.level else {"side_effect": launch.exceeded_caches}
    try:
        with mock.patch.object(launch, "exceeded_caches", **exceeded):
            actual = call(kernel, arguments, case.groups)
    except LoweringError as error:
        if kind == "divided" and "cannot run in the divided form" in str(error):
            return Verdict(labels=("that cannot be divided",))
        raise
    found = differences(expected, actual, [0.0] * len(expected))
    forms = sorted({signature.form for signature in kernel.signatures})
    return Verdict("\n".join(["wrong:", *found]) if found else "", (f"in the {' and '.join(forms)} form",))


def simpler(kind: str, case: Product) -> Iterator[Product]:
    """Yield the case with smaller sizes and less of everything else."""
    plain = {field.name: field.default for field in fields(Product)}
    for name in ("groups", "dynamic", "passed", "transposes", "padding", "offsets", "alpha", "beta", "sizes"):
        if getattr(case, name) != plain[name]:
            yield replace(case, **{name: plain[name]})
    for name in "mnk":
        size, step = getattr(case, name), 8 // min(element.bits for element in (*case.elements, U8))
        for less in sorted({step, size // 2 // step * step, (size * 3 // 4) // step * step, size - step} - {0}):
            if 0 < less < size:
                yield replace(case, **{name: less})


def text(kind: str, case: Product) -> str:
    """Return the program and its call."""
    return f"{case.source}\n; {case.groups} work-groups, {case!r}"


CAMPAIGN = Campaign("products", tuple(KINDS), make, check, simpler, text)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
