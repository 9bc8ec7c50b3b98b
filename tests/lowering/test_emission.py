"""The emitter's decisions that need no device."""

from __future__ import annotations

import re

import pytest

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.lowering.emission.variables import Narrowest, pieces, with_last_filled
from tl_dpnp.target.catalog import CORES


@pytest.mark.parametrize(
    ("count", "reach", "expected"),
    [
        (32, None, [(0, 16), (16, 16)]),
        (35, None, [(0, 16), (16, 16), (32, 2), (34, 1)]),
        (35, 0, [(0, 16), (16, 16), (31, 4)]),
        (3, 32, [(-1, 4)]),
        (3, 0, [(0, 2), (2, 1)]),
        (1, 0, [(0, 1)]),
    ],
)
def test_rows_are_cut_into_vectors(count, reach, expected):
    assert pieces(count, 16, reach) == expected


@pytest.mark.parametrize(
    ("count", "reach", "expected"),
    [(34, 0, [(0, 16), (16, 16), (30, 4)]), (2, 0, [(0, 2)]), (33, 0, [(0, 16), (16, 16), (32, 1)])])
def test_what_is_computed_twice_is_no_vector_that_is_too_narrow(count, reach, expected):
    assert pieces(count, 16, reach, Narrowest(4)) == expected


@pytest.mark.parametrize(
    ("count", "reach", "expected"),
    [(17, 0, [(0, 8), (8, 8), (15, 2)]), (1, 0, [(0, 1)]), (1, 8, [(-1, 2)]), (18, 0, [(0, 8), (8, 8), (16, 2)])])
def test_a_complex_number_alone_is_a_vector_that_is_too_narrow(count, reach, expected):
    narrowest = Narrowest(2, has_scalars=False)
    assert pieces(count, 8, reach, narrowest) == expected
    assert with_last_filled(pieces(count, 8), 8, narrowest)[-1] == (count // 8 * 8, 2)
    assert with_last_filled([(0, 8), (8, 8)], 8, narrowest) == [(0, 8), (8, 8)]


_NARROW = re.compile(r"<2 x float>")


@pytest.mark.parametrize("core", [name for name in CORES if name != "sse"])
@pytest.mark.parametrize("rows", [18, 34, 50])
def test_two_rows_that_are_left_over_are_no_vector_of_two_floats(rows, core):
    """LLVM sets the other lanes of a register to 0 before each operation with such a vector: two shuffles for one."""
    source = f"""func @product(%A: memref<f32x{rows}x30>, %B: memref<f32x30x20>, %C: memref<f32x{rows}x20>) {{
  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<f32x{rows}x30>, memref<f32x30x20>, f32, memref<f32x{rows}x20>
}}"""
    with config.scope(CORE=core):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    products = [line for line in text.splitlines() if "fma" in line and "call" in line]
    assert products
    assert not any(map(_NARROW.search, products))


_MULTIPLY_ADD = re.compile(r"<(\d+) x double> @\w*fma\w*\(<\d+ x double> (\S+), <\d+ x double> (\S+),")


@pytest.mark.parametrize(("m", "n", "vectors"), [(48, 16, 3), (32, 24, 2), (40, 10, 3)])
def test_an_element_is_multiplied_by_a_whole_column_before_the_next_one(m, n, vectors):
    """So a column and an element are in registers, not the elements of all columns."""
    source = f"""func @product(%A: memref<f64x{m}x40>, %B: memref<f64x40x{n}>, %C: memref<f64x{m}x{n}>) {{
  gemm.n.n 1.0, %A, %B, 0.0, %C : f64, memref<f64x{m}x40>, memref<f64x40x{n}>, f64, memref<f64x{m}x{n}>
}}"""
    with config.scope(CORE="intel-server"):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    found = _MULTIPLY_ADD.findall(text)[:vectors]
    assert len({vector for _, vector, _ in found}) == vectors
    assert len({element for width, _, element in found if width == "8"}) == 1


@pytest.mark.parametrize("rows", [10, 11, 12, 20])
def test_elements_are_held_until_all_vectors_of_a_column_are_multiplied_where_these_differ(rows):
    """Else LLVM writes sums over an element where that is used last, and runs out of registers."""
    source = f"""func @product(%A: memref<f64x{rows}x40>, %B: memref<f64x40x20>, %C: memref<f64x{rows}x20>) {{
  gemm.n.n 1.0, %A, %B, 0.0, %C : f64, memref<f64x{rows}x40>, memref<f64x40x20>, f64, memref<f64x{rows}x20>
}}"""
    with config.scope(CORE="intel-server"):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    lines = text.splitlines()
    made = [line.split()[0] for line in lines if 'asm "", "=v,0"(<8 x double>' in line]
    assert made
    for element in made:
        used = [line for line in lines if re.search(f"{re.escape(element)}[,) ]", line)][1:]
        assert any("shufflevector" in line for line in used[:-1])
        assert 'asm sideeffect "", "v"(<8 x double>' in used[-1]


_HELD = re.compile(r'asm sideeffect "", "v"\(<(\d+) x (float|double)>')


@pytest.mark.parametrize("core", ["sse", "avx2", "zen5", "intel-server"])
@pytest.mark.parametrize("element", ["f16", "f32", "f64"])
@pytest.mark.parametrize("rows", [3, 6, 7, 11, 19])
def test_what_is_held_is_a_register(core, element, rows):
    """LLVM ends the process where an operand of inline assembly fits no register: two floats, or f16 as f32."""
    parameters = f"%A: memref<{element}x{rows}x9>, %B: memref<{element}x9x5>, %C: memref<{element}x{rows}x5>"
    source = f"""func @product({parameters}) {{
  gemm.n.n 1.0, %A, %B, 0.0, %C : {element}, memref<{element}x{rows}x9>, memref<{element}x9x5>, {element},
                                  memref<{element}x{rows}x5>
}}"""
    with config.scope(CORE=core):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    sizes = {int(lanes) * {"float": 4, "double": 8}[kind] for lanes, kind in _HELD.findall(text)}
    assert all(16 <= size <= CORES[core].vector_bytes for size in sizes)


_OF_AN_ADDRESS = re.compile(r'asm "", "=r,0"\((float|double) addrspace\(1\)\*')


def _addresses(m: int, n: int, k: int, core: str, element: str = "f64") -> int:
    """Return how many addresses LLVM takes as they are in a product for a core."""
    a, b, c = (f"memref<{element}x{rows}x{columns}>" for rows, columns in ((m, k), (k, n), (m, n)))
    source = f"""func @product(%A: {a}, %B: {b}, %C: {c}) {{
  gemm.n.n 1.0, %A, %B, 0.0, %C : {element}, {a}, {b}, {element}, {c}
}}"""
    with config.scope(CORE=core):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    return len(_OF_AN_ADDRESS.findall(text))


@pytest.mark.parametrize(("m", "n", "k", "element"), [
    (8, 24, 40, "f64"),  # one vector
    (7, 24, 40, "f64"),  # of which some lanes are there
    (15, 91, 88, "f32"),
    (30, 58, 76, "f64"),  # 4 vectors by 6 columns take all registers
])
def test_elements_are_near_one_address_where_that_saves_operations_or_registers(m, n, k, element):
    assert _addresses(m, n, k, "intel-server", element) >= 1
    assert _addresses(m, n, k, "zen5", element) == 0


@pytest.mark.parametrize(("m", "n", "k"), [
    (16, 16, 40),  # an element is multiplied by two vectors: loaded once, into a register
    (8, 24, 6),  # all of the sum is unrolled
    (1, 24, 40),  # no vector
    (32, 5, 40),  # 4 vectors by 5 columns leave registers
])
def test_others_have_the_addresses_that_llvm_chooses(m, n, k):
    assert _addresses(m, n, k, "intel-server") == 0


@pytest.mark.parametrize(("core", "element", "parts"), [
    ("intel-server", "f32", True), ("zen5", "f32", False), ("zen4", "f32", False), ("intel-server", "f64", True),
    ("zen5", "f64", False),
])
def test_what_is_transposed_is_loaded_in_parts_where_shuffles_take_a_port_of_multiply_adds(core, element, parts):
    a, b, c = (f"memref<{element}x{shape}>" for shape in ("32x48", "32x8", "48x8"))
    source = f"""func @product(%A: {a}, %B: {b}, %C: {c}) {{
  gemm.t.n 1.0, %A, %B, 0.0, %C : {element}, {a}, {b}, {element}, {c}
}}"""
    with config.scope(CORE=core):
        (text,) = tl_dpnp.compile(source, form="vector").inspect_llvm().values()
    part = {"f32": "<4 x float>", "f64": "<2 x double>"}[element]
    assert bool(re.search(f"= load {part}", text)) == parts
