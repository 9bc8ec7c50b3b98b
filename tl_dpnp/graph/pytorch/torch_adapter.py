"""What is asked of PyTorch beyond its documented interface.

Tested with PyTorch 2.11 and 2.13.  Documented is `torch._dynamo.backends.common.aot_autograd`, for writers of backends
("Custom Backends" in the manual), and private are the tables of decompositions, which Inductor takes from the same
place, the allocation that its code calls, in a quarter of the time of `torch.empty_strided`, and what AOTAutograd has
found of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd

__all__ = ["allocator", "backend_of", "changes_arguments", "current_sizes", "is_random", "sets_recording", "symbols_of",
           "transforms", "writes_arguments"]

_aten = torch.ops.aten

#: Operations beyond those that core ATen lacks that become simpler ones.
_DECOMPOSED = (
    _aten._softmax, _aten._log_softmax, _aten._softmax_backward_data, _aten._log_softmax_backward_data,
    _aten.native_layer_norm_backward, _aten.gelu, _aten.gelu_backward, _aten.addmm, _aten.addmv, _aten.baddbmm,
    _aten.addbmm, _aten.addr,
    _aten.elu, _aten.leaky_relu, _aten.hardtanh, _aten.hardsigmoid, _aten.hardswish, _aten.mish, _aten.softplus,
    _aten.logsumexp, _aten.linalg_vector_norm, _aten.tril, _aten.triu, _aten.stack, _aten.lerp, _aten.addcmul,
    _aten.addcdiv, _aten.nan_to_num, _aten.masked_fill, _aten.trace, _aten.silu, _aten.silu_backward,
    _aten.tanh_backward, _aten.sigmoid_backward, _aten.threshold_backward, _aten.native_dropout_backward, _aten.rsub,
    _aten.eye, _aten.linalg_cross, _aten.xlogy, _aten.heaviside, _aten.dist, _aten.deg2rad, _aten.rad2deg,
    _aten.mse_loss, _aten.smooth_l1_loss, _aten.roll, _aten.rot90, _aten.norm, _aten.log_sigmoid_forward,
)


def backend_of(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the backend of `torch.compile` that gives graphs of functional ATen operations to a compiler."""
    table = {**core_aten_decompositions(), **get_decompositions(_DECOMPOSED)}
    del table[_aten.bernoulli.default]  # it would draw other numbers than the operation does
    backend: Callable[..., Any] = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler,
                                               decompositions=table)
    return backend


def allocator(device: Any) -> Callable[[tuple[int, ...], tuple[int, ...], Any], Any]:
    """Return a function that makes a tensor on a device of a shape, strides and a dtype."""
    def make(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    alone = device.index is not None and torch.cuda.device_count() == 1  # the device is that of CUDA, the only one
    return torch._C._dynamo.guards._empty_strided_cuda if alone else make  # which takes the current device


def current_sizes(values: tuple[Any, ...], given: dict[Any, int]) -> tuple[int, ...] | None:
    """Return sizes, of which some may be symbolic, where symbols have the values that are given; None for others."""
    found: list[int] = []
    for value in values:
        size: Any = value if type(value) is int else value.node.expr.xreplace(given)
        if type(size) is not int and not size.is_Integer:
            return None
        found.append(int(size))
    return tuple(found)


def changes_arguments(target: Any) -> bool:
    """Return whether an operation changes an argument."""
    schema = getattr(target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def is_random(target: Any) -> bool:
    """Return whether an operation draws random numbers, so that it must keep its place among others that do."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def sets_recording(target: Any) -> bool:
    """Return whether an operation is what ``torch.no_grad`` and ``torch.enable_grad`` become in a graph."""
    return target is torch._C._set_grad_enabled


def transforms(target: Any) -> bool:
    """Return whether an operation is part of a transformation of `torch.func` (``grad``, ``vmap``, ``jvp``, ...)."""
    return "_functorch" in str(getattr(target, "__module__", ""))


def symbols_of(fakes: Sequence[Any], arguments: Sequence[Any]) -> dict[Any, int]:
    """Return the values of the symbols that stand for sizes of the arguments, which are compiled for as `fakes`."""
    found: dict[Any, int] = {}
    for fake, argument in zip(fakes, arguments, strict=True):
        if isinstance(fake, torch.Tensor):
            if argument is None:  # a token, which stands for the order of effects
                continue
            pairs = [*zip(fake.shape, argument.shape, strict=True), *zip(fake.stride(), argument.stride(), strict=True)]
        else:
            pairs = [(fake, argument)]
        for symbolic, value in pairs:
            if isinstance(symbolic, torch.SymInt) and symbolic.node.expr.is_Symbol:
                found[symbolic.node.expr] = int(value)
    return found


def writes_arguments() -> bool:
    """Return whether the graph that AOTAutograd has just compiled writes to an argument; true where it does not say."""
    metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    return bool(getattr(metadata, "mutated_inp_runtime_indices", True))
