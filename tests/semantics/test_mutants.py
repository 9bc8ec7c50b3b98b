"""Break each of the ten points on purpose: its check must notice.

Where the interpreter can be given the wrong behaviour, it is; the hazards of point 4 and the sharing of point 5 need
work-items that really run apart, so there the compiler's passes are switched off.  A check may also notice by an
error of the interpreter, such as an access outside the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.semantics import algebra_points, memory_points, order_points, scalar_points
from tests.semantics.support import TARGETS, compiled
from tl_dpnp.errors import TLBoundsError
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import algebra, machine, memory, scalar
from tl_dpnp.lowering import analysis
from tl_dpnp.lowering import memory as placement

REFERENCE = TARGETS[0]
SEVERAL = next(target for target in TARGETS if target.name == "several_subgroups")
NOTICED = (AssertionError, TLBoundsError, pytest.fail.Exception)

update, arith = algebra.update, scalar.arith


def beta_zero_reads(patch):
    """1: multiply the output by 0 instead of leaving it unread."""
    def mutant(operation, alpha, inputs, beta, output):
        update(operation, alpha, inputs, output.dtype.type(0) if beta is None else beta, output)
    patch.setattr(algebra, "update", mutant)


def foreach_fills_the_lanes(patch):
    """2: round the trip count up to a multiple of 16."""
    execute = ops.Foreach.execute

    def mutant(operation, group):
        start, stop = group.index(operation.starts[0]), group.index(operation.stops[0])
        stop = start + -(-(stop - start) // 16) * 16
        last = ops.Constant(stop, ops.scalar_type(operation.stops[0]))
        return execute(replace(operation, stops=(last, *operation.stops[1:])), group)
    patch.setattr(ops.Foreach, "execute", mutant)


def foreach_clamps_its_index(patch):
    """2: run the extra iterations on the last element again."""
    execute = ops.Foreach.execute

    def mutant(operation, group):
        results = execute(operation, group)
        if group.index(operation.stops[0]) % 16:
            last = group.index(operation.stops[0]) - 1
            if last >= group.index(operation.starts[0]):
                first = ops.Constant(last, ops.scalar_type(operation.starts[0]))
                execute(replace(operation, starts=(first, *operation.starts[1:])), group)
        return results
    patch.setattr(ops.Foreach, "execute", mutant)


def sum_over_the_other_mode(patch):
    """3: add up columns where rows are meant."""
    def mutant(operation, *rest):
        if isinstance(operation, ops.Sum):
            operation = replace(operation, transposes=tuple(not t for t in operation.transposes))
        update(operation, *rest)
    patch.setattr(algebra, "update", mutant)


def sum_forgets_an_element(patch):
    """3: leave the last element of a vector out, as a wrong tail does."""
    def mutant(operation, alpha, inputs, *rest):
        if isinstance(operation, ops.Sum) and inputs[0].ndim == 1:
            inputs = [inputs[0][:-1]]
        update(operation, alpha, inputs, *rest)
    patch.setattr(algebra, "update", mutant)


def views_are_copies(patch):
    """5: a subview that does not alias."""
    subview = memory.subview
    patch.setattr(memory, "subview", lambda array, entries: subview(array, entries).copy(order="F"))


def fused_views_are_copies(patch):
    """5: a fuse that does not alias."""
    fuse = memory.fuse
    patch.setattr(memory, "fuse", lambda *arguments: fuse(*arguments).copy(order="F"))


def temporaries_overlap(patch):
    """5: all temporaries in the same memory."""
    block = np.zeros(4096, np.uint8)
    allocate = memory.allocate

    def mutant(memref):
        array = allocate(memref)
        return np.ndarray(array.shape, array.dtype, block, 0, array.strides)
    patch.setattr(memory, "allocate", mutant)


def every_work_item_stores(patch):
    """6: each of two work-items runs the replicated operations, one after the other."""
    run = machine.WorkGroup.run

    def mutant(self, region):
        if not getattr(self, "running", False):
            self.running = True
            run(self, region)
        return run(self, region)
    patch.setattr(machine.WorkGroup, "run", mutant)


def atomic_updates_get_lost(patch):
    """7: a work-group reads the output before its neighbour has written it."""
    stale: dict[int, np.ndarray] = {}

    def mutant(operation, alpha, inputs, beta, output):
        if operation.atomic and beta is not None:
            before = output.copy(order="F")
            seen = stale.pop(output.ctypes.data, before)
            output[...] = seen
            if seen is before:
                stale[output.ctypes.data] = before
        update(operation, alpha, inputs, beta, output)
    patch.setattr(algebra, "update", mutant)


def atomic_exchange_adds(patch):
    """7: an exchange that reads what was there."""
    def mutant(operation, alpha, inputs, beta, output):
        beta = output.dtype.type(1) if operation.atomic and beta is None else beta
        update(operation, alpha, inputs, beta, output)
    patch.setattr(algebra, "update", mutant)


def floor_division(kinds: dict[str, Callable]) -> Callable:
    """8: division, or the remainder, as Python and NumPy do it."""
    def break_it(patch):
        def mutant(kind, scalar_type, lhs, rhs, strict=False):
            if kind in kinds:
                return kinds[kind](lhs, rhs)
            return arith(kind, scalar_type, lhs, rhs, strict)
        patch.setattr(scalar, "arith", mutant)
    return break_it


def shifts_are_logical(patch):
    """8: a right shift that loses the sign."""
    def mutant(kind, scalar_type, lhs, rhs, strict=False):
        if kind == "shr":
            return (lhs.view(f"u{lhs.itemsize}") >> rhs.view(f"u{lhs.itemsize}")).view(lhs.dtype)
        return arith(kind, scalar_type, lhs, rhs, strict)
    patch.setattr(scalar, "arith", mutant)


def shifts_are_not_checked(patch):
    """8: debug that does not look."""
    patch.setattr(scalar, "arith", lambda kind, t, lhs, rhs, strict=False: arith(kind, t, lhs, rhs))


def group_ids_from_one(patch):
    """9: group ids that start at 1."""
    execute = ops.GroupId.execute
    patch.setattr(ops.GroupId, "execute", lambda operation, group: (execute(operation, group)[0] + 1,))


def group_size_of_work_items(patch):
    """9: a group_size that counts work-items."""
    execute = ops.GroupSize.execute
    patch.setattr(ops.GroupSize, "execute", lambda operation, group: (execute(operation, group)[0] * 16,))


def group_elements_alike(attribute: str) -> Callable:
    """10: the first element's sizes, or strides, for all."""
    def break_it(patch):
        load = memory.Group.load

        def mutant(self, index):
            first, own = self.arrays[0], load(self, index)
            chosen = {"shape": own.shape, "strides": own.strides} | {attribute: getattr(first, attribute)}
            return np.lib.stride_tricks.as_strided(own, **chosen)
        patch.setattr(memory.Group, "load", mutant)
    return break_it


def offset_is_ignored(patch):
    """10: the offset of a group."""
    patch.setattr(memory, "shifted", lambda array, offset: array)


MUTANTS = [
    (foreach_fills_the_lanes, lambda: order_points.check_foreach_range(REFERENCE)),
    (foreach_clamps_its_index, lambda: order_points.check_foreach_range(REFERENCE)),
    (sum_over_the_other_mode, lambda: algebra_points.check_sum(REFERENCE, "f32")),
    (sum_forgets_an_element, lambda: algebra_points.check_sum(REFERENCE, "f32")),
    (views_are_copies, lambda: memory_points.check_views_alias(REFERENCE, "argument")),
    (views_are_copies, lambda: memory_points.check_views_alias(REFERENCE, "temporary")),
    (fused_views_are_copies, lambda: memory_points.check_views_alias(REFERENCE, "argument")),
    (temporaries_overlap, lambda: memory_points.check_temporaries_do_not_disturb(REFERENCE)),
    (every_work_item_stores, lambda: order_points.check_replicated_store(REFERENCE)),
    (atomic_updates_get_lost, lambda: memory_points.check_atomic(REFERENCE, "i32")),
    (atomic_updates_get_lost, lambda: memory_points.check_atomic(REFERENCE, "f64")),
    (atomic_updates_get_lost, lambda: memory_points.check_atomic_instructions(REFERENCE)),
    (atomic_exchange_adds, lambda: memory_points.check_atomic(REFERENCE, "f32")),
    (atomic_exchange_adds, lambda: memory_points.check_atomic(REFERENCE, "i32")),
    (floor_division({"div": np.floor_divide}), lambda: scalar_points.check_division(REFERENCE, "i32")),
    (floor_division({"rem": np.remainder}), lambda: scalar_points.check_division(REFERENCE, "i8")),
    (floor_division({"rem": np.remainder}), lambda: scalar_points.check_float_remainder(REFERENCE, "f64")),
    (shifts_are_logical, lambda: scalar_points.check_shifts(REFERENCE, "i32")),
    (shifts_are_not_checked, lambda: scalar_points.check_wide_shifts_are_reported(REFERENCE, "i32")),
    (group_ids_from_one, lambda: order_points.check_group_ids(REFERENCE)),
    (group_size_of_work_items, lambda: order_points.check_group_ids(REFERENCE)),
    (group_elements_alike("shape"), lambda: memory_points.check_group_elements_differ(REFERENCE)),
    (group_elements_alike("strides"), lambda: memory_points.check_group_elements_differ(REFERENCE)),
    (offset_is_ignored, lambda: memory_points.check_group_elements_differ(REFERENCE)),
]


@pytest.fixture(autouse=True)
def _compile_anew():
    """Keep no kernel of the unbroken compiler for a broken one, nor the other way round."""
    compiled.cache_clear()
    yield
    compiled.cache_clear()


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_broken_interpreter_is_noticed(number, monkeypatch):
    break_it, check = MUTANTS[number]
    check()
    break_it(monkeypatch)
    compiled.cache_clear()
    with pytest.raises(NOTICED), np.errstate(all="ignore"):
        check()


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("instruction", algebra_points.ALGEBRA)
def test_an_output_that_beta_zero_reads_is_noticed(instruction, atomic, monkeypatch):
    beta_zero_reads(monkeypatch)
    with pytest.raises(AssertionError):
        algebra_points.check_beta_zero(REFERENCE, instruction, "f32", atomic)


@pytest.mark.parametrize("name", order_points.BARRIERS)
def test_missing_barriers_are_noticed(name, monkeypatch):
    """4: without the pass that inserts them, a sub-group runs ahead of the others."""
    monkeypatch.setattr(analysis, "insert_barriers", lambda function, placements: function)
    with pytest.raises(AssertionError):
        order_points.check_barriers(SEVERAL, name)


def test_temporaries_that_never_share_are_noticed(monkeypatch):
    """5: lifetimes that all last to the end."""
    lifetimes = placement._lifetimes

    def everlasting(function):
        found = lifetimes(function)
        return [replace(entry, first=0, last=10**6) for entry in found]

    monkeypatch.setattr(placement, "_lifetimes", everlasting)
    assert memory_points.local_memory(SEVERAL, apart=True) > 16 * 16 * 4
