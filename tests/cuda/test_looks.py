"""Lists of tensors, which machine code looks at; the package is one of Python functions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.test_direct import FakeTensor, driver, matrix, package, undescribed  # noqa: F401
from tl_dpnp.runtime.cuda.arrays import CUDA_ARRAYS
from tl_dpnp.runtime.cuda.looks import rows_of


def test_rows_have_all_that_matters(package):  # noqa: F811
    arrays = [matrix(package), matrix(package, (2, 7)), matrix(package, (5, 3), "float64", device=1)]
    rows = rows_of(arrays)
    assert rows[:, 0].tolist() == [each.array.ctypes.data for each in arrays]
    assert rows[:, 3:].tolist() == [[5, 3, 1, 5], [2, 7, 1, 2], [5, 3, 1, 5]]
    assert (rows[:, 1] >> 32).tolist() == [0, 0, 1]
    assert rows[0, 2] == rows[1, 2] != rows[2, 2]


def test_a_list_with_others_is_another_one(package):  # noqa: F811
    arrays = [matrix(package) for _ in range(20)]
    key = CUDA_ARRAYS.list_facts(arrays)
    assert CUDA_ARRAYS.list_facts(list(arrays)) == key
    hash(key)
    for changed in (
        [*arrays[:-1], matrix(package)], arrays[:-1], arrays[::-1], [*arrays[:7], matrix(package, (3, 5)), *arrays[8:]],
    ):
        assert CUDA_ARRAYS.list_facts(changed) != key
    arrays[3].array = np.zeros((5, 3), "float32", order="F")  # it has been given other memory
    assert CUDA_ARRAYS.list_facts(arrays) != key


def spoil(name, tensor):
    match name:
        case "gradients":
            tensor.requires_grad = True
        case "negative":
            tensor.negative = True
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


def test_other_classes_and_empty_lists(package):  # noqa: F811
    assert rows_of([]) is None
    assert rows_of([matrix(package), FakeTensor(np.zeros((5, 3), "float32"))]) is None
    assert rows_of([np.zeros(3), np.zeros(3)]) is None
    assert rows_of([undescribed(package)]) is None
