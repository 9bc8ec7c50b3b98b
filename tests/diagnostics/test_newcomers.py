"""Mistakes that newcomers make, followed to their end: the error, its advice, and the numbers that the advice gives.

Each is Python code with something `wrong` in it.  The error must say what is wrong and where, and hold the `advice`;
put in the place of what is wrong, that must give what NumPy gives.
"""

from __future__ import annotations

import functools
import linecache
import pathlib
import re
import textwrap

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.diagnostics.mistakes import CHOOSE, MISTAKES, PACKED, PRODUCT, TWO
from tests.diagnostics.recent_mistakes import MATRICES, RECENT
from tests.runtime.support import AXPY, COUNT, FUSED, RAGGED, ByDLPack
from tl_dpnp import config
from tl_dpnp.language import FunctionBuilder, group, memref
from tl_dpnp.language.builder import ALL
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import F32, I1, I32


class OnHost(ByDLPack):
    """An array of a package whose arrays are on the host."""


def names(folder):
    """Return what the code of mistakes uses: arrays of small integers, on the host in small letters."""
    draw = np.random.default_rng(5)

    def integers(*shape):
        return draw.integers(-4, 5, shape).astype("f4")

    v, w, a, b, e, f = integers(4), integers(4), integers(4, 3), integers(3, 5), integers(8, 8), integers(16, 8)
    path = folder / "axpy.tl"
    path.write_text(AXPY)
    return {
        "np": np, "dpnp": dpnp, "dpt": dpt, "dpctl": dpctl, "tl_dpnp": tl_dpnp, "pathlib": pathlib, "config": config,
        "functools": functools, "FunctionBuilder": FunctionBuilder, "memref": memref, "group": group, "ALL": ALL,
        "F32": F32, "I1": I1, "I32": I32, "OnHost": OnHost, "path": path,
        "AXPY": AXPY, "COUNT": COUNT, "FUSED": FUSED, "RAGGED": RAGGED, "PRODUCT": PRODUCT, "PACKED": PACKED,
        "CHOOSE": CHOOSE, "TWO": TWO, "v": v, "w": w, "a": a, "b": b, "b_": b, "e": e, "f": f,
        "i8": draw.integers(-8, 8, (4, 3)).astype("i1"), "j8": draw.integers(-8, 8, (3, 5)).astype("i1"),
        "x": dpnp.asarray(v), "y": dpnp.asarray(w), "A": dpnp.asarray(a, order="F"), "B": dpnp.asarray(b, order="F"),
        "C": dpnp.zeros((4, 5), dtype="float32", order="F"), "F": dpnp.asarray(f, order="F"),
    }


def run(code, folder, file):
    """Run code that could stand in a file of the user's, and return its names."""
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    found = names(folder)
    exec(compile(code, file, "exec", dont_inherit=True), found)
    return found


@pytest.mark.parametrize("name", [*MISTAKES, *RECENT])
def test_the_advice_leads_from_the_mistake_to_the_right_numbers(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mistake = {**MISTAKES, **RECENT}[name]
    code = textwrap.dedent(mistake.code) + "\n"
    assert code.count(mistake.wrong), "the mistake is not in the code"
    file = f"<{name}>"
    with pytest.raises(mistake.error) as raised:
        run(code, tmp_path, file)
    text = str(raised.value)
    assert mistake.says in text
    assert mistake.advice in text
    diagnostics = getattr(raised.value, "diagnostics", ())
    if mistake.place is None:
        assert not diagnostics
    else:
        (diagnostic,) = diagnostics
        assert diagnostic.hint or not mistake.advice
        span, line = diagnostic.span, diagnostic.source_line
        if mistake.place == "builder":
            assert (span.file, mistake.wrong in line or line in code) == (file, True)
        else:
            assert line[span.column - 1 : span.end_column - 1] == mistake.place
    right = mistake.right
    if right is None:
        exchange = mistake.names
        right = re.sub(rf"\b({'|'.join(exchange)})\b", lambda found: exchange[found[0]], mistake.advice) \
            if exchange else mistake.advice
    found = run(code.replace(mistake.wrong, right, 1), tmp_path, f"{file} mended")
    assert np.any(found["want"]), "nothing would show"
    np.testing.assert_array_equal(found["got"], found["want"])


@pytest.mark.parametrize("instruction", [
    "%c = mul %a, %b : coopmatrix<f32x4x4,matrix_acc>", "gemm.n.n 1.0, %a, %b, 0.0, %z", "axpby.n 2.0, %a, 0.0, %z",
])
def test_instructions_on_memrefs_do_not_take_cooperative_matrices(instruction):
    """There are several errors in such a line; all of them name an instruction that does."""
    text = MATRICES.replace("%c = cooperative_matrix_mul_add %a, %b, %z : coopmatrix<f32x4x4,matrix_acc>", instruction)
    with pytest.raises(tl_dpnp.TLVerifyError) as raised:
        tl_dpnp.parse(text)
    line = 1 + text[: text.index(instruction)].count("\n")
    found = [diagnostic for diagnostic in raised.value.diagnostics if diagnostic.span.line == line]
    assert found
    assert all("cooperative_matrix_mul_add" in diagnostic.hint for diagnostic in found)


def test_there_are_sixty():
    assert len(MISTAKES) >= 60
    assert not MISTAKES.keys() & RECENT.keys()
