"""The expressions that fused code must compute as dpnp does.

Each is a line of text: the tier (1 and 2 must fuse, 3 may be left to dpnp), the operands as dtype and shape, and the
expression of `xp` (dpnp, plain or recording) and of the operands a, b, c, d.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.graph.source_text import with_source

__all__ = ["EXPRESSIONS", "Expression", "arrays_for"]

DTYPES = "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split()
REAL = "i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8".split()
USUAL = "i4 i8 f4 f8".split()
FLOATS = "f2 f4 f8".split()


@dataclass(frozen=True)
class Expression:
    """One expression; `make` views operands before they are used, such as ``[::-1]``."""

    number: int
    tier: int
    group: str
    operands: tuple[tuple[str, tuple[int, ...], str], ...]
    text: str
    function: Callable[..., Any]

    def __str__(self) -> str:
        given = ", ".join(f"{dtype}{list(shape)}{view}" for dtype, shape, view in self.operands)
        return f"{self.number}: {self.text} of {given}"


EXPRESSIONS: list[Expression] = []


def add(tier: int, group: str, operands: str, texts: str) -> None:
    """Add expressions, apart by semicolons, of the same operands, such as ``f4(3,4)[::-1] i8()``."""
    parsed = []
    for word in operands.split():
        dtype, _, rest = word.partition("(")
        shape, _, view = rest.partition(")")
        parsed.append((dtype, tuple(int(size) for size in shape.split(",") if size), view))
    names = ", ".join("abcdefgh"[: len(parsed)])
    for text in map(str.strip, texts.split(";")):
        number = len(EXPRESSIONS)
        code = with_source(f"lambda xp, {names}: {text}", f"expression {number}", "eval")
        function = eval(code, {"iadd": operator.iadd, "imul": operator.imul, "isub": operator.isub, "np": np,
                               "itruediv": operator.itruediv, "Ellipsis": Ellipsis})
        EXPRESSIONS.append(Expression(number, tier, group, tuple(parsed), text, function))


def arrays_for(expression: Expression, xp: Any, **placement: Any) -> list[Any]:
    """Return fresh operands, the same values at each call."""
    rng = np.random.default_rng(expression.number)
    arrays = []
    for dtype, shape, view in expression.operands:
        kind = np.dtype(dtype).kind
        if kind == "b":
            values = rng.integers(0, 2, shape).astype(bool)
        elif kind in "iu":
            values = rng.integers(0 if kind == "u" else -3, 4, shape).astype(dtype)
        elif kind == "c":
            values = (rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)).astype(dtype)
        else:
            values = (rng.integers(-12, 13, shape) / 4).astype(dtype)
        array = xp.asarray(values, **placement)
        if view:
            array = eval(f"a{view}", {"a": array, "xp": xp, "nan": xp.nan, "inf": xp.inf})
        arrays.append(array)
    return arrays


def groups() -> Iterator[tuple[str, list[Expression]]]:
    """Yield the groups of expressions that are fused together."""
    for name in dict.fromkeys(expression.group for expression in EXPRESSIONS):
        yield name, [expression for expression in EXPRESSIONS if expression.group == name]


# --- tier 1: products, arithmetic, scalars, broadcasting, transposes, einsum of two -----------------------------------

for t in USUAL:
    add(1, f"products {t}", f"{t}(3,4,5) {t}(3,5,6)", """
        a @ b; xp.matmul(a, b); 2 * (a @ b); (a @ b) * 2 + 1; xp.einsum('bij,bjk->bik', a, b);
        xp.einsum('bij,bjk->bki', a, b); (a @ b).transpose(0, 2, 1) * 2; a @ b - xp.matmul(a, b) * 3
    """)
    add(1, f"chains {t}", f"{t}(3,4,5) {t}(5,5) {t}(3,4,4) {t}(4,6)", """
        a @ b.T @ a.swapaxes(1, 2) + c; c @ (a @ b); (c @ a) @ b; c @ d; 3 * (c @ d) - 1; (a @ b) * (a @ b);
        xp.matmul(c, xp.matmul(a, b)) + a; a @ (b + b.T); c.transpose(0, 2, 1) @ d; c.swapaxes(-1, -2) @ a;
        xp.moveaxis(a, 1, 2) @ c; -(c @ d)
    """)
    add(1, f"arithmetic {t}", f"{t}(3,4,6) {t}(3,4,6) {t}(6) {t}()", """
        a + b; a - b; a * b; a / (b * b + 1); -a; a + c; c - a; a * d; a + 2; 2 - a; a * 3; 3 * a - 1; a / 2; +a;
        a * b + c - d; xp.add(a, b); xp.subtract(a, c); xp.multiply(a, d); xp.divide(a, 4); xp.negative(b)
    """)
    add(1, f"out {t}", f"{t}(3,4,5) {t}(3,5,4) {t}(3,4,4)", """
        xp.matmul(a, b, out=c); xp.add(c, c, out=c); iadd(c, a @ b); imul(c, 2); isub(c, c * 3);
        xp.multiply(c, 3, out=c) + 1
    """)
for s, t in (pair.split("+") for pair in "i4+f4 f4+f8 i8+f4 i1+i4 u1+i2 f2+f4 ?+f4 u4+i4".split()):
    add(1, f"promotion {s} {t}", f"{s}(2,3,4) {t}(2,4,3)", """
        a @ b; a + b.swapaxes(1, 2); a * b.transpose(0, 2, 1); a - b.swapaxes(-2, -1)
    """)
for t in DTYPES:
    add(1, f"dtype {t}", f"{t}(2,3,4) {t}(2,4,3)", """
        a @ b; a + a; a * b.swapaxes(1, 2); a * 2
    """)
add(1, "views", "f4(4,5)[::-1] f4(5,3)[:,::-1] f4(3,4).T f4(1,5).T", """
    a @ b; a + 1; a.T; a.T + a.T; c * 2; b[::2] * 2; a[1:3] @ b; a[:, 1] * 2; a[1] @ b; a[..., None] * 2;
    d.T @ b; a[None] @ b
""")
add(1, "broadcasting", "f4(5,1,3,4) f4(2,4,3) f4(4) f4(1,4)", """
    a @ b; a * c; a + d; b @ (a[0, 0] + d); a @ c; c @ b; (a @ b) + 1; a[:, 0] @ b[0]; a * a[:1]; c + d
""")
add(1, "zero strides", "f8(1,4,4)[0] f8(3,1,4)", """
    xp.broadcast_to(a, (3, 4, 4)) @ a; xp.broadcast_to(b, (3, 4, 4)) @ a; xp.broadcast_to(b, (3, 4, 4)) + a; b @ a;
    xp.broadcast_to(a, (3, 4, 4)) * b
""")
add(1, "sizes of zero", "f4(0,4,5) f4(0,5,3) f4(3,0) f4(2,3,4)", """
    a @ b; a * 2; (a @ b) + 1; a + a; c * c; -c; c.T; a.swapaxes(1, 2) * 3; d[:0] @ d.swapaxes(1, 2)[:0];
    d[:, :0] * 2
""")
add(1, "0-d to 6-d", "f8() f8(3) f8(2,3) f8(2,2,3,3) f8(2,1,2,3,3) f8(2,1,2,1,3,2)", """
    a * 2; a + a; b @ b; c @ b; d @ d; d @ e; e @ e; e @ f; f + 1; f * f; -f; d + e; a * f; c @ d; b @ d
""")
add(1, "nan and infinity", "f4(3,4)*xp.nan f4(3,4)*xp.inf f4(4,3) f8(4,4)", """
    a + b; a * 0; b - b; a @ c; b @ c; a * b; b / b; (a @ c) + 1; xp.maximum(a, b); xp.minimum(b, a); c / 0
""")
add(1, "einsum", "f4(3,4,5) f4(3,5,6) f4(4,5) f4(5,4)", """
    xp.einsum('bij,bjk->bik', a, b); xp.einsum('bij,ij->bi', a, c); xp.einsum('ij,jk', c, d);
    xp.einsum('ij,jk->ki', c, d); xp.einsum('bij,ij->b', a, c); xp.einsum('ij,ji->', c, d);
    xp.einsum('ij,ij->ij', c, c); xp.einsum('...ij,...jk->...ik', a, b); xp.einsum('bij,bjk', a, b);
    xp.einsum('i...,j...->ij...', c, c); xp.einsum('ij->ji', c); xp.einsum('ij->i', c); xp.einsum('ii->i', c @ d);
    xp.einsum('bij->', a); xp.einsum('bij,kj->bik', a, c); xp.einsum('bij,jk->ikb', a, d);
    xp.einsum('bij,cij->bc', a, a)
""")

# --- tier 2: other products, several operands, reductions, shapes, astype ---------------------------------------------

for t in ("f4", "f8", "i4"):
    add(2, f"tensordot {t}", f"{t}(3,4,5) {t}(5,6) {t}(4,5) {t}(5)", """
        xp.tensordot(a, b, 1); xp.tensordot(a, c); xp.tensordot(a, c, ((1, 2), (0, 1)));
        xp.tensordot(a, b, axes=((2,), (0,))); xp.dot(a, b); xp.dot(c, d); xp.dot(d, d); xp.inner(a, c);
        xp.inner(d, d); a.dot(b); xp.vdot(c, c); xp.outer(d, c)
    """)
    add(2, f"einsum of many {t}", f"{t}(3,4,5) {t}(5,6) {t}(6,4) {t}(3,4)", """
        xp.einsum('bij,jk,kl->bil', a, b, c); xp.einsum('bij,jk,ki->b', a, b, c);
        xp.einsum('bij,bi,jk->bk', a, d, b); xp.linalg.multi_dot([c, a[0], b]);
        xp.linalg.multi_dot((a[0, 0], b, c)); xp.einsum('bij,bij,bi->b', a, a, d)
    """)
    add(2, f"reductions {t}", f"{t}(3,4,5) {t}(3,5,4)", """
        (a @ b).sum(axis=-1); xp.sum(a @ b, axis=1); (a @ b).sum(); a.sum(axis=(1, 2)); a.sum(axis=0);
        xp.sum(a, axis=2, keepdims=True); a - a.max(axis=-1, keepdims=True); xp.max(a, axis=1); a.min(axis=2);
        a.mean(axis=-1); xp.mean(a @ b, axis=(1, 2)); xp.prod(a, axis=2); a.min();
        (a * b.swapaxes(1, 2)).sum(axis=2)
    """)
    add(2, f"shapes {t}", f"{t}(3,4,6) {t}(3,6,4) {t}(4,1)", """
        (a @ b).reshape(3, 16); a.reshape(3, 24) * 2; xp.reshape(a, (12, 6)) @ b[0]; xp.expand_dims(a, 1) @ b;
        (a @ b)[:, 1:3] + 1; xp.squeeze(c) * 2; xp.broadcast_to(c, (3, 4, 6)) + a; (a @ b).reshape(-1);
        a.reshape(3, 2, 2, 6)[:, 1] @ b; (a @ b).T; a.transpose(2, 0, 1) * 2;
        xp.swapaxes(a, 0, 1) + c[:, 0][:, None, None]; a.ravel() + 1; c.squeeze(1) + 1; (a * 2).reshape(6, 12) + 1;
        xp.flip(a, 1) @ b
    """)
for t in ("f4", "f8", "i4", "i8", "?", "u1", "i2"):
    add(2, f"astype {t}", f"{t}(3,4)", """
        a.astype('?'); a.astype('i1'); a.astype('i4'); a.astype('i8'); a.astype('f4'); a.astype('f8');
        a.astype('f8') * 2; xp.astype(a, 'f4') + 1
    """)
for t in USUAL:
    add(2, f"comparisons {t}", f"{t}(3,4) {t}(4)", """
        a == b; a != b; a < b; a <= 1; a > b; a >= b; (a > 0) * a; xp.maximum(a, b); xp.minimum(a, 0); abs(a);
        xp.where(a > b, a, b); xp.where(a > 0, a * 2, b - 1); xp.square(a); xp.sign(a); xp.logical_and(a, b);
        xp.clip(a, -1, 2); (a > 0) & (a < 3); ~(a > 0); a ** 2; a ** 3
    """)
for t in FLOATS:
    add(2, f"functions {t}", f"{t}(3,4) {t}(4)", """
        xp.exp(a); xp.sqrt(abs(a)); xp.log(a * a + 1); xp.sin(a); xp.cos(a) + b; xp.tanh(a); xp.reciprocal(a + 10);
        xp.exp(-a * a) * b; xp.isnan(a / b); 1 / (1 + xp.exp(-a)); (a > 0).any(axis=1); (a > -9).all()
    """)
add(2, "attention", "f4(2,5,4) f4(2,6,4) f4(2,6,3)", """
    xp.exp(a @ b.swapaxes(1, 2) - (a @ b.swapaxes(1, 2)).max(axis=-1, keepdims=True)) @ c;
    (a @ b.swapaxes(1, 2)) / xp.sum(xp.exp(a @ b.swapaxes(1, 2)), axis=2, keepdims=True) @ c
""")

for t in "f4 f8 f2 i4 u1 ?".split():
    # Not the variance of one number: dpnp 0.15 gives 1 for a bool, and for an integer, now and then under load.
    add(2, f"deviations and norms {t}", f"{t}(3,4,5) {t}(3,4,5)[::-1,:,::2] {t}(5) {t}()", """
        a.std(axis=-1); a.var(axis=(0, 2)); xp.std(a, axis=1, ddof=1); xp.var(a, axis=-2, ddof=1.5, keepdims=True);
        xp.var(c); c.std(ddof=5); c.std(ddof=7); xp.std(b, axis=(1, -1)); xp.var(xp.broadcast_to(c, (3, 4, 5)), axis=0);
        xp.var(c * 1); (a - a.mean(-1, keepdims=True)) / (a.std(-1, keepdims=True) + 1);
        xp.linalg.norm(a, axis=-1); xp.linalg.norm(a, 1, -2, True); xp.linalg.norm(b, xp.inf, 1);
        xp.linalg.norm(a, -xp.inf, 0); xp.linalg.norm(c, 0); xp.linalg.norm(a, axis=(1, 2));
        xp.linalg.norm(b, 'fro', (0, -1), keepdims=True); xp.linalg.norm(a, 1, (0, 2)); xp.linalg.norm(a, -1, (2, 0));
        xp.linalg.norm(b, xp.inf, (-1, 1), True); xp.linalg.norm(a, -xp.inf, (2, 1)); xp.linalg.norm(c, 2, 0)
    """)
for t in ("f4", "f8", "i4", "?"):
    add(2, f"norms of whole arrays {t}", f"{t}(3,4,5) {t}(4,5).T {t}(5) {t}()", """
        xp.linalg.norm(a); xp.linalg.norm(b); xp.linalg.norm(b, 'fro', keepdims=True); xp.linalg.norm(c, 2);
        xp.linalg.norm(d); a / xp.linalg.norm(a, axis=(0, 1, 2)[:1], keepdims=True).max(); xp.linalg.norm(b, 1)
    """)
add(2, "deviations and norms of odd values", "f4(3,4)*xp.nan f4(3,4)*xp.inf f8(3,4)*1e200 f4(3,0)", """
    a.std(axis=1); b.var(axis=0); c.std(axis=1); xp.linalg.norm(a, axis=0); xp.linalg.norm(b, 1, 1);
    xp.linalg.norm(a, xp.inf, 1); xp.linalg.norm(b, -xp.inf, 0); xp.linalg.norm(c, axis=1); xp.linalg.norm(b, 0, 1)
""")
for t in "f4 f8 f2 i4 u1 ?".split():
    add(2, f"arrays side by side {t}", f"{t}(3,4,5) {t}(3,2,5)[::-1,::-1] {t}(4,5) {t}(5) {t}()", """
        xp.stack([a, a[::-1]]); xp.stack((a, a), axis=-1); xp.stack([a, a[:, :, ::-1], a], axis=1)[:, 1];
        xp.concatenate([a, b], axis=1); xp.concatenate((b, a, b), axis=-2); xp.concatenate([c, c[:0], c[1:3]]);
        xp.concatenate([c]); xp.concatenate([a, b, d], axis=None); xp.hstack([c, c[:, :2]]); xp.hstack((d, d, d));
        xp.vstack([d, c]); xp.vstack([d, d]); xp.dstack((c, c)); xp.dstack([d, d]); xp.column_stack([c.T, d, d]);
        xp.stack([e, e]); xp.hstack([e, e, e]); xp.row_stack([d, c]); xp.stack([d[:1]] * 3, axis=1);
        xp.concatenate([xp.broadcast_to(d, (4, 5)), c]); xp.stack([c, xp.broadcast_to(d, (4, 5))], axis=-3);
        xp.concatenate([xp.stack([d, d]), c]); xp.stack([a[:, 0], a[:, 1]], axis=1) == a[:, :2]
    """)
add(2, "arrays side by side of several kinds", "f4(3,4) i4(3,4) f8(3,4) ?(3,4) u1(3,4) i8(3,0)", """
    xp.stack([a, b]); xp.stack([b, c, d], axis=1); xp.concatenate([d, e]); xp.concatenate([a, e, d], axis=1);
    xp.vstack([b, e]); xp.concatenate([f, a], axis=1); xp.concatenate([f, f], axis=1); xp.stack([f, f]);
    xp.stack([a > b, d]); xp.concatenate([a, f, c], axis=-1)
""")
add(2, "arrays side by side in kernels", "f4(6,4,5) f4(6,5,3) f4(6,4,3) f4(300,40) f4(4,3)", """
    xp.stack([a @ b, c], axis=1); xp.concatenate([a @ b, c + 1], axis=2); xp.concatenate([a @ b, c], axis=1) @ e.T;
    xp.concatenate(a); xp.concatenate([a, c], axis=2) @ xp.concatenate([b, c[:, :3]], axis=1);
    xp.stack([a @ b, c]).sum(axis=0);
    xp.stack([(a @ b).sum(1), c.max(1)], axis=1); xp.concatenate([a @ b, c], axis=0) * 2;
    xp.stack([d, d * 2, d + 1], axis=-1); xp.concatenate([d.T, d.T * 2], axis=0).reshape(-1);
    xp.concatenate([d, d * 2], axis=1).T @ d; xp.stack([a @ b, a @ b]) + c; xp.stack([c[i] @ e.T for i in range(6)]);
    xp.concatenate([c, a @ b], axis=1)[:, 3:6] * 2; xp.stack([d.sum(1), d.max(1), d[:, 0]], axis=1);
    xp.matmul(a, b, out=c) + xp.stack([c, a @ b], axis=-1)[..., 0]
""")
for t in "i1 u2 i4 u8 f4 f8 ?".split():
    add(2, f"division with remainder {t}", f"{t}(6,7) {t}(6,7)[::-1,::-1] {t}(7) {t}()", """
        a // 2; a % 2; a // b; a % b; 7 // a; 7 % a; c % a; d % a; xp.mod(a, 3); a % 2.5; a // 0.5; a // d; a % 0
    """)
for t in "i2 i8 f2 f4".split():
    add(2, f"signed division with remainder {t}", f"{t}(6,7) {t}(6,7)[::-1,::-1] {t}(7)", """
        a // -2; a % -2; -7 // a; -7 % b; (a - b) // (b - c); (a - b) % (b - c); a % -1; a // -1
    """)
for s, t in (pair.split("+") for pair in "i4+f4 i4+u4 u1+i2 ?+i4 i8+u8".split()):
    add(2, f"division of {s} and {t}", f"{s}(5,6) {t}(5,6)", "a // b; a % b; b // a; b % a")
for t in FLOATS:
    add(2, f"powers by products {t}", f"{t}(5,6) {t}()", """
        a ** 0.5; abs(a) ** 0.5; a ** -1; a ** -2.0; abs(a) ** 1.5; abs(a) ** -0.5; a ** -3; abs(a) ** 3.5; a ** 4.0;
        a ** 5; (a @ a.T) ** 2.0; b ** 7
    """)
    add(2, f"powers {t}", f"{t}(5,6) {t}(5,6)[::-1] {t}(6) i2(5,6) {t}()", """
        a ** b; abs(a) ** c; a ** d; abs(a) ** 2.2; a ** 0; a ** e; 2.5 ** a; (-2) ** xp.sign(a); abs(a) ** (1 / 3)
    """)
for t in "f4 f8 f2 i4 u1 ?".split():
    add(2, f"triangles and places of extremes {t}", f"{t}(3,4,5) {t}(4,5)[::-1,::-1] {t}(5) {t}(300,7)", """
        xp.tril(a); xp.triu(a, k=1); xp.tril(b, k=-2); xp.triu(b.T, k=-1); xp.tril(c); xp.triu(c, k=7);
        xp.tril(a[:, 1:2]);
        xp.tril(a, k=2).sum(axis=1); a * xp.tri(4, 5); xp.argmax(a); xp.argmin(a, axis=1); a.argmax(axis=-1);
        xp.argmin(b); xp.argmax(b.T, axis=0, keepdims=True); c.argmin(); xp.argmax(a.swapaxes(0, 2), axis=1);
        xp.argmax(d, axis=1); xp.triu(d, k=-200);
        xp.argmax(d); xp.argmin(d, axis=0)
    """)
add(2, "triangles and places of extremes in kernels", "f4(6,5,4) f4(6,4,5) f4(6,6) f4(400,400)", """
    xp.tril(a @ b); xp.triu(a @ b, k=1) @ a; xp.where(xp.tri(5) > 0, a @ b, -xp.inf); xp.argmax(a @ b, axis=-1);
    xp.exp(xp.where(xp.tril(c) != 0, c, -9)) @ c; xp.tril(d)[::-1] + xp.triu(d, k=3); xp.argmin(xp.tril(c) - c, axis=0);
    xp.tri(3, 5, -1); xp.tri(4, k=2) * 2; xp.tri(0); xp.tri(3, 0); xp.tril(a @ b)[:, ::-1, 1:]; xp.triu(c[:, None]);
    xp.triu(c).T + xp.tril(c.T); xp.tril(d[:, :3]).sum(axis=1)
""")
add(2, "places of odd extremes", "f4(3,4)*xp.nan f4(3,4)*xp.inf f8(3,4)*0 f4(3,4)", """
    xp.argmin(b); xp.argmax(c, axis=0); xp.argmin(xp.where(d == d.max(1, keepdims=True), xp.nan, d)[:1], axis=0);
    xp.argmax(xp.where(d == d.max(), xp.nan, d)); xp.argmax(b, axis=1); xp.tril(a); xp.triu(b)
""")
for t in "f4 f8 i4 u1 f2 ?".split():
    add(2, f"running sums {t}", f"{t}(3,4,5) {t}(4,5)[::-1,::-1] {t}(5)", """
        xp.cumsum(a, axis=1); a.cumsum(axis=-1); xp.cumsum(b, axis=0); xp.cumsum(b); c.cumsum();
        xp.cumsum(c, axis=0)[::-1]; xp.cumprod(b, axis=1); xp.cumsum(a, axis=0) * 2;
        xp.cumsum(a[:, :1], axis=1); xp.cumsum(b.T, axis=1).max(axis=0)
    """)
for t in "i8 i4 u1".split():
    add(2, f"elements at places {t}", f"f4(3,4,5) {t}(7) f8(5) {t}(2,3) i4(6,4)", """
        a[b]; a[:, b]; xp.take(a, b, axis=-1); c[b]; xp.take(c, b, mode='clip'); c.take(b); a[:, d] * 2; a[d]; c[d];
        a[:, :, b]; (a @ a.swapaxes(1, 2))[:, b]; a[b] @ c; (a * 2 + 1)[..., 0][:, b]; c[b * 3 - 5]; e[b][:, b % 3 + 1];
        xp.take(e, b * 100 - 100, axis=1); a[:, b].sum(axis=1); xp.take(a, b, axis=0, mode='clip'); c[b][::-1];
        c[xp.argmax(e, axis=1)]; c[d].T + d.T
    """)

_MATHEMATICS = """
    xp.exp2(a); xp.expm1(a); xp.log2(abs(a) + 1); xp.log10(abs(a) + 1); xp.log1p(abs(a)); xp.cbrt(a); xp.tan(a);
    xp.sinh(a); xp.cosh(a); xp.arcsin(xp.sin(a)); xp.arccos(xp.cos(a)); xp.arctan(a); xp.arcsinh(a);
    xp.arccosh(abs(a) + 1); xp.arctanh(xp.tanh(a) * 0.5); xp.rsqrt(abs(a) + 1); xp.arctan2(a, b); xp.arctan2(a, 2);
    xp.hypot(a, b); xp.logaddexp(a, b); xp.copysign(a, b)
"""
_ROUNDING = """
    xp.floor(a); xp.ceil(a); xp.trunc(a); xp.rint(a * 0.5); xp.round(a); xp.around(a); a.round(); xp.isfinite(a);
    xp.isinf(a); a.conj(); xp.conj(a); a.conjugate(); xp.clip(a, None, 1); xp.clip(a, 0, None); a.clip(1)
"""
for t in "f4 f8 f2 i4 u1".split():
    add(2, f"mathematics {t}", f"{t}(3,4,5) {t}(4,5)[::-1,::-1]", _MATHEMATICS)
for t in "f4 f8 f2 i4 i8 u1".split():
    add(2, f"rounding {t}", f"{t}(3,4,5)", _ROUNDING)
add(2, "mathematics of floats", "f4(3,4) f4(4) f8(3,4) i4(3,4)", """
    xp.erf(a); xp.erf(c); xp.fabs(a); xp.fmod(a, b + 9); xp.signbit(a); xp.signbit(c * 0); xp.fabs(d);
    xp.fmod(c, a - 9); xp.isfinite(a / b); xp.isinf(1 / c); xp.radians(a); xp.deg2rad(c); xp.degrees(a); xp.rad2deg(c);
    xp.radians(d)
""")
add(2, "mathematics of odd numbers", "f4(3,4)*xp.nan f4(3,4)*xp.inf f8(3,4)*0 f4(3,4)", """
    xp.floor(b); xp.rint(a); xp.ceil(-abs(d) / 99); xp.trunc(c); xp.arctan2(c, -c); xp.arctan2(b, -b); xp.hypot(a, b);
    xp.logaddexp(b, b); xp.logaddexp(-b, d); xp.copysign(a, -1.0); xp.copysign(d, -c); xp.log1p(-d / d); xp.arcsin(d);
    xp.expm1(c); xp.cbrt(b); xp.isfinite(b); xp.isinf(a); xp.isfinite(d / c); xp.signbit(-c); xp.erf(b); xp.tan(b)
""")
for t in "i4 i8 u1 i2".split():
    add(2, f"shifts {t}", f"{t}(3,4) {t}(4) {t}()", """
        a << b; a >> b; xp.left_shift(a, 1); xp.right_shift(a, 1); a >> 40 % 31; 1 << abs(b); a << c; (a + 100) >> b * 9
    """)
for t in "f4 f8 i4 u1 f2 ?".split():
    add(2, f"parts moved {t}", f"{t}(3,4,5) {t}(4,6)[::-1] {t}(7)", """
        xp.roll(a, 1); xp.roll(a, -2, axis=1); xp.roll(a, (1, 2), axis=(0, 2)); xp.roll(b.T, 9, -1); xp.roll(c, 0);
        xp.roll(a, [1, -1], [0, 1])[:, ::-1]; xp.tile(a, 2); xp.tile(b, (2, 1, 3)); xp.tile(c, 0); xp.tile(c, (2, 3));
        xp.repeat(a, 3, axis=1); xp.repeat(b, 2); c.repeat(3); xp.repeat(b, 2, axis=-1)[1:]; xp.atleast_1d(c);
        xp.atleast_2d(c); xp.atleast_3d(c, b, a); xp.atleast_2d(xp.max(c)); xp.flipud(a); xp.fliplr(b);
        xp.rollaxis(a, 2); xp.rollaxis(a, 0, 3); xp.rollaxis(a, 1, -1); xp.rollaxis(a, 1, 1)
    """)
for t in "f4 f8 i4 i8 f2".split():
    add(2, f"differences, traces and products of vectors {t}", f"{t}(3,4,5) {t}(4,6)[::-1] {t}(7) {t}(4,3)", """
        xp.diff(a); xp.diff(a, 2, axis=0); xp.diff(a, axis=1, prepend=a[:, :1]); xp.diff(c, append=c[:1]);
        xp.diff(b, append=c[0]); xp.diff(b, 0); xp.diff(b, 9); xp.trace(b); xp.trace(b, 1); xp.trace(a, 0, 1, 2);
        xp.trace(a, -1, 2, 0); b.trace(); xp.trace(b @ b.T); xp.diagonal(b); xp.diagonal(a, 0, 1, 2) + a[:, :, 0];
        b.diagonal(-1); xp.diagonal(b, 9); xp.diagonal(b @ b.T)[::-1]; xp.cross(d, d[::-1]); xp.cross(d, d[0]);
        xp.cross(d.T, d.T[::-1], axis=0); xp.cross(d, d * 2 - 1, axisc=0); xp.kron(b, d); xp.kron(c, b); xp.kron(a, d);
        xp.kron(b @ b.T, d); xp.kron(c, 2); xp.diff(b > 1)
    """)
    add(2, f"patterns of numbers {t}", f"{t}(3,4,5) {t}(4,6)[::-1] {t}(7) {t}(4,4)", f"""
        xp.full((2, 3), 2.5) * a[0, 0, 0]; xp.full(3, 7, dtype='{t}') + c[:3]; xp.full_like(a, 3);
        xp.full_like(b, 1) @ b.T; xp.full((), 4) + a; xp.full_like(d, 2, dtype='f4') @ d; xp.diag(c); xp.diag(c, 2) + 1;
        xp.diag(c, -9); xp.diag(b); xp.diag(b, -1); xp.diag(d @ d); xp.diag(c[:4]) @ d; xp.diag(b[0], 1)[1:, ::-1];
        xp.diagflat(a[:1, :2]); xp.diagflat(b, -1); xp.meshgrid(c, b[0]); xp.meshgrid(c)[0] * 2;
        xp.meshgrid(c, b[0] @ b.T, indexing='ij')[1] + 1; xp.meshgrid(c[:3], c[:2], c[:4]);
        xp.meshgrid(c, c[:2], sparse=True); xp.real(a) * 2; xp.real(b) is b
    """)
    add(2, f"statistics of a few {t}", f"{t}(3,4,5) {t}(7)", """
        xp.count_nonzero(a); xp.count_nonzero(a, axis=1); xp.count_nonzero(a, axis=(0, 2), keepdims=True);
        xp.average(a, axis=0); xp.average(b); xp.ptp(a, axis=1); xp.ptp(a, axis=(0, 1), keepdims=True);
        xp.logsumexp(a, axis=-1); xp.logsumexp(b); xp.logsumexp(a, axis=(0, 1), keepdims=True); xp.nansum(a, axis=0);
        xp.nansum(b); xp.nanprod(b); xp.nansum(xp.log(a), axis=1)
    """)
for t in "f4 f8 i4".split():
    add(2, f"powers of matrices {t}", f"{t}(4,4) {t}(3,2,2)", """
        xp.linalg.matrix_power(a, 1) + 1; xp.linalg.matrix_power(a, 2); xp.linalg.matrix_power(b, 3);
        xp.linalg.matrix_power(b, 5); xp.linalg.matrix_power(b @ b, 4)
    """)
add(2, "inverse powers of matrices", "f8(3,4,4)", "xp.linalg.matrix_power(a, -1); xp.linalg.matrix_power(a, -3)")
add(2, "sums of odd exponentials", "f4(3,4)*xp.nan f4(3,4)*xp.inf f4(3,4)*0-xp.inf", """
    xp.logsumexp(a, axis=0); xp.logsumexp(b, axis=1); xp.logsumexp(c, axis=0); xp.nansum(a); xp.nansum(b, axis=0);
    xp.nanprod(a, axis=1)
""")

# --- complex numbers --------------------------------------------------------------------------------------------------

for t, r in (("c8", "f4"), ("c16", "f8")):
    add(1, f"complex arithmetic {t}", f"{t}(3,4,6) {t}(3,4,6) {t}(6) {t}() {r}(3,4,6)", """
        a + b; a - b; a * b; a / (b + 0.5); -a; +a; a + c; c - a; a * d; a + 2; 2 - a; a * 3; 3 * a - 1.5; a / 2;
        a * 1j; 1j * a; (0.5 - 2j) * a + b; a / (1 + 2j); 2.5 / (a + 0.5j); e * 1j; a + e; e - a; a * e;
        a / (e + 0.25); (e + 0.25) / (a + 0.5); a * b + c - d; xp.add(a, b); xp.multiply(a, 2j); xp.divide(a, 4);
        xp.negative(b); a * np.complex64(2j); a + np.complex128(1 - 1j); 1j + e
    """)
    add(2, f"complex parts {t}", f"{t}(3,4,6) {t}(4,6)[::-1] {t}(6,4).T {r}(3,4,6)", """
        a.conj(); xp.conj(b) + c; xp.conjugate(a) * b; xp.real(a); xp.imag(a) * 2; xp.real(b) + xp.imag(c);
        xp.real(a * b.conj()); xp.real(d); a == b; a != c; a == 2j; d == a; a == a.conj(); xp.where(d > 0, a, b);
        xp.where(d > 0, a, 1j); xp.where(a == b, d, c); a.astype('c16'); d.astype('c8') * c; (a * 2).astype('c8');
        a.copy(); b.T * 2; c[::2, 1:] + 1j; a[..., None] * 2; xp.stack([a, a * b]);
        xp.concatenate([b, c * 1j], axis=1); xp.stack([b, b.conj()], axis=2); xp.concatenate([a, d]);
        xp.flip(b, 0) + c; a.reshape(12, 6) @ c.T; xp.tril(b); xp.roll(b, 1, axis=1); xp.diff(a); xp.kron(b, c)
    """)
    add(1, f"complex products {t}", f"{t}(3,4,5) {t}(3,5,6) {t}(4,5) {r}(5,4) {t}(5)", """
        a @ b; xp.matmul(a, b); 2j * (a @ b); (a @ b) * 2 + 1; xp.einsum('bij,bjk->bik', a, b); a @ d; d @ a;
        c @ d @ c; xp.einsum('bij,bjk->bki', a, b); a.conj() @ b; a @ a.conj().swapaxes(1, 2);
        xp.einsum('ij,ij->i', c, c.conj()); xp.tensordot(a, b, axes=((0, 2), (0, 1))); xp.dot(c, d); xp.dot(e, e);
        xp.vdot(e, e); xp.vdot(c, d.T); xp.vdot(d, c.T); xp.inner(c, c); xp.outer(e, d); xp.einsum('bij,ij->', a, c);
        c @ e; e @ d; xp.linalg.multi_dot([c, d, c]); xp.einsum('ij,jk,kl->il', c, d, c); a @ b + a @ b * 2j;
        xp.trace(c @ d); xp.linalg.matrix_power(c @ d, 3)
    """)
    add(2, f"complex sums {t}", f"{t}(3,4,5) {t}(70) {t}(33,2) {r}(3,4) {t}(0,3)", """
        a.sum(); a.sum(axis=0); a.sum(axis=(1, 2)); a.mean(axis=1); a.mean(); b.sum(); b.mean(); c.sum(axis=0);
        c.mean(axis=0, keepdims=True); a.sum(axis=2) * 1j; a - a.mean(axis=-1, keepdims=True); xp.sum(a * a.conj());
        d.sum(axis=0, dtype='c16'); a.sum(axis=1, dtype='c16'); xp.average(a, axis=0); e * 2; e.T @ e;
        xp.sum(b * 1j + 1)
    """)
    add(2, f"complex views of parts {t}", f"{t}(3,4,6) {t}(4,6)[::-1] {t}(6,4).T {r}(3,4,6)", """
        a.real; a.imag; b.real; c.imag; a.real + 1; a.imag * d; (a * b).real; (a + b).imag.sum(axis=1);
        a.real @ c.imag.T; a[1].real; a.real[:, ::2]; b.imag.T; a.imag.reshape(12, 6); a.real.reshape(-1)[::3];
        (a * 2).imag[..., 1:] + d[..., 1:]; (a * a.conj()).real; a.real - 1j * a.imag; xp.stack([a.real, a.imag]);
        a.real.max(axis=0); d.real; iadd(a.real, d); imul(a.imag, 2); iadd(b.real, c.imag);
        isub(a.imag[1:], a.real[:-1]); a.real.copy(); a.imag.astype('c16') * 1j; xp.where(a.real > b.imag, a, b);
        xp.maximum(a.real, a.imag); xp.add(a.real, 1, out=a.imag)
    """)
    add(2, f"complex functions {t}", f"{t}(3,4,6) {t}(4,6)[::-1] {t}(70) {r}(3,4,6)", """
        abs(a); xp.abs(b) + 1; xp.angle(a); xp.square(a); xp.exp(a); xp.exp(1j * d); xp.exp(-1j * abs(b)) * a;
        xp.isnan(a); xp.isfinite(b); xp.isinf(a); abs(a * b).sum(axis=0); xp.var(a, axis=0); a.std(axis=(0, 1));
        xp.var(c); b.std(ddof=1); xp.linalg.norm(a, axis=0); xp.linalg.norm(c); xp.linalg.norm(b, 'fro');
        xp.linalg.norm(b, 1); xp.linalg.norm(c, 0); xp.linalg.norm(a, xp.inf, axis=1);
        xp.linalg.norm(a, axis=(1, 2)); xp.nansum(a, axis=0); xp.take(a, xp.asarray([1, 0]), axis=1);
        a[:, xp.asarray([2, 0])] * 2; xp.cross(a[..., :3], b[:, 3:])
    """)
    add(2, f"complex arrays of numbers {t}", f"{t}(3,3) {t}(3) {r}(3,3)", f"""
        a + xp.eye(3, dtype='{t}'); a * xp.zeros((3, 3), dtype='{t}'); a + xp.ones((3, 3), dtype='{t}') * 1j;
        xp.full((3, 3), 2 - 1j) * a; xp.full((3, 3), 0.5j, dtype='{t}') + b; xp.full_like(a, 1.5) @ a;
        xp.zeros_like(a) + 1j; xp.diag(b) @ a; xp.identity(3, dtype='{t}') * 2j + c; xp.ones_like(a) * c;
        xp.full((2,), 3, dtype='{t}') * 1j
    """)
    add(1, f"complex out {t}", f"{t}(3,4,4) {t}(3,4,4) {r}(3,4,4)", """
        iadd(a, b); imul(a, 1j); isub(a, c); itruediv(a, 2); itruediv(a, c * c + 1); imul(a[1:], b[0]);
        xp.add(a, b, out=a); xp.matmul(a, b, out=xp.empty_like(a)); xp.multiply(a, 3, out=a) + 1j;
        iadd(a[:, ::2], c[:, 1::2])
    """)
    add(2, f"complex infinities {t}", f"{t}(3,4)*xp.inf {t}(3,4)*xp.nan {t}(3,4) {r}(3,4)*xp.inf", """
        a + c; a - c; -a; a + b; a == a; b == b; a != c; a.conj(); xp.real(a); xp.imag(a); a.sum(axis=0);
        xp.where(d > 0, a, c)
    """)
for s, t in (pair.split("+") for pair in "i4+c8 f8+c8 c8+c16 f2+c8 ?+c16 u1+c8 i8+c16 f4+c16".split()):
    add(2, f"complex promotion {s} {t}", f"{s}(2,3,4) {t}(2,4,3)", """
        a + b.swapaxes(1, 2); a * b.transpose(0, 2, 1); a @ b; b - a.swapaxes(-2, -1); a == b.swapaxes(1, 2);
        a.astype('c8'); a.astype('c16') @ b; a * 1j; xp.stack([a, b.swapaxes(1, 2)]); a / (b.swapaxes(1, 2) + 0.5)
    """)

# --- tier 3: left to dpnp, at least in part ---------------------------------------------------------------------------

for t in ("c8", "c16"):
    add(3, f"complex numbers left to dpnp {t}", f"{t}(3,4) {t}(3,4) f4(3,4) i4(3,4) f8(3,4)", """
        a ** 2; a ** 0.5; a ** b; xp.sqrt(a); xp.sin(a); xp.sign(a); xp.prod(a, axis=0); xp.cumsum(a, axis=0); a > b;
        a <= c; xp.maximum(a, b); a.max(axis=0); a.min(axis=1); xp.any(a, axis=0); xp.all(a, axis=1);
        xp.logical_and(a, c); xp.logical_not(a); xp.where(a, b, c); xp.argmax(a, axis=0);
        xp.count_nonzero(a, axis=0); xp.reciprocal(a + 0.5j); xp.clip(a, 0, 1); xp.round(a); xp.ptp(a, axis=0);
        a / (d * d + 1); a / (e * e + 1); xp.log(a + 4); xp.imag(c); a.cumsum(axis=1);
        xp.linalg.inv(a[:, :3] + 5 * xp.eye(3)); xp.linalg.det(a[:, :3]); a.sum(axis=0) / d.sum(axis=0);
        xp.linalg.norm(a, 2); xp.linalg.norm(a, 3, axis=0); xp.angle(a, True); xp.var(a, dtype='f4'); c.imag;
        xp.nanprod(a)
    """)

add(3, "statistics left to dpnp", "f4(3,4) f2(4) f4(3,0) f4(0,3)", """
    a.var(dtype='f8'); a.std(axis=[0, 1]); xp.linalg.norm(a, 2); xp.linalg.norm(a, 3, axis=0); a.var(axis=0, ddof=True);
    c.var(axis=0); c.std(); xp.linalg.norm(c); xp.linalg.norm(d, axis=1); d.var(axis=1); xp.linalg.norm(a, 2.5, 1)
""")
add(3, "arrays side by side left to dpnp", "f4(3,4) f4(3,4) c8(3,4)", """
    xp.stack([a, b], dtype='f8'); xp.stack([a, c]); xp.concatenate([a, b], dtype='f8'); xp.roll(c, 1); xp.tile(c, 2);
    xp.stack([a, b], out=xp.empty((2, 3, 4), dtype='f4')); xp.stack([a, b], out=xp.empty((2, 3, 4)));
    xp.concatenate([a, b], axis=1, out=xp.empty((3, 8), dtype='f4'))
""")
add(3, "powers left to dpnp", "i4(3,4) u1(3,4) ?(3,4) c8(3,4) f4(3,4)", """
    a ** b; a ** abs(a); 2 ** abs(a); a ** 17; a ** -1; a ** 0; a ** 5; b ** 16; c ** 2; d ** 0.5;
    a ** e; a ** 0.5; a ** -1.0;    b ** 0.5; c ** 0.5; c ** 1.5
""")
add(3, "left to dpnp", "f4(3,4) f4(4,3) i4(3)", """
    xp.cumsum(a[:0], axis=1); xp.round(a, 1); xp.trace(a, 9); xp.average(a, weights=a * a);
    xp.cross(a[:, :2], a[:, 2:]); a[c > 0]; a[c, c]; a[c, 0]; a[c[:0]]; xp.take(a, c[:0], axis=0);
    xp.cumsum(xp.sum(a)); xp.sort(a @ b); xp.linalg.det(a @ b);
    xp.zeros(3) + c; xp.tri(3, dtype='i4'); xp.argmax(c[:0][:, None], axis=1); xp.nonzero(c);
    xp.matmul(a, b, axes=[(0, 1), (0, 1), (0, 1)]); xp.linalg.inv(b @ a + 9 * xp.eye(4, dtype='f4'));
    xp.where(c > 0)
""")
