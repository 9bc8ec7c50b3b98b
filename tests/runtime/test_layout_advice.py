"""Advice about layouts, followed to the letter: the kernel gives the numbers that NumPy gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import dpnp
import numpy
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.errors import LayoutError, TLBindingError
from tl_dpnp.language import parse
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.layout_advice import conversion_hint, layout_hint
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray
from tl_dpnp.scalars import F32

BATCH = 3
#: Arrays that hold matrices X, by how; `reversed` ones are the transposes, which only their sizes tell.
MATRICES = {
    "C order": lambda X: np.ascontiguousarray(X),
    "transposed view": lambda X: np.asfortranarray(X.T).T,
    "rows in reverse": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "every second row": lambda X: _spread(X, (2, 1)),
    "padded columns": lambda X: np.asfortranarray(np.vstack([X, X]))[: len(X)],
    "reversed": lambda X: np.ascontiguousarray(X.T),
    "reversed, column-major": lambda X: np.asfortranarray(X.T),
}
#: The same for batches, whose last axis is that of the matrices X.
BATCHES = {
    "C order": lambda X: np.ascontiguousarray(X),
    "padded columns": lambda X: np.asfortranarray(np.concatenate([X, X]))[: len(X)],
    "batch first": lambda X: np.ascontiguousarray(np.moveaxis(X, -1, 0)),
    "batch first, column-major": lambda X: np.asfortranarray(np.moveaxis(X, -1, 0)),
    "batch first, view": lambda X: np.moveaxis(np.asfortranarray(X), -1, 0),
    "reversed": lambda X: np.ascontiguousarray(X.T),
    "reversed, column-major": lambda X: np.asfortranarray(X.T),
}


def _spread(X: np.ndarray, steps: tuple[int, int]) -> np.ndarray:
    room = np.zeros([step * size for step, size in zip(steps, X.shape, strict=True)], X.dtype, order="F")
    room[:: steps[0], :: steps[1]] = X
    return room[:: steps[0], :: steps[1]]


@dataclass
class Case:
    """A product C := op(A) op(B) of matrices, of batches of them or of groups, as text in the making."""

    kind: str
    types: dict[str, str]
    text: str = ""

    def source(self, flags: str) -> str:
        """Return the text; `inner` are the types of the matrices in it."""
        parameters = ", ".join(f"%{name}: {type_}" for name, type_ in self.types.items())
        (function,) = parse(f"func @f({parameters}) {{ }}")
        lines = [f"func @f({parameters}) {{"]
        inner, names = [], []
        for value in function.parameters:
            type_ = value.type.memref if isinstance(value.type, GroupType) else value.type
            inner.append(str(MemrefType(type_.element, type_.shape[:2], type_.strides[:2])))
            names.append(f"%{value.name}" if self.kind == "matrix" else f"%{value.name.lower()}")
        if self.kind != "matrix":
            lines.append("%g = group_id")
            for name, (parameter, type_) in zip(names, self.types.items(), strict=True):
                entry = f"load %{parameter}[%g]" if self.kind == "group" else f"subview %{parameter}[:, :, %g]"
                lines.append(f"{name} = {entry} : {type_}")
        a, b, c = inner
        lines.append(f"gemm.{flags} 1.0, {names[0]}, {names[1]}, 0.0, {names[2]} : f32, {a}, {b}, f32, {c}")
        return "\n".join([*lines, "}"])


def hint_of(error: TLBindingError) -> str:
    (diagnostic,) = error.diagnostics
    assert diagnostic.hint is not None, error
    return diagnostic.hint


def chosen(hint: str, layout: str) -> str:
    """Return the advice of a hint that is for this layout, where it depends on what the axes mean."""
    first, marked, second = hint.partition("; if axis 0 is the last mode, ")
    if not marked:
        return hint
    assert first.startswith("if axis i is mode i, ")
    return second if "batch first" in layout else first.removeprefix("if axis i is mode i, ")


PASS = re.compile(r"(?:pass|make the array column-major before the call: array =) (.+?)"
                  r"(?:, a column-major copy|, a view that copies nothing| for each array of the group| and write|$)")
DECLARE = re.compile(r"declare %(\w): (.+?)(?:, which takes any column-major layout(?:, and )?|, (?=pass))")
WRITE = re.compile(r"(gemm\S+) for (gemm\S+) in line (\d+)")


class Follower:
    """Calls a kernel, and does what the errors say until it runs."""

    def __init__(self, case: Case, flags: str, target: str) -> None:
        self.case, self.flags, self.target = case, flags, target
        self.names = {"dpnp": dpnp, "numpy": numpy, "tl_dpnp": tl_dpnp}

    def call(self, arrays: dict[str, Any], **changes: str) -> None:
        text = replace(self.case, types={**self.case.types, **changes}).source(self.flags)
        tl_dpnp.compile(text, target=self.target)(*arrays.values())

    def follow(self, advice: str, operand: str, arrays: dict[str, Any]) -> dict[str, Any]:
        """Do what one piece of advice says, call the kernel, and return the arrays that it was called with."""
        declared = DECLARE.match(advice)
        changes = {declared[1]: declared[2]} if declared else {}
        passed = PASS.match(advice[declared.end() :] if declared else advice)
        assert declared or passed, advice
        if passed:
            given = arrays[operand]
            each = given if isinstance(given, list) else [given]
            made = [eval(passed[1], {**self.names, "array": array}) for array in each]
            arrays = {**arrays, operand: made if isinstance(given, list) else made[0]}
        flags = self.flags
        for after, before, line in WRITE.findall(advice):
            assert self.case.source(self.flags).splitlines()[int(line) - 1].count(before) == 1
            assert before == f"gemm.{self.flags}"
            self.flags = after.removeprefix("gemm.")
        try:
            self.call(arrays, **changes)
        finally:
            self.flags = flags
        return arrays


def alternatives(advice: str) -> list[str]:
    """Return the advice, and each other way that it names."""
    first, _, exchange = advice.partition("; or, without a copy, ")
    return [*re.split(r"; or (?=pass|make)", first), *([exchange] if exchange else [])]


def cases(rng: np.random.Generator) -> Iterator[tuple[tuple[int, int, int], bool]]:
    """Yield products with sizes that are equal, or differ, or are unknown."""
    for sizes in ((8, 8, 8), tuple(rng.permutation([4, 5, 6, 7])[:3]), (6, 6, 4), (4, 6, 6)):
        m, n, k = map(int, sizes)
        yield from (((m, n, k), False), ((m, n, k), True))


def to_device(array: np.ndarray, target: str) -> Any:
    """Return the array on the device with the strides that it has on the host."""
    if target == "reference":
        return array
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    memory = dpnp.asarray(base.ravel(order="K"))
    strides = [stride // array.itemsize for stride in array.strides]
    offset = (array.ctypes.data - base.ctypes.data) // array.itemsize
    return usm_ndarray(array.shape, dtype=array.dtype, buffer=memory.get_array(), strides=strides, offset=offset)


def from_device(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else dpnp.asnumpy(dpnp.asarray(array))


def check(kind: str, flags: str, sizes: tuple[int, int, int], dynamic: bool, operand: str, layout: str,
          target: str, rng: np.random.Generator) -> int:
    """Follow each way of the advice about one operand, and compare; return how many there were."""
    m, n, k = sizes
    shapes = {"A": (m, k), "B": (k, n), "C": (m, n)}
    for name, flag in zip("AB", flags.split("."), strict=True):
        if flag == "t":
            shapes[name] = shapes[name][::-1]
    square = len(set(shapes[operand])) == 1
    if layout.startswith("reversed") and (square or dynamic):
        return 0  # nothing tells that the transpose is meant
    values = {name: rng.integers(-4, 5, (*shape, BATCH)).astype(np.float32) for name, shape in shapes.items()}
    turned = [values[name].swapaxes(0, 1) if flag == "t" else values[name]
              for name, flag in zip("AB", flags.split("."), strict=True)]
    expected = np.einsum("mkg,kng->mng", *turned)
    make = (BATCHES if kind == "batch" else MATRICES)[layout]

    def fresh() -> dict[str, Any]:
        arrays: dict[str, Any] = {}
        for name, value in values.items():
            rearrange = make if name == operand else np.asfortranarray
            held = [rearrange(value)] if kind == "batch" else [rearrange(value[..., g]) for g in range(BATCH)]
            held = [to_device(array, target) for array in held]
            arrays[name] = held if kind == "group" else held[0]
        return arrays

    def memref(name: str) -> str:
        modes = "".join("x?" if dynamic else f"x{size}" for size in shapes[name])
        text = f"memref<f32{modes}{'x?' if kind == 'batch' else ''}>"
        return f"group<{text}>" if kind == "group" else text

    follower = Follower(Case(kind, {name: memref(name) for name in shapes}), flags, target)
    try:
        follower.call(fresh())
    except LayoutError as error:
        ways = alternatives(chosen(hint_of(error), layout))
    except TLBindingError:
        return 0  # the layout fits sizes that are not known; the number of work-groups does not
    else:
        return 0
    for way in ways:
        result = follower.follow(way, operand, fresh())["C"]
        result = [from_device(array) for array in (result if kind == "group" else [result])]
        wanted = expected if kind == "batch" else [expected[..., g] for g in range(len(result))]
        np.testing.assert_array_equal(result[0] if kind == "batch" else result, wanted, err_msg=way)
    return len(ways)


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("operand", "ABC")
@pytest.mark.parametrize(("kind", "layout"), [
    *(("matrix", layout) for layout in MATRICES), *(("group", layout) for layout in MATRICES),
    *(("batch", layout) for layout in BATCHES),
])
def test_advice_gives_the_right_numbers(kind: str, layout: str, operand: str) -> None:
    rng = np.random.default_rng(list(f"{kind}{layout}{operand}".encode()))
    followed = sum(
        check(kind, flags, sizes, dynamic, operand, layout, "reference", rng)
        for flags in ("n.n", "n.t", "t.n", "t.t") for sizes, dynamic in cases(rng)
    )
    assert followed or layout == "padded columns", "nothing was refused"


@pytest.mark.parametrize(("kind", "layout"), [
    ("matrix", "C order"), ("matrix", "transposed view"), ("matrix", "reversed, column-major"), ("group", "C order"),
    ("batch", "batch first"), ("batch", "reversed"), ("batch", "C order"),
])
@pytest.mark.parametrize("operand", "AC")
def test_advice_on_the_device(kind: str, layout: str, operand: str) -> None:
    rng = np.random.default_rng(1)
    sizes = (5, 6, 7) if layout.startswith("reversed") else (8, 8, 8)
    assert check(kind, "n.t", sizes, False, operand, layout, "sycl", rng)


def memref(*shape: int | None, strides: tuple[int | None, ...] | None = None) -> MemrefType:
    return MemrefType(F32, shape, strides)  # type: ignore[arg-type]


def hint(type_: MemrefType, shape: tuple[int, ...], strides: tuple[int, ...], body: str = "",
         package: str = "dpnp") -> str | None:
    """Return the hint for an array in the words of a package."""
    (function,) = parse(f"func @f(%A: {type_}, %C: memref<f32x8x8>) {{\n{body}\n}}")
    view = ArrayView(None, 0, shape, strides, np.dtype("float32"), None, True)
    return layout_hint(Program(function), 0, view, package)


GEMM = "gemm.n.t 1.0, %A, %A, 0.0, %C : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>"
GEMV = "gemv.t 1.0, %A, %v, 0.0, %w : f32, memref<f32x8x8>, memref<f32x8>, f32, memref<f32x8>"
COPY = 'pass dpnp.asarray(array, order="F"), a column-major copy'


@pytest.mark.parametrize(("type_", "shape", "strides", "expected"), [
    (memref(16, 8), (16, 8), (8, 1), COPY),
    (memref(16, 8), (16, 8), (1, 32),
     f"declare %A: memref<f32x16x8,strided<?,?>>, which takes any column-major layout; or {COPY}"),
    (memref(16, 8, strides=(1, 20)), (16, 8), (1, 32),
     "declare %A: memref<f32x16x8,strided<?,?>>, which takes any column-major layout"),
    (memref(16, 8, strides=(1, 20)), (16, 8), (8, 1),
     f"declare %A: memref<f32x16x8,strided<?,?>>, which takes any column-major layout, and {COPY}"),
    (memref(16, 8, strides=(None, None)), (16, 8), (8, 1), COPY),
    (memref(16, 8), (8, 16), (16, 1), "pass tl_dpnp.rev(array), a view that copies nothing"),
    (memref(16, 8), (8, 16), (1, 8), 'pass dpnp.asarray(tl_dpnp.rev(array), order="F"), a column-major copy'),
    (memref(16, 8, None), (10, 16, 8), (128, 8, 1),
     'pass dpnp.asarray(dpnp.moveaxis(array, 0, -1), order="F"), a column-major copy'),
    (memref(16, 8, None), (10, 8, 16), (128, 16, 1), "pass tl_dpnp.rev(array), a view that copies nothing"),
    (memref(8, 8, None), (8, 8, 8), (64, 8, 1),
     f'if axis i is mode i, {COPY}; if axis 0 is the last mode, pass dpnp.asarray(dpnp.moveaxis(array, 0, -1), '
     'order="F"), a column-major copy'),
    (memref(8), (8,), (2,),
     f"declare %A: memref<f32x8,strided<?>>, which takes any column-major layout; or {COPY}"),
    (memref(16, 8), (3, 5), (1, 3), None),
    (memref(16, 8), (128,), (1,), None),
])  # fmt: skip
def test_text(type_, shape, strides, expected):
    assert hint(type_, shape, strides) == expected


@pytest.mark.parametrize(("body", "expected"), [
    (GEMM, "pass tl_dpnp.rev(array) and write gemm.t.n for gemm.n.t in line 2"),
    (f"%v = subview %C[:, 0] : memref<f32x8x8> %w = subview %C[:, 1] : memref<f32x8x8>\n{GEMV}\n{GEMM}",
     "pass tl_dpnp.rev(array) and write gemv.n for gemv.t in line 3 and gemm.t.n for gemm.n.t in line 4"),
    # Nothing can be exchanged where elements are loaded, the array is written, or the instruction has no .n.
    (f"{GEMM}\n%0 = load %A[0, 0] : memref<f32x8x8>", None),
    (f"{GEMM}\nstore 1.0, %A[0, 0] : memref<f32x8x8>", None),
    (f"{GEMM}\n%0 = size %A[0] : memref<f32x8x8>", None),
    (GEMM.replace("%C :", "%A :"), None),
    ("%v = subview %A[:, 0] : memref<f32x8x8>", None),
    ("", None),
])  # fmt: skip
def test_the_reverse_of_a_square_matrix_takes_another_transpose(body, expected):
    found = hint(memref(8, 8), (8, 8), (8, 1), body)
    if "%A :" in body:  # it is written: the copy must be kept
        assert found == 'make the array column-major before the call: array = dpnp.asarray(array, order="F")'
    elif "store" in body:
        assert found is not None
        assert "rev" not in found
    else:
        assert found == (COPY if expected is None else f"{COPY}; or, without a copy, {expected}")


@pytest.mark.parametrize(("package", "matrix", "batch"), [
    ("cupy", 'cupy.asarray(array, order="F")', 'cupy.asarray(cupy.moveaxis(array, 0, -1), order="F")'),
    ("torch", "array.mT.contiguous().mT", "tl_dpnp.rev(tl_dpnp.rev(array.movedim(0, -1)).contiguous())"),
    ("numba", 'numba.cuda.to_device(numpy.asarray(array.copy_to_host(), order="F"))',
     'numba.cuda.to_device(numpy.asarray(numpy.moveaxis(array.copy_to_host(), 0, -1), order="F"))'),
    ("DLPack", 'cupy.asarray(cupy.from_dlpack(array), order="F")',
     'cupy.asarray(cupy.moveaxis(cupy.from_dlpack(array), 0, -1), order="F")'),
    ("interface", 'cupy.asarray(array, order="F")',
     'cupy.asarray(cupy.moveaxis(cupy.asarray(array), 0, -1), order="F")'),
    ("jax", "tl_dpnp.rev(array.T)", "tl_dpnp.rev(jax.numpy.moveaxis(array, 0, -1).T)"),
    ("numpy", 'numpy.asarray(array, order="F")', 'numpy.asarray(numpy.moveaxis(array, 0, -1), order="F")'),
])  # fmt: skip
def test_copies_are_made_by_the_package_of_the_array(package, matrix, batch):
    assert hint(memref(16, 8), (16, 8), (8, 1), package=package) == f"pass {matrix}, a column-major copy"
    assert hint(memref(16, 8, None), (5, 16, 8), (128, 8, 1), package=package) == f"pass {batch}, a column-major copy"


@pytest.mark.parametrize(("package", "converted"), [
    ("dpnp", 'dpnp.asarray(array, dtype="float32")'), ("dpctl", 'dpnp.asarray(array, dtype="float32")'),
    ("numpy", 'array.astype("float32")'), ("cupy", 'array.astype("float32")'), ("jax", 'array.astype("float32")'),
    ("torch", "array.to(torch.float32)"),
    ("numba", 'numba.cuda.to_device(array.copy_to_host().astype("float32"))'),
    ("DLPack", 'cupy.from_dlpack(array).astype("float32")'), ("interface", 'cupy.asarray(array).astype("float32")'),
])  # fmt: skip
def test_elements_are_converted_by_the_package_of_the_array(package, converted):
    """The others have no method astype, or no array of theirs."""
    assert conversion_hint("float32", False, package) == f"convert it: {converted}"
    assert conversion_hint("float32", True, package) == f"convert it before the call: array = {converted}"


def test_the_reverse_copies_nothing_whatever_the_package() -> None:
    for package in ("dpnp", "numpy", "cupy", "torch", "numba", "jax", "DLPack", "interface"):
        expected = "pass tl_dpnp.rev(array), a view that copies nothing"
        assert hint(memref(16, 8), (8, 16), (16, 1), package=package) == expected
