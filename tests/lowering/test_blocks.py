"""Products of few rows with several columns in a vector, for the cores of the catalogue, run on any machine."""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from tests.lowering.support import gemm
from tl_dpnp.kernels.llvm import GLOBAL, value_type
from tl_dpnp.kernels.targets import TARGETS
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.emission import NestArguments, emit_nest
from tl_dpnp.lowering.emission.blocks import Blocks
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.realization import realize
from tl_dpnp.lowering.tactics.vectors import vector_schedule
from tl_dpnp.lowering.tile_cycles import vector_width
from tl_dpnp.lowering.tiling import Tiling
from tl_dpnp.scalars import F32, F64, ScalarType
from tl_dpnp.target.catalog import AVX2, ZEN4, ZEN5
from tl_dpnp.target.core import Core

_LAYOUT = SubgroupLayout()
_FMA = re.compile(r'@"_Z3fma(?:Dv(\d+)_)?([fd])[^"]*"')


def _machine_code(
    contraction: Contraction, core: Core, tiling: Tiling | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[object, int]:
    """Return the code of a product for this machine, however wide the vectors of the core are, and its address."""
    module = ir.Module("nest")
    module.triple = next(iter(TARGETS))
    monkeypatch.setattr(type(TARGETS[module.triple]), "kept", lambda _self, _builder, value: value)
    monkeypatch.setattr(type(TARGETS[module.triple]), "hold", lambda _self, _builder, value: None)
    pointer = value_type(contraction.element).as_pointer(GLOBAL)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 3), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    nest = realize(vector_schedule(contraction, core, tiling).nest, _LAYOUT).nest
    width = vector_width(contraction, core)
    assert Blocks.of(nest, width) is not None
    arguments = NestArguments(dict(zip("ABC", function.args, strict=True)), {}, {})
    emit_nest(builder, nest, arguments, _LAYOUT, width, masks=core.masks)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = str(module).replace(module.triple, llvm.get_default_triple()).replace("spir_func ", "")
    kind = {"f": "f32", "d": "f64"}
    text = _FMA.sub(lambda found: f'@"llvm.fma.{"v" + found[1] if found[1] else ""}{kind[found[2]]}"', text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine, engine.get_function_address("run")


@contextmanager
def _fenced(values: np.ndarray, at_end: bool) -> Iterator[np.ndarray]:
    """Yield a copy of an array in whose memory the byte behind it, or else the one in front, cannot be accessed."""
    page = mmap.PAGESIZE
    inside = -(-values.nbytes // page) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    start = ctypes.addressof(anchor := ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    fences = (start, start + page + inside)
    for fence in fences:
        assert protect(fence, page, 0) == 0
    copy = np.frombuffer(memory, values.dtype, values.size, page + (inside - values.nbytes if at_end else 0))
    copy[:] = values
    yield copy
    for fence in fences:
        assert protect(fence, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    del copy, anchor
    memory.close()


def _compare(
    contraction: Contraction, sizes: tuple[int, int, int], transposes: tuple[bool, bool], beta: float, core: Core,
    tiling: Tiling | None, monkeypatch: pytest.MonkeyPatch,
) -> None:
    m, n, k = sizes
    engine, address = _machine_code(contraction, core, tiling, monkeypatch)
    draw = np.random.default_rng(m * n * k)
    type_ = np.dtype(contraction.element.storage)
    a, b, c = (draw.uniform(-1, 1, shape).astype(type_) for shape in ((m, k), (k, n), (m, n)))
    expected = a.astype(float) @ b.astype(float) + beta * c
    flat = [(matrix.T if transposed else matrix).ravel(order="F")
            for matrix, transposed in ((a, transposes[0]), (b, transposes[1]), (c, False))]
    if beta == 0:
        flat[2].fill(np.nan)
    for at_end in (False, True):
        with _fenced(flat[0], at_end) as one, _fenced(flat[1], at_end) as two, _fenced(flat[2], at_end) as result:
            ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(address)(
                *(array.ctypes.data for array in (one, two, result)))
            found = result.reshape((m, n), order="F").copy()
            del one, two, result
        np.testing.assert_allclose(found, expected, rtol=0, atol=k * 4 * np.finfo(type_).eps)
    assert engine


@pytest.mark.parametrize("core", [ZEN4, ZEN5, AVX2], ids=str)
@pytest.mark.parametrize("element", [F32, F64], ids=str)
def test_products_of_few_rows(core: Core, element: ScalarType, monkeypatch: pytest.MonkeyPatch) -> None:
    most = core.vector_bytes // element.bytes // 2
    draw = np.random.default_rng(most)
    for rows in range(2, most + 1):
        columns, depth = int(draw.integers(10, 40)), int(draw.integers(12, 30))
        sizes, transposed, beta = (rows, columns, depth), bool(draw.integers(0, 2)), float(draw.integers(0, 2))
        contraction = gemm(*sizes, element=element, transposes=(False, transposed), beta=beta)
        _compare(contraction, sizes, (False, transposed), beta, core, None, monkeypatch)


@pytest.mark.parametrize(("sizes", "transposes", "tiling"), [
    ((4, 4, 4), (False, False), None), ((8, 8, 8), (False, False), None), ((3, 9, 8), (False, False), None),
    # Of the transposed A, a copy is read.
    ((3, 17, 21), (True, False), None), ((5, 33, 3), (True, True), None),
    # A last tile of one column; a sum whose steps no loop does together; one that is done at once.
    ((3, 17, 21), (False, False), Tiling(1, 8, 4)), ((7, 12, 13), (False, False), Tiling(1, 6, 1)),
    ((6, 11, 7), (False, False), Tiling(1, 11, 7)), ((2, 19, 5), (False, True), Tiling(1, 19, 2)),
])
def test_products_of_few_rows_and_special_sizes(
    sizes: tuple[int, int, int], transposes: tuple[bool, bool], tiling: Tiling | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    contraction = gemm(*sizes, transposes=transposes)
    _compare(contraction, sizes, transposes, 0.0, ZEN4, tiling, monkeypatch)
