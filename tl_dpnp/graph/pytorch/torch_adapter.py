"""What is asked of PyTorch beyond its documented interface.

Tested with PyTorch 2.11 and 2.13.  Documented is `torch._dynamo.backends.common.aot_autograd`, for writers of backends
("Custom Backends" in the manual), and private are the tables of decompositions, which Inductor takes from the same
place, the allocation that its code calls, in a quarter of the time of `torch.empty_strided`, what AOTAutograd has
found of a graph, and what Dynamo has compiled of a function, with its guards.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo import eval_frame
from torch._dynamo.backends.common import aot_autograd
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from tl_dpnp.records import dataclass

__all__ = [
    "CompiledFrame", "Passed", "allocator", "autocasts", "backend_of", "changes_arguments", "compiled_frames",
    "current_sizes", "derives_forward", "is_only_called", "is_plain_call", "is_random", "passing", "sets_recording",
    "symbols_of", "transforms", "writes_arguments",
]

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


#: What AOTAutograd has found of a graph that makes it do more at a call than call it.
_DONE_BESIDE = (
    "mutated_inp_runtime_indices", "mutated_graph_handled_indices_seen_by_autograd", "num_outputs_aliased",
    "num_intermediate_bases", "dynamic_outputs", "is_rng_op_functionalized", "grad_enabled_mutation", "tokens",
    "num_graphsafe_rng_states",
)
#: How names of global variables begin that Dynamo's code calls: graphs, and what goes on after what was not traced.
_GRAPH, _RESUMED = "__compiled_fn", "__resume_at"
#: What else there is in code that only passes on what it has: where profilers are told, and instructions.
_MODULE = "__import_torch_dot__dynamo_dot_utils"
_UTILITIES = {_MODULE, "record_pregraph_bytecode_enter", "record_pregraph_bytecode_exit"}
_PASSING = {
    "RESUME", "NOP", "CACHE", "PUSH_NULL", "PRECALL", "CALL", "CALL_FUNCTION", "CALL_METHOD", "LOAD_METHOD",
    "LOAD_ATTR", "LOAD_GLOBAL", "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_CHECK",
    "LOAD_FAST_AND_CLEAR", "STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "DELETE_FAST", "COPY",
    "SWAP", "DUP_TOP", "DUP_TOP_TWO", "ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N", "POP_TOP", "BUILD_LIST",
    "BUILD_TUPLE", "LIST_EXTEND", "BINARY_SUBSCR", "UNPACK_SEQUENCE", "RETURN_VALUE", "EXTENDED_ARG",
    "COPY_FREE_VARS", "LOAD_DEREF",
}
#: Those that have a name: code lists the names of the user's function, too, which it has no use for.
_NAMING = {"LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_NAME"}
#: What Dynamo does at calls unless ``torch.compiler.set_stance`` says otherwise.
_STANCE = eval_frame._stance if eval_frame._stance == eval_frame.DynamoStance() else eval_frame.DynamoStance()


@dataclass(frozen=True, eq=False)
class CompiledFrame:
    """What Dynamo has compiled of a function once: its `code`, the `guards`, and what backends made of the `graphs`."""

    code: types.CodeType
    guards: Any
    graphs: list[Any]

    @property
    def check(self) -> Callable[[dict[str, Any]], bool]:
        """What asks the guards about the values of arguments and of variables from outside, by their names."""
        found: Callable[[dict[str, Any]], bool] = self.guards.root.check
        return found

    @property
    def is_whole(self) -> bool:
        """Whether all of the function is in the graphs, with nothing that is left to be traced at the call."""
        return not any(name.startswith(_RESUMED) for name in self.code.co_names) and hasattr(self.guards, "cache_entry")


def compiled_frames(function: types.FunctionType) -> list[CompiledFrame]:
    """Return what Dynamo has compiled of a function; entries of its cache, which may go any time, are not kept."""
    entries = eval_frame._debug_get_cache_entry_list(function.__code__)
    return [CompiledFrame(entry.code, entry.guard_manager, [
        _innermost(function.__globals__[name]) for name in entry.code.co_names if name.startswith(_GRAPH)
        and name in function.__globals__]) for entry in entries]


class Passed(NamedTuple):
    """What a function passes on: to a graph, by places among its arguments and variables from outside, and back.

    It returns one value, or a `kind` of several, by places among the results of the graph and, behind them, the former.
    """

    given: list[int]
    kind: type | None
    returned: list[int]


def passing(code: types.CodeType, count: int) -> Passed | None:
    """Return what Dynamo's code for a function does if it only passes on what it gets, and the graph's `count` results.

    The code is run on tokens for that, if it has no instruction that does anything else.
    """
    instructions = [*dis.get_instructions(code)]
    names = {each.argval for each in instructions if each.opname in _NAMING}
    if not {name for name in names if not name.startswith(_GRAPH)} <= _UTILITIES or any(
            each.opname not in _PASSING for each in instructions):
        return None
    values = [object() for _ in range(code.co_argcount + len(code.co_freevars))]
    results = [object() for _ in range(count)]
    arguments, others = values[: code.co_argcount], values[code.co_argcount :]
    passed: list[Any] = []

    def graph(*given: Any) -> list[Any]:
        passed.append(given)
        return [*results]

    scope = {name: graph for name in names if name.startswith(_GRAPH)} | {_MODULE: torch._dynamo.utils}
    cells = tuple(map(types.CellType, others))
    try:
        found: Any = types.FunctionType(code, scope, closure=cells)(*arguments)
        (given,) = passed
        kind = type(found) if type(found) in (tuple, list) else None
        pool = [*results, *values]
        return Passed([values.index(each) for each in given], kind,
                      [pool.index(each) for each in ([found] if kind is None else found)])
    except (TypeError, ValueError, AttributeError, NameError, IndexError):  # it does something else
        return None


def _innermost(graph: Any) -> Any:
    """Return what a backend made, without what Dynamo has put around it."""
    while (inner := getattr(graph, "_torchdynamo_orig_callable", None)) is not None:
        graph = inner
    return graph


def is_plain_call() -> bool:
    """Return whether nothing looks at a call that Dynamo, a tracer or what derives would have to know of."""
    return not (is_compiling() or get_eval_frame_callback() is not None or _len_torch_dispatch_stack()
                or _is_tracing() or derives_forward()
                or (eval_frame._stance is not _STANCE and eval_frame._stance != _STANCE))


def backend_of(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the backend of `torch.compile` that gives graphs of functional ATen operations to a compiler."""
    backend: Callable[..., Any] = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler,
                                               decompositions=_decompositions())
    return backend


@functools.cache
def _decompositions() -> dict[Any, Any]:
    table = {**core_aten_decompositions(), **get_decompositions(_DECOMPOSED)}
    del table[_aten.bernoulli.default]  # it would draw other numbers than the operation does
    return table


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


def is_only_called() -> bool:
    """Return whether AOTAutograd only calls the graph that it has just compiled; false where it does not say.

    Elsewhere it records gradients, or keeps operations from that, writes to arguments, makes results views of them, or
    takes autocast away.
    """
    metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    if metadata is None or autocasts():
        return False
    tensors = (*metadata.input_info, *metadata.output_info)
    classes = (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    return not (
        any(getattr(metadata, name, True) for name in _DONE_BESIDE)
        or any(tensor.requires_grad for tensor in tensors)
        or any(output.output_type.name != "non_alias" for output in metadata.output_info)
        or any(type(each).__name__ not in ("int", "PlainTensorMeta") for each in classes))


def derives_forward() -> bool:
    """Return whether tensors may have tangents now, `torch.autograd.forward_ad`'s, which Dynamo does not guard."""
    return bool(forward_ad._current_level >= 0)


def autocasts() -> bool:
    """Return whether PyTorch converts operands by itself now, of tensors on the host or on CUDA devices."""
    return bool(torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"))


def writes_arguments() -> bool:
    """Return whether the graph that AOTAutograd has just compiled writes to an argument; true where it does not say."""
    metadata = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    return bool(getattr(metadata, "mutated_inp_runtime_indices", True))
