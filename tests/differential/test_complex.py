"""Complex numbers on the device, in both mappings, against the interpreter."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.differential.complex_cases import (
    DTYPES,
    PARTS,
    PRODUCTS,
    check_arithmetic,
    check_casts_branches_and_carried_values,
    check_linear_algebra,
    check_parts_and_complex_numbers_at_the_end_of_loops,
    whole,
)
from tests.semantics.support import TARGETS, Target

DEVICES = [target for target in TARGETS if target.layout is not None and target.name in ("vector", "several_subgroups")]
FORMS = ["vector", "subgroup"]


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("target", DEVICES, ids=str)
@pytest.mark.parametrize("loop", ["foreach", "for"])
def test_arithmetic(target: Target, type_: str, loop: str) -> None:
    check_arithmetic(target, TARGETS[0], type_, loop)


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("target", DEVICES, ids=str)
def test_casts_branches_and_carried_values(target: Target, type_: str) -> None:
    check_casts_branches_and_carried_values(target, TARGETS[0], type_)


@pytest.mark.parametrize("form", FORMS)
def test_scalar_arguments(form: str) -> None:
    """Python and NumPy numbers of any kind are arguments, in order with others, in repeated calls."""
    source = """func @f(%a: c32, %n: i32, %b: c64, %x: memref<c64x2>) {
      %w = cast %a : c32 -> c64
      %m = cast %n : i32 -> c64
      %s = arith.add %b, %m : c64
      store %w, %x[0] : memref<c64x2>
      store %s, %x[1] : memref<c64x2>
    }"""
    kernel, x = tl_dpnp.compile(source, form=form, cache=False), dpnp.zeros(2, dtype="c16")
    for a, b in [(1 + 2j, 3 - 4j), (2, 1.5), (np.complex64(1j), np.float32(0.25)), (0.5, np.complex128(7j))]:
        for n in (3, -3):
            kernel(a, n, b, x, group_size=1)
            np.testing.assert_array_equal(x.asnumpy(), [a, b + n])
    with pytest.raises(tl_dpnp.errors.TLBindingError, match="cannot hold 1e\\+300"):
        kernel(1e300j, 1, 1, x, group_size=1)
    with pytest.raises(tl_dpnp.errors.TLTypeError, match="takes a number"):
        kernel(True, 1, 1, x, group_size=1)


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize(("instruction", "elements"), PRODUCTS,
                         ids=lambda value: value if isinstance(value, str) else "-".join(value))
@pytest.mark.parametrize("target", DEVICES, ids=str)
def test_linear_algebra(target: Target, instruction: str, elements: tuple[str, str, str]) -> None:
    check_linear_algebra(target, instruction, elements)


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_batches_and_groups(form: str, type_: str) -> None:
    """Arrays of dpnp, in batches and in groups, sliced and transposed."""
    source = f"""func @f(%A: group<memref<{type_}x9x7>>, %B: memref<{type_}x7x9x?,strided<?,?,?>>,
        %C: memref<{type_}x9x9x?>) {{
      %g = group_id
      %a = load %A[%g] : group<memref<{type_}x9x7>>
      %b = subview %B[:, :, %g] : memref<{type_}x7x9x?,strided<?,?,?>>
      %c = subview %C[:, :, %g] : memref<{type_}x9x9x?>
      gemm.n.n [0, 1], %a, %b, 0, %c : {type_}, memref<{type_}x9x7>, memref<{type_}x7x9,strided<?,?>>, {type_},
        memref<{type_}x9x9>
    }}"""
    rng = np.random.default_rng(0)
    a, b = [whole(rng, (9, 7), type_) for _ in range(5)], whole(rng, (14, 9, 5), type_)
    c = dpnp.zeros((9, 9, 5), dtype=DTYPES[type_], order="F")
    arrays = [dpnp.asarray(array, order="F") for array in a]
    kernel = tl_dpnp.compile(source, form=form, cache=False)
    kernel(arrays, dpnp.asarray(b, order="F")[::2], c, group_size=5)
    for group in range(5):
        np.testing.assert_array_equal(c.asnumpy()[..., group], 1j * a[group] @ b[::2, :, group])


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beta", ["1", "%beta"])
def test_atomic_updates(form: str, type_: str, beta: str) -> None:
    """Work-groups add to one memref; its parts are updated one by one."""
    part, groups = PARTS[type_], 64
    source = f"""func @f(%beta: {part}, %a: memref<{type_}x7x?>, %c: memref<{type_}x7>) {{
      %g = group_id
      %x = subview %a[:, %g] : memref<{type_}x7x?>
      axpby.n.atomic [0, 2], %x, {beta}, %c : {type_}, memref<{type_}x7>, {part}, memref<{type_}x7>
    }}"""
    a = whole(np.random.default_rng(0), (7, groups), type_)
    c = dpnp.ones(7, dtype=DTYPES[type_])
    tl_dpnp.compile(source, form=form, cache=False)(1.0, dpnp.asarray(a, order="F"), c, group_size=groups)
    np.testing.assert_array_equal(c.asnumpy(), 1 + 2j * a.sum(1))


@pytest.mark.parametrize("form", FORMS)
def test_an_atomic_update_by_a_complex_factor(form: str) -> None:
    source = """func @f(%a: memref<c32x5>, %c: memref<c32x5>) {
      axpby.n.atomic 1, %a, [0, 1], %c : c32, memref<c32x5>, c32, memref<c32x5>
    }"""
    c = dpnp.asarray(np.arange(5) + 2j, dtype="c8")
    tl_dpnp.compile(source, form=form, cache=False)(dpnp.ones(5, dtype="c8"), c, group_size=4)
    turned = np.arange(5) + 2j
    for _ in range(4):
        turned = 1 + 1j * turned
    np.testing.assert_array_equal(c.asnumpy(), turned)


@pytest.mark.parametrize("target", DEVICES, ids=str)
@pytest.mark.parametrize("type_", DTYPES)
def test_parts_and_complex_numbers_at_the_end_of_loops(target: Target, type_: str) -> None:
    check_parts_and_complex_numbers_at_the_end_of_loops(target, type_)
