"""Random programs for changing sizes of matrices: results are dpnp's, and few kernels serve them all."""

import random
import warnings

import pytest

import tl_dpnp
from tests.graph.changing_sizes import random_program, random_sizes
from tests.graph.support import compare, shares
from tl_dpnp.errors import FusionWarning

fuse = tl_dpnp.fuse


def outcome(function, arguments):
    """Return the results of a call, or the exception."""
    try:
        return list(function(*arguments))
    except Exception as error:
        return error


def check(program, functions, sizes, seed, dtype, label):
    """Call the plain function and the fused ones for arrays of drawn sizes, and compare everything."""
    plain_arguments = program.arrays(sizes, seed, dtype)
    plain = outcome(program.function("plain"), plain_arguments)
    strides = None
    for name, function in functions.items():
        arguments = program.arrays(sizes, seed, dtype)
        fused = outcome(function, arguments)
        where = f"{label}, {name}, {sizes}, {dtype}\n{program.text}"
        if isinstance(plain, Exception):
            assert type(fused) is type(plain), f"{where}{fused}"
            continue
        assert not isinstance(fused, Exception), f"{where}{fused!r}"
        compare(where, fused, plain)
        compare(f"{where}arguments", arguments, plain_arguments)
        for one, other in zip(fused, plain, strict=True):
            assert [shares(one, a) for a in arguments] == [shares(other, a) for a in plain_arguments], where
        found = [array.strides for array in fused]
        strides = strides or found
        assert found == strides, where


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))])
def test_random_programs_for_changing_sizes(seed):
    program, rng = random_program(seed), random.Random(seed)
    functions = {f"dynamic={dynamic}": fuse(program.function(f"sizes_{seed}_{dynamic}"), dynamic=dynamic,
                                            recompile_limit=1000) for dynamic in (False, None, True)}
    dtype = rng.choice(["f4", "f4", "f8"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionWarning)
        for number in range(7):
            check(program, functions, random_sizes(rng), seed + number, dtype, f"seed {seed}, call {number}")
