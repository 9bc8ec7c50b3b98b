"""Kernels that are made for any core of the catalogue compute the same on the processor that there is."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.lowering.support import gemm
from tl_dpnp import config
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.inner_products import inner_product_schedule, inner_tiles
from tl_dpnp.scalars import SCALAR_TYPES
from tl_dpnp.target.catalog import CORES

(VECTOR_BYTES,) = {device.vector_bytes for device in tl_dpnp.devices() if device.is_cpu}
USABLE = [core.name for core in CORES.values() if core.vector_bytes <= VECTOR_BYTES]
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "i16": np.int16, "i8": np.int8}


def source(m: int, n: int, k: int, element: str, transposes: str, beta: int, known: bool = True) -> str:
    a, b = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n)
    sizes = {"a": a, "b": b, "c": (m, n)} if known else dict.fromkeys("abc", ("?", "?"))
    types = {name: f"{element}x{rows}x{columns}" for name, (rows, columns) in sizes.items()}
    parameters = ", ".join(f"%{name}: memref<{type_}x?>" for name, type_ in types.items())
    views = "".join(f"  %{name}g = subview %{name}[:,:,%g] : memref<{type_}x?>\n" for name, type_ in types.items())
    left, right, result = (f"memref<{type_}>" for type_ in types.values())
    return (f"func @f({parameters}) {{\n  %g = group_id\n{views}"
            f"  gemm.{transposes[0]}.{transposes[1]} 1, %ag, %bg, {beta}, %cg : "
            f"{element}, {left}, {right}, {element}, {result}\n}}")


def inside(values: np.ndarray) -> tuple[dpnp.ndarray, dpnp.ndarray]:
    """Return an array with these values, last axis first, in the middle of memory of sevens; and that memory."""
    memory = dpnp.full(values.size + 128, 7, dtype=values.dtype)
    part = memory[64:-64].reshape(values.shape[::-1])
    part[:] = dpnp.asarray(values.T)
    return tl_dpnp.rev(part), memory


def check_product(
    core: str, element: str, sizes: tuple[int, int, int], transposes: str, beta: int, rng: np.random.Generator,
    known: bool = True, schedule: Schedule | None = None,
) -> None:
    """Compare a batch of products with NumPy; nothing but their results is written.

    The `schedule` is the default where none is given.
    """
    (m, n, k), groups = sizes, 3
    left, right = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n)
    a, b, c = (rng.integers(-3, 4, (*shape, groups)).astype(DTYPES[element]) for shape in (left, right, (m, n)))
    letters = ("ki" if transposes[0] == "t" else "ik"), ("jk" if transposes[1] == "t" else "kj")
    expected = np.einsum(f"{letters[0]}g,{letters[1]}g->ijg", a.astype(int), b.astype(int)) + beta * c.astype(int)
    text = source(m, n, k, element, transposes, beta, known)
    with config.scope(CORE=core, SPECIALIZE=known):
        kernel = tl_dpnp.compile(text, schedule=schedule and {"gemm_0": schedule})
        (left_array, _), (right_array, _), (result, memory) = map(inside, (a, b, c))
        kernel(left_array, right_array, result)
    around = memory.asnumpy()
    np.testing.assert_array_equal(around[64:-64].reshape(c.shape[::-1]).T, expected.astype(c.dtype), err_msg=text)
    assert (around[:64] == 7).all()
    assert (around[-64:] == 7).all()


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("known", [True, False])
def test_products_are_right_on_every_core(core, element, known):
    """Rows that fill less than a vector, several, or leave some over are all drawn."""
    rng = np.random.default_rng([*core.encode(), *element.encode()])
    for _ in range(6 if known else 2):
        sizes = tuple(int(rng.integers(1, most)) for most in (rng.choice([8, 17, 40]), 20, 20))
        transposes, beta = "".join(rng.choice(["n", "t"], 2)), int(rng.integers(0, 2))
        check_product(core, element, sizes, transposes, beta, rng, known)


@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize(("element", "sizes", "transposes"), [
    # Fewer rows, or columns, than a vector has lanes; a single one.
    ("f32", (14, 5, 13), "tn"), ("f64", (3, 4, 3), "tn"), ("f16", (9, 3, 2), "tt"), ("f32", (5, 6, 1), "tn"),
    ("i8", (19, 4, 21), "tn"),
    # Copies that are made for one tile of rows after the other, the last of them lower.
    ("f32", (85, 9, 61), "tn"), ("f64", (61, 7, 60), "tt"),
    # Vectors along the columns of C, stored across these: at once, and for one tile of rows after the other.
    ("f32", (37, 19, 90), "tt"), ("f64", (13, 9, 70), "tt"), ("f64", (24, 16, 96), "tt"), ("f64", (58, 4, 80), "tn"),
])
def test_matrices_that_are_read_across_their_columns(core, element, sizes, transposes):
    check_product(core, element, sizes, transposes, 0, np.random.default_rng(sizes))


@pytest.mark.drawn(count=40)
@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize("beta", [0, 2])
@pytest.mark.parametrize(("element", "sizes", "transposes"), [
    # Rows of A begin at lines of the cache, or anywhere; terms, rows and columns are left over, or none.
    ("f64", (80, 6, 96), "tn"), ("f64", (83, 6, 88), "tn"), ("f64", (90, 4, 60), "tt"), ("f64", (33, 3, 41), "tn"),
    ("f32", (80, 3, 96), "tt"), ("f32", (95, 5, 109), "tn"), ("f32", (9, 5, 102), "tn"), ("f32", (60, 2, 83), "tt"),
    # Vectors of several columns, and of fewer of them than they have room for.
    ("f32", (57, 4, 17), "tt"), ("f32", (64, 8, 64), "tn"), ("f32", (29, 11, 26), "tn"), ("f64", (53, 5, 31), "tt"),
    # Fewer terms, or rows, than a vector has lanes; two vectors.
    ("f64", (40, 2, 7), "tn"), ("f32", (3, 2, 111), "tn"), ("f64", (17, 2, 16), "tt"), ("f32", (16, 2, 33), "tn"),
])
def test_vectors_along_the_sum(core, beta, element, sizes, transposes):
    check_product(core, element, sizes, transposes, beta, np.random.default_rng(sizes))


@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_vectors_of_several_columns_along_the_sum(core, element):
    """Whichever tile is the quickest: each of a few is given as a schedule."""
    rng = np.random.default_rng([*core.encode(), *element.encode(), 2])
    for _ in range(6):
        m, n, k = (int(size) for size in (rng.integers(1, 40), rng.integers(2, 20), rng.integers(1, 40)))
        is_transposed, beta = bool(rng.integers(0, 2)), int(rng.integers(0, 3))
        contraction = gemm(m, n, k, transposes=(True, is_transposed), element=SCALAR_TYPES[element], beta=beta)
        tiles = [*inner_tiles(contraction, CORES[core])]
        if tiles:
            tile = tiles[int(rng.integers(0, len(tiles)))]
            schedule = inner_product_schedule(contraction, tile, CORES[core])
            check_product(core, element, (m, n, k), f"t{'nt'[is_transposed]}", beta, rng, schedule=schedule)


@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize("k", range(16, 24))
def test_terms_beyond_a_sum_are_left_out(core, k):
    """They are those of the next row, and what is 0 there must not meet an infinite number."""
    m, n = 9, 4
    a, b = np.ones((k, m, 1), np.float32), np.ones((k, n, 1), np.float32)
    a[-1, 2], a[:, 4] = np.inf, np.nan
    expected = np.full((m, n), float(k))
    expected[2], expected[4] = np.inf, np.nan
    contraction = gemm(m, n, k, transposes=(True, False))
    for steps in {tile.columns[0].steps: tile for tile in inner_tiles(contraction, CORES[core])}.values():
        schedule = inner_product_schedule(contraction, steps, CORES[core])
        with config.scope(CORE=core):
            kernel = tl_dpnp.compile(source(m, n, k, "f32", "tn", 0), schedule={"gemm_0": schedule})
        result = dpnp.zeros((m, n, 1), order="F", dtype=np.float32)
        kernel(dpnp.asarray(a, order="F"), dpnp.asarray(b, order="F"), result)
        np.testing.assert_array_equal(result.asnumpy()[:, :, 0], expected)


@pytest.mark.parametrize(("core", "transposes", "sizes", "along"), [
    ("intel-server", "tn", (90, 4, 61), True), ("intel-server", "tt", (90, 4, 61), True),
    # Nothing is to be transposed; as much is to be added up as to be transposed.
    ("intel-server", "nn", (90, 4, 61), False), ("intel-server", "tn", (90, 40, 61), False),
    # No masks for the terms that are left over.
    ("avx2", "tn", (90, 2, 61), False), ("avx2", "tn", (90, 2, 64), True),
])
def test_vectors_run_along_the_sum_where_that_takes_fewer_cycles(core, transposes, sizes, along):
    if core not in USABLE:
        pytest.skip("the processor has no AVX-512")
    with config.scope(CORE=core):
        (schedule,) = tl_dpnp.compile(source(*sizes, "f64", transposes, 0)).inspect_schedule().values()
    assert ("rfactor" in str(schedule)) == along


@pytest.mark.parametrize("core", USABLE)
@pytest.mark.parametrize(("m", "n"), [(3, 4), (6, 4), (3, 11), (5, 3)])
def test_lanes_that_repeat_an_element_are_not_left_out(core, m, n):
    """A vector of several columns reads elements of the transpose of B that are neighbours, and the last one again."""
    rng = np.random.default_rng([m, n])
    a, b = rng.integers(1, 5, (m, 2, 1)).astype(float), rng.integers(1, 5, (n, 2, 1)).astype(float)
    with config.scope(CORE=core):
        kernel = tl_dpnp.compile(source(m, n, 2, "f64", "nt", 0))
    result = dpnp.zeros((m, n, 1), order="F")
    kernel(dpnp.asarray(a, order="F"), dpnp.asarray(b, order="F"), result)
    np.testing.assert_array_equal(result.asnumpy()[:, :, 0], a[:, :, 0] @ b[:, :, 0].T)


def test_another_core_has_another_kernel():
    schedules = set()
    for core in USABLE:
        with config.scope(CORE=core):
            schedules.update(tl_dpnp.compile(source(90, 60, 30, "f32", "nn", 0)).inspect_schedule().values())
    assert len(schedules) > 1


@pytest.mark.parametrize("core", ["intel-server", "zen5"])
@pytest.mark.parametrize("beta", [0, 1])
def test_lanes_are_left_empty_where_that_is_free(core, beta):
    """A store with a mask would hold up the loads of the next column of a result that is read."""
    if core not in USABLE:
        pytest.skip("the processor has no AVX-512")
    with config.scope(CORE=core):
        kernel = tl_dpnp.compile(source(13, 5, 4, "f32", "nn", beta))
    (text,) = kernel.inspect_llvm().values()
    assert "llvm.masked.load" in text
    assert ("llvm.masked.store" in text) == (beta == 0)


@pytest.mark.skipif(VECTOR_BYTES == 64, reason="the processor has vectors as wide as any core's")
def test_a_core_with_wider_vectors_is_refused():
    with config.scope(CORE="zen4"):
        kernel = tl_dpnp.compile(source(8, 8, 8, "f32", "nn", 0))
    with pytest.raises(UnsupportedError, match="set TL_DPNP_CORE to another"):
        kernel.inspect_llvm()
