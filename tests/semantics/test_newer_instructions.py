"""What the dialect 0.4 adds: carried values, further functions, products of matrices element by element."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import DTYPES, TARGETS, Group, fortran, whole

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]

CARRIED = """
func @f(%a: f32, %n: i32, %X: memref<f32x2x?>, %Y: memref<f32x4x?>) {
  %g = group_id.x : index
  %one = constant 1.0 : f32
  %from = constant 0 : i32
  %x, %y = for %i = %from, %n init(%x=%one, %y=%a) -> (f32, f32) {   ; Fibonacci's sequence: both change at once
    %z = add %x, %y : f32
    yield (%y, %z)
  }
  %u = for %i = 3, 3 init(%v=%x) -> (f32) {                          ; no iteration
    %w = add %v, 1.0 : f32
    yield (%w)
  }
  store %u, %X[0, %g]
  store %y, %X[1, %g]
  %columns = subview %Y[0:?, %g] : memref<f32x4>
  foreach (%k) = (0), (4) {
    %last = cast %k : i32
    %q = for %i = %from, %last init(%q=%x) -> (f32) {                ; iterations differ in how often it runs
      %large = greater_than %q, 20.0 : bool
      %r = if %large -> (f32) {
        yield (%q)
      } else {
        %t = for %j = 0, 2 init(%t=%q) -> (f32) { %s = mul %t, 2.0 : f32 yield (%s) }
        yield (%t)
      }
      yield (%r)
    }
    store %q, %columns[%k]
  }
}
"""


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("count", [-1, 0, 1, 6])
def test_carried_values(target, count):
    x, y = 1.0, 3.0
    for _ in range(count):
        x, y = y, x + y
    expected = []
    for k in range(4):
        value = x
        for _ in range(k):
            value = value if value > 20 else 4 * value
        expected.append(value)
    X, Y = fortran(np.zeros((2, 3), np.float32)), fortran(np.zeros((4, 3), np.float32))
    target.run(CARRIED, 3.0, count, X, Y)
    np.testing.assert_array_equal(X, np.outer([x, y], np.ones(3)))
    np.testing.assert_array_equal(Y, np.outer(expected, np.ones(3)))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("type", "dtype"), [("i8", "int8"), ("u16", "uint16"), ("f64", "float64"), ("bool", "int32")])
def test_carried_values_of_each_kind(target, type, dtype):
    """A swap in each iteration: neither value is lost."""
    first, second = (("true", "false") if type == "bool" else ("5", "9"))
    one, two = (("%i", "%j") if type == "bool" else ("%x", "%y"))
    stored = "" if type != "bool" else """%i = if %x -> (i32) { yield (1) } else { yield (0) }
        %j = if %y -> (i32) { yield (1) } else { yield (0) }"""
    source = f"""func @f(%n: index, %out: memref<{'i32' if type == 'bool' else type}x2>) {{
        %c = constant 0 : index
        %x, %y = for %k = %c, %n init(%a={first}, %b={second}) -> ({type}, {type}) {{ yield (%b, %a) }}
        {stored}
        store {one}, %out[0]
        store {two}, %out[1]
    }}"""
    values = [1, 0] if type == "bool" else [5, 9]
    for count in range(4):
        out = np.zeros(2, dtype)
        target.run(source, count, out)
        np.testing.assert_array_equal(out, values[:: -1 if count % 2 else 1])


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_products_of_elements_of_matrices(target):
    rng = np.random.default_rng(0)
    A, C = (fortran(rng.random((5, 7)), np.float32) for _ in range(2))
    B = fortran(rng.random((9, 7)), np.float32)
    expected = 2 * A * B[:5] - C
    target.run("func @f(%A: memref<f32x5x7>, %B: memref<f32x5x7,strided<1,9>>, %C: memref<f32x5x7>) "
               "{ hadamard 2.0, %A, %B, -1.0, %C }", A, B[:5], C)
    np.testing.assert_allclose(C, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("kind", ["exp", "exp2", "log", "log2", "sin", "cos"])
@pytest.mark.parametrize("variant", ["", "native_"])
def test_functions(target, kind, variant):
    x = np.linspace(0.5, 2, 33)
    expected = getattr(np, kind)(x)
    target.run(f"""func @f(%x: memref<f64x33>) {{
        foreach (%i) = (0), (33) {{ %v = load %x[%i] : f64 %r = {variant}{kind} %v : f64 store %r, %x[%i] }}
    }}""", x)
    np.testing.assert_allclose(x, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_a_group_has_the_length_that_its_type_says(target):
    from tl_dpnp.errors import TLBindingError

    source = ("func @f(%G: group<memref<f32x4> x 3>) { %g = group_id.x : index %m = load %G[%g] : memref<f32x4> "
              "axpby 1.0, %m, 1.0, %m }")
    kernel = target.compile(source)
    arrays = [np.ones(4, np.float32) for _ in range(4)]
    target.call(kernel, arrays[:3])
    for count in (2, 4):
        with pytest.raises(TLBindingError, match=f"takes 3 arrays, it was given {count}"):
            target.call(kernel, arrays[:count])
    target.call(kernel, arrays[:3])
    assert [array[0] for array in arrays] == [4, 4, 4, 1]


@pytest.mark.parametrize("target", [target for target in _TARGETS if target.name != "one_subgroup"], ids=str)
def test_one_text_with_several_values_of_a_variable(target, tmp_path, monkeypatch):
    """A kernel is kept for each of them."""
    import tl_dpnp

    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
    source = """func @f(%x: memref<f32x8>) {
        foreach (%i) = (0), (8) { %v = load %x[%i] : f32 %w = mul %v, $factor : f32 store %w, %x[%i] }
    }"""
    for factor in (2.0, 3.0, 2.0, "4"):
        kernel = tl_dpnp.compile(source, define={"factor": factor}, cache=True,
                                 target="reference" if target.layout is None else "sycl")
        x = np.ones(8, np.float32)
        target.call(kernel, x)
        np.testing.assert_array_equal(x, np.full(8, float(factor)))


def test_variables_are_for_texts():
    import tl_dpnp
    from tl_dpnp.errors import TLTypeError

    with pytest.raises(TLTypeError, match="this source is none"):
        tl_dpnp.compile(tl_dpnp.parse("func @f() { }"), define={"n": 8})
    with pytest.raises(TLTypeError, match="define= takes a mapping"):
        tl_dpnp.compile("func @f() { }", define=[("n", 8)])


#: Types whose bits are those of an integer, with the dtypes of both and the kind of float that NumPy sees them as.
_BITS = [("i16", "f16", "int16", "float16"), ("i16", "bf16", "int16", "uint16"), ("i32", "f32", "int32", "float32"),
         ("i64", "f64", "int64", "float64")]


def _bits(integer: str, seed: int) -> np.ndarray:
    """Return all integers of 16 bits, or drawn ones with those of zeros, infinities, subnormals and NaN."""
    info = np.iinfo(integer)
    if info.bits == 16:
        return np.arange(info.min, info.max + 1).astype(integer)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(info.min, info.max, 8180, dtype=integer, endpoint=True)
    floats = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-45, 1.0, -1.0, np.pi, -1e30, 1e-310],
                      f"f{info.bits // 8}")
    return np.concatenate([drawn, floats.view(integer)])


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("integer", "other", "integer_dtype", "dtype"), _BITS, ids=lambda value: value)
def test_bits_of_floats(target, integer, other, integer_dtype, dtype):
    bits = _bits(integer_dtype, seed=len(other))
    size = len(bits)
    floats, back, given = np.zeros(size, dtype), np.zeros(size, integer_dtype), bits.copy()
    target.run(f"""func @f(%x: memref<{integer}x{size}>, %y: memref<{other}x{size}>, %z: memref<{integer}x{size}>) {{
        foreach (%i) = (0), ({size}) {{
            %v = load %x[%i] : {integer}
            %f = bitcast %v : {other}
            store %f, %y[%i]
            %w = bitcast %f : {integer}
            store %w, %z[%i]
        }}
    }}""", given, floats, back)
    single = (floats.astype(np.uint32) << 16).view(np.float32) if other == "bf16" else floats
    narrow = np.isnan(single) & (other in ("f16", "bf16"))  # a NaN stays one, of some bits
    np.testing.assert_array_equal(floats.view(integer_dtype)[~narrow], bits[~narrow])
    np.testing.assert_array_equal(back[~narrow], bits[~narrow])
    again = back.view(dtype)
    again = (again.astype(np.uint32) << 16).view(np.float32) if other == "bf16" else again
    assert np.isnan(again[narrow]).all()


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_bits_of_what_is_computed(target):
    """Outside of loops, of constants too: the exponent of 48 is 5."""
    out = np.zeros(2, np.int32)
    target.run("""func @f(%a: f32, %out: memref<i32x2>) {
        %b = bitcast %a : i32
        %s = shr %b, 23 : i32
        %e = sub %s, 127 : i32
        store %e, %out[0]
        %c = constant 1.5 : f32
        %d = bitcast %c : i32
        store %d, %out[1]
    }""", 48.0, out)
    assert out.tolist() == [5, np.float32(1.5).view(np.int32)]


def _cumulative(A, mode, alpha, beta, B):
    total = alpha * A.astype(np.float64).cumsum(mode) if A.dtype.kind == "f" else alpha * A.cumsum(mode, dtype=A.dtype)
    return (total if beta == 0 else total + beta * B).astype(B.dtype)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("shape", "mode"), [((37,), 0), ((5, 7), 0), ((5, 7), 1), ((3, 4, 5), 1), ((2, 3, 4, 5), 3),
                                             ((0, 3), 1), ((3, 0), 1)])
@pytest.mark.parametrize("atomic", ["", ".atomic"])
def test_cumulative_sums(target, shape, mode, atomic):
    """Of static and dynamic sizes, with each kind of beta, in each order of the modes."""
    A, B, C, D = (whole(seed, *shape) for seed in range(4))
    start = [B.copy(order="F"), C.copy(order="F"), D.copy(order="F")]
    types = ["".join(f"x{'?' if dynamic or not size else size}" for size in shape) for dynamic in (False, True)]
    target.run(f"""func @f(%b: f32, %A: memref<f32{types[0]}>, %B: memref<f32{types[1]}>, %C: memref<f32{types[1]}>,
                           %D: memref<f32{types[0]}>) {{
        cumsum{atomic} 1.0, %A, {mode}, 0.0, %B
        cumsum{atomic} 2.0, %A, {mode}, 1.0, %C
        cumsum{atomic} -1.0, %B, {mode}, %b, %D
    }}""", 3.0, A, B, C, D, group_size=1)
    np.testing.assert_array_equal(B, _cumulative(A, mode, 1, 0, start[0]))
    np.testing.assert_array_equal(C, _cumulative(A, mode, 2, 1, start[1]))
    np.testing.assert_array_equal(D, _cumulative(B, mode, -1, 3, start[2]))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("given", "result"), [("i8", "i8"), ("i8", "i32"), ("i16", "f32"), ("u8", "i16"),
                                               ("f16", "f16"), ("f32", "f64"), ("index", "index")])
def test_cumulative_sums_of_each_type(target, given, result):
    """Integers wrap, sums of f16 are rounded once; NaN in an output that is not read does not survive."""
    dtypes = {**DTYPES, "f16": "float16"}
    A = np.random.default_rng(3).integers(1, 100, 40).astype(dtypes[given])
    if given == "f16":
        A[:] = 0.1
    B = np.full(40, np.nan if result[0] == "f" else 77).astype(dtypes[result])
    target.run(f"func @f(%A: memref<{given}x40>, %B: memref<{result}x?>) {{ cumsum 3, %A, 0, 0, %B }}", A, B)
    wide = A.astype(np.float64 if result[0] == "f" else np.int64)
    np.testing.assert_allclose(B, (3 * wide.cumsum()).astype(dtypes[result]), rtol=6e-4 if given == "f16" else 1e-6)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_cumulative_sums_of_many_work_groups(target):
    """All add to the same vector; temporaries and loops around do not mix them up."""
    A, B = whole(1, 8, 50), np.zeros(8, np.float32)
    target.run("""func @f(%A: memref<f32x8x?>, %B: memref<f32x8>) {
        %g = group_id
        %v = subview %A[:, %g] : memref<f32x8>
        %t = alloca : memref<f32x8,local>
        for %i = 0, 2 {
            cumsum 1.0, %v, 0, 0.0, %t
            cumsum.atomic 1.0, %t, 0, 1.0, %B
        }
    }""", A, B)
    np.testing.assert_array_equal(B, 2 * A.cumsum(0).cumsum(0).sum(1))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("options", [{}, {"debug": True}], ids=["", "debug"])
def test_the_size_of_a_group(target, options):
    """Of lists of any length, one after another, of those with an offset, and of a known one."""
    kernel = target.compile("""func @f(%G: group<memref<f32x?>>, %H: group<memref<f32x4>, offset: ?>,
                                       %F: group<memref<i32x4> x 3>, %out: memref<indexx3>, %n: i32) {
        %a = size %G[0] : index
        %b = size %H[0] : index
        %c = size %F[0] : index
        store %a, %out[0]
        store %b, %out[1]
        store %c, %out[2]
        for %i = 0, %a {
            %m = load %G[%i] : memref<f32x?>
            axpby 1.0, %m, 1.0, %m
        }
    }""", **options)
    for count, other in ((1, 5), (4, 2), (2, 2), (2, 3)):
        arrays, out = [np.ones(size + 1, np.float32) for size in range(count)], np.zeros(3, np.int64)
        others = Group([np.zeros(5, np.float32)[:4] for _ in range(other)], 1)
        target.call(kernel, arrays, others, [np.zeros(4, np.int32)] * 3, out, 7, group_size=1)
        assert out.tolist() == [count, other, 3]
        assert all((array == 2).all() for array in arrays)


def test_the_size_of_a_group_is_known_to_kernels_of_the_cache(tmp_path, monkeypatch):
    """And to calls with groups that stay the same, which are short from the second on."""
    import dpnp

    import tl_dpnp

    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
    source = "func @f(%G: group<memref<f32x4>>, %o: memref<index>) { %n = size %G[0] : index store %n, %o[] }"
    groups = [tl_dpnp.group([dpnp.zeros(4, dtype="float32") for _ in range(count)]) for count in (3, 5)]
    for hits in (0, 1):
        kernel = tl_dpnp.compile(source, cache=True)
        out = dpnp.zeros((), dtype="int64")
        for call in range(40):
            kernel(groups[call % 2], out, group_size=1)
            assert int(out) == (3, 5)[call % 2]
        assert kernel.stats.cache_hits == hits
