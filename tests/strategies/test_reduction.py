"""Reduction keeps the failure and throws the rest away."""

from dataclasses import replace

from tests.strategies.programs import random_program
from tests.strategies.reduction import is_defined, reduced
from tl_dpnp.language import ops
from tl_dpnp.language.parser import parse


def has_gemm_and_store(program):
    kinds = {type(operation) for operation in program.function.body.walk()}
    return {ops.Gemm, ops.Store} <= kinds


def test_a_program_is_reduced_to_what_fails():
    program = next(p for p in map(random_program, range(1000)) if has_gemm_and_store(p))
    small = reduced(program, has_gemm_and_store)
    assert has_gemm_and_store(small)
    assert is_defined(small)
    assert len(list(small.function.body.walk())) < len(list(program.function.body.walk())) / 2


def test_programs_with_uninitialised_reads_are_not_defined():
    program = random_program(0)
    (function,) = parse("""func @f(%x: memref<i32>) {
        %t = alloca -> memref<i32>
        %v = load %t[] : memref<i32>
        store %v, %x[] : memref<i32>
    }""")
    arrays = [t for t in program.templates if getattr(t, "element", None) is not None]
    template = replace(arrays[0], element=function.parameters[0].type.element, shape=(), strides=())
    undefined = replace(program, function=function, group_size=1, templates=(template,), tolerances=(0.0,))
    assert not is_defined(undefined)
