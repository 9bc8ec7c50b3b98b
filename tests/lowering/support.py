"""Instructions for the tests of the lowering layer."""

from __future__ import annotations

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType, Size
from tl_dpnp.lowering.contraction import Contraction, contraction_of
from tl_dpnp.scalars import F32, ScalarType
from tl_dpnp.target.catalog import GPU as WORK_ITEM
from tl_dpnp.target.catalog import ZEN4
from tl_dpnp.target.device import Device

#: A processor with AVX-512, as the runtime describes it.
CPU = Device(
    name="a processor", vendor="a vendor", driver="1", backend="opencl", is_cpu=True,
    subgroup_sizes=(4, 8, 16, 32, 64), max_work_group_size=8192, local_memory=32768, compute_units=2, core=ZEN4,
    has_fp16=True,
)
GPU = Device(
    name="a graphics card", vendor="a vendor", driver="1", backend="level_zero", is_cpu=False,
    subgroup_sizes=(16, 32), max_work_group_size=1024, local_memory=65536, compute_units=128, core=WORK_ITEM,
    has_fp16=True,
)


def memref(name: str, *shape: Size, element: ScalarType = F32) -> ops.Value:
    return ops.Value(name, MemrefType(element, shape))


def gemm(
    m: Size, n: Size, k: Size, *, transposes: tuple[bool, bool] = (False, False), alpha: float = 1.0,
    beta: float = 0.0, element: ScalarType = F32,
) -> Contraction:
    """Return the nest of a gemm with constant alpha and beta."""
    a = memref("a", *((k, m) if transposes[0] else (m, k)), element=element)
    b = memref("b", *((n, k) if transposes[1] else (k, n)), element=element)
    c = memref("c", m, n, element=element)
    constants = [ops.Constant(value, element) for value in (alpha, beta)]
    return contraction_of(ops.Gemm(constants[0], (a, b), constants[1], c, transposes), "gemm_0")
