"""Mistakes in launches along three axes, arrays that may be missing, cooperative matrices, profiles and logs.

As those of `tests.diagnostics.mistakes`, and tried with them.
"""

from __future__ import annotations

import tl_dpnp
from tests.diagnostics.mistakes import Mistake, scaled
from tests.runtime.support import AXPY

#: x := 1, one element for each work-group of three axes.
GRID = """
func @grid(%n: index, %x: memref<f32x4x3>) {
  %i = group_id.x : index
  %j = group_id.y : index
  %k = group_id.z : index
  %m = add %i, %k : index
  store 1.0, %x[%m, %j] : memref<f32x4x3>
}
"""
#: y := y + x, if there is x.
OPTIONAL = """
func @optional(%x: memref<f32x4>, %y: memref<f32x4>) {
  %is = associated %x : bool
  if %is {
    axpby.n 1.0, %x, 1.0, %y : f32, memref<f32x4>, f32, memref<f32x4>
  }
}
"""
#: C := A A for the first four columns of A.
MATRICES = """
func @square(%A: memref<f32x4x4>, %C: memref<f32x4x4>) {
  parallel {
    %o = constant 0 : index
    %a = cooperative_matrix_load %A[%o,%o] : coopmatrix<f32x4x4,matrix_a>
    %b = cooperative_matrix_load %A[%o,%o] : coopmatrix<f32x4x4,matrix_b>
    %z = constant 0.0 : coopmatrix<f32x4x4,matrix_acc>
    %c = cooperative_matrix_mul_add %a, %b, %z : coopmatrix<f32x4x4,matrix_acc>
    cooperative_matrix_store %c, %C[%o,%o]
  }
}
"""
_SYNTAX, _VERIFY = tl_dpnp.TLSyntaxError, tl_dpnp.TLVerifyError


def grid(wrong: str, says: str, advice: str) -> Mistake:
    """Return a mistake in how many work-groups there are."""
    return Mistake(f"""
        kernel = tl_dpnp.compile({GRID!r})
        G = dpnp.zeros((4, 3), dtype="float32", order="F")
        kernel(4, G, {wrong})
        got, want = G.asnumpy(), np.array([[1] * 3] * 2 + [[0] * 3] * 2)
    """, wrong, TypeError, says, advice)


def optional(text: str, wrong: str, **rest: str) -> Mistake:
    """Return a mistake in a program for arrays that may be missing."""
    return Mistake(f"""
        kernel = tl_dpnp.compile({text!r})
        kernel(x, y)
        got, want = y.asnumpy(), v + w
    """, wrong, **{"error": _SYNTAX, "place": wrong, **rest})


def matrices(mistaken: str, meant: str, wrong: str, **rest: str) -> Mistake:
    """Return a mistake in a program for cooperative matrices; `mistaken` is written where `meant` is right."""
    assert MATRICES.count(meant) == 1
    return Mistake(f"""
        kernel = tl_dpnp.compile({MATRICES.replace(meant, mistaken)!r})
        S, C = (dpnp.asarray(e[:4, :4], order="F"), dpnp.zeros((4, 4), dtype="float32", order="F"))
        kernel(S, C)
        got, want = C.asnumpy(), e[:4, :4] @ e[:4, :4]
    """, repr(mistaken)[1:-1], **{"right": meant, "place": wrong, "error": _VERIFY, **rest})


def attributed(mistaken: str, wrong: str) -> Mistake:
    """Return a mistake in the attributes of a parameter."""
    meant = "%x: memref<f32x?> {alignment=16}"
    return Mistake(f"""
        kernel = tl_dpnp.compile({AXPY.replace("%x: memref<f32x?>", mistaken)!r})
        kernel(2.0, x, y)
        got, want = y.asnumpy(), 2 * v + w
    """, mistaken, _SYNTAX, wrong, "memref<f32x?> {alignment=16}", right=meant, place=wrong)


RECENT: dict[str, Mistake] = {
    "two axes": grid("group_size=(2, 3)", "not (2, 3)", "group_size=(2, 3, 1)"),
    "list of one axis fewer": grid("group_size=[2, 3]", "not [2, 3]", "group_size=(2, 3, 1)"),
    "axes of NumPy": grid("group_size=np.array([2, 3, 1])", "not array", "group_size=(2, 3, 1)"),
    "axes as floats": grid("group_size=(2.0, 3.0, 1.0)", "not (2.0, 3.0, 1.0)", "group_size=(2, 3, 1)"),
    "fourth axis": Mistake(f"""
        kernel = tl_dpnp.compile({GRID.replace("group_id.z", "group_id.w")!r})
        G = dpnp.zeros((4, 3), dtype="float32", order="F")
        kernel(4, G, group_size=(2, 3, 1))
        got, want = G.asnumpy(), np.array([[1] * 3] * 2 + [[0] * 3] * 2)
    """, ".w", _SYNTAX, "'.x', '.y' or '.z'", "group_id.x : index", right=".z", place=".w"),
    "None for an array": scaled("kernel = tl_dpnp.compile(AXPY); kernel(2.0, None, y)", part="; kernel(2.0, None, y)",
                                error=TypeError, says="None, no array", advice="asks for by `associated`", right="",
                                place="%x"),
    "comparison with none": optional(OPTIONAL.replace("associated %x", "cmp.ne %x, none"), "cmp.ne %x, none",
                                     place="none", says="'none'", advice="%b = associated %m : bool",
                                     right="associated %x"),
    "attributes by their keyword": attributed("%x: memref<f32x?> attributes{alignment=16}", "attributes"),
    "attributes in the type": attributed("%x: memref<f32x?, alignment=16>", "alignment"),
    "load of a matrix": matrices("%a = load %A[%o,%o]", "%a = cooperative_matrix_load %A[%o,%o]", "coopmatrix",
                                 error=_SYNTAX, says="'coopmatrix'", advice="write %A = cooperative_matrix_load"),
    "number beside a matrix": matrices(
        "%d = cooperative_matrix_mul_add %a, %b, %z : coopmatrix<f32x4x4,matrix_acc>\n"
        "    %c = mul %d, 1.0 : coopmatrix<f32x4x4,matrix_acc>",
        "%c = cooperative_matrix_mul_add %a, %b, %z : coopmatrix<f32x4x4,matrix_acc>",
        "1.0", says="gives the constant no type", advice="multiples cooperative_matrix_scale"),
    "matrix of another use": matrices("%b = cooperative_matrix_load %A[%o,%o] : coopmatrix<f32x4x4,matrix_a>",
                                      "%b = cooperative_matrix_load %A[%o,%o] : coopmatrix<f32x4x4,matrix_b>", "%b",
                                      says="%b has the use matrix_a", advice="coopmatrix<f32x4x4,matrix_b>"),
    "use of a matrix": matrices("%z = constant 0.0 : coopmatrix<f32x4x4>",
                                "%z = constant 0.0 : coopmatrix<f32x4x4,matrix_acc>", ">", error=_SYNTAX,
                                says="found '>'", advice="coopmatrix<f32x16x8,matrix_acc>; or matrix_a, matrix_b"),
    "profile of a function": scaled("""kernel = tl_dpnp.compile(AXPY)
        with tl_dpnp.profile(kernel) as profile:
            kernel(0.0, x, y)""", part="tl_dpnp.profile(kernel)", error=TypeError, says="not a Kernel",
                                    advice="tl_dpnp.profile()"),
    "logs without a comma": scaled("""with config.scope(LOGS="launch compile"):
            kernel = tl_dpnp.compile(AXPY)""", part="launch compile", error=tl_dpnp.TLError,
                                   says="'launch compile'", advice="launch,compile"),
    "unknown logs": scaled("""with config.scope(LOGS="launches"):
            kernel = tl_dpnp.compile(AXPY)""", part="launches", error=tl_dpnp.TLError,
                           says="it knows no 'launches'", advice="launch"),
    "explanation of a result": Mistake("""
        double = tl_dpnp.fuse(lambda items: items["x"] + items["x"])
        explanation = tl_dpnp.explain(double({"x": x}))
        got, want = double({"x": x}).asnumpy(), 2 * v
    """, 'tl_dpnp.explain(double({"x": x}))', TypeError, "not a dpnp_array", "tl_dpnp.explain(function)(*arguments)",
        right='tl_dpnp.explain(double)({"x": x})'),
}
