"""Batches of products of 16 bits, without a GPU: by warps or by threads, and what their code is estimated by."""

from __future__ import annotations

import random
import re

import pytest

import tl_dpnp
from tests.cuda.test_offline import batched_product, only
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.mappings.persistent import staging
from tl_dpnp.lowering.tactics.turns import Turn
from tl_dpnp.target.catalog import HOPPER


def staged(*arguments):
    """Return a kernel in the staged form and the first line of its source."""
    kernel = tl_dpnp.compile(batched_product(*arguments), target="cuda", form="staged", cache=False)
    return kernel, only(kernel.inspect_source()).splitlines()[0]


@pytest.mark.parametrize(("arguments", "way"), [
    (("bf16", (19, 19, 19)), r"8 teams of 32 x 1 "), (("bf16", (35, 35, 35)), r"8 teams of 32 x 1 "),
    (("f16", (7, 26, 57), "n.t", 1), r"8 teams of 32 x 1 "), (("bf16", (57, 57, 57)), r"4 teams of 32 x 2 "),
    (("bf16", (64, 61, 41), "t.n", 1), r"2 teams of 32 x 4 "), (("bf16", (8, 8, 8)), r"in registers: (16|28) teams"),
    (("f16", (11, 11, 11), "n.n", 1), r"in registers: \d+ teams"),
])
def test_warps_compute_what_is_faster_by_them(arguments, way):
    """One warp has all sums where they have room, since each loads a whole factor."""
    assert re.search(way, staged(*arguments)[1])


def test_few_products_are_shared_by_warps():
    """In calls of few products warps wait for one another more than for shared memory."""
    kernel = tl_dpnp.compile(batched_product("bf16", (35, 35, 35)), target="cuda", form="spread", cache=False)
    assert "teams of 32 x 2 " in only(kernel.inspect_source()).splitlines()[0]


@pytest.mark.drawn(count=6)
@pytest.mark.parametrize("seed", range(12))
def test_the_work_of_a_warp_is_what_its_code_does(seed, monkeypatch):
    """A product of one warp, whose results end at multiples of 16 bytes, which the ring copies without loads."""
    draw = random.Random(f"work {seed}")
    sizes = draw.choice((16, 24, 40)), draw.choice((8, 16, 24)), draw.randint(3, 40)
    arguments = draw.choice(("f16", "bf16")), sizes, draw.choice(("n.n", "t.n", "n.t")), draw.randint(0, 1)
    seen = []

    def record(problem, product, *others):
        work = product.work(problem.strides, problem.alignments[:2], problem.elements[2].bytes, problem.is_read)
        seen.append((product, work))
        return 0.0, 0

    monkeypatch.setattr(staging, "plan_of_warps", record)
    monkeypatch.setattr(staging, "product_on_tensor_cores", lambda work: None)
    monkeypatch.setattr(staging, "_WAYS", tuple(way for way in staging._WAYS if "tensor_cores" not in way.__name__))
    kernel, _ = staged(*arguments)
    ptx = only(kernel.inspect_ptx())
    product, work = seen[0]  # of two teams alike the one with fewer warps
    assert isinstance(product, PaddedProduct)
    assert product.warps == 1
    assert ptx.count("mma.sync") == work.multiplications
    loads, stores = (len(re.findall(rf"{name}\.shared\.(?:v2\.)?[bu](?:16|32)", ptx)) for name in ("ld", "st"))
    # The ring has loops that copy operands in, and results out, if arrays begin at no multiple of 16 bytes.  Lines
    # beyond the last one are loaded once.
    assert -2 <= loads - (work.loads + work.reads) <= 8
    assert 0 <= stores - work.stores <= 24


@pytest.mark.parametrize("beta", [0, 1])
def test_the_ring_divides_no_numbers_of_64_bits(beta):
    """Each such division takes some 60 instructions in every turn, where there are three places."""
    kernel, line = staged("bf16", (8, 18, 53), "n.n", beta)
    ptx = only(kernel.inspect_ptx())
    assert ("bytes, 3 of" in line) == bool(beta)
    assert not re.search(r"(rem|div|mul\.hi)\.[us]64", ptx)


def test_cycles_of_a_turn():
    """What bounds a turn counts: memory, then the copies behind products, then accesses to shared memory."""
    def turn(**changed):
        given = {"unit": HOPPER, "teams": 8, "warps": 8, "registers": 72, "memory": 20_000, "moved": 2_000,
                 "instructions": 400.0, "between": 100.0, "waits": False}
        return Turn(**{**given, **changed})

    assert turn().blocks == 3
    assert turn(registers=40).blocks == 6
    assert turn(memory=200_000).blocks == 1
    assert turn(memory=300_000).blocks == 0
    moving = 2_000 / HOPPER.memory_bytes
    assert moving < turn().cycles(50) < 1.1 * moving
    assert turn(waits=True).cycles(50) > turn().cycles(50)
    assert turn().cycles(1_000) > 1_000
    assert turn(memory=200_000, instructions=4_000.0).cycles(50) >= HOPPER.alone * 4_000 / 8


def test_a_call_of_a_drawn_size_has_a_plan_that_fits():
    draw = random.Random("fits")
    for _ in range(20):
        sizes = tuple(draw.randint(1, 64) for _ in range(3))
        kernel, _ = staged(draw.choice(("f16", "bf16")), sizes, draw.choice(("n.n", "t.n", "n.t")), draw.randint(0, 1))
        assert kernel.lower(H200).plan.local_memory <= H200.local_memory


@pytest.mark.parametrize(("sizes", "transposes", "beta"), [((52, 36, 32), "t.n", 1), ((33, 25, 43), "t.n", 1)])
def test_there_is_room_for_the_blocks_that_were_counted_on(sizes, transposes, beta):
    """Registers that the compiler would like to have leave room for one block less."""
    kernel, _ = staged("f16", sizes, transposes, beta)
    plan, resources = kernel.lower(H200).plan, only(kernel.resources())
    threads = plan.subgroup_size * plan.subgroups * plan.teams
    by_memory = HOPPER.local_memory // (resources.local_memory + HOPPER.block_memory)
    assert HOPPER.registers // (threads * resources.registers) >= by_memory > 1
    assert resources.stack == 0
