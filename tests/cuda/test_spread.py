"""Few products in the spread form: which calls run so, in how many blocks, and on a GPU that results are right."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.drawn_products import drawn_product
from tests.cuda.test_tiled import TRANSPOSES, source
from tests.cuda.test_variants import bound, compilations  # noqa: F401
from tl_dpnp.language.parser import parse
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.pipeline import find_variants, lower
from tl_dpnp.lowering.variants import FewBlocks, Variant, variants_from_json, variants_to_json
from tl_dpnp.runtime.cuda.arrays import cuda_device
from tl_dpnp.runtime.cuda.driver_adapter import device_count

TYPES = [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f16")]
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")


def spread_plan(*given, **options):
    return lower(parse(source(*given, **options)).functions[0], H200, LoweringOptions(form="spread")).plan


@pytest.mark.parametrize(("types", "transposes", "sizes", "parts"), [
    (("f32", "f32"), "n.n", (64, 64, 64), 8), (("f32", "f32"), "t.n", (17, 63, 30), 7),
    (("f32", "f32"), "n.n", (64, 61, 64), 1), (("f32", "f32"), "n.t", (64, 64, 64), 1),
    (("bf16", "f32"), "n.n", (32, 48, 16), 3), (("bf16", "bf16"), "n.n", (32, 60, 16), 1),
])
def test_products_have_parts_of_some_columns(types, transposes, sizes, parts):
    """As many as have eight columns or more, with operands of 16 bits sixteen, where these lie together."""
    plan = spread_plan(*types, transposes, sizes=sizes, batched="ABC")
    assert (plan.form, plan.parts) == ("spread", parts)
    assert parts % plan.teams == 0
    assert plan.local_memory <= H200.local_memory


def test_blocks_have_as_few_parts_as_multiprocessors_leave_them():
    plan = spread_plan("bf16", "f32", sizes=(64, 64, 64), batched="ABC")
    assert (plan.parts, plan.teams) == (4, 4)
    teams = {groups: plan.shared_out(groups, 132).teams for groups in (1, 33, 34, 66, 67, 132, 264)}
    assert teams == {1: 1, 33: 1, 34: 2, 66: 2, 67: 4, 132: 4, 264: 4}
    for groups, count in teams.items():
        assert plan.shared_out(groups, 132).thread_blocks(4 * groups, lambda: 132) * count == 4 * groups


@pytest.mark.parametrize("sizes", [(150, 160, 80), (200, 64, 90), (90, 120, 200)])
def test_blocks_have_no_more_parts_than_room(sizes):
    plan = spread_plan("f64", "f64", sizes=sizes, batched="ABC")
    assert plan.parts > plan.teams
    assert plan.local_memory <= H200.local_memory


def test_variants_for_few_products_survive_json():
    few, many = find_variants(parse(source("f32", "f32", sizes=(64,) * 3, batched="ABC")).functions[0], H200,
                              LoweringOptions())
    assert (few, many) == (Variant("spread", FewBlocks(8, 8)), Variant(None))
    assert variants_from_json(json.loads(json.dumps(variants_to_json((few, many))))) == (few, many)


@pytest.mark.parametrize(("types", "size", "groups", "form"), [
    (("f32", "f32"), 64, 132, "spread"), (("f32", "f32"), 64, 133, "staged"), (("f32", "f32"), 8, 132, "spread"),
    (("f32", "f32"), 8, 133, "staged"), (("bf16", "f32"), 64, 264, "spread"), (("bf16", "f32"), 64, 265, "staged"),
])
def test_few_products_are_shared_out(compilations, types, size, groups, form):  # noqa: F811
    """A kernel that is made before there is a call is for many."""
    kernel = tl_dpnp.compile(source(*types, sizes=(size,) * 3, batched="ABC"), target="cuda", cache=False)
    none = dict.fromkeys("ABC", 0)
    call = bound(kernel, dict.fromkeys("ABC", (size, size)), none, none, groups)
    assert kernel.prepare(call, cuda_device(0)).form == form
    assert kernel.lower(H200).plan.form == "staged"


@pytest.mark.parametrize("position", range(3))
def test_elements_of_groups_are_not_divided(position):
    """They do not follow one another, as the columns of matrices of a batch do."""
    types = ["memref<f32x32x32x?>"] * 3
    types[position] = "group<memref<f32x32x32>>"
    parts = [f"%{name}: {type_}" for name, type_ in zip("ABC", types, strict=True)]
    views = [f"%{name.lower()} = load %{name}[%g] : {type_}" if "group" in type_ else
             f"%{name.lower()} = subview %{name}[:,:,%g] : {type_}" for name, type_ in zip("ABC", types, strict=True)]
    newline, matrix = "\n", "memref<f32x32x32>"
    text = (f"func @product({', '.join(parts)}) {{\n%g = group_id\n{newline.join(views)}\n"
            f"gemm.n.n 1.0, %a, %b, 0.0, %c : f32, {matrix}, {matrix}, f32, {matrix}\n}}")
    plan = tl_dpnp.compile(text, target="cuda", form="spread", cache=False).lower(H200).plan
    assert (plan.form, plan.parts, plan.teams) == ("spread", 1, 1)


@pytest.mark.parametrize("wish", [{"debug": True}, {"form": "staged"}, {"form": "subgroup"}])
def test_wishes_leave_no_choice(compilations, wish):  # noqa: F811
    kernel = tl_dpnp.compile(source("f32", "f32", sizes=(16,) * 3, batched="ABC"), target="cuda", cache=False, **wish)
    none = dict.fromkeys("ABC", 0)
    call = bound(kernel, dict.fromkeys("ABC", (16, 16)), none, none, 1)
    assert kernel.prepare(call, cuda_device(0)).form == wish.get("form", "subgroup")


def test_other_programs_are_refused():
    two = source("f32", "f32", sizes=(16,) * 3, batched="ABC").replace("gemm", "gemm", 1)
    line = next(line for line in two.splitlines() if "gemm" in line)
    program = two.replace(line, f"{line}\n{line}")
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the spread form on NVIDIA H200"):
        tl_dpnp.compile(program, target="cuda", form="spread").lower(H200)
    assert len(find_variants(parse(program).functions[0], H200, LoweringOptions())) == 1


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_every_drawn_product_has_the_form(seed):
    for number in range(seed, seed + 4):
        case = drawn_product(number)
        plan = tl_dpnp.compile(case.source, target="cuda", form="spread", precision=case.precision).lower(H200).plan
        assert plan.form == "spread", case.name
        assert plan.local_memory <= H200.local_memory


def test_exported_kernels_are_for_any_number(tmp_path):
    with pytest.raises(tl_dpnp.UnsupportedError, match='form="spread"'):
        tl_dpnp.compile(source("f32", "f32", sizes=(16,) * 3, batched="ABC"), target="cuda",
                        form="spread").export(tmp_path)


# --- on a device -----------------------------------------------------------------------------------------------------

if device_count():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


def placed(values, element, displaced, around=77):
    """Return matrices, the last mode of which is the batch, so many elements behind the start of memory, and that."""
    values = torch.as_tensor(values)
    memory = torch.full((displaced + values.numel() + 8,), around, dtype=DTYPES[element], device="cuda")
    inner = memory[displaced:-8].reshape(values.mT.shape)
    inner.copy_(values.mT)
    return tl_dpnp.rev(inner), memory


def check(kernel, types, transposes, sizes, beta, groups, displaced, seed=0):
    """Compare with PyTorch; the numbers are whole and small, so that any order of a sum gives the same.

    What lies around the factors is not a number.
    """
    element, result = types
    m, n, k = sizes
    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n))
    a, b, c = (torch.randint(-2, 3, (groups, *shape), generator=generator, device="cuda", dtype=torch.float32)
               for shape in shapes)
    expected = (a.mT if transposes[0] == "t" else a) @ (b.mT if transposes[2] == "t" else b) + beta * c
    given = [placed(a, element, displaced, float("nan")), placed(b, element, displaced, float("nan")),
             placed(c if beta else torch.full_like(c, float("nan")), result, displaced)]
    kernel(1.0, beta, *(array for array, _ in given))
    memory = given[2][1]
    got = memory[displaced:-8].reshape(groups, n, m).mT
    assert torch.equal(got, expected.to(DTYPES[result])), (types, transposes, sizes, beta, groups)
    assert bool((memory[:displaced] == 77).all())
    assert bool((memory[-8:] == 77).all())


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_all_numbers_of_teams(types, transposes):
    """One in a block, all parts of a product, and numbers between."""
    for sizes, beta in (((64, 64, 64), 0.0), ((32, 48, 16), 1.0), ((19, 45, 23), 1.0), ((33, 24, 40), 0.0)):
        kernel = tl_dpnp.compile(source(*types, transposes, "1.0", str(beta), sizes=sizes, batched="ABC"),
                                 target="cuda", form="spread")
        for groups, displaced in ((1, 0), (19, 1), (40, 0), (70, 3), (300, 0)):
            check(kernel, types, transposes, sizes, beta, groups, displaced)


@on_device
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("seed", range(10))
def test_drawn_products(types, seed):
    draw = random.Random(f"{seed} {types}")
    transposes, beta = draw.choice(TRANSPOSES), draw.choice((0.0, 1.0, -0.5))
    sizes = tuple(draw.randint(1, 72) for _ in "mnk")
    kernel = tl_dpnp.compile(source(*types, transposes, "1.0", str(beta), sizes=sizes, batched="ABC"), target="cuda",
                             form="spread")
    for _ in range(3):
        check(kernel, types, transposes, sizes, beta, draw.randint(1, 150), draw.randint(0, 4), seed)


@on_device
def test_few_and_many():
    """Calls are repeated, so that machine code takes them, with numbers of products in turns."""
    kernel = tl_dpnp.compile(source("f32", "f32", sizes=(40, 40, 24), batched="ABC"), target="cuda")
    for groups in (1, 40, 1, 2000, 40, 1, 2000, 40, 1, 133):
        for seed in range(3):
            check(kernel, ("f32", "f32"), "n.n", (40, 40, 24), 0.0, groups, 0, seed)
    assert {signature.form for signature in kernel.signatures} == {"spread", "staged"}


@on_device
def test_one_factor_for_all():
    """It stays in local memory; what differs is divided all the same."""
    text = source("f32", "f32", sizes=(24, 32, 20), batched="BC")
    kernel = tl_dpnp.compile(text, target="cuda", form="spread")
    generator = np.random.default_rng(3)
    a, b, c = (generator.integers(-2, 3, shape).astype(np.float64) for shape in ((24, 20), (9, 20, 32), (9, 24, 32)))
    factor = torch.from_numpy(a.T.copy()).to("cuda", torch.float32)
    (right, _), (result, memory) = (placed(values, "f32", 0) for values in (b, c))
    kernel(1.0, 0.0, tl_dpnp.rev(factor), right, result)
    assert torch.equal(memory[:-8].cpu().reshape(9, 32, 24).transpose(1, 2), torch.from_numpy(a @ b).float())


@on_device
@pytest.mark.parametrize("form", ["spread", "staged"])
@pytest.mark.parametrize("sizes", [(16, 16, 1), (32, 32, 8), (20, 12, 3)])
def test_sums_are_rounded_once_to_bf16(form, sizes):
    """To even where they are between two, and what is no number stays so."""
    m, n, k = sizes
    kernel = tl_dpnp.compile(source("bf16", "bf16", sizes=sizes, batched="ABC"), target="cuda", form=form)
    generator = np.random.default_rng(23)
    a, b = np.zeros((200, m, k)), np.zeros((200, k, n))
    a[:, :, 0], b[:, 0, :] = (generator.integers(-255, 256, (200, size)) for size in (m, n))
    a[0, 0, 0], a[1, 0, 0], b[1, 0, 0], a[2, :, 0], b[2, :, :] = np.nan, np.inf, 1.0, 2.0**100, 2.0**100
    with np.errstate(all="ignore"):
        expected = torch.from_numpy(a @ b).float().to(torch.bfloat16)
    (left, _), (right, _), (result, memory) = (
        placed(values, "bf16", 0) for values in (a, b, np.zeros((200, m, n))))
    kernel(1.0, 0.0, left, right, result)
    got = memory[:-8].cpu().reshape(200, n, m).transpose(1, 2)
    assert torch.equal(*(each.nan_to_num(0.5, posinf=0.25, neginf=0.125) for each in (got, expected)))
