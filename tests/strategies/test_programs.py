"""The random programs keep the promises that differential tests rely on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.lib.stride_tricks import as_strided

from tests.strategies.arguments import GroupArgument, ScalarArgument, differences, numpy_arguments
from tests.strategies.programs import Program, programs, random_program
from tests.strategies.writer import ALL_TYPES, Features
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.parser import parse
from tl_dpnp.language.printer import print_module
from tl_dpnp.language.verifier import verify

EVERYTHING = Features(types=ALL_TYPES)
WITH_WORK_ITEMS = Features(types=ALL_TYPES, work_items=True)


def check_views(group, operation, results):
    """The sizes and strides that a type states are those of the memory."""
    for value, result in zip(operation.results, results, strict=True):
        if isinstance(result, np.ndarray):
            actual = (*result.shape, *(stride // result.itemsize for stride in result.strides))
            stated = (*value.type.shape, *value.type.strides)
            assert all(s in (None, a) for s, a in zip(stated, actual, strict=True)), (operation, actual)


def run(program: Program, order_seed: int | None = None) -> list:
    arguments = program.make_arguments(program.seed or 0)
    interpret(program.function, numpy_arguments(arguments), program.group_size, debug=True, order_seed=order_seed,
              trace=check_views)
    return arguments


@given(programs(EVERYTHING) | programs(WITH_WORK_ITEMS))
@settings(max_examples=150, deadline=None)
def test_programs_are_valid_and_make_the_round_trip(program):
    verify(program.module)
    text = print_module(program.module)
    assert parse(text) == program.module
    assert print_module(parse(text)) == text


@given(programs(EVERYTHING) | programs(WITH_WORK_ITEMS))
@settings(max_examples=100, deadline=None)
def test_result_depends_on_no_order(program):
    expected = run(program)
    assert not differences(expected, run(program, order_seed=1), program.tolerances)


@given(programs(EVERYTHING))
@settings(max_examples=50, deadline=None)
def test_nothing_beside_an_array_is_written(program):
    """Neither the margins nor the gaps between the modes."""
    before, after = program.make_arguments(program.seed or 0), run(program)
    for parameter, old, new in zip(program.function.parameters, before, after, strict=True):
        offset = getattr(parameter.type, "offset", 0) or getattr(old, "offset", 0)
        pairs = [(old, new, 0)]
        if isinstance(old, ScalarArgument):
            continue
        if isinstance(old, GroupArgument):
            pairs = [(a, b, offset) for a, b in zip(old.arrays, new.arrays, strict=True)]
        for a, b, moved in pairs:
            beside = np.ones(a.buffer.size, bool)
            strides = [stride * beside.itemsize for stride in a.strides]
            as_strided(beside[a.offset + moved :], a.shape, strides)[...] = False
            np.testing.assert_array_equal(a.buffer[beside], b.buffer[beside])


def test_a_seed_reproduces_its_program_and_arguments():
    one, other = random_program(7), random_program(7)
    assert one == other
    assert not differences(one.make_arguments(3), other.make_arguments(3), [0.0] * len(one.templates))


def test_programs_are_rich():
    """Every operation, every scalar type, nesting, dynamic modes, offsets and transposes occur."""
    seen, sizes, types, kinds = set(), [], set(), set()
    for seed in range(700):
        function = random_program(seed).function
        operations = list(function.body.walk())
        sizes.append(len(operations))
        for operation in operations:
            seen.add(type(operation))
            types |= {result.type for result in operation.results}
            kinds |= {(type(operation), kind) for kind in [getattr(operation, "kind", None)] if kind}
            if isinstance(operation, ops.LinearAlgebra):
                constant = isinstance(operation.beta, ops.Constant)
                kinds |= {("atomic", operation.atomic), ("transposes", operation.transposes), ("constant", constant)}
            for inner in operation.regions:
                kinds |= {(type(operation), type(child)) for child in inner}
    everything = {
        ops.Arith, ops.Unary, ops.Math, ops.Cast, ops.Bitcast, ops.Compare, ops.GroupId, ops.GroupSize, ops.Alloca,
        ops.LifetimeStop, ops.Barrier, ops.Load, ops.Store, ops.SizeOf, ops.Expand, ops.Fuse, ops.Subview, ops.Yield,
        ops.If, ops.For, ops.Foreach, ops.Axpby, ops.Gemm, ops.Gemv, ops.Ger, ops.Hadamard, ops.Sum,
        ops.Cumsum, ops.AtomicLoad, ops.AtomicStore, ops.AtomicAdd, ops.AtomicMin, ops.AtomicMax,
    }
    assert seen == everything
    assert set(Features().types) <= types
    assert {(ops.Arith, kind) for kind in ops.ARITHMETIC} <= kinds
    assert {(ops.Math, kind) for kind in ops.MATHEMATICS} <= kinds
    assert {(ops.Compare, kind) for kind in ops.COMPARISONS} <= kinds
    assert {("transposes", (a, b)) for a in (False, True) for b in (False, True)} <= kinds
    assert {("atomic", True), ("atomic", False), ("constant", True), ("constant", False)} <= kinds
    assert {(ops.For, ops.Gemm), (ops.For, ops.Foreach), (ops.If, ops.For), (ops.Foreach, ops.For),
            (ops.Foreach, ops.If)} <= kinds
    assert 20 <= np.mean(sizes) <= 50


def test_work_items_meet_in_all_ways():
    seen, meetings = set(), set()
    for seed in range(200):
        for operation in random_program(seed, WITH_WORK_ITEMS).function.body.walk():
            seen.add(type(operation))
            meetings |= {(type(operation), type(inner).__bases__[0]) for region in operation.regions
                         for inner in region if isinstance(inner, ops.SubgroupExchange)}
    # Cooperative matrices are not drawn yet.
    wanted = [kind for kind in ops.INSTRUCTIONS if not kind.__name__.startswith("CooperativeMatrix")
              and (kind.among == "sub-group" or "sub-group" in kind.together)]
    assert len(wanted) == 15
    assert seen >= {*wanted, ops.NumSubgroups, ops.SubgroupSize, ops.Barrier}
    assert {(ops.For, ops.SubgroupReduce), (ops.If, ops.SubgroupExclusiveScan)} <= meetings


def test_programs_take_complex_numbers_apart():
    operations = [operation for seed in range(200)
                  for operation in random_program(seed, Features(types=ALL_TYPES)).function.body.walk()]
    assert {ops.Re, ops.Im, ops.Cmplx} <= set(map(type, operations))
    assert {operation.kind for operation in operations if isinstance(operation, ops.Unary)} == set(ops.UNARY)


def test_a_race_is_found():
    """A foreach that reads what other iterations write gives another result in another order."""
    source = """func @f(%x: memref<i32x16>) {
        foreach %i = 0, 15 {
            %j = arith.add %i, 1 : index
            %v = load %x[%i] : memref<i32x16>
            store %v, %x[%j] : memref<i32x16>
        }
    }"""
    (function,) = parse(source)
    results = []
    for order_seed in (None, 1):
        array = np.arange(16, dtype=np.int32)
        interpret(function, [array], order_seed=order_seed)
        results.append(array)
    assert (results[0] != results[1]).any()


def test_a_wrong_element_is_found():
    program = next(p for p in map(random_program, range(100)) if any(p.tolerances))
    expected, actual = run(program), run(program)
    for argument in actual:
        for array in getattr(argument, "arrays", [argument]):
            if getattr(array, "buffer", None) is not None and array.element.mantissa:
                array.buffer[3] += 1
    assert differences(expected, actual, program.tolerances)
    assert not differences(expected, run(program), program.tolerances)


@pytest.mark.parametrize("feature", ["zero_sizes", "mathematics", "mixed_types", "replicated_memory"])
def test_features_can_be_left_out(feature):
    features = replace(Features(), **{feature: False})
    for seed in range(30):
        program = random_program(seed, features)
        verify(program.module)
        operations = list(program.function.body.walk())
        if feature == "mathematics":
            assert not any(isinstance(operation, ops.Math) for operation in operations)
        if feature == "replicated_memory":
            outside = [o for o in program.function.body if isinstance(o, ops.Store)]
            assert not outside
