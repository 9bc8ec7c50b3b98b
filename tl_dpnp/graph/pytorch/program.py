"""Planned steps with kernels and launches in place: what runs at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import torch
from torch import fx

from tl_dpnp.graph.kernels import KernelRequest, PreparedKernel
from tl_dpnp.graph.pytorch.planning import Allocation, KernelStep, Planned, Register, TorchStep, ViewStep
from tl_dpnp.graph.pytorch.torch_adapter import allocator
from tl_dpnp.graph.work_groups import WorkGroups, of_warps
from tl_dpnp.lowering.device import H200
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.cuda.arrays import cuda_device, is_aligned
from tl_dpnp.runtime.cuda.platform import CudaLaunch
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.platform_choice import platform_for
from tl_dpnp.runtime.preparation import InterpretedLaunch, prepare_launch
from tl_dpnp.runtime.watching import MACHINE_CODE, Description, door

__all__ = ["CudaKernels", "Kernels", "Program", "ReferenceKernels", "SoleKernel",
           "getter"]

Registers = list[Any]
_Run = Callable[[Registers], None]


class _Launch(Protocol):
    """What runs a kernel on tensors in registers; whether there is a shorter way for tensors like those before.

    It is given numbers that are `fixed`, and what is in the registers of `slots`.
    """

    is_known: bool
    fixed: tuple[Any, ...]
    slots: tuple[int, ...]

    def run(self, registers: Registers) -> None:
        """Run it on tensors whose memory is aligned."""

    def run_if_known(self, arguments: tuple[Any, ...]) -> bool:
        """Run it, if it `is_known`, on tensors that are, with their memory, as they were before; return whether so."""


class Kernels(Protocol):
    """Where kernels run, and how."""

    groups: WorkGroups

    def prepared(self, request: KernelRequest) -> tuple[Kernel, bool, _Launch]:
        """Return the kernel of a request, whether it was made just now, and what runs it on tensors in registers."""


class CudaKernels:
    """Kernels on a CUDA device, on PyTorch's current stream."""

    def __init__(self, device: Any) -> None:
        self.queue = cuda_device(device.index)
        self.groups = of_warps(platform_for("cuda").describe(self.queue).local_memory)
        self.like = torch.empty(0, device=device)

    def prepared(self, request: KernelRequest) -> tuple[Kernel, bool, _Launch]:
        prepared = request.prepared(
            "cuda", lambda kernel, shapes, groups: prepare_launch(kernel, shapes, groups, self.queue, self.like))
        return prepared.kernel, prepared.compiled, _CudaLaunch(prepared)


class _CudaLaunch:
    """A launch of a kernel: by machine code from the second time on, where the tensors are those of the memrefs."""

    def __init__(self, prepared: PreparedKernel) -> None:
        launch = prepared.launch
        assert isinstance(launch, CudaLaunch)
        self._launch, self._operands, self.fixed = launch, prepared.operands, tuple(prepared.fixed)
        self.slots = tuple(slot for slot, _ in prepared.operands)
        self._tensors = getter(self.slots)
        self._may_be_direct = launch.is_direct and not any(offset for _, offset in prepared.operands)
        self._ran = self.is_known = False
        #: Returns False, and does nothing, for tensors that are not like those it was made for.
        self._direct: Callable[[tuple[Any, ...]], bool] = lambda arguments: False

    def run(self, registers: Registers) -> None:
        arguments = self.fixed + self._tensors(registers)
        if self._ran and self._may_be_direct and not self.is_known:
            direct = self._launch.direct_call(self._launch.binding, arguments)
            if direct is not None:
                self._direct = direct
            self.is_known = self._may_be_direct = direct is not None
        self._ran = True
        if not (self.is_known and self.run_if_known(arguments)):
            self._launch.run(self.fixed, [registers[slot].data_ptr() + offset for slot, offset in self._operands])

    def run_if_known(self, arguments: tuple[Any, ...]) -> bool:
        return self._direct(arguments)

    @property
    def description(self) -> Description:
        """What a launch by machine code is told as."""
        return f"@{self._launch.binding.program.name}", MACHINE_CODE, {"extent": self._launch.extent}


door(_CudaLaunch, "run_if_known", lambda launch: launch.description)


class ReferenceKernels:
    """The interpreter, on tensors in the memory of the host; work-groups have as much memory as on an H200."""

    groups = of_warps(H200.local_memory)

    def __init__(self, device: Any) -> None:
        self.device = device

    def prepared(self, request: KernelRequest) -> tuple[Kernel, bool, _Launch]:
        prepared = request.prepared("reference", InterpretedLaunch)
        return prepared.kernel, prepared.compiled, _ReferenceLaunch(prepared)


class _ReferenceLaunch:
    is_known = False

    def __init__(self, prepared: PreparedKernel) -> None:
        self._prepared, self.fixed = prepared, tuple(prepared.fixed)
        self.slots = tuple(slot for slot, _ in prepared.operands)

    def run(self, registers: Registers) -> None:
        self._prepared.launch.run(self._prepared.fixed, [
            registers[slot].data_ptr() + offset for slot, offset in self._prepared.operands])

    def run_if_known(self, arguments: tuple[Any, ...]) -> bool:
        return False


@dataclass(frozen=True)
class SoleKernel:
    """The one kernel of a program: its launch, and what it writes to, in the registers behind the `arguments`."""

    launch: _Launch
    arguments: int
    made: tuple[Allocation, ...]
    allocate: Callable[..., Any]

    @classmethod
    def of(
        cls, planned: Planned, allocations: Sequence[Allocation], launch: _Launch, allocate: Callable[..., Any]
    ) -> SoleKernel | None:
        """Return that of planned steps; None for others."""
        made = tuple(sorted(allocations, key=lambda each: each.slot))
        count = planned.slots - len(made)
        is_sole = len(planned.steps) == 1 and not planned.constants and (
            [each.slot for each in made] == [*range(count, planned.slots)])
        return cls(launch, count, made, allocate) if is_sole else None


@dataclass
class Program:
    """The steps of a graph for one kind of arguments; `kernels` are those of its kernel steps, in order.

    `call` runs the steps on the list of the arguments of a call.  `sole` is the kernel where they are one.
    """

    planned: Planned
    kernels: list[Kernel]
    compiled: list[bool]
    call: Callable[[Sequence[Any]], Any]
    sole: SoleKernel | None

    @classmethod
    def of(cls, planned: Planned, inputs: Sequence[int], device: Any, kernels: Kernels) -> Program:
        """Return the program of planned steps, with kernels that are compiled; `inputs` are the tensors among them."""
        made: list[Kernel] = []
        compiled: list[bool] = []
        runs: list[_Run] = []
        sole = None
        allocate = allocator(device)
        releases = _releases(planned)
        for number, step in enumerate(planned.steps):
            match step:
                case KernelStep(request=request, allocations=allocations):
                    kernel, new, launch = kernels.prepared(request)
                    made.append(kernel)
                    compiled.append(new)
                    runs += [_allocations(allocations, allocate), launch.run]
                    sole = SoleKernel.of(planned, allocations, launch, allocate)
                case ViewStep():
                    runs.append(_view(step))
                case TorchStep():
                    runs.append(_operation(step))
            if releases[number]:
                runs.append(_release(releases[number]))
        steps = _steps(planned, runs, tuple(inputs))
        return cls(planned, made, compiled, steps if sole is None else _sole(planned, sole, steps), sole)


def _steps(planned: Planned, runs: Sequence[_Run], inputs: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """Return what runs steps one after another."""
    results = _results(planned.results)

    def call(arguments: Sequence[Any]) -> Any:
        registers: Registers = [*arguments, *[None] * (planned.slots - len(arguments))]
        for slot in inputs:
            if not is_aligned(registers[slot].data_ptr()):  # kernels were chosen for memory that is
                registers[slot] = _aligned(registers[slot])
        for slot, constant in planned.constants.items():
            registers[slot] = constant
        for run in runs:
            run(registers)
        return results(registers)

    return call


def _sole(
    planned: Planned, sole: SoleKernel, steps: Callable[[Sequence[Any]], Any]
) -> Callable[[Sequence[Any]], Any]:
    """Return what runs the one kernel of a program, which looks at the tensors itself, or else its `steps`."""
    results, launch, fixed, tensors = (
        _results(planned.results), sole.launch, sole.launch.fixed, getter(sole.launch.slots))
    likes = [(each.shape, each.strides, each.dtype) for each in sole.made]

    def call(arguments: Sequence[Any]) -> Any:
        if launch.is_known:
            registers = [*arguments, *[sole.allocate(*like) for like in likes]]
            if launch.run_if_known(fixed + tensors(registers)):
                return results(registers)
        return steps(arguments)

    return call


def _aligned(tensor: Any) -> Any:
    """Return a copy of a tensor with the same strides, in memory that is aligned."""
    extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    if not tensor.numel() or extent > tensor.numel():  # no elements, or gaps, which may be large
        like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return like.copy_(tensor)
    # Elements may lie at the same place, which PyTorch does not write to through the tensor.
    memory = torch.as_strided(tensor, (extent,), (1,)).clone()
    return torch.as_strided(memory, tensor.shape, tensor.stride(), 0)


def getter(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that gives a tuple of the values at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _of_register(value: Any, registers: Sequence[Any]) -> Any:
    return registers[value.slot] if isinstance(value, Register) else value


def _results(results: Any) -> Callable[[Sequence[Any]], Any]:
    """Return a function that gives what a graph returns, a list or tuple as a rule, of registers."""
    if type(results) in (list, tuple) and all(type(each) is Register for each in results):
        kind, slots = type(results), [each.slot for each in results]
        return lambda registers: kind([registers[slot] for slot in slots])
    return lambda registers: fx.node.map_aggregate(results, lambda value: _of_register(value, registers))


def _allocations(allocations: Sequence[Allocation], allocate: Callable[..., Any]) -> _Run:
    """Return what makes the tensors that a kernel writes to."""
    made = [(each.slot, (each.shape, each.strides, each.dtype)) for each in allocations]
    if not made:
        return lambda registers: None
    (first, (shape, strides, dtype)), *others = made

    def run(registers: Registers) -> None:
        registers[first] = allocate(shape, strides, dtype)
        for slot, like in others:
            registers[slot] = allocate(*like)

    return run


def _view(step: ViewStep) -> _Run:
    def run(registers: Registers) -> None:
        source = registers[step.source]
        registers[step.slot] = source.as_strided(step.shape, step.strides, source.storage_offset() + step.offset)

    return run


def _operation(step: TorchStep) -> _Run:
    def run(registers: Registers) -> None:
        arguments, keywords = fx.node.map_aggregate(
            (step.arguments, step.keywords), lambda value: _of_register(value, registers))
        registers[step.slot] = step.function(*arguments, **keywords)

    return run


def _release(slots: Sequence[int]) -> _Run:
    def run(registers: Registers) -> None:
        for slot in slots:
            registers[slot] = None

    return run


def _releases(planned: Planned) -> list[list[int]]:
    """Return the registers that nothing reads any more after each step, but for those of results."""
    last: dict[int, int] = {}
    for number, step in enumerate(planned.steps):
        match step:
            case KernelStep(request=request):
                used = [slot for slot, _ in request.operands]
            case ViewStep(slot=slot, source=source):
                used = [slot, source]
            case TorchStep(slot=slot, arguments=arguments, keywords=keywords):
                used = [slot, *_registers((arguments, keywords))]
        last |= dict.fromkeys(used, number)
    kept = {*_registers(planned.results), *planned.constants}
    releases: list[list[int]] = [[] for _ in planned.steps]
    for slot, number in last.items():
        if slot not in kept and number < len(planned.steps) - 1:
            releases[number].append(slot)
    return releases


def _registers(value: Any) -> list[int]:
    """Return the registers in arguments or results."""
    found: list[int] = []

    def note(entry: Any) -> Any:
        if isinstance(entry, Register):
            found.append(entry.slot)
        return entry

    fx.node.map_aggregate(value, note)
    return found
