"""Products that stay whole while PyTorch makes simpler operations of a graph.

It writes `torch.einsum` and `torch.matmul` as `bmm` of reshaped operands, in which axes of batches are mixed with
others, so that no grid is left to fuse along.  Before that, they become operations of ours, which nothing decomposes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from tl_dpnp.graph.products import einsum_node, matmul_node
from tl_dpnp.graph.pytorch.algebra import product_of
from tl_dpnp.graph.pytorch.reading import TRANSLATIONS, Reading, working_dtype
from tl_dpnp.graph.pytorch.torch_adapter import autocasts, sets_recording, transforms

__all__ = ["keep_products", "original"]

_EINSUM, _MATMUL = "tl_dpnp.einsum.default", "tl_dpnp.matmul.default"


def _einsum(equation: str, operands: Sequence[Any]) -> Any:
    return torch.einsum(equation, *operands)


@functools.cache
def _library() -> Any:
    """Register the operations, which are what PyTorch's functions are."""
    library = torch.library.Library("tl_dpnp", "DEF")  # it lives as long as the process
    for name, schema, function in (
        ("einsum", "(str equation, Tensor[] operands) -> Tensor", _einsum),
        ("matmul", "(Tensor a, Tensor b) -> Tensor", torch.matmul),
    ):
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, function, "CompositeExplicitAutograd")
        library.impl(name, function, "Meta")
    return library


def keep_products(module: fx.GraphModule, examples: Sequence[Any]) -> fx.GraphModule:
    """Return a graph of PyTorch's functions with products that stay whole.

    It is as it was where gradients are recorded, within `torch.func`'s transformations, which know nothing of our
    operations, and where PyTorch converts operands of products by itself.
    """
    may_record = torch.is_grad_enabled() or any(sets_recording(node.target) for node in module.graph.nodes)
    records = may_record and any(isinstance(value, torch.Tensor) and value.requires_grad
                                 for value in (*examples, *_values(module)))
    converts = autocasts() or any("autocast" in str(node.target) for node in module.graph.nodes)
    if records or converts or any(transforms(node.target) for node in module.graph.nodes):
        return module
    _library()
    changed = False
    for node in module.graph.nodes:
        replacement = _replacement(node)
        if replacement is not None:
            node.op = "call_function"
            node.target, node.args = replacement
            node.kwargs = {}
            changed = True
    if changed:
        module.recompile()
    return module


def _values(module: fx.GraphModule) -> Iterator[Any]:
    """Yield what a graph has of its own, such as parameters whose place PyTorch takes to be theirs for good, and what
    Dynamo has found its operations to give."""
    yield from module.parameters()
    yield from module.buffers()
    for node in module.graph.nodes:
        yield node.meta.get("example_value")


def _replacement(node: fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the operation and the arguments that stand for a product, None for what is none."""
    of_function = node.op == "call_function" and node.target in (torch.matmul, operator.matmul, torch.Tensor.matmul)
    of_method = node.op == "call_method" and node.target in ("matmul", "__matmul__")
    if (of_function or of_method) and len(node.args) == 2 and not node.kwargs:
        return torch.ops.tl_dpnp.matmul.default, node.args
    if node.op == "call_function" and node.target in (torch.einsum, torch.functional.einsum) and not node.kwargs:
        equation, *operands = node.args
        given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
        if isinstance(equation, str) and len(given) > 1:  # that of one operand may be a view of it
            return torch.ops.tl_dpnp.einsum.default, (equation, list(given))
    return None


def original(target: Any) -> Callable[..., Any]:
    """Return PyTorch's function for an operation that is left to it."""
    functions: dict[str, Callable[..., Any]] = {_EINSUM: _einsum, _MATMUL: torch.matmul}
    found: Callable[..., Any] = functions.get(str(target), target)
    return found


def _translate_matmul(reading: Reading, result: fx.Node, a: Any, b: Any) -> Any:
    left, right = reading.array(a), reading.array(b)
    return product_of(reading, result, lambda: matmul_node(left, right, working_dtype(reading.dtype_of(result))))


def _translate_einsum(reading: Reading, result: fx.Node, equation: str, operands: Sequence[Any]) -> Any:
    nodes = [reading.array(operand) for operand in operands]
    return product_of(reading, result, lambda: einsum_node(equation.replace(" ", ""), nodes,
                                                           working_dtype(reading.dtype_of(result))))


TRANSLATIONS.update({_MATMUL: _translate_matmul, _EINSUM: _translate_einsum})
