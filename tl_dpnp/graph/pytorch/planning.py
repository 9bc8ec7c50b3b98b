"""From an FX graph of ATen operations to the steps of a program: kernels, and operations that are left to PyTorch.

Operations are translated one by one (`reading`).  What is left to PyTorch cuts the graph into *stages*: the kernels of
a stage run before PyTorch's operations of it, and those before the kernels of the next stage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.coalescing import coalesced
from tl_dpnp.graph.kernels import KernelRequest, request_kernel
from tl_dpnp.graph.memrefs import fits_memref
from tl_dpnp.graph.nodes import Array, Map, Node, Reshape, View, topological
from tl_dpnp.graph.partition import Region, partition, substitute
from tl_dpnp.graph.pytorch import algebra, elementwise, movement  # noqa: F401  # they fill the table
from tl_dpnp.graph.pytorch.reading import DTYPES, TRANSLATIONS, Reading
from tl_dpnp.graph.pytorch.torch_adapter import is_random
from tl_dpnp.graph.pytorch.whole_products import original
from tl_dpnp.graph.views import c_strides
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.records import dataclass

__all__ = ["Allocation", "KernelStep", "Left", "Planned", "TorchStep", "ViewStep", "plan"]

_TORCH_DTYPES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Left:
    """An operation that is left to PyTorch: its name, why, what could be written instead, and the user's line."""

    name: str
    reason: str
    hint: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.name}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True)
class Allocation:
    """A tensor that a kernel writes: its register, shape, strides and PyTorch's dtype."""

    slot: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class KernelStep:
    """A kernel for a region of the graph; its results are allocated before."""

    region: Region
    request: KernelRequest
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True)
class ViewStep:
    """A view of the tensor in the register `source`; `offset`, behind its first element, is in elements."""

    slot: int
    source: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Register:
    """Among the arguments of an operation of PyTorch: what is in a register."""

    slot: int


@dataclass(frozen=True)
class TorchStep:
    """An operation of PyTorch, whose arguments may hold `Register` objects."""

    slot: int
    function: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass
class Planned:
    """The steps of a graph; the first registers are its arguments, `results` say what it returns."""

    slots: int
    steps: list[KernelStep | ViewStep | TorchStep]
    results: Any
    constants: dict[int, Any]
    left: tuple[Left, ...]
    origins: dict[Node, tuple[str, str, int]]


def plan(module: fx.GraphModule, device: Any, symbols: Mapping[Any, int], groups: WorkGroups) -> Planned:
    """Return the steps for a graph on a device, where symbolic sizes have the values of `symbols`."""
    return _Planner(module, device, symbols, groups).planned()


class _Planner:
    def __init__(self, module: fx.GraphModule, device: Any, symbols: Mapping[Any, int], groups: WorkGroups) -> None:
        self.module, self.groups = module, groups
        self.reading = Reading(device, symbols)
        self.steps: list[KernelStep | ViewStep | TorchStep] = []
        self.slots = 0
        self.left: dict[fx.Node, Left] = {}
        self.constants: dict[int, Any] = {}
        self.origins: dict[Node, tuple[str, str, int]] = {}
        self.strides: dict[Node, tuple[int, ...]] = {}
        self.stage: dict[fx.Node, int] = {}
        self.after_torch: set[fx.Node] = set()  # what PyTorch's operations of a stage make, and views of it
        self.views: dict[tuple[Any, ...], int] = {}
        self.in_memory: dict[Node, Array] = {}
        self.made: dict[int, Allocation] = {}
        self.unmade: dict[int, Allocation] = {}

    # --- reading -------------------------------------------------------------------------------------------------

    def planned(self) -> Planned:
        output = self._read()
        self._let_reshaped_lie_in_c_order()
        for stage in range(max(self.stage.values(), default=0) + 1):
            self._run_kernels(stage)
            for node, _ in self.left.items():
                if self.stage[node] == stage:
                    self._run_torch(node)
        results = fx.node.map_arg(output.args[0], self._result)
        left = tuple(left for left in self.left.values() if left.name != _PART)
        return Planned(self.slots, self.steps, results, self.constants, left, self.origins)

    def _read(self) -> fx.Node:
        """Translate all operations and note stages; return the node of the output."""
        nodes = list(self.module.graph.nodes)
        self.given_away = _given_away(nodes)
        random = 0
        for node in nodes:
            match node.op:
                case "placeholder" | "get_attr":
                    self.stage[node] = 0
                    self._keep(node)
                    if node.op == "get_attr":
                        self.constants[self.reading.slots[node]] = _attribute(self.module, node.target)
                case "output":
                    return node
                case _ if self._is_known_number(node):
                    self.stage[node] = 0
                case _ if self._translated(node):
                    pass
                case _:
                    own = max((self.stage[source] for source in node.all_input_nodes), default=0)
                    if is_random(node.target):
                        own = random = max(own, random)
                    self.stage[node] = own
                    self.after_torch.add(node)
                    self._keep(node)
        raise AssertionError("a graph has an output")

    def _let_reshaped_lie_in_c_order(self) -> None:
        """Forget PyTorch's strides of what is seen with another shape, which kernels read in C order from memory.

        What the caller gets of it is a copy, if these are others.
        """
        found = (each for value in self.reading.values.values()
                 for each in (value if isinstance(value, list) else [value]))
        for node in topological(tuple(each for each in found if isinstance(each, Node))):
            if isinstance(node, Reshape):
                self.strides.pop(node.operand, None)

    def _is_known_number(self, node: fx.Node) -> bool:
        """Return whether an operation gives a number that is known beforehand."""
        try:
            return _is_number(node) and self.reading.size(node) is not None
        except NotFused:
            return False

    def _keep(self, node: fx.Node) -> None:
        self.reading.slots[node] = self._new_slot()

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _translated(self, node: fx.Node) -> bool:
        """Translate an operation, if there is a way; note why not, otherwise."""
        reading = self.reading
        try:
            value = self._value(node)
        except NotFused as refused:
            file, line = _origin(node)
            self.left[node] = Left(str(node.target), refused.reason, refused.hint, f"{file}:{line}" if file else "?")
            return False
        is_after_torch = not self.after_torch.isdisjoint(node.all_input_nodes)
        if is_after_torch and isinstance(value, Array) and not _lies_so(value, reading.strides_of(node)):
            value = Map(value.shape, value.dtype, "positive", (value,), value.dtype)  # in the next stage
        reading.values[node] = value
        in_memory = isinstance(value, Array)
        self.stage[node] = max((self.stage[source] + (not in_memory and source in self.after_torch)
                                for source in node.all_input_nodes), default=0)
        if in_memory and is_after_torch:
            self.after_torch.add(node)
        for result in value if isinstance(value, list) else [value]:
            if isinstance(result, Node) and not isinstance(result, Array):
                self.origins.setdefault(result, (str(node.target), *_origin(node)))
        if isinstance(value, Node) and not isinstance(value, Array | View | Reshape):
            self.strides.setdefault(value, reading.strides_of(node))
        return True

    def _value(self, node: fx.Node) -> Any:
        name = str(node.target)
        if name == _PART:
            parts = self.reading.values.get(node.args[0])
            if isinstance(parts, list):
                return parts[node.args[1]]
            raise NotFused("it is a part of what PyTorch makes")
        translation = TRANSLATIONS.get(name)
        if translation is None or _is_number(node):
            raise NotFused("there is no kernel for it")
        if isinstance(node.meta["val"], torch.Tensor):
            self.reading.check(node)
        value = translation(self.reading, node, *node.args, **node.kwargs)
        if isinstance(value, Node):
            expected = self.reading.shape_of(node), self.reading.dtype_of(node)
            assert (value.shape, value.dtype) == expected, f"{name}: {value} is not {expected}"
            is_fresh = not isinstance(value, Array | View | Reshape) and value not in self.origins
            if node in self.given_away and not is_fresh and not _VIEWING.match(name):
                return Map(value.shape, value.dtype, "positive", (value,), value.dtype)
        return value

    # --- kernels -------------------------------------------------------------------------------------------------

    def _run_kernels(self, stage: int) -> None:
        """Compute what later stages, PyTorch's operations and the caller need of a stage."""
        needed = [node for node, own in self.stage.items() if own == stage and self._is_needed(node, stage)]
        self._materialize([self.reading.values[node] for node in needed])
        copies = {}
        for node in needed:
            held = self._held(self.reading.values[node])
            strides = self.reading.strides_of(node)
            asked = any(user.op == "output" or user in self.left for user in node.users)
            if not isinstance(held, Array) or (asked and not _lies_so(held, strides)):
                copies[node] = Map(held.shape, held.dtype, "positive", (held,), held.dtype)
                self.strides[copies[node]] = strides
        self.reading.values.update(copies)
        self._materialize(list(copies.values()))

    def _is_needed(self, node: fx.Node, stage: int) -> bool:
        """Return whether a value has to be in memory: later kernels, PyTorch or the caller want it."""
        value = self.reading.values.get(node)
        if not isinstance(value, Node) or node in self.reading.slots:
            return False
        return any(user.op == "output" or user in self.left or self.stage[user] > stage for user in node.users)

    def _held(self, value: Node) -> Node:
        """Return a value as it reads from memory what is there."""
        return substitute(value, dict(self.in_memory))

    def _materialize(self, values: Sequence[Node]) -> None:
        """Have values in memory; those that are views have what they are views of there."""
        memo: dict[Node, Node] = dict(self.in_memory)
        roots: dict[Node, Array] = {}
        for value in values:
            base = value
            while isinstance(base, View | Reshape) and base not in self.in_memory:
                base = base.operand
            if not isinstance(base, Array) and base not in self.in_memory:
                self.in_memory[base] = array = self._new_array(base)
                roots[substitute(base, memo, self._renamed)] = array
        if not roots:
            return
        roots = coalesced(roots, self._renamed)
        for region in partition(roots, self._new_array, self.groups, self._renamed):
            slots = dict.fromkeys(array.slot for array in region.outputs)
            fresh = [self.unmade.pop(slot) for slot in slots if slot in self.unmade]
            self.steps.append(KernelStep(region, request_kernel(region, self.groups), tuple(fresh)))

    def _new_array(self, node: Node) -> Array:
        array = Array(node.shape, node.dtype, self._new_slot(), self.strides.get(node, c_strides(node.shape)))
        repeats = any(size > 1 and not stride for size, stride in zip(array.shape, array.strides, strict=True))
        if repeats or not fits_memref(array):
            array = replace(array, strides=c_strides(node.shape))
        self.unmade[array.slot] = self.made[array.slot] = Allocation(
            array.slot, node.shape, array.strides, _TORCH_DTYPES[node.dtype])
        return array

    def _renamed(self, old: Node, new: Node) -> None:
        if old in self.origins:
            self.origins.setdefault(new, self.origins[old])

    # --- PyTorch -------------------------------------------------------------------------------------------------

    def _run_torch(self, node: fx.Node) -> None:
        arguments = fx.node.map_arg(node.args, self._result)
        keywords = fx.node.map_arg(node.kwargs, self._result)
        self.steps.append(TorchStep(self.reading.slots[node], original(node.target), arguments, keywords))

    def _result(self, node: fx.Node) -> Any:
        """Return what stands for a value among arguments and results: a number, or a register."""
        if node not in self.reading.slots and _is_number(node):
            return self.reading.size(node)
        if node in self.reading.slots:
            return Register(self.reading.slots[node])
        held = self._held(self.reading.values[node])
        assert isinstance(held, Array), f"{node} is not in memory"
        strides = self.reading.strides_of(node)
        made = self.made.get(held.slot)
        if made is not None and (made.shape, made.strides, 0) == (held.shape, strides, held.offset):
            return Register(held.slot)
        key = held.slot, held.shape, strides, held.offset
        if key not in self.views:
            self.views[key] = self._new_slot()
            self.steps.append(ViewStep(self.views[key], *key))
        return Register(self.views[key])


#: What takes one result of several.
_PART = "<built-in function getitem>"
#: Operations whose result is a view of their first operand.
_VIEWING = re.compile(r"aten\.(view|_unsafe_view|reshape|squeeze|unsqueeze|alias|detach|permute|transpose|t|expand|"
                      r"slice|select|diagonal|split|split_with_sizes|unbind)\.|<built-in function getitem>")


def _given_away(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """Return the values that the caller gets, and those that it gets views of."""
    found: set[fx.Node] = set()
    for node in reversed(nodes):
        if any(user.op == "output" or (user in found and _VIEWING.match(str(user.target))) for user in node.users):
            found.add(node)
    return found


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), int | torch.SymInt) and node.op != "placeholder"


def _lies_so(held: Node, strides: Sequence[int]) -> bool:
    """Return whether a value is in memory with these strides."""
    return isinstance(held, Array) and all(
        size == 1 or own == other for size, own, other in zip(held.shape, held.strides, strides, strict=True))


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _origin(node: fx.Node) -> tuple[str, int]:
    """Return the file and line of the user's code that an operation comes from."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return (frames[-1][0], int(frames[-1][1])) if frames else ("", 0)
