"""What the machine can do at most, measured in the same run: multiply-adds in registers, and traffic to memory.

The loops are written in LLVM IR and compiled by llvmlite, which numba brings along: no C compiler is needed, and
nothing of tl_dpnp takes part.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llvmlite.binding as llvm

__all__ = ["Counting", "Fill", "FmaPeak", "Limit", "Read", "Triad", "host_vector_bytes"]

_LLVM_TYPES = {"f32": ("float", ctypes.c_float, 4), "f64": ("double", ctypes.c_double, 8)}
#: Independent chains of multiply-adds: more than latency times throughput of any processor, fewer than its registers.
_CHAINS = 12
_FMA_STEPS = 4_000_000


@functools.cache
def host_vector_bytes() -> int:
    """Return the bytes of the widest vector register of this processor."""
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


@functools.cache
def _engine(text: str) -> Any:
    llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _loop(signature: str, bound: str, step: int, phis: list[str], body: list[str], end: list[str]) -> str:
    """Return a function in LLVM IR with one loop over %i from 0 to `bound`."""
    return "\n".join([
        f"define {signature} {{", "entry:", "  br label %loop",
        "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis, *body, f"  %next = add i64 %i, {step}", f"  %more = icmp slt i64 %next, {bound}",
        "  br i1 %more, label %loop, label %done", "done:", *end, "}",
    ])


def _fma_source(element: str) -> str:
    kind, _, size = _LLVM_TYPES[element]
    lanes = host_vector_bytes() // size
    vector, fma = f"<{lanes} x {kind}>", f"@llvm.fma.v{lanes}{element}"
    half = f"<{', '.join([f'{kind} 0.5'] * lanes)}>"
    phis = [f"  %a{c} = phi {vector} [ {half}, %entry ], [ %n{c}, %loop ]" for c in range(_CHAINS)]
    body = [f"  %n{c} = call {vector} {fma}({vector} %a{c}, {vector} {half}, {vector} {half})" for c in range(_CHAINS)]
    sums = [f"  %s{c} = fadd {vector} {'%n0' if c == 1 else f'%s{c - 1}'}, %n{c}" for c in range(1, _CHAINS)]
    end = [*sums, f"  %r = extractelement {vector} %s{_CHAINS - 1}, i32 0", f"  ret {kind} %r"]
    return (f"declare {vector} {fma}({vector}, {vector}, {vector})\n" +
            _loop(f"{kind} @peak(i64 %n)", "%n", 1, phis, body, end))


class FmaPeak:
    """Fused multiply-adds on registers, in independent chains, on `threads` threads at once: the FMA peak.

    A thread makes `steps` in each of its chains.
    """

    def __init__(self, element: str, threads: int, steps: int = _FMA_STEPS) -> None:
        _, kind, size = _LLVM_TYPES[element]
        self.flops = 2 * _CHAINS * (host_vector_bytes() // size) * steps * threads
        self._steps = steps
        address = _engine(_fma_source(element)).get_function_address("peak")
        self._function = ctypes.CFUNCTYPE(kind, ctypes.c_int64)(address)
        self._run = _on_threads(threads)

    def __call__(self) -> None:
        """Do `flops` operations."""
        self._run([functools.partial(self._function, self._steps)])


_COUNTERS = 10


def _counting_source() -> str:
    counters = range(_COUNTERS)
    phis = [f"  %a{c} = phi i64 [ {c}, %entry ], [ %n{c}, %loop ]" for c in counters]
    body = [f"  %n{c} = {'xor' if c % 2 else 'add'} i64 %a{c}, %i" for c in counters]
    sums = [f"  %s{c} = add i64 {'%n0' if c == 1 else f'%s{c - 1}'}, %n{c}" for c in counters[1:]]
    end = [*sums, f"  ret i64 %s{_COUNTERS - 1}"]
    return _loop("i64 @count(i64 %n)", "%n", 1, phis, body, end)


class Counting:
    """Independent integer operations on one thread, as many in a cycle as the core can begin: `steps` of each.

    Nothing else that shares the core goes unnoticed.
    """

    def __init__(self, steps: int) -> None:
        address = _engine(_counting_source()).get_function_address("count")
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
        self._call = functools.partial(function, steps)

    def __call__(self) -> None:
        """Do the work."""
        self._call()


def _triad_source(streaming: bool) -> str:
    lanes = host_vector_bytes() // 8
    vector, hint = f"<{lanes} x double>", ", !nontemporal !0" if streaming else ""
    three = f"<{', '.join(['double 3.0'] * lanes)}>"
    body = [f"  %p{x} = getelementptr double, double* %{x}, i64 %i" for x in "abc"]
    body += [f"  %v{x} = bitcast double* %p{x} to {vector}*" for x in "abc"]
    body += [f"  %x{x} = load {vector}, {vector}* %v{x}, align {8 * lanes}" for x in "bc"]
    body += [
        f"  %m = fmul {vector} %xc, {three}",
        f"  %s = fadd {vector} %xb, %m",
        f"  store {vector} %s, {vector}* %va, align {8 * lanes}{hint}",
    ]
    signature = "void @triad(double* %a, double* %b, double* %c, i64 %n)"
    return _loop(signature, "%n", lanes, [], body, ["  ret void"]) + "\n!0 = !{i32 1}\n"


class Triad:
    """a := b + 3 c on arrays of `megabytes` in all, shared by `threads` threads.

    `bytes` counts two reads and a write for each element.  `streaming` stores past the caches, which saves reading
    the lines that are written; which of the two is faster depends on the processor.
    """

    def __init__(self, megabytes: float, threads: int, streaming: bool) -> None:
        share = int(megabytes * 1e6) // (24 * threads) // 64 * 64
        self.bytes = 24 * share * threads
        engine = _engine(_triad_source(streaming))
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(engine.get_function_address("triad"))
        first = _memory(3 * share * threads).ctypes.data
        starts = [first + 8 * share * threads * array for array in range(3)]
        self._calls = [
            functools.partial(function, *(start + 8 * share * t for start in starts), share) for t in range(threads)
        ]
        self._run = _on_threads(threads)

    def __call__(self) -> None:
        """Move `bytes` bytes."""
        self._run(self._calls)


def _fill_source(streaming: bool) -> str:
    lanes = host_vector_bytes() // 8
    vector, hint = f"<{lanes} x double>", ", !nontemporal !0" if streaming else ""
    three = f"<{', '.join(['double 3.0'] * lanes)}>"
    body = [
        "  %p = getelementptr double, double* %a, i64 %i", f"  %v = bitcast double* %p to {vector}*",
        f"  store {vector} {three}, {vector}* %v, align {8 * lanes}{hint}",
    ]
    return _loop("void @fill(double* %a, i64 %n)", "%n", lanes, [], body, ["  ret void"]) + "\n!0 = !{i32 1}\n"


class _OneArray:
    """A loop over an array of `megabytes`, shared by `threads` threads; `bytes` counts each element once."""

    def __init__(self, source: str, name: str, result: Any, megabytes: float, threads: int) -> None:
        share = int(megabytes * 1e6) // (8 * threads) // 64 * 64
        self.bytes = 8 * share * threads
        function = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_int64)(_engine(source).get_function_address(name))
        start = _memory(share * threads).ctypes.data
        self._calls = [functools.partial(function, start + 8 * share * t, share) for t in range(threads)]
        self._run = _on_threads(threads)

    def __call__(self) -> None:
        """Move `bytes` bytes."""
        self._run(self._calls)


class Fill(_OneArray):
    """a := 3: what can be written at most.

    Memory may take writes more slowly than it gives reads.  `streaming` is as for `Triad`.  The value is not 0, since
    some machines need not bring zeros to memory.
    """

    def __init__(self, megabytes: float, threads: int, streaming: bool) -> None:
        super().__init__(_fill_source(streaming), "fill", None, megabytes, threads)


_READ_CHAINS = 4
#: Bytes ahead of a read that are asked for.
_READ_AHEAD = 2048


def _read_source(prefetching: bool) -> str:
    lanes = host_vector_bytes() // 8
    vector, chains = f"<{lanes} x double>", range(_READ_CHAINS)
    phis = [f"  %a{c} = phi {vector} [ zeroinitializer, %entry ], [ %n{c}, %loop ]" for c in chains]
    body = []
    for c in chains:
        body += [
            f"  %i{c} = add i64 %i, {c * lanes}", f"  %p{c} = getelementptr double, double* %a, i64 %i{c}",
            f"  %v{c} = bitcast double* %p{c} to {vector}*", f"  %x{c} = load {vector}, {vector}* %v{c}, align 64",
            f"  %n{c} = fadd {vector} %a{c}, %x{c}",
        ]
        if prefetching:
            body += [
                f"  %j{c} = add i64 %i{c}, {_READ_AHEAD // 8}",
                f"  %q{c} = getelementptr double, double* %a, i64 %j{c}", f"  %b{c} = bitcast double* %q{c} to i8*",
                f"  call void @llvm.prefetch.p0i8(i8* %b{c}, i32 0, i32 3, i32 1)",
            ]
    sums = [f"  %s{c} = fadd {vector} {'%n0' if c == 1 else f'%s{c - 1}'}, %n{c}" for c in chains[1:]]
    end = [*sums, f"  %r = extractelement {vector} %s{_READ_CHAINS - 1}, i32 0", "  ret double %r"]
    return ("declare void @llvm.prefetch.p0i8(i8*, i32, i32, i32)\n" +
            _loop("double @read(double* %a, i64 %n)", "%n", _READ_CHAINS * lanes, phis, body, end))


class Read(_OneArray):
    """The sum of an array: what can be read at most.

    Reads alone may get less from memory than reads and writes together.  With `prefetching` each line is asked for
    2 KB ahead of its turn, which on some processors is faster.
    """

    def __init__(self, megabytes: float, threads: int, prefetching: bool) -> None:
        super().__init__(_read_source(prefetching), "read", ctypes.c_double, megabytes, threads)


#: What the speed of a case is compared with.
Limit = FmaPeak | Triad | Fill | Read


@functools.cache
def _memory(length: int) -> Any:
    """Return so many numbers from a multiple of 64 bytes on; who asks for as many again gets the same ones."""
    import numpy as np  # not before a process is kept on one core

    memory = np.ones(length + 8)
    start = -memory.ctypes.data % 64 // 8
    return memory[start:start + length]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # Linux may leave two threads that wake up together on one core for ten milliseconds.
    cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
    return ThreadPoolExecutor(threads, initializer=lambda: os.sched_setaffinity(0, {next(cores)}))


def _on_threads(threads: int) -> Any:
    """Return what runs calls at once, a single one on each of `threads` threads; ctypes releases the interpreter."""
    if threads == 1:
        return lambda calls: calls[0]()
    pool = _pool(threads)
    return lambda calls: [f.result() for f in [pool.submit(c) for c in (calls * threads if len(calls) == 1 else calls)]]
