"""Calls that machine code checks and launches, with a driver and a package of arrays that are Python functions."""

from __future__ import annotations

import ctypes
import gc
import sys

import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.runtime.call.flattening import FlatArguments, Int64, Scalar
from tl_dpnp.runtime.cuda.direct import DirectCalls, LaunchFacts, direct_call
from tl_dpnp.runtime.cuda.exchange import exchange_of
from tl_dpnp.scalars import F32, F64, U8

SOURCE = """
func @f(%alpha: f32, %x: memref<f32x?x?>, %n: u8, %A: group<memref<f32x4>>, %beta: f64) {
  %g = group_id
}
"""
#: The element types of DLPack: code, bits and lanes.
_TYPES = {"float32": 2 | 32 << 8 | 1 << 16, "float64": 2 | 64 << 8 | 1 << 16,
          "complex64": 5 | 64 << 8 | 1 << 16}
_pointer = ctypes.POINTER(ctypes.c_int64)


class FakeTensor:
    """An array that DLPack's C functions look at; its memory is NumPy's, its package claims to be PyTorch."""

    def __init__(self, array, device=0):
        self.array, self.device = array, device
        self.requires_grad = False
        self.negative = self.conjugate = False
        self.ndim = array.ndim

    def is_neg(self):
        return self.negative

    def is_conj(self):
        assert self.array.dtype.kind == "c"
        return self.conjugate


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, _pointer)
def tensor_of(tensor, out):
    array = tensor.array
    if array is None:
        return -1
    tensor.sizes = (ctypes.c_int64 * (2 * array.ndim))(*array.shape, *(s // array.itemsize for s in array.strides))
    sizes = ctypes.addressof(tensor.sizes)
    form = array.ndim | _TYPES[array.dtype.name] << 32
    for place, value in enumerate((array.ctypes.data, tensor.device << 32 | 2, form, sizes, sizes + 8 * array.ndim, 0)):
        out[place] = value
    return 0


class Driver:
    """Records launches; `stream`, `context` and `status` are what its functions give."""

    def __init__(self):
        self.launches, self.stream, self.context, self.status, self.size = [], 11, 22, 0, 0

        def launch(function, gx, gy, gz, x, y, z, local_memory, stream, values, extra):
            words = [ctypes.c_int64.from_address(values[place]).value for place in range(self.size)]
            self.launches.append((function, (gx, gy, gz), (x, y, z), local_memory, stream, words))
            return self.status

        def give(name):
            def function(*arguments):
                arguments[-1][0] = getattr(self, name)
                return 0

            return function

        unsigned = [ctypes.c_uint] * 7
        self.functions = {
            "launch": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, *unsigned, ctypes.c_int64, _pointer,
                                       ctypes.c_int64)(launch),
            "context_of": ctypes.PYFUNCTYPE(ctypes.c_int, _pointer)(give("context")),
            "stream_of": ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, _pointer)(give("stream")),
        }

    def address(self, name):
        return ctypes.cast(self.functions[name], ctypes.c_void_p).value


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def package(driver):
    """The class of the arrays, with the functions of DLPack's C exchange."""
    api = (ctypes.c_int64 * 7)(1 | 3 << 32, 0, 0, 0, 0, ctypes.cast(tensor_of, ctypes.c_void_p).value,
                               driver.address("stream_of"))
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(api), b"dlpack_exchange_api", None)
    facts = {"__module__": "torch.fake", "__dlpack_c_exchange_api__": capsule, "keep": api}
    return type("Tensor", (FakeTensor,), facts)


def matrix(package, shape=(5, 3), dtype="float32", offset=0, **options):
    memory = np.zeros(100, dtype)
    start = -memory.ctypes.data % 16 // memory.itemsize + offset
    size = shape[0] * shape[1]
    return package(memory[start : start + size].reshape(shape, order="F"), **options)


def undescribed(package):
    tensor = matrix(package)
    tensor.array = None
    return tensor


@pytest.fixture
def group(monkeypatch):
    class Group(tl_dpnp.Group):
        def __init__(self, serial):
            self.serial = serial

    monkeypatch.setattr("tl_dpnp.runtime.native_calls.Group", Group)
    return Group


@pytest.fixture
def given(package, group):
    return [1.5, matrix(package), 7, group(33), 0.1]


@pytest.fixture
def function(driver, package, given):
    """The function for a launch whose values are: alpha, x, two sizes, n, a table, beta, and the end."""
    binding = tl_dpnp.compile(SOURCE, target="cuda")._binding
    values = [None, None, Int64(5), Int64(3), None, Int64(99), None, Int64(-1)]
    flat = FlatArguments(values, (1,), (Scalar(0, 0, F32, None), Scalar(4, 2, U8, None), Scalar(6, 4, F64, None)), ())
    driver.size = len(values)
    return direct_call(binding, flat, facts_of(driver), given, {package})


def facts_of(driver):
    return LaunchFacts(0, 6, (32, 4, 2), 1000, 44, 22, driver.address("context_of"), driver.address("launch"),
                       lambda: driver.stream, None)


def bits(value, kind):
    return int.from_bytes(bytes(kind(value)).ljust(8, b"\0"), "little")


def test_values_are_put_in_place(driver, function, package, group, given):
    x = matrix(package)
    assert function((0.25, x, 255, group(33), -0.2)) is True
    values = [bits(0.25, ctypes.c_float), x.array.ctypes.data, 5, 3, 255, 99, bits(-0.2, ctypes.c_double), -1]
    words = [value - (1 << 64) if value >= 1 << 63 else value for value in values]
    assert driver.launches == [(44, (6, 1, 1), (32, 4, 2), 1000, 11, words)]
    driver.stream = 0
    assert function(tuple(given)) is True
    assert driver.launches[-1][4] == 0
    assert driver.launches[-1][5][1] == given[1].array.ctypes.data


OTHERS = {
    "a float for an integer": (2, 7.0),
    "an integer out of range": (2, 256),
    "a negative one": (2, -1),
    "a very large one": (2, 1 << 70),
    "a truth value": (2, True),
    "an integer for a float": (0, 1),
    "a float out of range": (0, 1e39),
    "infinity": (4, float("inf")),
    "NaN": (0, float("nan")),
    "a NumPy scalar": (4, np.float64(1.0)),
    "other sizes": (1, lambda package: matrix(package, (5, 4))),
    "a vector": (1, lambda package: package(np.zeros(15, "float32"))),
    "another type": (1, lambda package: matrix(package, dtype="float64")),
    "another alignment": (1, lambda package: matrix(package, offset=1)),
    "other strides": (1, lambda package: package(np.zeros((10, 3), "float32", order="F")[::2])),
    "another device": (1, lambda package: matrix(package, device=1)),
    "None": (1, None),
    "another class": (1, lambda package: FakeTensor(np.zeros((5, 3), "float32", order="F"))),
    "an array that DLPack cannot describe": (1, undescribed),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments_are_refused(driver, function, package, given, name):
    place, value = OTHERS[name]
    given[place] = value(package) if callable(value) else value
    assert function(tuple(given)) is False
    assert not driver.launches


def test_attributes_and_groups_are_looked_at_in_each_call(driver, function, group, given):
    assert function(tuple(given)) is True
    given[1].requires_grad = True
    assert function(tuple(given)) is False
    given[1].requires_grad, given[1].negative = False, True
    assert function(tuple(given)) is False
    given[1].negative = False
    assert function((*given[:3], group(34), given[4])) is False
    del given[1].requires_grad
    assert function(tuple(given)) is False
    assert function(tuple(given[:3])) is False
    assert len(driver.launches) == 1


def test_another_context_and_the_drivers_refusal_are_left_to_the_other_way(driver, function, given):
    driver.context = 23
    assert function(tuple(given)) is False
    assert not driver.launches
    driver.context, driver.status = 22, 700
    assert function(tuple(given)) is False
    assert len(driver.launches) == 1


def test_arrays_of_complex_numbers_must_not_be_conjugated(driver, package):
    kernel = tl_dpnp.compile("func @f(%x: memref<c32x5x3>) {\n}", target="cuda")
    driver.size = 1
    x, other = (matrix(package, dtype="complex64") for _ in range(2))
    function = direct_call(kernel._binding, FlatArguments([None], (0,), (), ()), facts_of(driver), (x,), set())
    assert function((other,)) is True
    assert driver.launches[-1][5] == [other.array.ctypes.data]
    other.conjugate = True
    assert function((other,)) is False
    assert len(driver.launches) == 1


@pytest.mark.parametrize("kind", ["functions", "attributes"])
def test_elements_must_be_at_multiples_of_their_size(driver, package, kind):
    """Floats may begin anywhere, and so parts of complex numbers may, which devices access as a whole."""
    kernel = tl_dpnp.compile("func @f(%x: memref<c32x9>) {\n}", target="cuda")
    driver.size = 1
    memory = np.zeros(100, "float32")
    start = -memory.ctypes.data % 16 // 4 + 2

    def array(offset):
        part = memory[start + offset : start + offset + 18].view("complex64")
        return package(part) if kind == "functions" else FakeArray(part)

    function = direct_call(kernel._binding, FlatArguments([None], (0,), (), ()), facts_of(driver), (array(0),), set())
    assert function((array(4),)) is True
    assert function((array(1),)) is False
    assert len(driver.launches) == 1


class FakeArray:
    """An array that has attributes only; its package claims to be CuPy."""

    __module__ = "cupy.fake"

    class Memory:
        device_id = 0

    def __init__(self, array):
        self.array, self.data = array, self.Memory()
        self.data.ptr = array.ctypes.data

    @property
    def shape(self):
        return tuple(self.array.shape)

    @property
    def strides(self):
        return tuple(self.array.strides)

    @property
    def dtype(self):
        return self.array.dtype


def test_arrays_without_dlpacks_functions_are_looked_at_by_their_attributes(driver):
    kernel = tl_dpnp.compile("func @f(%x: memref<f32x?>, %y: memref<f32x?>) {\n}", target="cuda")
    driver.size = 3

    def array(size=300, dtype="float32", step=1, offset=0):
        memory = np.zeros(2000, dtype)
        start = -memory.ctypes.data % 16 // memory.itemsize + offset
        return FakeArray(memory[start : start + size * step : step])

    x, y = array(), array()
    flat = FlatArguments([None, Int64(300), None], (0, 2), (), ())
    function = direct_call(kernel._binding, flat, facts_of(driver), (x, y), set())
    others = array(), array()
    objects = [*others, FakeArray, others[0].data, others[0].array.dtype, driver.stream, 300]
    gc.collect()  # what other tests left behind refers to dtypes, too
    before = [sys.getrefcount(thing) for thing in objects]
    for _ in range(1000):
        assert function(others) is True
    assert driver.launches[-1][4:] == (11, [others[0].data.ptr, 300, others[1].data.ptr])
    driver.launches.clear()
    for wrong in (array(301), array(dtype="float64"), array(step=2), array(offset=1), np.zeros(300, "float32")):
        for _ in range(1000):
            assert function((x, wrong)) is False
    elsewhere = array()
    elsewhere.data.device_id = 1
    assert function((elsewhere, y)) is False
    broken = array()
    del broken.array
    assert function((broken, y)) is False
    after = [sys.getrefcount(thing) for thing in objects]
    assert all(abs(last - first) < 100 for first, last in zip(before, after, strict=True)), (before, after)
    assert direct_call(kernel._binding, flat, facts_of(driver), (elsewhere, y), set()) is None
    assert not driver.launches


def test_no_references_are_lost_or_kept(driver, function, given):
    wrong = [*given[:2], -1, *given[3:]]
    objects = [*given, type(given[1]), type(given[3]), False, True, "requires_grad", "is_neg"]
    gc.collect()
    before = [sys.getrefcount(thing) for thing in objects]
    for _ in range(1000):
        function(tuple(given))
        function(tuple(wrong))
    driver.launches.clear()
    after = [sys.getrefcount(thing) for thing in objects]
    assert all(abs(last - first) < 100 for first, last in zip(before, after, strict=True)), (before, after)


def test_it_outlives_what_it_was_made_of(driver, package, group, given, function):
    gc.collect()
    assert function(tuple(given)) is True
    assert driver.launches[-1][5][5] == 99


def test_arrays_without_the_functions_have_no_direct_calls():
    assert exchange_of(np.ndarray) is None
    assert exchange_of(FakeTensor) is None


def test_a_launch_is_direct_when_it_is_repeated():
    class Launch:
        def __init__(self, function):
            self.is_direct, self.function = True, function

        def direct_call(self, binding, arguments):
            return self.function

    calls = DirectCalls()
    launches = [Launch(function) for function in (*map(str, range(6)), None)]
    for launch in launches:
        calls.notice(None, launch, (), ())
    assert calls.functions == ()
    for launch in (*launches, *launches):
        calls.notice(None, launch, (), ())
    assert len(calls.functions) == DirectCalls.MOST_FUNCTIONS
    assert calls.functions[0] == "5"
