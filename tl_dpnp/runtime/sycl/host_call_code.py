"""Machine code of the host that checks the arguments of a call and runs the machine code of a kernel itself.

Arrays are looked at where they have their fields.  Everything that was submitted to the queue of the launch is waited
for first, as every call does: SYCL does not tell whether there is anything.  Source: dpctl's C API (``dpctl_capi.h``,
``dpctl_sycl_queue_interface.h``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, counted_loop, if_then, index
from tl_dpnp.runtime.native_calls import ARRAY, LIST, NARROW, OBJECT, SIZE, CallEmitter, Parameter, Record, Word
from tl_dpnp.runtime.sycl.dpctl_adapter import native_interface
from tl_dpnp.runtime.sycl.helper_code import GROUP_WORDS, MONOTONIC, STATE, State, emit_helpers, with_usual_control
from tl_dpnp.runtime.sycl.overlap_code import OverlapEmitter
from tl_dpnp.runtime.sycl.result_code import ResultEmitter
from tl_dpnp.target.catalog import SHORT_CALLS

__all__ = ["ANY_SIZE", "MOST_SLOW", "TIME_BITS", "HostEmitter", "HostParameter", "HostRecord"]

#: Calls in a row that took too long, after which the function refuses all others.
MOST_SLOW = 3
#: What stands for the size of an axis that is the batch, and for a batch whose size is still to be found.
ANY_SIZE = -1
#: Fixed point: the times of one work-group, many of which are short, have so many bits behind the point.
TIME_BITS = 16


class HostParameter(Parameter):
    """What an argument must be.

    An array has `form`, the number of its dtype, `dims`, the address of its `modes` sizes, of which that of the batch
    is `ANY_SIZE`, and then strides, `flags` of those in `mask`, the class of its `memory`, which says its USM type, or
    0 for any, and `orders`, the flags of the orders (C, Fortran) that those strides have: dpctl need not keep the
    strides of an array in one of them.  A value's `place` is in bytes.

    A list has `length` arrays.  What these must be is at `elements`, each `step` bytes behind the one before, and their
    addresses go behind the values, `table` bytes from the first of these.
    """

    _fields_: ClassVar[Any] = [
        ("form", Word), ("dims", Word), ("modes", Word), ("flags", Word), ("mask", Word), ("memory", Word),
        ("orders", Word), ("length", Word), ("elements", Word), ("step", Word), ("table", Word),
    ]


class HostRecord(Record):
    """A launch.

    `queue` is the address of a ``sycl::queue``, `turn` the lock of Python to hold while waiting for it and `counts` the
    address of those of its `Turn`; `acquire`, `release` and `array` are names, Python strings.  There are `pair_count`
    entries of `Pair` at `pairs` and `beside_count` of `Beside` at `beside`, and `listed` arrays in lists.
    The kernel's function for a work-item is at `kernel`.  There are `parts` work-groups for each of the `batch`, or,
    where that is `ANY_SIZE`, for each of one of `least` to `most`, whose size goes to `size_count` places among the
    values, in bytes at `sizes`.  How many work-groups a work-item has is the word of the values at `chunk`, behind
    their number.

    `alone` is the least time of a work-group on one thread (`TIME_BITS`), in calls of up to `measured` work-groups, and
    `counted` how often that was taken; `gained` is what sharing has saved lately, in calls (`TIME_BITS`).  `longest` is
    how many nanoseconds a call may take on one thread, `slow` counts those in a row that took longer, and `taken` is
    the time of a work-group of the last one, shared or not.

    Where `kernel` is 0 there is nothing to run: the arguments are checked, of which no two may be the same array.

    A call may make `result_count` arrays, one for each `Result` at `results`, after which there are `operand_count`
    entries of `Operand` at `operands`; no two arguments may be the same array then, either.  It returns the first
    `returned` of the arrays in a tuple, the first alone if that is `BY_ITSELF`.  They are of dpnp's `array_class`, or
    of dpctl if that is 0.  A
    call is refused where an array is missing, which sets `misses`; others are counted in the word at `calls`.  Each of
    `place_count` entries of `Place` at `places` has to hold before.
    """

    _fields_: ClassVar[Any] = [(name, Word) for name in (
        "queue", "turn", "counts", "acquire", "release", "array", "array_type", "pairs", "pair_count",
        "kernel", "batch", "least", "most", "parts", "sizes", "size_count", "chunk",
        "longest", "taken", "slow", "alone", "measured", "counted", "gained",
        "results", "result_count", "operands", "operand_count", "returned", "array_class",
        "places", "place_count", "misses", "calls", "beside", "beside_count", "listed",
    )]


class HostEmitter(CallEmitter):
    """Adds arrays of dpctl and dpnp, and the launch."""

    record_type, parameter_type = HostRecord, HostParameter

    def __init__(self) -> None:
        super().__init__()
        self.share = emit_helpers(self.module, native_interface())

    def ways(self) -> dict[int, Callable[[ir.Value, ir.Value], ir.Value]]:
        """See `CallEmitter`: dpctl's arrays are `ARRAY`, dpnp's `OBJECT`."""
        return {ARRAY: self.array, OBJECT: self.array_of_dpnp, LIST: self.list, SIZE: self.given_size, **super().ways()}

    def room(self) -> ir.Value:
        """See `CallEmitter`: behind the values are the tables of lists."""
        return self.builder.add(self.size, self.field("listed"))

    def begin(self) -> None:
        """Make room for references to the arrays: other threads may let go of them while the kernel runs."""
        self.count = self.field("count")
        self.held_before_lists = self.builder.add(self.count, self.field("result_count"))
        self.held_count = self.builder.add(self.held_before_lists, self.field("listed"))
        self.held = self.memory(self.held_count)
        self.batch = self.memory(index(1))
        self.store(self.field("batch"), self.batch, index(0))
        self.results = ResultEmitter(self)

        def clear(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(index(0), self.held, number)
            return []

        counted_loop(self.builder, index(0), self.held_count, index(1), [], clear)
        self.require(self.builder.icmp_signed("<", self.field("slow"), index(MOST_SLOW)))
        self.results.require_places()

    def end(self) -> None:
        """Let go of the arrays."""
        builder = self.builder

        def let_go(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            array = self.load(self.held, number)
            if_then(builder, builder.icmp_signed("!=", array, index(0)), lambda: self.python("Py_DecRef", array))
            return []

        counted_loop(builder, index(0), self.held_count, index(1), [], let_go)

    # --- arguments -------------------------------------------------------------------------------------------------

    def array_of_dpnp(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array of dpnp, which holds one of dpctl."""
        array = self.attribute(given, self.field("array"))
        self.store(array, self.held, self.number_of_argument)
        self.require(self.builder.icmp_signed("==", self.type_of(array), self.field("array_type")))
        return self.address(at, array)

    def array(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of an array of dpctl."""
        self.python("Py_IncRef", given)
        self.store(given, self.held, self.number_of_argument)
        return self.address(at, given)

    def list(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the address of a table with the addresses of the arrays in a list."""
        builder, length = self.builder, self.of(at, "length")
        self.require(builder.icmp_signed("==", self.python("PySequence_Size", given), length))
        word = builder.lshr(self.of(at, "table"), index(3))
        held = builder.add(self.held_before_lists, builder.sub(word, self.size))

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            element = builder.add(self.of(at, "elements"), builder.mul(number, self.of(at, "step")))
            array = self._element(element, self.python("PySequence_GetItem", given, number), builder.add(held, number))
            self.store(self.address(element, array), self.values, builder.add(word, number))
            return []

        counted_loop(builder, index(0), length, index(1), [], look)
        return builder.add(self.values, self.of(at, "table"))

    def _element(self, at: ir.Value, given: ir.Value, place: ir.Value) -> ir.Value:
        """Return the array of dpctl of an element of a list, a new reference, and hold it."""
        builder = self.builder
        self.store(given, self.held, place)
        self.require(builder.icmp_signed("==", self.type_of(given), self.of(at, "type")))

        def take_content() -> None:
            array = self.attribute(given, self.field("array"))
            self.store(array, self.held, place)
            self.python("Py_DecRef", given)

        if_then(builder, builder.icmp_signed("==", self.of(at, "kind"), index(OBJECT)), take_content)
        array = self.load(self.held, place)
        self.require(builder.icmp_signed("==", self.type_of(array), self.field("array_type")))
        return array

    def address(self, at: ir.Value, array: ir.Value) -> ir.Value:
        """Return the address of an array that looks as expected."""
        builder = self.builder

        def same(name: str, field: str) -> None:
            found = builder.sext(self.content(array, name, I32), I64)
            self.require(builder.icmp_signed("==", found, self.of(at, field)))

        same("ndim", "modes")
        same("typenum", "form")
        flags = builder.sext(self.content(array, "flags", I32), I64)
        self.require(builder.icmp_signed("==", builder.and_(flags, self.of(at, "mask")), self.of(at, "flags")))
        dims, modes = self.of(at, "dims"), self.of(at, "modes")
        self._same_sizes(self.content(array, "shape"), dims, modes)
        strides = self.content(array, "strides")
        are_given = builder.icmp_signed("!=", strides, index(0))
        expected = builder.add(dims, builder.mul(modes, index(8)))
        if_then(builder, are_given, lambda: self._same_words(strides, expected, modes))

        def require_order() -> None:
            in_c, in_fortran = (builder.and_(flags, index(flag)) for flag in native_interface().orders)
            order = builder.select(builder.icmp_signed("!=", in_c, index(0)), in_c, in_fortran)
            self.require(builder.icmp_signed("!=", builder.and_(order, self.of(at, "orders")), index(0)))

        if_then(builder, builder.not_(are_given), require_order)
        self._require_memory(self.content(array, "base"), self.of(at, "memory"))
        return self.content(array, "data")

    def _require_memory(self, memory: ir.Value, type_: ir.Value) -> None:
        """Refuse memory of another class, unless any will do, and of another queue."""
        builder, expected = self.builder, self.field("queue")
        if_then(builder, builder.icmp_signed("!=", type_, index(0)),
                lambda: self.require(builder.icmp_signed("==", self.type_of(memory), type_)))
        queue = self.dpctl("Memory_GetQueueRef", I64, memory)
        if_then(builder, builder.icmp_signed("!=", queue, expected),  # another object may be the same queue
                lambda: self.require(self.dpctl("DPCTLQueue_AreEq", ir.IntType(1), queue, expected)))

    def _same_words(self, given: ir.Value, expected: ir.Value, count: ir.Value) -> None:
        builder = self.builder

        def compare(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.require(builder.icmp_signed("==", self.load(given, number), self.load(expected, number)))
            return []

        counted_loop(builder, index(0), count, index(1), [], compare)

    def _same_sizes(self, given: ir.Value, expected: ir.Value, count: ir.Value) -> None:
        """Refuse an array of other sizes; the first one that is the batch says how large that is."""
        builder = self.builder

        def compare(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            size, known = self.load(given, number), self.load(expected, number)
            is_free = builder.icmp_signed("==", known, index(ANY_SIZE))
            if_then(builder, is_free, lambda: self._require_size(size))
            self.require(builder.or_(is_free, builder.icmp_signed("==", size, known)))
            return []

        counted_loop(builder, index(0), count, index(1), [], compare)

    def _require_size(self, size: ir.Value) -> None:
        """Refuse a batch of another size than the call has, if that is known."""
        builder, known = self.builder, self.load(self.batch, index(0))
        is_new = builder.icmp_signed("==", known, index(ANY_SIZE))
        self.require(builder.or_(is_new, builder.icmp_signed("==", size, known)))
        self.store(size, self.batch, index(0))

    def given_size(self, at: ir.Value, given: ir.Value) -> ir.Value:
        """Return the size of the batch, which is an argument."""
        size = self.integer(at, given)
        self._require_size(size)
        return size

    def put(self, value: ir.Value, kind: int, place: ir.Value) -> None:
        """See `CallEmitter`."""
        builder, address = self.builder, self.builder.add(self.values, place)
        if kind == NARROW:
            builder.store(builder.trunc(value, I32), builder.inttoptr(address, I32.as_pointer()))
        else:
            self.store(value, address, index(0))

    # --- the launch ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for the queue, run the work-groups, and return the results."""
        builder = self.builder
        is_to_run, makes = (
            builder.icmp_signed("!=", self.field(name), index(0)) for name in ("kernel", "result_count"))
        if_then(builder, builder.or_(builder.not_(is_to_run), makes), self._require_different)
        if_then(builder, builder.not_(is_to_run), self._only_looked)
        self.groups = self._place_batch()
        self.expected = self._expected_time()
        OverlapEmitter(self, self.load(self.batch, index(0))).require_apart()
        self.results.take()
        self._wait()
        releases = builder.icmp_signed(">=", self._of_groups("taken"), index(SHORT_CALLS.worth_releasing))
        state = self.memory(index(1))
        if_then(builder, releases, lambda: self.store(self.python("PyEval_SaveThread"), state, index(0)))
        begin = self._nanoseconds()
        with_usual_control(builder, lambda: self._run(begin))
        if_then(builder, releases, lambda: self.python("PyEval_RestoreThread", self.load(state, index(0))))
        made = self.results.made()
        self.end()
        builder.ret(made)

    def _place_batch(self) -> ir.Value:
        """Put what depends on the batch in its places, for one work-item; return the number of work-groups."""
        builder, size = self.builder, self.load(self.batch, index(0))
        self.require(builder.icmp_signed(">=", size, self.field("least")))
        self.require(builder.icmp_signed("<=", size, self.field("most")))
        sizes = self.field("sizes")

        def place(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(size, builder.add(self.values, self.load(sizes, number)), index(0))
            return []

        counted_loop(builder, index(0), self.field("size_count"), index(1), [], place)
        groups, chunk = builder.mul(size, self.field("parts")), builder.add(self.values, self.field("chunk"))
        for number in (-1, 0):
            self.store(groups, chunk, index(number))
        return groups

    def _expected_time(self) -> ir.Value:
        """Return what the call is expected to take on one thread, in nanoseconds, 0 where its like was not measured;
        refuse one that is one of many sizes, if that is too long or there might be help that nobody has asked for."""
        builder = self.builder
        is_known = builder.icmp_signed("<=", self.groups, builder.shl(self.field("measured"), index(1)))
        expected = builder.select(is_known, self._of_groups("alone"), index(0))
        is_long = builder.icmp_signed(">", expected, self.field("longest"))
        is_large = builder.icmp_signed(">=", expected, index(SHORT_CALLS.worth_sharing))
        is_first = builder.icmp_signed("==", self._of_state("started"), index(0))
        is_of_many = builder.icmp_signed("==", self.field("batch"), index(ANY_SIZE))
        is_to_refuse = builder.and_(is_of_many, builder.or_(is_long, builder.and_(is_large, is_first)))
        self.require(builder.not_(is_to_refuse))
        return expected

    def _of_groups(self, name: str) -> ir.Value:
        """Return the time of all work-groups, in nanoseconds, from the field that has that of one."""
        return self.builder.lshr(self.builder.mul(self.field(name), self.groups), index(TIME_BITS))

    def _only_looked(self) -> None:
        """Return True."""
        self.end()
        self.builder.ret(self.python("PyBool_FromLong", index(1)))
        self.builder.position_at_end(self.builder.append_basic_block("unreachable"))

    def _require_different(self) -> None:
        """Refuse arguments of which two are the same array."""
        builder, arguments = self.builder, self.function.args[1]
        parameters, words = self.field("parameters"), ctypes.sizeof(HostParameter) // 8

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            given = self.python("PyTuple_GetItem", arguments, number)
            kind = self.load(parameters, builder.mul(number, index(words)))

            def compare(other: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
                self.require(builder.icmp_signed("!=", self.python("PyTuple_GetItem", arguments, other), given))
                return []

            is_array = builder.or_(*(builder.icmp_signed("==", kind, index(array)) for array in (ARRAY, OBJECT)))
            counted_loop(builder, index(0), builder.select(is_array, number, index(0)), index(1), [], compare)
            return []

        counted_loop(builder, index(0), self.count, index(1), [], look)

    def _wait(self) -> None:
        """Wait for the queue, in turns with other threads; refuses where something was submitted, which takes long."""
        builder, turn = self.builder, self.field("turn")
        acquired = self.result(turn, self.field("acquire"))
        failed = self.function.append_basic_block("interrupted")
        following = self.function.append_basic_block("acquired")
        builder.cbranch(builder.icmp_signed("==", acquired, index(0)), failed, following)
        builder.position_at_end(failed)  # a signal handler raised while another thread had its turn
        self.end()
        builder.ret(index(0))
        builder.position_at_end(following)
        self.python("Py_DecRef", acquired)
        counts = self.field("counts")
        is_idle = builder.icmp_signed("==", self.load(counts, index(0)), self.load(counts, index(1)))
        if_then(builder, builder.not_(is_idle),
                lambda: self.python("Py_DecRef", self.result(turn, self.field("release"))))
        self.require(is_idle)
        state = self.python("PyEval_SaveThread")
        self.dpctl("DPCTLQueue_Wait", ir.VoidType(), self.field("queue"))
        self.python("PyEval_RestoreThread", state)
        self.python("Py_DecRef", self.result(turn, self.field("release")))

    def _run(self, begin: ir.Value) -> None:
        """Run the work-items, with helpers where that is worth it."""
        builder, expected = self.builder, self.expected
        helpers = self._of_state("helpers")
        is_shared = builder.and_(
            builder.and_(builder.icmp_signed(">", helpers, index(0)),
                         builder.icmp_signed(">=", self.field("counted"), index(SHORT_CALLS.calls_alone))),
            builder.icmp_signed(">=", expected, index(SHORT_CALLS.worth_sharing)))
        with builder.if_else(is_shared) as (then, otherwise):
            with then:
                self._run_shared(begin, expected, helpers)
            with otherwise:
                self._run_alone(begin)

    def _run_shared(self, begin: ir.Value, alone: ir.Value, helpers: ir.Value) -> None:
        """Divide the work-groups of the language among work-items anew, and run those with helpers if they are free."""
        builder, groups = self.builder, self.groups
        most = builder.mul(builder.add(helpers, index(1)), index(SHORT_CALLS.items))
        items = builder.sdiv(alone, index(SHORT_CALLS.least_work))
        items = builder.select(builder.icmp_signed("<", items, most), items, most)
        chunk = self._quotient(groups, items)
        # Kernels may run two work-groups at once.
        even = builder.and_(builder.add(chunk, index(1)), index(-2))
        chunk = builder.select(builder.icmp_signed(">", chunk, index(1)), even, chunk)
        items = self._quotient(groups, chunk)
        self.store(chunk, builder.add(self.values, self.field("chunk")), index(0))
        since = builder.sub(begin, self._of_state("last"))
        follows = builder.icmp_signed("<", since, self._of_state("spin"))
        is_long = builder.icmp_signed(">=", alone, index(SHORT_CALLS.worth_waking))
        wakes = builder.zext(builder.or_(follows, is_long), I64)
        self.store(begin, index(ctypes.addressof(STATE) + State.last.offset), index(0))
        awake = builder.icmp_signed("==", self._of_state("sleepers"), index(0))
        ran = builder.call(self.share, [self.field("kernel"), self.values, items, wakes])
        if_then(builder, builder.icmp_signed("==", ran, index(0)), lambda: self._run_items(items))
        saved = builder.shl(builder.sub(alone, self._take_time(begin)[0]), index(TIME_BITS))
        gain, loss = builder.sdiv(saved, alone), index(-1 << TIME_BITS)
        # A first call after a pause is slow in any case: its caches are cold, and the cores have to wake up.
        is_fair = builder.or_(builder.and_(follows, awake), builder.icmp_signed(">", gain, loss))
        gained = builder.add(self.field("gained"), builder.select(is_fair, gain, loss))
        most = index(SHORT_CALLS.calls_to_lose << TIME_BITS)
        self.set("gained", builder.select(builder.icmp_signed("<", gained, most), gained, most))

        def stop() -> None:
            self.set("gained", index(0))
            self.set("counted", index(SHORT_CALLS.calls_alone - SHORT_CALLS.calls_after_loss))

        if_then(builder, builder.icmp_signed("<", gained, index(-SHORT_CALLS.calls_to_lose << TIME_BITS)), stop)

    def _of_state(self, name: str) -> ir.Value:
        """Return a word of what the helpers know."""
        return self.load(index(ctypes.addressof(STATE) + getattr(State, name).offset), index(0))

    def _quotient(self, number: ir.Value, divisor: ir.Value) -> ir.Value:
        """Return a quotient, rounded up."""
        builder = self.builder
        return builder.sdiv(builder.add(number, builder.sub(divisor, index(1))), divisor)

    def _run_alone(self, begin: ir.Value) -> None:
        """Run the work-groups on this thread, and see how long that takes."""
        builder = self.builder
        self._run_items(index(1))
        taken, of_group = self._take_time(begin)
        alone = self.field("alone")
        is_first = builder.icmp_signed("==", self.expected, index(0))
        less = builder.or_(is_first, builder.icmp_signed("<", of_group, alone))
        self.set("alone", builder.select(less, of_group, alone))
        measured = self.field("measured")
        is_larger = builder.icmp_signed(">", self.groups, measured)
        self.set("measured", builder.select(is_larger, self.groups, measured))
        counted = builder.select(is_first, index(0), self.field("counted"))
        self.set("counted", builder.add(counted, index(1)))
        is_slow = builder.icmp_signed(">", taken, self.field("longest"))
        self.set("slow", builder.select(is_slow, builder.add(self.field("slow"), index(1)), index(0)))

    def _run_items(self, items: ir.Value) -> None:
        """Run the work-items one after another."""
        builder, kernel, group = self.builder, self.field("kernel"), self.memory(index(GROUP_WORDS))
        for number in range(1, GROUP_WORDS):
            self.store(index(0), group, index(number))

        def run(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self.store(number, group, index(0))
            self.call(kernel, ir.VoidType(), [self.values, group, index(0)])
            return []

        counted_loop(builder, index(0), items, index(1), [], run)

    def _take_time(self, begin: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return how long the call has taken since it began, and what of that is one work-group's, which is noted."""
        taken = self.builder.sub(self._nanoseconds(), begin)
        of_group = self.builder.sdiv(self.builder.shl(taken, index(TIME_BITS)), self.groups)
        self.set("taken", of_group)
        return taken, of_group

    def _nanoseconds(self) -> ir.Value:
        """Return the time."""
        builder = self.builder
        time = self.memory(index(2))
        self.call(index(native_interface().clock_gettime), I32, [ir.Constant(I32, MONOTONIC), time])
        return builder.add(builder.mul(self.load(time, index(0)), index(10**9)), self.load(time, index(1)))

    def set(self, name: str, value: ir.Value) -> None:
        """Set a field of the record."""
        self.store(value, self.record, index(getattr(HostRecord, name).offset // 8))

    def dpctl(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        """Call a function of dpctl."""
        return self.call(index(getattr(native_interface(), name)), result, arguments)

    def content(self, array: ir.Value, name: str, type_: ir.Type = I64) -> ir.Value:
        """Return what an array of dpctl has in a field."""
        place = self.builder.add(array, index(native_interface().fields[name]))
        return self.builder.load(self.builder.inttoptr(place, type_.as_pointer()))
