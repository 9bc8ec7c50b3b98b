"""What a device lacks is an error that names the instruction, the device and the place, wherever it is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lowering.support import CPU, GPU
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.language import parse
from tl_dpnp.lowering import lower
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.space import tunables
from tl_dpnp.target.device import Device

#: A use of each kind of a type T whose constants are V: parameters and body, and the line and column of the first use.
USES = {
    "scalar parameter": ("%a: T", "", (1, 9)),
    "memref parameter": ("%x: memref<Tx4>", "", (1, 9)),
    "group parameter": ("%n: index, %x: group<memref<Tx4>>", "", (1, 20)),
    "alloca": ("", "%t = alloca -> memref<Tx4>", (2, 1)),
    "constants": ("", "%c = cmp.eq V, V : T", (2, 1)),
    "cast to it": ("%i: i8", "%a = cast %i : i8 -> T", (2, 1)),
    "cast from it": ("", "%a = cast V : T -> i1", (2, 1)),
    "arithmetic": ("", "%a = arith.add V, V : T", (2, 1)),
    "branch": ("%c: i1", "if %c -> (T) { yield V : T } else { yield V : T }", (2, 1)),
    "inside a loop": ("", "for %i = 0, 4 {\nforeach %j = 0, 4 {\n%a = arith.neg V : T\n}\n}", (4, 1)),
    "linear algebra": ("%A: memref<Tx4>", "axpby.n 1, %A, 0, %A : T, memref<Tx4>, T, memref<Tx4>", (1, 9)),
}


def lowered(text: str, device: Device, form: str | None = None) -> None:
    (function,) = parse(text)
    lower(function, device, LoweringOptions(form))  # type: ignore[arg-type]


def refused(text: str, device: Device, place: tuple[int, int], form: str | None = None) -> str:
    """Return the message and the hint of the error, which must point at `place`."""
    (function,) = parse(text)
    options = LoweringOptions(form)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError) as raised:
        lower(function, device, options)
    with pytest.raises(UnsupportedError):
        tunables(function, device, options)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.span is not None
    assert (diagnostic.span.line, diagnostic.span.column) == place
    assert device.name in diagnostic.message
    return str(raised.value)


def program(use: str, type_: str, value: str) -> tuple[str, tuple[int, int]]:
    parameters, body, place = USES[use]
    text = f"func @f({parameters}) {{\n{body}\n}}"
    return text.replace("V", value).replace("T", type_), place


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("type_", ["c32", "c64"])
def test_complex_numbers(use: str, type_: str) -> None:
    text, _ = program(use, type_, "[1.0, 0.0]")
    for device in (CPU, GPU, H200):
        lowered(text, device)


@pytest.mark.parametrize(("part", "type_"), [("f32", "c32"), ("f64", "c64")])
def test_complex_numbers_made_of_floats(part: str, type_: str) -> None:
    text = f"func @f(%a: {part}, %m: memref<{part}x4>) {{\n%z = cmplx %a, 2.0 : {part} -> {type_}\n}}"
    for device in (CPU, GPU, H200):
        lowered(text, device)


def test_parts_of_complex_numbers() -> None:
    """A device without f64 computes with those of c32."""
    lowered("func @f(%x: memref<c32x4>) {}", replace(CPU, has_fp64=False))
    message = refused("func @f(%x: memref<c64x4>) {}", replace(CPU, has_fp64=False), (1, 9))
    assert f"{CPU.name} does not compute with c64" in message
    assert message.endswith("hint: use c32")


ATOMIC = "func @f(%A: memref<Tx4>, %b: B) {\naxpby.n.atomic 1, %A, BETA, %A : T, memref<Tx4>, B, memref<Tx4>\n}"


@pytest.mark.parametrize(("type_", "beta", "beta_type", "bits"), [
    ("c32", "1", "c32", 32), ("c32", "2", "c32", 32), ("c32", "%b", "f32", 32), ("c32", "%b", "c32", 64),
    ("c32", "[0, 1]", "c32", 64), ("c64", "0", "c64", 64), ("c64", "%b", "f64", 64), ("c64", "%b", "c64", 128),
    ("c64", "[0, 1]", "c64", 128),
])
def test_atomic_updates_of_complex_numbers(type_: str, beta: str, beta_type: str, bits: int) -> None:
    """Parts are updated one by one; a beta that is complex mixes them."""
    text = ATOMIC.replace("BETA", beta).replace("B,", f"{beta_type},").replace("%b: B", f"%b: {beta_type}")
    text = text.replace("T", type_)
    if bits > 64:
        message = refused(text, GPU, (2, 1))
        assert f"{GPU.name} has no atomic operations of 128 bits" in message
        assert "hint: use a beta of a real type" in message
        return
    lowered(text, GPU)
    if bits == 64:
        assert "no atomic operations of 64 bits" in refused(text, replace(GPU, has_atomic64=False), (2, 1))
    else:
        lowered(text, replace(GPU, has_atomic64=False))


@pytest.mark.parametrize("access", ["%a = atomic_load %A[0] : T", "atomic_store %x, %A[0]",
                                    "%a = atomic_add %x, %A[0] : T"])
def test_atomic_accesses_of_complex_numbers(access: str) -> None:
    """Parts are accessed one by one, so that their size counts."""
    text = f"func @f(%A: memref<Tx4>, %x: T) {{\n{access}\n}}"
    lowered(text.replace("T", "c32"), replace(GPU, has_atomic64=False))
    lowered(text.replace("T", "c64"), GPU)
    message = refused(text.replace("T", "c64"), replace(GPU, has_atomic64=False), (2, 1))
    assert "accesses %A of type memref<c64x4>" in message
    assert "no atomic operations of 64 bits" in message


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("type_", "missing", "hint"), [
    ("f64", "has_fp64", "use f32"), ("f16", "has_fp16", "use f32 or bf16"),
])
def test_floats_that_not_every_device_has(use: str, type_: str, missing: str, hint: str) -> None:
    text, place = program(use, type_, "1.0")
    lowered(text, CPU)
    message = refused(text, replace(CPU, **{missing: False}), place)
    assert f"{CPU.name} does not compute with {type_}" in message
    assert message.endswith(f"hint: {hint}")


@pytest.mark.parametrize("element", ["i64", "u64", "index", "f64"])
@pytest.mark.parametrize("beta", ["0", "1", "3"])
def test_atomic_updates_of_64_bits(element: str, beta: str) -> None:
    text = f"""func @f(%A: memref<{element}x4>) {{
for %i = 0, 2 {{
  axpby.n.atomic 1, %A, {beta}, %A : {element}, memref<{element}x4>, {element}, memref<{element}x4>
}}
}}"""
    lowered(text, GPU)
    message = refused(text, replace(GPU, has_atomic64=False), (3, 3))
    assert f"instruction axpby.atomic updates %A of type memref<{element}x4>" in message
    lowered(text.replace(".atomic", ""), replace(GPU, has_atomic64=False))


def test_atomic_updates_of_32_bits_need_nothing() -> None:
    text = "func @f(%A: memref<T>) { axpby.n.atomic 1, %A, 3, %A : E, memref<T>, E, memref<T> }"
    for element in ("i8", "f16", "f32", "i32", "u32"):
        lowered(text.replace("T", element).replace("E", element), replace(GPU, has_atomic64=False))


MATRIX = """func @f(%M: memref<f32x8x8>) { parallel {
%A = cooperative_matrix_load %M[0, 0] : coopmatrix<f32x4x4,matrix_a> } }"""


@pytest.mark.parametrize(("device", "form"), [
    (CPU, None), (CPU, "vector"), (CPU, "subgroup"), (GPU, None), (GPU, "subgroup"), (H200, None), (H200, "subgroup")])
def test_cooperative_matrices_need_nothing(device: Device, form: str | None) -> None:
    lowered(MATRIX, device, form)


@pytest.mark.parametrize(("type_", "missing"), [("f64", "has_fp64"), ("f16", "has_fp16")])
def test_components_of_cooperative_matrices(type_: str, missing: str) -> None:
    text = f"func @f() {{ parallel {{\n%a = constant 1 : coopmatrix<{type_}x4x4,matrix_a> }} }}"
    lowered(text, CPU)
    refused(text, replace(CPU, **{missing: False}), (2, 1))
