"""What goes wrong inside the compiler is an error of tl_dpnp that shows the instruction, wherever it happens."""

from __future__ import annotations

import traceback
from importlib.util import find_spec

import dpctl
import pytest

import tl_dpnp
from tl_dpnp.errors import LoweringError, TLError, UnsupportedError
from tl_dpnp.lowering import micro_kernels, pipeline
from tl_dpnp.lowering.emission import loops

if find_spec("numba_dpex"):
    from tl_dpnp.runtime.sycl import numba_dpex_adapter as host

    OF_HOST = {"Numba": "_host", "linking": "_linked", "translation to SPIR-V": "translate"}
else:
    from tl_dpnp.runtime.sycl import llvm_adapter as host

    OF_HOST = {"the module": "kernel_module", "metadata": "kernel_metadata", "translation to SPIR-V": "with_assembly"}

PRODUCT = """func @product(%A: memref<f32x8x8>, %C: memref<f32x8x8>) {
  gemm.n.n 1.0, %A, %A, 0.0, %C : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}"""
LOOP = """func @loop(%x: memref<f32x64>) {
  foreach (%i) = (0), (64) {
    %a = load %x[%i] : memref<f32x64>
    %b = math.exp %a : f32
    store %b, %x[%i] : memref<f32x64>
  }
}"""


def compiled(source: str) -> None:
    tl_dpnp.compile(source, queue=dpctl.SyclQueue(), cache=False)


#: Where something fails: the module, the name of a function there, a program that uses it, and the line to be shown.
PLACES = {
    "lowering, at its beginning": (pipeline, "analyse", PRODUCT, 1),
    "lowering, writing the body": (pipeline, "BodyWriter", PRODUCT, 1),
    "lowering, printing the body": (pipeline, "print_body", PRODUCT, 1),
    "the choice of a mapping": (pipeline, "mappings_of", PRODUCT, 1),
    "schedules": (pipeline, "schedule_instructions", PRODUCT, 1),
    "emission of a product": (micro_kernels, "emit_nest", PRODUCT, 2),
    "emission of a loop": (loops, "scalar_intrinsic", LOOP, 2),
    **{what: (host, name, PRODUCT, 1) for what, name in OF_HOST.items()},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [ZeroDivisionError("a planted fault"), AssertionError("a planted fault"),
                                   LoweringError("a planted fault"), UnsupportedError("a planted fault")], ids=repr)
def test_a_fault_shows_the_instruction(place, error, monkeypatch):
    module, name, source, line = PLACES[place]

    def fail(*_arguments, **_keywords):
        raise error

    if place == "Numba":
        host._host.cache_clear()  # what Numba compiles is kept for later kernels
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(TLError, match="a planted fault") as raised:
        compiled(source)
    assert type(raised.value) is (type(error) if isinstance(error, TLError) else LoweringError)
    if not isinstance(error, TLError):
        assert "defect of tl_dpnp" in str(raised.value)
        assert "fail" in "".join(traceback.format_exception(raised.value))  # its own traceback is there, too
    if not isinstance(error, TLError) or "emission" in place:
        (found,) = raised.value.diagnostics
        assert found.span.line == line
        assert found.source_line == source.splitlines()[line - 1]
    monkeypatch.undo()
    compiled(source)  # nothing is left of it


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("too deep"), OSError(28, "No space left on device")])
def test_what_the_machine_lacks_is_no_defect(error, monkeypatch):
    def fail(*_arguments, **_keywords):
        raise error

    monkeypatch.setattr(host, OF_HOST["translation to SPIR-V"], fail)
    with pytest.raises(type(error)):
        compiled(PRODUCT)
