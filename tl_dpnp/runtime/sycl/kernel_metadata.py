"""What a kernel asks of the device that runs it, as metadata of its function in LLVM IR.

numba-dpex knows neither sub-group sizes, required work-group sizes nor hints of vector types.  A hint that work-items
have vectors of their own (OpenCL C specification 3.0, section 6.13.2.1, vec_type_hint) keeps the vectorizer of the
OpenCL CPU runtime away: kernels of the vector form need none.  Intel's 2024.2 drops loads between a part of the kernel
where work-items diverge and the exits of failed checks, so that one program in forty crashes with ``debug=True``; and
it loses what is added to arrays in private memory in branches that all lanes take alike (``VPlanDriverLLVMPass``, found
with ``-opt-bisect-limit``): one schedule in thirty with guarded virtual threads gave 0.
"""

from __future__ import annotations

import re

from tl_dpnp.lowering.pipeline import LoweredKernel

__all__ = ["kernel_metadata"]

#: Calls of what work-items do together: without the vectorizer each would be a sub-group of its own.
_SUBGROUP_FUNCTIONS = re.compile(r"call [^\n]*sub_group")


def kernel_metadata(lowered: LoweredKernel, text: str) -> tuple[str, list[str]]:
    """Return what is attached to the kernel's function, and the nodes that this names; `text` is its module.

    The hint of a vector says that work-items are not to be vectorized together; without it the CPU runtime says on
    standard error where it failed to.  Sub-groups need that: they would be computed lane by lane, ten times slower.
    """
    plan = lowered.plan
    used = [int(number) for number in re.findall(r"(?m)^!(\d+) =", text)]
    first = max(used, default=-1) + 1
    sizes = (plan.subgroup_size, plan.subgroups, 1)
    nodes = [f"!{first} = !{{{', '.join(f'i32 {size}' for size in sizes)}}}"]
    attached = f"!reqd_work_group_size !{first}"
    if not plan.frame.is_alone:
        nodes.append(f"!{first + 1} = !{{i32 {plan.subgroup_size}}}")
        attached += f" !intel_reqd_sub_group_size !{first + 1}"
    apart = {"never": False, "with private arrays": " = alloca " in text, "always": True}[lowered.one_item_at_a_time]
    if plan.frame.is_alone or (apart and not _SUBGROUP_FUNCTIONS.search(text)):
        hint = first + len(nodes)
        nodes.append(f"!{hint} = !{{<16 x float> undef, i32 0}}")
        attached += f" !vec_type_hint !{hint}"
    return attached, nodes
