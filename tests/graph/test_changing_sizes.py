"""Random programs for changing sizes of matrices: results are dpnp's, and few kernels serve them all."""

import random
import warnings

import dpctl
import pytest

import tl_dpnp
from tests.graph.changing_sizes import random_program, random_sizes
from tests.graph.support import compare, shares
from tl_dpnp.errors import FusionWarning
from tl_dpnp.graph.kernels import request_kernel
from tl_dpnp.graph.partition import partition
from tl_dpnp.graph.repartition import Partitioning
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.runtime.sycl.devices import describe

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


@pytest.mark.drawn(count=5)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_for_changing_sizes(seed):
    program, rng = random_program(seed), random.Random(seed)
    functions = {f"dynamic={dynamic}": fuse(program.function(f"sizes_{seed}_{dynamic}"), dynamic=dynamic,
                                            recompile_limit=1000) for dynamic in (False, None, True)}
    dtype = rng.choice(["f4", "f4", "f8"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionWarning)
        for number in range(7):
            check(program, functions, random_sizes(rng), seed + number, dtype, f"seed {seed}, call {number}")


@pytest.mark.drawn(count=3)
@pytest.mark.parametrize("seed", range(100, 106))
def test_graphs_of_one_structure_are_partitioned_alike(seed, monkeypatch):
    compared = []

    def applied(self, roots, new_array, renamed):
        regions = repeat(self, roots, new_array, renamed)
        anew = partition(roots, new_array, WorkGroups(MEMORY), renamed)
        for region, other in zip(regions, anew, strict=True):
            one, two = request_kernel(region, WorkGroups(MEMORY)), request_kernel(other, WorkGroups(MEMORY))
            assert one.key == two.key, program.text
            assert (one.shapes, one.groups, one.fixed) == (two.shapes, two.groups, two.fixed), program.text
            compared.append(region)
            assert (region.reasons, region.placement.grid) == (other.reasons, other.placement.grid)
        return regions

    repeat = Partitioning.applied
    MEMORY = describe(dpctl.SyclDevice()).local_memory
    monkeypatch.setattr(Partitioning, "applied", applied)
    program, rng = random_program(seed), random.Random(seed)
    function = fuse(program.function(f"alike_{seed}"), dynamic=True, recompile_limit=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionWarning)
        for number in range(8):
            arguments = program.arrays({name: size + 8 for name, size in random_sizes(rng).items()}, number, "f4")
            outcome(function, arguments)
    if function.stats.dynamic and not isinstance(outcome(program.function("plain"), arguments), Exception):
        assert compared
