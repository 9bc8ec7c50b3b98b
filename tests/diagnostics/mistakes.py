"""What newcomers write, what it raises and what the error says; `tests.diagnostics.test_newcomers` tries it all.

Mistakes in the text of programs are in ``corpus/`` by the hundred; these are of calls, of the builder, of options, and
the most usual ones of programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tl_dpnp
from tests.runtime.support import AXPY

#: C := A B, for matrices in column-major order.
PRODUCT = """
func @product(%A: memref<f32x4x3>, %B: memref<f32x3x5>, %C: memref<f32x4x5>) {
  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<f32x4x3>, memref<f32x3x5>, f32, memref<f32x4x5>
}
"""
#: C := A B for packed integers A.
PACKED = """
func @packed(%A: memref<i4x4x3>, %B: memref<i8x3x5>, %C: memref<i32x4x5>) {
  gemm.n.n 1, %A, %B, 0, %C : i32, memref<i4x4x3>, memref<i8x3x5>, i32, memref<i32x4x5>
}
"""
#: x := n x where b.
CHOOSE = """
func @choose(%b: i1, %n: i32, %x: memref<i32x4>) {
  if %b {
    axpby.n 0, %x, %n, %x : i32, memref<i32x4>, i32, memref<i32x4>
  }
}
"""
TWO = AXPY + CHOOSE


@dataclass
class Mistake:
    """What somebody wrote, what it raises, and what the error says.

    `advice` is in the text of the error.  In place of `wrong` it gives right code after `names` in it were exchanged
    for the user's, or `right` does, where the advice is no code.  `place` is what the carets are under, None where the
    error is about Python code alone, whose line a traceback shows.
    """

    code: str
    wrong: str
    error: type[Exception]
    says: str
    advice: str
    right: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    place: str | None = None


def product(wrong: str, **rest: Any) -> Mistake:
    """Return a mistake in the call of a product of matrices, whose result is C."""
    code = f"""
        kernel = tl_dpnp.compile(PRODUCT)
        {wrong}
        got, want = C.asnumpy(), a @ b"""
    return Mistake(code, wrong=rest.pop("part", wrong), **rest)


def axpy(wrong: str, **rest: Any) -> Mistake:
    """Return a mistake in the call of y := 2 x + y."""
    code = f"""
        kernel = tl_dpnp.compile(AXPY)
        {wrong}
        got, want = y.asnumpy(), 2 * v + w"""
    return Mistake(code, wrong=rest.pop("part", wrong), **rest)


def scaled(wrong: str, **rest: Any) -> Mistake:
    """Return a mistake in how the program y := 2 x + y comes to a kernel."""
    return Mistake(f"""
        {wrong}
        kernel(2.0, x, y)
        got, want = y.asnumpy(), 2 * v + w""", wrong=rest.pop("part", wrong), **rest)


def built(wrong: str, types: str = "alpha=F32, x=memref(F32, 4), y=memref(F32, 4)", **rest: Any) -> Mistake:
    """Return a mistake in building y := 2 x + y."""
    return Mistake(f"""
        b = FunctionBuilder("axpy", {types})
        {wrong}
        tl_dpnp.compile(b)(2.0, x, y)
        got, want = y.asnumpy(), 2 * v + w""", wrong=rest.pop("part", wrong), **rest)


def program(text: str, wrong: str, **rest: Any) -> Mistake:
    """Return a mistake in the text of a program for C := A B."""
    code = f'''kernel = tl_dpnp.compile("""{text}""")
kernel(A, B, C)
got, want = C.asnumpy(), a @ b'''
    return Mistake(code, wrong, rest.pop("error", tl_dpnp.TLSyntaxError), **rest)


MISTAKES = {
    # --- arguments by position and by name
    "missing": axpy("kernel(2.0, x)", error=TypeError, says="axpy() missing 1 required positional argument: 'y'",
                    advice="axpy(alpha: f32, x: memref<f32x?>, y: memref<f32x?>, *, group_size=None)",
                    right="kernel(2.0, x, y)", place="%y"),
    "too many": axpy("kernel(2.0, x, 1.0, y)", error=TypeError, says="takes 3 positional arguments but 4 were given",
                     advice="axpy(alpha: f32, x: memref<f32x?>, y: memref<f32x?>, *, group_size=None)",
                     right="kernel(2.0, x, y)", place="@axpy"),
    "misspelt name": axpy("kernel(aplha=2.0, x=x, y=y)", part="aplha", error=TypeError, advice="alpha", place="@axpy",
                          says="axpy() got an unexpected keyword argument 'aplha'"),
    "name in other letters": product("kernel(a=A, B=B, C=C)", part="a=", error=TypeError, advice="did you mean A?",
                                     right="A=", says="unexpected keyword argument 'a'", place="@product"),
    "name of another library": product("kernel(A, B, out=C)", part="out", error=TypeError, place="@product", right="C",
                                       advice="product(A: memref<f32x4x3>, B: memref<f32x3x5>, C: memref<f32x4x5>",
                                       says="got an unexpected keyword argument 'out'"),
    "given twice": axpy("kernel(2.0, x, alpha=2.0, y=y)", part="alpha=2.0, ", error=TypeError, right="",
                        says="got multiple values for argument 'alpha'", place="%alpha",
                        advice="it is argument 1: give it by position or by name"),
    "exchanged matrices": product("kernel(B, A, C)", part="B, A, C", error=tl_dpnp.TLBindingError, place="%A",
                                  says="%A: memref<f32x4x3> takes an array of shape (4, 3), it was given (3, 5)",
                                  advice="if they are exchanged, give them by name: B=array", right="B=B, A=A, C=C"),
    "exchanged scalar": axpy("kernel(x, 2.0, y)", error=TypeError, place="%alpha", part="x, 2.0, y",
                             says="%alpha: f32 takes a Python or NumPy scalar", right="x=x, alpha=2.0, y=y",
                             advice="is it exchanged with another one? Arguments may be given by name"),
    "misspelt group_size": Mistake("""
        x = dpnp.zeros(3, dtype="int64")
        tl_dpnp.compile(COUNT)(x, 2, groupsize=2)
        got, want = x.asnumpy(), [2, 2, 0]""", "groupsize", TypeError, "unexpected keyword argument 'groupsize'",
                                   "group_size", place="@count"),
    # --- arrays
    "NumPy array": axpy("kernel(2.0, v, y)", part="v", error=TypeError, place="%x", names={"array": "v"},
                        says="it was given a NumPy array, which lives in the host's memory",
                        advice="dpnp.asarray(array)"),
    "list for an array": axpy("kernel(2.0, [x], y)", part="[x]", error=TypeError, place="%x", right="x",
                              says="a list; only a group takes several arrays", advice="pass one array"),
    "other dtype": axpy('kernel(2.0, x.astype("float64"), y)', part='x.astype("float64")', error=TypeError, place="%x",
                        says="%x takes an array of float32, it was given one of float64",
                        advice='dpnp.asarray(array, dtype="float32")', names={"array": 'x.astype("float64")'}),
    "other dtype of dpctl": Mistake("""
        kernel = tl_dpnp.compile(PRODUCT)
        kernel(dpt.asarray(a, dtype="float64", order="F"), B, C)
        got, want = C.asnumpy(), a @ b""", 'dpt.asarray(a, dtype="float64", order="F")', TypeError, "one of float64",
                                    'dpnp.asarray(array, dtype="float32")', place="%A",
                                    names={"array": 'dpt.asarray(a, dtype="float64", order="F")'}),
    "array of NumPy for a result": product('C = np.zeros((4, 5), dtype="float32", order="F")\n        kernel(A, B, C)',
                                           part="kernel(A, B, C)", error=TypeError, place="%C", says="a NumPy array",
                                           advice="array = dpnp.asarray(array)",
                                           right="C = dpnp.asarray(C); kernel(A, B, C)"),
    "other dtype of a result": product('C = dpnp.zeros((4, 5), dtype="float64", order="F")\n        kernel(A, B, C)',
                                       part="kernel(A, B, C)", error=TypeError, place="%C", says="one of float64",
                                       advice='array = dpnp.asarray(array, dtype="float32")',
                                       right='C = dpnp.asarray(C, dtype="float32"); kernel(A, B, C)'),
    "number of modes": axpy("kernel(2.0, x.reshape(2, 2), y)", part="x.reshape(2, 2)", error=ValueError, place="%x",
                            says="%x: memref<f32x?> takes an array of shape (any,), it was given (2, 2)", right="x",
                            advice="pass an array of that shape"),
    "sizes that differ": axpy("kernel(2.0, x[:3], y)", part="x[:3]", error=ValueError, right="x",
                              says="the sizes do not fit: M is 3 in %x but 4 in %y",
                              advice="pass arrays of fitting shapes",
                              place="axpby.n %alpha, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>"),
    "C order": product("kernel(dpnp.asarray(a), B, C)", part="dpnp.asarray(a)", error=tl_dpnp.LayoutError, place="%A",
                       says="strides (3, 1) (in elements): the stride of axis 0 is 3, the layout asks for 1",
                       advice='dpnp.asarray(array, order="F")', names={"array": "dpnp.asarray(a)"}),
    "transposed": product("kernel(A.T, B, C)", part="A.T", error=tl_dpnp.LayoutError, place="%A",
                          says="takes an array of shape (4, 3), it was given (3, 4)", advice="tl_dpnp.rev(array)",
                          names={"array": "A.T"}),
    "read-only": Mistake("""
        y.get_array().flags.writable = False
        target = y
        tl_dpnp.compile(AXPY)(2.0, x, target)
        got, want = target.asnumpy(), 2 * v + w""", "target = y", ValueError, "%y is written, but the array is",
                         "pass a writable array", right="target = y.copy()", place="%y"),
    "two queues": Mistake("""
        kernel = tl_dpnp.compile(AXPY)
        other, array = y, dpt.asarray(v, sycl_queue=dpctl.SyclQueue())
        kernel(2.0, array, other)
        got, want = y.asnumpy(), 2 * v + w""", "kernel(2.0, array,", Exception, "are on different queues",
                          "dpnp.asarray(array, sycl_queue=other.sycl_queue)",
                          right="kernel(2.0, dpnp.asarray(array, sycl_queue=other.sycl_queue),"),
    "matrices on two queues": Mistake("""
        kernel = tl_dpnp.compile(PRODUCT)
        other, array = C, dpnp.asarray(a, order="F", sycl_queue=dpctl.SyclQueue())
        kernel(array, B, other)
        got, want = C.asnumpy(), a @ b""", "kernel(array,", Exception, "are on different queues",
                                     "dpnp.asarray(array, sycl_queue=other.sycl_queue)",
                                     right="kernel(dpnp.asarray(array, sycl_queue=other.sycl_queue),"),
    "array on a CPU": axpy("kernel(2.0, OnHost(v), y)", part="OnHost(v)", error=TypeError, place="%x",
                           says="it was given a OnHost on a CPU", names={"array": "OnHost(v)", "numpy": "np"},
                           advice="dpnp.asarray(numpy.from_dlpack(array))"),
    "not packed": Mistake("""
        A, B, C = (dpnp.asarray(m, order="F") for m in (i8, j8, np.zeros((4, 5), "i4")))
        values = i8
        tl_dpnp.compile(PACKED)(A, B, C)
        got, want = C.asnumpy(), i8.astype("i4") @ j8""", "(A, B, C)\n", TypeError,
                          "takes an array of uint8, 2 elements of i4 in each byte, it was given one of int8",
                          'tl_dpnp.pack(values, "i4")', place="%A",
                          right='(dpnp.asarray(tl_dpnp.pack(values, "i4"), order="F"), B, C)\n'),
    "overlap": Mistake("""
        both = dpnp.asarray(np.concatenate([v, w]))
        first, second = both[:4], both[2:6]
        tl_dpnp.compile(AXPY, debug=True)(2.0, first, second)
        got, want = second.asnumpy(), 2 * v + np.concatenate([v, w])[2:6]""", "both[2:6]\n", ValueError, "overlap",
                       "pass arrays that share no memory", right="both[2:6].copy()\n", place="%y"),
    # --- scalars
    "array for a scalar": axpy('kernel(dpnp.asarray(2.0, dtype="float32"), x, y)', error=TypeError, place="%alpha",
                               part='dpnp.asarray(2.0, dtype="float32")', says="takes a Python or NumPy scalar",
                               advice="float(x)", names={"x": 'dpnp.asarray(2.0, dtype="float32")'}),
    "text for a scalar": axpy('kernel("2.0", x, y)', part='"2.0"', error=TypeError, says="'2.0' of type str",
                              advice="pass a Python or NumPy scalar", right="2.0", place="%alpha"),
    "complex for real": axpy("kernel(2 + 0j, x, y)", part="2 + 0j", error=TypeError, advice="x.real", place="%alpha",
                             names={"x": "(2 + 0j)"}, says="%alpha: f32 takes a real number, it was given (2+0j)"),
    "truth value for a number": Mistake("""
        i = dpnp.asarray(np.arange(4, dtype="i4"))
        tl_dpnp.compile(CHOOSE)(True, True, i)
        got, want = i.asnumpy(), np.arange(4)""", "True, True,", TypeError, "%n: i32 takes a number, it was given True",
                                        "int(x)", right="True, int(True),", place="%n"),
    "number for a truth value": Mistake("""
        i = dpnp.asarray(np.arange(4, dtype="i4"))
        tl_dpnp.compile(CHOOSE)(1, 3, i)
        got, want = i.asnumpy(), 3 * np.arange(4)""", "1, ", TypeError, "%b: i1 takes True or False, it was given 1",
                                        "x != 0", names={"x": "1"}, right="1 != 0, ", place="%b"),
    "float for an integer": Mistake("""
        i = dpnp.asarray(np.arange(4, dtype="i4"))
        tl_dpnp.compile(CHOOSE)(True, 3.0, i)
        got, want = i.asnumpy(), 3 * np.arange(4)""", "3.0", TypeError, "%n: i32 takes an integer, it was given 3.0",
                                    "int(x)", names={"x": "3.0"}, place="%n"),
    "integer out of range": Mistake("""
        i = dpnp.asarray(np.arange(4, dtype="i4"))
        tl_dpnp.compile(CHOOSE)(True, 2**31 + 3, i)
        got, want = i.asnumpy(), 3 * np.arange(4)""", "2**31 + 3", ValueError,
                                    "%n: i32 takes values from -2147483648 to 2147483647", "", right="3", place="%n"),
    # --- groups and work-groups
    "one array for a group": Mistake("""
        tl_dpnp.compile(RAGGED)(A, [B], [C])
        got, want = C.asnumpy(), a @ b""", "(A,", TypeError, "%A takes a list of arrays or a tl_dpnp.group",
                                     "pass a list of arrays", right="([A],", place="%A"),
    "NumPy array in a group": Mistake("""
        tl_dpnp.compile(RAGGED)([a], [B], [C])
        got, want = C.asnumpy(), a @ b""", "[a]", TypeError, "%A[0] takes an array of float32",
                                      "dpnp.asarray(array)", place="%A",
                                      right='[dpnp.asarray(dpnp.asarray(a), order="F")]'),
    "NumPy array in tl_dpnp.group": Mistake("""
        tl_dpnp.compile(RAGGED)(tl_dpnp.group([np.asfortranarray(a)]), [B], [C])
        got, want = C.asnumpy(), a @ b""", "np.asfortranarray(a)", TypeError,
                                            "%A[0] takes an array of float32, it was given a NumPy array",
                                            "dpnp.asarray(array)", names={"array": "np.asfortranarray(a)"}, place="%A"),
    "group of no sequence": Mistake("""
        tl_dpnp.compile(RAGGED)(tl_dpnp.group(len), [B], [C])
        got, want = C.asnumpy(), a @ b""", "len", TypeError,
                                    "a group is made of a sequence of arrays, not of a builtin", "", right="[A]"),
    "batches that differ": Mistake("""
        D = dpnp.zeros((16, 16, 2), dtype="float32", order="F")
        tl_dpnp.compile(FUSED)(1.0, [F, F, F], dpnp.asarray(e, order="F"), F.T.copy(order="F"), D)
        got, want = D.asnumpy()[:, :, 0], f @ e.T @ f.T""", "[F, F, F]", ValueError,
                                   "is ambiguous: %A has 3 elements, mode 2 of %D has size 2",
                                   "give arrays of equal batch sizes", right="[F, F]", place="@fused"),
    "too many work-groups": Mistake("""
        x = dpnp.zeros(3, dtype="int64")
        tl_dpnp.compile(COUNT)(x, 2, group_size=4)
        got, want = x.asnumpy(), [2, 2, 2]""", "group_size=4", ValueError,
                                    "group_size=4 is too large for @count: mode 0 of %x has size 3", "group_size=3",
                                    place="%0 = load %x[%g] : memref<i64x?>"),
    "text for group_size": Mistake("""
        x = dpnp.zeros(3, dtype="int64")
        tl_dpnp.compile(COUNT)(x, 2, group_size="2")
        got, want = x.asnumpy(), [2, 2, 0]""", '"2"', TypeError, "group_size= takes the number", "an int",
                                   right="2"),
    "nothing says how many work-groups": Mistake('''
        kernel = tl_dpnp.compile("""func @first(%x: memref<i64x?>) {
          %g = group_id
          %i = arith.add %g, 1 : index
          store 7, %x[%i] : memref<i64x?>
        }""")
        x = dpnp.zeros(3, dtype="int64")
        kernel(x)
        got, want = x.asnumpy(), [0, 7, 7]''', "kernel(x)", ValueError,
                                                 "the number of work-groups of @first cannot be inferred",
                                                 "group_size=n", right="kernel(x, group_size=2)", place="@first"),
    "one shape for empty_group": Mistake("""
        group = tl_dpnp.empty_group((4, 5), "float32")
        tl_dpnp.compile(RAGGED)([A], [B], group)
        got, want = group[0].asnumpy(), a @ b""", "(4, 5)", TypeError, "a shape for each array, it was given one",
                                         "[(4, 5)]"),
    # --- from source to kernel
    "name of a file": scaled('kernel = tl_dpnp.compile("axpy.tl")', part='tl_dpnp.compile("axpy.tl")', error=TypeError,
                             says="'axpy.tl' is the name of a file", advice="compile(pathlib.Path('axpy.tl'))",
                             right="tl_dpnp.compile(pathlib.Path('axpy.tl'))"),
    "bytes": scaled("text = AXPY.encode(); kernel = tl_dpnp.compile(text)", part="compile(text)", error=TypeError,
                    says="not a bytes", advice="text.decode()", right="compile(text.decode())"),
    "Python function": Mistake("""
        def step(x, y):
            return 2 * x + y
        result = tl_dpnp.compile(step)(x, y)
        got, want = result.asnumpy(), 2 * v + w""", "tl_dpnp.compile", TypeError, "not a function", "tl_dpnp.fuse"),
    "path for parse": scaled('kernel = tl_dpnp.compile(tl_dpnp.parse(path))', part="path)", right="path.read_text())",
                             error=TypeError, says="parse takes text, not a PosixPath", advice="path.read_text()"),
    "unknown function": scaled('kernel = tl_dpnp.compile(TWO, name="axpi")', part='name="axpi"', error=ValueError,
                               says="no function 'axpi'; it has axpy, choose", advice="name='axpy'"),
    "function with its sign": scaled('kernel = tl_dpnp.compile(TWO, name="@axpy")', part='name="@axpy"',
                                     error=ValueError, says="no function '@axpy'", advice="name='axpy'"),
    "module called": scaled("module = tl_dpnp.compile(TWO); kernel = functools.partial(module)", part="partial(module)",
                            error=TypeError, says="a module is not called, but one of its 2 functions: axpy, choose",
                            advice="module['axpy']", right="partial(module['axpy'])"),
    "unknown kernel of a module": scaled('kernel = tl_dpnp.compile(TWO)["axpby"]', part='"axpby"', error=KeyError,
                                         says="no function 'axpby'; it has axpy, choose", advice="did you mean axpy?",
                                         right='"axpy"'),
    "attribute of a module": scaled("kernel = tl_dpnp.compile(TWO).Axpy", part="Axpy", error=AttributeError,
                                    says="no function 'Axpy'", advice="axpy"),
    "target in capitals": scaled('kernel = tl_dpnp.compile(AXPY, target="SYCL")', part='"SYCL"', error=TypeError,
                                 says="target='SYCL' is not understood", advice="'sycl'"),
    "target of a device": scaled('kernel = tl_dpnp.compile(AXPY, target="gpu")', part=', target="gpu"', error=TypeError,
                                 says="target='gpu' is not understood", advice="leave it away", right=""),
    "misspelt form": scaled('kernel = tl_dpnp.compile(AXPY, form="vectors")', part='"vectors"', error=TypeError,
                            says="form='vectors' is not understood", advice="'vector'"),
    "precision of an engine": product('kernel = tl_dpnp.compile(PRODUCT, precision="tf32"); kernel(A, B, C)',
                                      part='"tf32"', error=TypeError, says="precision='tf32' is not understood",
                                      advice="'default' rounds so", right="'default'"),
    "number for a flag": scaled("kernel = tl_dpnp.compile(AXPY, debug=1)", part="debug=1", error=TypeError,
                                says="debug=1 is not understood", advice="True", right="debug=True"),
    "name of a device for a queue": scaled('kernel = tl_dpnp.compile(AXPY, queue="cpu"); '
                                           'x, y = (dpnp.asarray(z, sycl_queue=kernel._queue) for z in (v, w))',
                                           part='"cpu"', error=TypeError, says="takes a dpctl.SyclQueue, not a str",
                                           advice="dpctl.SyclQueue('cpu')"),
    "misspelt function of the package": scaled("kernel = tl_dpnp.complie(AXPY)", part="complie", error=AttributeError,
                                               says="module 'tl_dpnp' has no attribute 'complie'", advice="compile"),
    "unknown setting": scaled("""with config.scope(DEBUGG=True):
            kernel = tl_dpnp.compile(AXPY)""", part="DEBUGG", error=tl_dpnp.TLError,
                              says="there is no setting 'DEBUGG'", advice="DEBUG"),
    "event without a list": axpy("""event = kernel.submit(0.0, x, y)
        kernel.submit(2.0, x, y, depends=event).wait()""", part="depends=event", error=TypeError,
                                 says="depends= takes a list of events", advice="depends=[event]"),
    "kernel that is fused": scaled("kernel = tl_dpnp.fuse(tl_dpnp.compile(AXPY))", error=TypeError,
                                   part="tl_dpnp.fuse(tl_dpnp.compile(AXPY))", says="not a kernel",
                                   advice="call @axpy as it is", right="tl_dpnp.compile(AXPY)"),
    "source text that is fused": scaled("kernel = tl_dpnp.fuse(AXPY)", part="tl_dpnp.fuse", error=TypeError,
                                        says="not a str", advice="tl_dpnp.compile"),
    "number that is reversed": product("kernel(tl_dpnp.rev(2), B, C)", part="tl_dpnp.rev(2)", right="A",
                                       error=TypeError, says="rev takes an array or a list of arrays, not a int",
                                       advice="an array"),
    # --- packed integers
    "packed on the device": Mistake("""
        array = dpnp.asarray(i8)
        got, want = tl_dpnp.unpack(tl_dpnp.pack(array, "i4"), "i4"), i8""", 'pack(array, "i4"), ', TypeError,
                                    "integers on the host, it was given an array on a device", "dpnp.asnumpy(array)",
                                    right='pack(dpnp.asnumpy(array), "i4"), '),
    "packed floats": Mistake("""
        array = i8.astype("float64")
        got, want = tl_dpnp.unpack(tl_dpnp.pack(array, "i4"), "i4"), i8""", 'pack(array, "i4"), ', TypeError,
                             "pack takes integers, it was given an array of float64", "array.astype(int)",
                             right='pack(array.astype(int), "i4"), '),
    "packed out of range": Mistake("""
        values = 3 * i8.astype(int)
        got, want = tl_dpnp.unpack(tl_dpnp.pack(values, "i4"), "i4"), np.clip(3 * i8.astype(int), -8, 7)""",
                                   'pack(values, "i4"), ', ValueError, "i4 holds -8 to 7", "numpy.clip(values, -8, 7)",
                                   right='pack(np.clip(values, -8, 7), "i4"), '),
    "other name of a type": Mistake("""
        got, want = tl_dpnp.unpack(tl_dpnp.pack(i8, "int4"), "i4"), i8""", '"int4"', TypeError,
                                    "'int4' is no type of integers below 8 bits", "'i4'"),
    # --- the builder
    "text for an element": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                                 types='alpha=F32, x=memref("f32", 4), y=memref(F32, 4)',
                                 part='memref("f32", 4)', error=ValueError, right="memref(F32, 4)", advice="F32",
                                 says="memref takes the type of an element and then sizes, it was given 'f32'",
                                 place="builder"),
    "dtype for an element": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                                  types="alpha=F32, x=memref(np.float32, 4), y=memref(F32, 4)", part="np.float32",
                                  error=ValueError, says="<class 'numpy.float32'>", advice="F32", place="builder"),
    "tuple for sizes": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                             types="alpha=F32, x=memref(F32, (4,)), y=memref(F32, 4)", part="memref(F32, (4,))",
                             error=ValueError, says="one after another", advice="memref(F32, 4)", place="builder"),
    "float for a size": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                              types="alpha=F32, x=memref(F32, 8 / 2), y=memref(F32, 4)", part="8 / 2", right="4",
                              error=ValueError, says="a size is an int or None, not 4.0", advice="write 4",
                              place="builder"),
    "Python's type for a parameter": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                                           types="alpha=float, x=memref(F32, 4), y=memref(F32, 4)",
                                           part="alpha=float", right="alpha=F32", error=ValueError, place="builder",
                                           says="the parameter %alpha needs a type, it was given <class 'float'>",
                                           advice="from tl_dpnp.scalars import F64"),
    "group of a scalar": Mistake("""
        b = FunctionBuilder("double", A=group(F32))
        g = b.group_id()
        one = b.load(b.A, g)
        b.axpby(0.0, one, 2.0, one)
        tl_dpnp.compile(b)([x])
        got, want = x.asnumpy(), 2 * v""", "group(F32)", ValueError, "group takes the type of its memrefs",
                                 "memref(F32, ", right="group(memref(F32, 4))", place="builder"),
    "default of a memref": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                                 types="alpha=F32, x=memref(F32, 4), y=memref(F32, 4), defaults={'x': 0.0}",
                                 part=", defaults={'x': 0.0}", right="", error=ValueError,
                                 advice="leave its default out",
                                 says="%x is a memref<f32x4>, and only scalars have defaults", place="builder"),
    "default of no parameter": built("b.axpby(b.alpha, b.x, 1.0, b.y)",
                                     types="alpha=F32, x=memref(F32, 4), y=memref(F32, 4), defaults={'Alpha': 0.0}",
                                     part="Alpha", advice="alpha", error=ValueError, place="builder",
                                     says="there is no parameter %Alpha to have a default"),
    "name with its sign": Mistake("""
        b = FunctionBuilder("@double", x=memref(F32, 4))
        b.axpby(0.0, b.x, 2.0, b.x)
        tl_dpnp.compile(b)(x)
        got, want = x.asnumpy(), 2 * v""", '"@double"', ValueError, "@@double is no legal name",
                                  "give it without % or @", right='"double"', place="builder"),
    "method of another library": Mistake("""
        b = FunctionBuilder("product", A=memref(F32, 4, 3), B=memref(F32, 3, 5), C=memref(F32, 4, 5))
        b.matmul(1.0, b.A, b.B, 0.0, b.C)
        tl_dpnp.compile(b)(A, B, C)
        got, want = C.asnumpy(), a @ b_""", "matmul", AttributeError,
                                         "the function builder has neither a method nor a parameter 'matmul'", "gemm"),
    "misspelt parameter": built("b.axpby(b.aplha, b.x, 1.0, b.y)", part="aplha", error=AttributeError, advice="alpha",
                                says="has neither a method nor a parameter 'aplha'"),
    "operator on values": built("b.axpby(b.alpha + 1.0, b.x, 1.0, b.y)", part="b.alpha + 1.0", error=TypeError,
                                says="%alpha is a value of the tensor language, which Python's operators do not",
                                advice="b.add(x, y)", right="b.add(b.alpha, 0.0)"),
    "Python's if on a value": Mistake("""
        b = FunctionBuilder("choose", c=I1, x=memref(F32, 4))
        if b.c:
            b.axpby(0.0, b.x, 2.0, b.x)
        tl_dpnp.compile(b)(False, x)
        got, want = x.asnumpy(), v""", "if b.c:", TypeError, "%c is known when the kernel runs, not while it is built",
                                      "with b.if_(condition):", right="with b.if_(b.c):"),
    "Python's == on a value": Mistake("""
        b = FunctionBuilder("choose", n=I32, x=memref(F32, 4))
        with b.if_(b.n == 0):
            b.axpby(0.0, b.x, 2.0, b.x)
        tl_dpnp.compile(b)(1, x)
        got, want = x.asnumpy(), v""", "b.n == 0", TypeError, "which Python's operators do not compute with",
                                      'b.cmp("lt", x, y)', right='b.cmp("eq", b.n, 0)'),
    "array as an operand": Mistake("""
        b = FunctionBuilder("product", A=memref(F32, 4, 3), B=memref(F32, 3, 5), C=memref(F32, 4, 5))
        b.gemm(1.0, a, b.B, 0.0, b.C)
        tl_dpnp.compile(b)(A, B, C)
        got, want = C.asnumpy(), a @ b_""", "1.0, a,", ValueError, "a ndarray is no operand",
                                   "give a value that the builder returned", right="1.0, b.A,", place="builder"),
    "group as an operand": Mistake("""
        b = FunctionBuilder("product", A=group(memref(F32, 4, 3)), B=memref(F32, 3, 5), C=memref(F32, 4, 5, None))
        g = b.group_id()
        b.gemm(1.0, b.A, b.B, 0.0, b.subview(b.C, ALL, ALL, g))
        tl_dpnp.compile(b)([A], B, C[:, :, None])
        got, want = C.asnumpy(), a @ b_""", "1.0, b.A,", ValueError,
                                   "gemm needs a memref, but %A is a group<memref<f32x4x3>>",
                                   "load one memref of the group first", right="1.0, b.load(b.A, g),", place="builder"),
    "text for a type": built("b.axpby(b.cast(b.alpha, 'f32'), b.x, 1.0, b.y)", part="'f32'", error=ValueError,
                             says="the type of a scalar is needed, but 'f32' given", advice="F32", place="builder"),
    "numbers only": built("b.axpby(b.add(1.0, 1.0), b.x, 1.0, b.y)", part="1.0, 1.0)", error=ValueError,
                          place="builder", says="no operand is a value, so that the type is unknown", advice="type=F32",
                          right="1.0, 1.0, type=F32)"),
    "stored the other way round": Mistake("""
        b = FunctionBuilder("fill", x=memref(F32, 4))
        b.store(b.x, 7.0, 0)
        tl_dpnp.compile(b)(x)
        got, want = x.asnumpy(), np.concatenate([[7], v[1:]])""", "store(b.x, 7.0, 0)", ValueError,
                                          "store takes the value first", "store(value, x, *indices)",
                                          right="store(7.0, b.x, 0)", place="builder"),
    "Python's slice": Mistake("""
        b = FunctionBuilder("double", x=memref(F32, 4))
        part = b.subview(b.x, slice(0, 2))
        b.axpby(0.0, part, 2.0, part)
        tl_dpnp.compile(b)(x)
        got, want = x.asnumpy(), v * [2, 2, 1, 1]""", "slice(0, 2)", ValueError, "a Python slice means from:to",
                              "(offset, size)", right="(0, 2)", place="builder"),
    # --- programs
    "misspelt gemm": program(PRODUCT.replace("gemm", "gem"), "gem.", says="found the unknown word 'gem'", advice="gemm",
                             right="gemm.", place="gem"),
    "comment of Python": program(PRODUCT.replace("  gemm", "  # the product\n  gemm"),
                                 "# the", says="'#'", advice="a comment starts with ;", right="; the", place="#"),
    "type of C": program(PRODUCT.replace(": f32,", ": float,"), ": float,", says="float",
                         advice="the type is written f32", right=": f32,", place="float"),
    "name without its sign": program(PRODUCT.replace("0.0, %C", "0.0, C"), "0.0, C", says="'C'", advice="write %C",
                                     right="0.0, %C", place="C"),
    "result of a product": program(PRODUCT.replace("  gemm", "  %R = gemm"), "%R = gemm", says="gemm",
                                   advice="leave out the name and =", right="gemm", place="gemm"),
    "return": program(PRODUCT.replace("\n}", "\n  return\n}"), "  return\n", says="return", right="",
                      advice="a function gives no result: it writes to its memrefs", place="return"),
    "undefined value": program(PRODUCT.replace("1.0, %A", "1.0, %AA"), "%AA", error=tl_dpnp.TLVerifyError,
                               says="%AA is not defined", advice="%A", place="%AA"),
}  # fmt: skip
