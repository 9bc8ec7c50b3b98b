"""Machine code of threads that help with the work-items of short calls, and of the thread that shares them.

Each thread has a range of work-items, the same in each call of a kernel, so that arrays stay in the cache of its core.
It claims them from the front; once it has none it takes the last ones of the others.  A range is one word: what is left
of it, and above that the number of the call, so that a thread that comes late never takes one of the next call for one
that it knew.  What a call is, it reads only once it has one of its work-items, because the calling thread then waits
for it.  Source: futex(2) and the LLVM language reference, "Atomic Memory Ordering Constraints".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from llvmlite import ir

from tl_dpnp.kernels.llvm import I8, I32, I64, counted_loop, if_then, index

__all__ = [
    "GROUP_WORDS", "HELPER", "MONOTONIC", "SHARE", "STATE", "State", "emit_helpers", "ranges_for",
    "with_usual_control",
]

#: Names of the functions: what a helping thread runs, and what shares the work-items of a call.
HELPER, SHARE = "help", "share"
#: The control register of vector instructions as a thread has it at its start (Intel 64 and IA-32 Architectures
#: Software Developer's Manual, volume 1, section 10.2.3): what OpenCL's threads compute with.
_MXCSR = 0x1F80
MONOTONIC = 1  # CLOCK_MONOTONIC of <time.h>
_SYS_FUTEX, _WAIT, _WAKE = 202, 128, 129  # private ones, on x86-64
_EVERYONE = (1 << 31) - 1
#: Words that a work-group is told by: its three numbers, the address of memory for what is private to it, 0 for its
#: thread's stack, and room for what other versions of the runtime may add.
GROUP_WORDS = 8
_LINE = 8  # words of a cache line
#: Where a range has its number of the call and its first work-item; the one after its last is in the lowest bits.
_NUMBER, _FRONT, _BITS = 32, 16, 0xFFFF
#: How often to look at a word before looking at the clock, or giving way to another thread.
_LOOKS = 64


class State(ctypes.Structure):
    """What the threads share: words that they write are on cache lines of their own.

    `number` counts the calls, `done` the work-items that helpers have done.  `bell` is what sleeping helpers wait for,
    `sleepers` how many do, `quit` whether they are to end.  `busy` is 1 while a call is shared, `kernel` and `values`
    are its function and arguments, `threads` how many have a range.  `helpers` is the number of threads, `spin` how
    many nanoseconds they look for work before they sleep, `last` when the last call began.  `started` is 1 once
    somebody has asked for helpers, also where there are none.  The words of the ranges are
    at `ranges`, each on a line of its own, that of the calling thread first.
    """

    _fields_ = [field for name in ("number", "done", "bell", "sleepers", "quit", "busy", "kernel", "helpers")
                for field in ((name, ctypes.c_int64), (f"_{name}", ctypes.c_int64 * (_LINE - 1)))] + [
        (name, ctypes.c_int64) for name in ("values", "threads", "ranges", "spin", "last", "started")]


def _on_lines(type_: type[Any]) -> Any:
    """Return an object that is all zeros and begins with a cache line."""
    memory = (ctypes.c_char * (ctypes.sizeof(type_) + 8 * _LINE))()
    return type_.from_buffer(memory, -ctypes.addressof(memory) % (8 * _LINE))


#: The state of this process.
STATE: State = _on_lines(State)


def ranges_for(threads: int) -> ctypes.Array[ctypes.c_int64]:
    """Return memory for the ranges of so many threads; there is nothing to do in them."""
    ranges: ctypes.Array[ctypes.c_int64] = _on_lines(ctypes.c_int64 * (_LINE * threads))
    return ranges


class _Emitter:
    """Building blocks of both functions."""

    def __init__(self, function: ir.Function, addresses: SimpleNamespace) -> None:
        self.function, self.addresses = function, addresses
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def word(self, name: str) -> ir.Value:
        """Return a pointer to a word of the state."""
        return self.builder.inttoptr(index(ctypes.addressof(STATE) + getattr(State, name).offset), I64.as_pointer())

    def load(self, name: str) -> ir.Value:
        """Return a word of the state as it is now."""
        return self.builder.load_atomic(self.word(name), "seq_cst", 8)

    def store(self, name: str, value: ir.Value) -> None:
        """Set a word of the state."""
        self.builder.store_atomic(value, self.word(name), "seq_cst", 8)

    def add(self, name: str, value: int) -> None:
        """Add to a word of the state."""
        self.builder.atomic_rmw("add", self.word(name), index(value), "seq_cst")

    def variable(self, words: int = 1) -> ir.Value:
        """Return a pointer to words on the stack, which are there once, also where the code is in a loop."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(I64, words)

    def loop_while(self, condition: Callable[[], ir.Value], body: Callable[[], None]) -> None:
        """Emit a loop."""
        builder = self.builder
        again, inside, after = (builder.append_basic_block(name) for name in ("again", "inside", "after"))
        builder.branch(again)
        builder.position_at_end(again)
        builder.cbranch(condition(), inside, after)
        builder.position_at_end(inside)
        body()
        builder.branch(again)
        builder.position_at_end(after)

    def range_of(self, thread: ir.Value) -> ir.Value:
        """Return a pointer to the range of a thread."""
        builder = self.builder
        place = builder.add(self.load("ranges"), builder.mul(thread, index(8 * _LINE)))
        return builder.inttoptr(place, I64.as_pointer())

    def ends_of(self, thread: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return the range of a thread as it is now, its first work-item and the one after its last."""
        builder = self.builder
        found = builder.load_atomic(self.range_of(thread), "seq_cst", 8)
        front = builder.and_(builder.lshr(found, index(_FRONT)), index(_BITS))
        return found, front, builder.and_(found, index(_BITS))

    def run_what_is_left(self, own: ir.Value) -> ir.Value:
        """Run work-items of the call as long as there are some, beginning with the `own` ones; returns how many."""
        builder = self.builder
        count, group, passed = self.variable(), self.variable(GROUP_WORDS), self.variable()
        builder.store(index(0), count)
        for place in range(GROUP_WORDS):
            builder.store(index(0), builder.gep(group, [index(place)]))
        builder.store(index(0), passed)

        def claim() -> None:
            threads, is_own = self.load("threads"), builder.icmp_signed("==", builder.load(passed), index(0))
            other = builder.urem(builder.add(own, builder.load(passed)), threads)
            thread = builder.select(is_own, own, other)
            found, front, back = self.ends_of(thread)
            last = builder.sub(back, index(1))
            item = builder.select(is_own, front, last)
            rest = builder.select(
                is_own, builder.add(found, index(1 << _FRONT)), builder.sub(found, index(1)))
            with builder.if_else(builder.icmp_signed("!=", front, back)) as (there, nothing):
                with there:
                    taken = builder.cmpxchg(self.range_of(thread), found, rest, "seq_cst", "seq_cst")
                    if_then(builder, builder.extract_value(taken, 1), lambda: run(item))
                with nothing:
                    builder.store(builder.add(builder.load(passed), index(1)), passed)

        def run(item: ir.Value) -> None:
            builder.store(item, group)
            kernel = builder.inttoptr(self.load("kernel"), ir.FunctionType(
                ir.VoidType(), [I64, I64.as_pointer(), I64]).as_pointer())
            builder.call(kernel, [self.load("values"), group, index(0)])
            builder.store(builder.add(builder.load(count), index(1)), count)

        self.loop_while(lambda: builder.icmp_signed("<", builder.load(passed), self.load("threads")), claim)
        return builder.load(count)

    def pause(self) -> None:
        """Wait for a moment, leaving the core to its other thread."""
        module, name = self.builder.module, "llvm.x86.sse2.pause"
        pause = module.globals.get(name) or ir.Function(module, ir.FunctionType(ir.VoidType(), []), name)
        self.builder.call(pause, [])

    def give_way(self) -> None:
        """Let another thread have the core."""
        type_ = ir.FunctionType(I32, [])
        self.builder.call(self.builder.inttoptr(index(self.addresses.sched_yield), type_.as_pointer()), [])

    def futex(self, operation: int, value: ir.Value) -> None:
        """Wait while the bell has a value, or wake that many who do."""
        type_ = ir.FunctionType(I64, [I64], var_arg=True)
        syscall = self.builder.inttoptr(index(self.addresses.syscall), type_.as_pointer())
        bell = self.builder.ptrtoint(self.word("bell"), I64)
        self.builder.call(syscall, [index(_SYS_FUTEX), bell, index(operation), value, index(0), index(0), index(0)])

    def nanoseconds(self) -> ir.Value:
        """Return the time."""
        builder = self.builder
        time = self.variable(2)
        type_ = ir.FunctionType(I32, [I32, I64.as_pointer()])
        clock = builder.inttoptr(index(self.addresses.clock_gettime), type_.as_pointer())
        builder.call(clock, [ir.Constant(I32, MONOTONIC), time])
        seconds, rest = (builder.load(builder.gep(time, [index(place)])) for place in (0, 1))
        return builder.add(builder.mul(seconds, index(10**9)), rest)


def emit_helpers(module: ir.Module, addresses: SimpleNamespace) -> ir.Function:
    """Add both functions to a module and return the first.

    `addresses` are those of ``syscall``, ``sched_yield`` and ``clock_gettime``.

    ``share(kernel, values, items, wakes)`` runs the work-items of a kernel with other threads, waking those that sleep
    if `wakes` is not 0; it returns 0, and does nothing, while another call is shared.  ``help(number)`` is a thread.
    """
    type_ = ir.FunctionType(I64, [I64] * 4)
    share = _function(module, type_, SHARE)
    _emit_share(_Emitter(share, addresses))
    _emit_help(_Emitter(_function(module, ir.FunctionType(I64, [I64]), HELPER), addresses))
    return share


def _function(module: ir.Module, type_: ir.FunctionType, name: str) -> ir.Function:
    function = ir.Function(module, type_, name)
    function.attributes.add("uwtable")
    return function


def _emit_share(code: _Emitter) -> None:
    builder, (kernel, values, items, wakes) = code.builder, code.function.args
    free = builder.cmpxchg(code.word("busy"), index(0), index(1), "seq_cst", "seq_cst")
    busy, mine = (builder.append_basic_block(name) for name in ("busy", "mine"))
    builder.cbranch(builder.extract_value(free, 1), mine, busy)
    builder.position_at_end(busy)
    builder.ret(index(0))
    builder.position_at_end(mine)
    for name, value in (("kernel", kernel), ("values", values), ("done", index(0))):
        code.store(name, value)
    _divide(code, items)

    def wake() -> None:
        code.add("bell", 1)
        code.futex(_WAKE, index(_EVERYONE))

    someone = builder.and_(builder.icmp_signed("!=", code.load("sleepers"), index(0)),
                           builder.icmp_signed("!=", wakes, index(0)))
    if_then(builder, someone, wake)
    others = builder.sub(items, code.run_what_is_left(index(0)))
    looks = code.variable()
    builder.store(index(0), looks)
    def wait() -> None:
        code.pause()
        count = builder.add(builder.load(looks), index(1))
        builder.store(count, looks)
        if_then(builder, builder.icmp_signed(">", count, index(_LOOKS)), code.give_way)

    code.loop_while(lambda: builder.icmp_signed("!=", code.load("done"), others), wait)
    code.store("busy", index(0))
    builder.ret(index(1))


def _divide(code: _Emitter, items: ir.Value) -> None:
    """Give each thread, or as many as there are work-items, a range of them that is as long as the others'."""
    builder = code.builder
    number = builder.add(code.load("number"), index(1))
    code.store("number", number)
    threads = builder.add(code.load("helpers"), index(1))
    threads = builder.select(builder.icmp_signed("<", threads, items), threads, items)
    code.store("threads", threads)
    tag = builder.shl(number, index(_NUMBER))

    def give(thread: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        ends = thread, builder.add(thread, index(1))
        front, back = (builder.udiv(builder.mul(end, items), threads) for end in ends)
        range_ = builder.or_(tag, builder.or_(builder.shl(front, index(_FRONT)), back))
        builder.store_atomic(range_, code.range_of(thread), "seq_cst", 8)
        return []

    counted_loop(builder, index(0), threads, index(1), [], give)


def _emit_help(code: _Emitter) -> None:
    builder, (own,) = code.builder, code.function.args
    since = code.variable()

    def work() -> None:
        count = code.run_what_is_left(own)
        builder.atomic_rmw("add", code.word("done"), count, "seq_cst")
        builder.store(code.nanoseconds(), since)

    def idle() -> None:
        looks = code.variable()
        builder.store(index(0), looks)

        def nothing_yet() -> ir.Value:
            few = builder.icmp_signed("<", builder.load(looks), index(_LOOKS))
            return builder.and_(few, builder.not_(is_work()))

        def look() -> None:
            code.pause()
            builder.store(builder.add(builder.load(looks), index(1)), looks)

        code.loop_while(nothing_yet, look)
        code.give_way()  # to what else wants this core, perhaps the very thread that shares its calls
        spent = builder.sub(code.nanoseconds(), builder.load(since))
        if_then(builder, builder.icmp_signed(">", spent, code.load("spin")), sleep)

    def sleep() -> None:
        bell = code.load("bell")
        code.add("sleepers", 1)
        idle_still = builder.and_(builder.not_(is_work()), builder.icmp_signed("==", code.load("quit"), index(0)))
        if_then(builder, idle_still, lambda: code.futex(_WAIT, bell))
        code.add("sleepers", -1)
        builder.store(code.nanoseconds(), since)

    def is_work() -> ir.Value:
        _, front, back = code.ends_of(own)
        return builder.icmp_signed("!=", front, back)

    def live() -> None:
        builder.store(code.nanoseconds(), since)

        def turn() -> None:
            with builder.if_else(is_work()) as (then, otherwise):
                with then:
                    work()
                with otherwise:
                    idle()

        code.loop_while(lambda: builder.icmp_signed("==", code.load("quit"), index(0)), turn)

    with_usual_control(builder, live)
    builder.ret(index(0))


def with_usual_control(builder: ir.IRBuilder, run: Callable[[], None]) -> None:
    """Emit what computes as OpenCL's threads do, whatever this thread was told about rounding and denormal numbers."""
    slot = builder.alloca(I32, 2)
    kept, usual = (builder.bitcast(builder.gep(slot, [ir.Constant(I32, place)]), I8.as_pointer()) for place in (0, 1))
    builder.store(ir.Constant(I32, _MXCSR), builder.bitcast(usual, I32.as_pointer()))
    _control(builder, "st", kept)
    _control(builder, "ld", usual)
    run()
    _control(builder, "ld", kept)


def _control(builder: ir.IRBuilder, what: str, slot: ir.Value) -> None:
    name = f"llvm.x86.sse.{what}mxcsr"
    type_ = ir.FunctionType(ir.VoidType(), [I8.as_pointer()])
    function = builder.module.globals.get(name) or ir.Function(builder.module, type_, name)
    builder.call(function, [slot])
