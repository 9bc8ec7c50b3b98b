"""Tuning: the schedules of a kernel chosen by measurement, on arguments of the user's."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from tl_dpnp.logs import is_wanted, log
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.frames import FRAMES, Form
from tl_dpnp.lowering.space import Tunable, tunables
from tl_dpnp.lowering.tiling import Tiling
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.compiler import CompiledKernel, cache_key, compile_program, keep
from tl_dpnp.runtime.overloads import Overload, Overloads
from tl_dpnp.runtime.platforms import Launch, Platform
from tl_dpnp.runtime.progress import progress_bar
from tl_dpnp.runtime.store.cache import DiskCache
from tl_dpnp.runtime.tune.search import Search, Step, Trial
from tl_dpnp.runtime.tune.tuned import Tuned, store_tuned
from tl_dpnp.runtime.variants import form_for, variants_of
from tl_dpnp.target.device import Device

__all__ = ["Tried", "TuningReport", "Workbench", "search_schedules", "tune"]

#: Seconds of calls that make a sample, and how many calls these are at most.
_SAMPLE_SECONDS, _MOST_CALLS = 2e-3, 64

#: The tilings of the instructions of a kernel, in the order of the source.
Choice = tuple[Tiling, ...]


@dataclass(frozen=True)
class Tried:
    """One candidate of a search.

    `form` is that of its kernel, None if it could not be compiled, and `tilings` maps each instruction to its tiling,
    which the divided, the staged, the tiled and the blocked form have no use for.  `seconds` is the median of the time
    of a call and `ratio` that of its ratios to the default's time in the same round, both None for what was not timed;
    `error` says why.
    """

    tilings: dict[str, Tiling]
    seconds: float | None
    ratio: float | None
    samples: int
    error: str | None = None
    form: Form | None = None

    def __str__(self) -> str:
        if self.form is not None and not FRAMES[self.form].is_tunable:
            return f"{self.form} form"
        return "; ".join(f"{name}: {tiling}" for name, tiling in self.tilings.items()) or "no instruction to tune"


@dataclass(frozen=True)
class TuningReport:
    """What `Kernel.tune` tried and what came out of it; it prints as a table.

    `tried` holds the default first and then the candidates in the order of their ratios, `best` is the one that is
    used from now on, and `gain` the default's time divided by its time (1.0 if it is the default).  `seconds` is how
    long tuning took; `interrupted` says that it was ended by Ctrl-C.
    """

    kernel: str
    device: str
    tried: tuple[Tried, ...]
    best: Tried
    gain: float
    seconds: float
    interrupted: bool = False

    @property
    def compares(self) -> bool:
        """Whether anything was timed beside the default; if not, what was used before the search stays in use."""
        return any(tried.seconds is not None for tried in self.tried[1:])

    def __repr__(self) -> str:
        rows = [("", "candidate", "median µs", "ratio")]
        for tried in self.tried:
            mark = "*" if tried is self.best else ""
            name = f"{tried} (default)" if tried is self.tried[0] else str(tried)
            rows.append((mark, name, _number(tried.seconds, 1e6, 1) or tried.error or "", _number(tried.ratio, 1, 3)))
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{mark:1} {name:{widths[1]}}  {seconds:>9}  {ratio:>5}".rstrip()
                 for mark, name, seconds, ratio in rows]
        end = ", interrupted" if self.interrupted else ""
        head = f"@{self.kernel} on {self.device}: gain {self.gain:.2f} in {self.seconds:.1f} s{end}"
        return "\n".join([head, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-serialisable data."""
        return {
            "kernel": self.kernel, "device": self.device, "gain": self.gain, "seconds": self.seconds,
            "interrupted": self.interrupted, "best": self.tried.index(self.best),
            "tried": [
                {**vars(tried), "tilings": {name: vars(tiling) for name, tiling in tried.tilings.items()}}
                for tried in self.tried
            ],
        }


def _number(value: float | None, scale: float, digits: int) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


@dataclass(frozen=True)
class Ready:
    """A candidate that can be launched; `form` is what the compiler was asked for in place of the options' form."""

    compiled: CompiledKernel
    handle: Any
    launch: Launch
    form: Form | None = None


class Workbench:
    """Builds the candidates of one kernel for one call, and times them on copies of the arrays that it writes."""

    def __init__(
        self, platform: Platform, binding: Binding, device: Device, options: LoweringOptions,
        instructions: Sequence[Tunable], call: BoundCall, arguments: Sequence[Any], queue: Any,
        cache: DiskCache | None,
    ) -> None:
        self.platform, self.binding, self.device, self.options = platform, binding, device, options
        self.queue, self.cache = queue, cache
        self.instructions = instructions
        self.default: Choice = tuple(instruction.default for instruction in instructions)
        self.ready: dict[Choice, Ready] = {}
        self._replicas = platform.replicas(call, arguments, binding.program.usage, queue)
        self._call = binding.bind(self._replicas.arguments, call.extents)
        self._calls = 0

    def schedules(self, choice: Choice) -> tuple[tuple[str, str], ...]:
        """Return the schedules of a choice as JSON by instruction, except those that are the default anyway."""
        return tuple(
            (instruction.name, instruction.schedule(tiling))
            for instruction, tiling in zip(self.instructions, choice, strict=True) if tiling != instruction.default
        )

    def build(self, choice: Choice) -> None:
        """Compile and load a choice; only the default, which will be needed anyway, is kept in the disk cache."""
        options = Tuned(self.schedules(choice), "", 1).applied_to(self.options)
        self.ready[choice] = self._built(options, self.cache if choice == self.default else None)

    def _built(self, options: LoweringOptions, cache: DiskCache | None) -> Ready:
        program = self.binding.program
        variants = variants_of(program, self.device, options, cache)
        form = form_for(variants, self.platform, self.binding, self._call, self.device)
        compiled = compile_program(program, self.device, options.in_form(form), cache)
        handle, _ = self.platform.load(compiled, self.device, self.queue, cache)
        launch = self.platform.prepare(self.binding, self._call, self.queue, handle, compiled.plan, self.device)
        return Ready(compiled, handle, launch, form)

    def sample(self, choice: Choice) -> float:
        """Return the median time of some calls, in seconds, waiting included."""
        self._replicas.restore()
        if not self._calls:
            self._run(choice)
            once = self._run(choice)
            self._calls = 1 if self._replicas.exact else max(1, min(_MOST_CALLS, math.ceil(_SAMPLE_SECONDS / once)))
            return once
        if self._calls > 1:
            self._run(choice)  # fills the caches
        return statistics.median([self._run(choice) for _ in range(self._calls)])

    def _run(self, choice: Choice) -> float:
        if self._replicas.exact:
            self._replicas.restore()
        arguments = self._replicas.arguments
        arrays = self.binding.arrays(arguments)  # they keep the tables of lists
        addresses = [*map(self.platform.arrays.address_of, arrays)]
        return self.platform.timed(self.ready[choice].launch, arguments, addresses)


def tune(
    overloads: Overloads, binding: Binding, call: BoundCall, arguments: Sequence[Any], queue: Any, budget: float,
    progress: bool,
) -> TuningReport:
    """Search the schedules of a program for a call, keep what was found, here and in the cache, and use it."""
    program, platform, options, cache = overloads.program, overloads.platform, overloads.options, overloads.cache()
    device = platform.describe(queue)
    instructions = tunables(program.function, device, options.lowering)
    workbench = Workbench(platform, binding, device, options.lowering, instructions, call, arguments, queue, cache)
    report, tuned, winner = search_schedules(workbench, budget, progress)
    if not report.compares:
        return report
    if cache is not None:
        store_tuned(cache, program, device, options.lowering, tuned)
        if winner is not None and tuned.schedules:
            keep(cache, cache_key(program, device, tuned.applied_to(options.lowering)), winner.compiled)
            platform.keep_machine_code(winner.compiled, device, queue, cache, winner.handle)
    overloads.use(device, tuned, None if winner is None else Overload(
        winner.compiled, device, winner.form, {platform.context_of(queue): winner.handle}))
    return report


def search_schedules(
    workbench: Workbench, budget: float, progress: bool
) -> tuple[TuningReport, Tuned, Ready | None]:
    """Search the schedules of a kernel for `budget` seconds.

    Returns the report, what to keep, and the compiled winner, None where there is no instruction to schedule.  The
    instructions are searched one after another, the one with most work first, and for each the choices one after
    another.  With `progress` a bar is shown where standard error is a terminal.
    """
    start = time.perf_counter()
    order = sorted(range(len(workbench.instructions)), key=lambda place: -workbench.instructions[place].work)
    steps = [
        Step(workbench.instructions[place].name, _neighbours(place, variations))
        for place in order for variations in workbench.instructions[place].steps
    ]
    name = workbench.binding.program.name
    with progress_bar(f"tuning @{name}", budget, progress) as show:
        watch = _told(name, show)
        search = Search(workbench.default, workbench.build, workbench.sample, time.perf_counter, budget, watch)
        try:
            best = search.run(steps) if steps else workbench.default
        finally:
            workbench.platform.wait(workbench.queue)  # an interrupt leaves a kernel running that writes the copies
    report = _report(workbench, search, best, time.perf_counter() - start)
    if is_wanted("tune"):
        log("tune", [line.rstrip() for line in repr(report).splitlines()])
    tuned = Tuned(workbench.schedules(best), str(report.best), report.gain)
    return report, tuned, workbench.ready.get(best)


def _told(name: str, show: Callable[[str], None]) -> Callable[[str], None]:
    """Return what shows how far the search is, and logs that where it has changed."""
    said = ""

    def watch(text: str) -> None:
        nonlocal said
        show(text)
        if text != said:
            said = text
            if is_wanted("tune"):
                log("tune", [f"@{name}: {text}"])

    return watch


def _neighbours(place: int, variations: Callable[[Tiling], list[Tiling]]) -> Callable[[Choice], list[Choice]]:
    return lambda best: [(*best[:place], tiling, *best[place + 1 :]) for tiling in variations(best[place])]


def _report(workbench: Workbench, search: Search[Choice], best: Choice, seconds: float) -> TuningReport:
    tried = {choice: _tried(workbench, search, choice, trial) for choice, trial in search.trials.items()}
    ratio = tried[best].ratio
    ranked = sorted(tried, key=lambda choice: (choice != search.default, search.trials[choice].ratio))
    return TuningReport(
        workbench.binding.program.name, str(workbench.device), tuple(tried[choice] for choice in ranked),
        tried[best], 1 / ratio if ratio and best != search.default else 1.0, seconds, search.interrupted,
    )


def _tried(workbench: Workbench, search: Search[Choice], choice: Choice, trial: Trial) -> Tried:
    names = [instruction.name for instruction in workbench.instructions]
    timed = bool(trial.seconds)
    ratio = 1.0 if choice == search.default else trial.ratio if timed else None
    return Tried(dict(zip(names, choice, strict=True)), trial.median if timed else None, ratio if timed else None,
                 len(trial.seconds), trial.error or (None if timed else "not timed"),
                 workbench.ready[choice].compiled.plan.form if choice in workbench.ready else None)
