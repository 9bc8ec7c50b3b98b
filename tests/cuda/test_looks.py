"""Lists of tensors, which machine code looks at; the package is one of Python functions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.exporters import Exporter
from tests.cuda.test_direct import FakeTensor, driver, matrix, package, undescribed  # noqa: F401
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.cuda.arrays import CUDA_ARRAYS
from tl_dpnp.runtime.cuda.looks import rows_of


def test_rows_have_all_that_matters(package):  # noqa: F811
    arrays = [matrix(package), matrix(package, (2, 7)), matrix(package, (5, 3), "float64", device=1)]
    rows = rows_of(arrays)
    assert rows[:, 0].tolist() == [each.array.ctypes.data for each in arrays]
    assert rows[:, 3:].tolist() == [[5, 3, 1, 5], [2, 7, 1, 2], [5, 3, 1, 5]]
    assert (rows[:, 1] >> 32).tolist() == [0, 0, 1]
    assert rows[0, 2] == rows[1, 2] != rows[2, 2]


def test_what_stands_for_a_list_has_the_addresses_apart_from_the_facts(package):  # noqa: F811
    arrays = [matrix(package) for _ in range(20)]

    def listed(given):
        found = CUDA_ARRAYS.arrays_of([given])[0]
        hash(found.facts)
        return found.facts, found.addresses.tolist()

    facts, addresses = listed(arrays)
    assert addresses == [each.array.ctypes.data for each in arrays]
    assert listed(tuple(arrays)) == listed(arrays) == (facts, addresses)
    other = matrix(package)
    assert listed([*arrays[:-1], other]) == (facts, [*addresses[:-1], other.array.ctypes.data])
    assert listed(arrays[::-1]) == (facts, addresses[::-1])
    for changed in (arrays[:-1], [*arrays[:7], matrix(package, (3, 5)), *arrays[8:]],
                    [*arrays[:7], matrix(package, device=1), *arrays[8:]],
                    [*arrays[:7], matrix(package, dtype="float64"), *arrays[8:]]):
        assert listed(changed)[0] != facts
    arrays[3].array = np.asfortranarray(np.zeros((5, 3), "float32"))  # it has been given other memory
    assert listed(arrays)[1][3] == arrays[3].array.ctypes.data


def test_arrays_that_are_looked_at_one_by_one_are_listed_as_well():
    exporters = [Exporter(np.zeros(size, "float32")) for size in (3, 4)]
    first, second = CUDA_ARRAYS.arrays_of([exporters, exporters[::-1]])
    assert first.facts == second.facts[::-1] != second.facts
    assert first.addresses.tolist() == [each.array.ctypes.data for each in exporters]
    assert [each.streams for each in exporters] == [[1, 1], [1, 1]]
    assert CUDA_ARRAYS.arrays_of([[]])[0].address == 0


def test_views_of_many_are_those_of_each(package, monkeypatch):  # noqa: F811
    def view(tensor):
        array = tensor.array
        strides = tuple(step // array.itemsize for step in array.strides)
        return ArrayView(tensor, array.ctypes.data, array.shape, strides, array.dtype, tensor.device, True)

    monkeypatch.setattr("tl_dpnp.runtime.cuda.arrays.view_of", view)
    alike = [matrix(package) for _ in range(5)]
    for arrays in (alike, [*alike, matrix(package, (2, 3)), *alike, matrix(package, device=1)]):
        assert CUDA_ARRAYS.views_of(arrays) == tuple(map(view, arrays))


def spoil(name, tensor):
    match name:
        case "gradients":
            tensor.requires_grad = True
        case "negative":
            tensor.negative = True
        case "conjugate":
            tensor.conjugate = True
        case "undescribed":
            tensor.array = None
        case "a vector":
            tensor.array = np.zeros(15, "float32")
        case "without the attribute":
            del tensor.requires_grad


@pytest.mark.parametrize("name", ["gradients", "negative", "undescribed", "a vector", "without the attribute"])
@pytest.mark.parametrize("place", [0, 4, 9])
def test_what_machine_code_cannot_say_is_looked_at_by_itself(package, name, place):  # noqa: F811
    arrays = [matrix(package) for _ in range(10)]
    spoil(name, arrays[place])
    assert rows_of(arrays) is None
    if name == "a vector":
        arrays[place].ndim = 1
        assert rows_of(arrays) is None


def test_complex_numbers_may_be_conjugated(package):  # noqa: F811
    arrays = [matrix(package, dtype="complex64") for _ in range(10)]
    assert rows_of(arrays)[:, 0].tolist() == [each.array.ctypes.data for each in arrays]
    spoil("conjugate", arrays[7])
    assert rows_of(arrays) is None
    memory = np.zeros(32, "float32")
    assert rows_of([package(memory[offset : offset + 30].view("complex64")) for offset in (0, 2)]) is not None
    assert rows_of([package(memory[offset : offset + 30].view("complex64")) for offset in (0, 1)]) is None


def test_other_classes_and_empty_lists(package):  # noqa: F811
    assert rows_of([]) is None
    assert rows_of([matrix(package), FakeTensor(np.zeros((5, 3), "float32"))]) is None
    assert rows_of([np.zeros(3), np.zeros(3)]) is None
    assert rows_of([undescribed(package)]) is None
