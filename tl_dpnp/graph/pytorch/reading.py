"""From the operations of an FX graph to nodes: what all translations share.

A *translation* is a function of a `Reading`, the FX node and its arguments, which returns the node of the result, or
raises `NotFused` where the operation is left to PyTorch.  `TRANSLATIONS` has them by the operation's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.memrefs import fits_memref, scalar_type_of
from tl_dpnp.graph.nodes import Array, Map, Node, Number, number_node
from tl_dpnp.graph.pytorch.torch_adapter import current_sizes
from tl_dpnp.graph.scalars import rounding
from tl_dpnp.graph.views import broadcast
from tl_dpnp.scalars import F16

__all__ = ["DTYPES", "Reading", "TRANSLATIONS", "Translation", "check_numbers", "translates", "working_dtype"]

#: The dtypes that kernels compute with.
DTYPES: dict[Any, np.dtype[Any]] = {
    torch.bool: np.dtype(np.bool_), torch.uint8: np.dtype(np.uint8), torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16), torch.int32: np.dtype(np.int32), torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.float16), torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64),
}

Translation = Callable[..., Any]
TRANSLATIONS: dict[str, Translation] = {}


def translates(*names: str) -> Callable[[Translation], Translation]:
    """Register a translation of operations, which are named without ``aten.``."""
    def register(translation: Translation) -> Translation:
        TRANSLATIONS.update({f"aten.{name}": translation for name in names})
        return translation

    return register


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return what PyTorch computes a dtype in: half floats in single precision."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def check_numbers(operands: Sequence[Node], dtype: np.dtype[Any]) -> None:
    """Raise `NotFused` for numbers among operands that an integer dtype has not: PyTorch refuses or wraps them."""
    if dtype.kind not in "iu":
        return
    limits = np.iinfo(dtype)
    for operand in operands:
        if isinstance(operand, Number) and not (  # those of graphs are real; infinite ones do not fit, nor does NaN
            limits.min <= operand.value <= limits.max  # type: ignore[operator]
        ):
            raise NotFused(f"{operand.value} is no value of {dtype}")


class Reading:
    """The values of an FX graph as nodes: those in memory are arrays in the registers `slots`.

    `values` are of the operations that were translated; `symbols` the values of symbolic sizes in this call.
    """

    def __init__(self, device: Any, symbols: Mapping[Any, int]) -> None:
        self.device, self.symbols = device, dict(symbols)
        self.slots: dict[fx.Node, int] = {}
        self.values: dict[fx.Node, Any] = {}

    # --- what FX knows of a value --------------------------------------------------------------------------------

    def sizes(self, values: Sequence[Any]) -> tuple[int, ...]:
        """Return sizes, strides or axes as numbers: those of a list of arguments, which may be nodes.

        Raises `NotFused` for sizes that are known when the operations before have run.
        """
        found = current_sizes(tuple(value.meta["val"] if isinstance(value, fx.Node) else value for value in values),
                              self.symbols)
        if found is None:
            raise NotFused("a size depends on values")
        return found

    def size(self, value: Any) -> int:
        """Return one size or axis as a number."""
        return self.sizes((value,))[0]

    def shape_of(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.sizes(node.meta["val"].shape)

    def strides_of(self, node: fx.Node) -> tuple[int, ...]:
        """Return the strides that a tensor has in PyTorch, in elements."""
        return self.sizes(node.meta["val"].stride())

    def dtype_of(self, node: fx.Node) -> np.dtype[Any]:
        """Return the dtype of a tensor; raises `NotFused` where kernels do not compute with it."""
        dtype = node.meta["val"].dtype
        if dtype not in DTYPES:
            raise NotFused(f"kernels do not compute with {dtype}", "use torch.float32")
        return DTYPES[dtype]

    def check(self, node: fx.Node) -> None:
        """Raise `NotFused` for what is no plain tensor on the device, or has no elements."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise NotFused("an operand is no tensor")
        if value.device != self.device:
            raise NotFused(f"an operand is on {value.device}, others are on {self.device}", "copy it there before")
        if value.layout != torch.strided or value.is_neg() or value.is_conj():
            raise NotFused("an operand is sparse, or its memory has other values than it")
        if 0 in self.shape_of(node):
            raise NotFused("there are no elements")
        self.dtype_of(node)

    # --- operands ------------------------------------------------------------------------------------------------

    def array(self, value: Any) -> Node:
        """Return the node of a tensor."""
        if not isinstance(value, fx.Node):
            raise NotFused("an operand is no tensor")
        if value not in self.values:
            self.check(value)
            held = Array(self.shape_of(value), self.dtype_of(value), self.slots[value], self.strides_of(value))
            if not fits_memref(held):
                raise NotFused("the axes of the tensor interleave or overlap in memory", "call contiguous() before")
            self.values[value] = held
        found = self.values[value]
        if not isinstance(found, Node):
            raise NotFused("an operand is no tensor")
        return found

    def operand(self, value: Any) -> Node:
        """Return the node of a tensor or number."""
        if isinstance(value, bool | int | float):
            return number_node(value)
        if isinstance(value, fx.Node) and isinstance(value.meta.get("val"), int | torch.SymInt):
            return number_node(self.size(value))
        return self.array(value)

    def promoted(self, values: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype that operands have together."""
        fakes = [value.meta["val"] if isinstance(value, fx.Node) else value for value in values]
        dtype = torch.result_type(fakes[0], fakes[1]) if len(fakes) > 1 else fakes[0].dtype
        if dtype not in DTYPES:
            raise NotFused(f"kernels do not compute with {dtype}")
        return DTYPES[dtype]

    # --- results -------------------------------------------------------------------------------------------------

    def map(self, kind: str, operands: Sequence[Node], compute: np.dtype[Any], dtype: np.dtype[Any]) -> Node:
        """Return the node of an element-wise function; raises `NotFused` where there is none of that type."""
        own, compute = compute, working_dtype(compute)
        if scalar_type_of(compute).kind not in FUNCTIONS[kind].only:
            raise NotFused(f"{kind} of {compute} is not fused")
        check_numbers(operands, compute)
        if own == np.float16:
            takes_halves = FUNCTIONS[kind].computes == "operands" or kind == "fmod"
            operands = [self.halved(operand, takes_halves) for operand in operands]
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        return Map(tuple(map(int, shape)), dtype, kind, tuple(operands), compute)

    def halved(self, node: Node, takes_halves: bool = False) -> Node:
        """Return an operand of a computation with half floats, which is in f32, as PyTorch takes it.

        Tensors are rounded before.  Numbers are only for functions that have no other form for them.
        """
        if isinstance(node, Number):
            return number_node(rounding(F16)(node.value)) if takes_halves else node  # type: ignore[arg-type]
        return node if node.dtype == np.bool_ else self.cast(node, np.dtype(np.float16))

    def cast(self, node: Node, dtype: np.dtype[Any]) -> Node:
        """Return a node in a dtype, itself if it has that."""
        return node if node.dtype == dtype else Map(node.shape, dtype, "astype", (node,), dtype)

    def like(self, node: Node, result: fx.Node) -> Node:
        """Return a node in the dtype and shape that PyTorch says a result has."""
        node = self.cast(node, self.dtype_of(result))
        shape = self.shape_of(result)
        if node.shape == shape:
            return node
        if math.prod(node.shape) != math.prod(shape):
            return broadcast(node, shape)
        raise NotFused("the shape is not what was expected")
