"""The sections of the benchmarks, as a table: for each the cases, how one is measured, and the targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from . import contests, functions, fusion, realistic_programs, recurrences, reductions, tile_programs, tiles, traces
from .contests import Contest, case_name, parse_case
from .realistic_programs import BATCHES, BEST, Programs
from .results import Measurement, Target
from .small_products import BEST_GENERATED, GENERATED
from .streams import Stream
from .tables import COMPLEX, ECOSYSTEM, ELEMENTS, ITEMSIZE, SHAPES, Shape, drawn_shapes

__all__ = ["SECTIONS", "Section", "against_peers", "fused_programs"]


@dataclass(frozen=True)
class Section:
    """A group of cases that are measured in the same way.

    `unit` is that of the value: ``GF/s``, ``GB/s`` (compulsory traffic), ``µs`` of a call, or ``s``.  `limits` name
    what bounds the speed: ``fma`` and ``triad``; with both, the roofline.  With `one_core` the process is kept on one
    core and its processor time counts, which other programs do not disturb; otherwise it is wall-clock time.  Who is
    timed runs for `block` seconds at least before it is the next one's turn.  `columns` are facts of the measurements
    that tables show, and `remarks` makes notes of all measurements.  `draw` gives cases by a seed, of sections whose
    shapes may be drawn; `drawn_targets` are for these.
    """

    name: str
    title: str
    cases: tuple[str, ...]
    prepare: Callable[[str], Contest | Measurement]
    targets: tuple[Target, ...] = ()
    unit: str = "GF/s"
    limits: tuple[str, ...] = ()
    one_core: bool = False
    peers: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    block: float = 1e-3
    quick: tuple[str, ...] = ()
    remarks: Callable[[Sequence[Measurement]], list[str]] = lambda measurements: []
    draw: Callable[[int], tuple[str, ...]] | None = None
    drawn_targets: tuple[Target, ...] | None = None

    @property
    def method(self) -> str:
        """How a case is measured, from the docstring of what prepares it."""
        return " ".join((self.prepare.__doc__ or "").split())

    def drawn(self, seed: int) -> Section:
        """Return the section with shapes that are drawn from a seed."""
        if self.draw is None:
            raise ValueError(f"the shapes of {self.name} cannot be drawn")
        return replace(
            self, title=f"{self.title}, shapes drawn with seed {seed}", cases=self.draw(seed),
            targets=self.targets if self.drawn_targets is None else self.drawn_targets)


def _products(shapes: tuple[Shape, ...], *variants: str) -> tuple[str, ...]:
    return tuple(case_name(s, e, v) for v in variants or ("",) for e in ELEMENTS for s in shapes)


def _drawn(*variants: str, elements: Sequence[str] = ELEMENTS) -> Callable[[int], tuple[str, ...]]:
    """Return what gives cases of drawn shapes, the element types in turns, each in one of the variants."""
    def draw(seed: int) -> tuple[str, ...]:
        return tuple(case_name(shape, elements[number % len(elements)],
                               variants[number // len(elements) % len(variants)])
                     for number, shape in enumerate(drawn_shapes(seed)))

    return draw


def _is_large(case: str) -> bool:
    _, shape, _ = parse_case(case)
    return shape.m * shape.n * shape.k >= 16**3


def _is_same_batch(case: str) -> bool:
    return case == fusion.CALLS[0]


def _is_not_tiny(case: str) -> bool:
    _, shape, _ = parse_case(case)
    return shape.m * shape.n * shape.k >= 8**3


_LARGE = {"cases": _is_large, "which": "M·N·K ≥ 16³"}
_AGAINST_GENERATED = (
    Target("geometric mean", "libxsmm", 1.12, cases=_is_not_tiny, which="M·N·K ≥ 8³"),
    Target("least", "libxsmm", 0.95, cases=_is_not_tiny, which="M·N·K ≥ 8³"),
    Target("geometric mean", BEST_GENERATED, 1.02),
)
_WIDE = tuple(shape for shape in SHAPES if min(shape) >= 16)
_CODES = tuple(shape for shapes in ECOSYSTEM.values() for shape in shapes)
#: Shapes of which 10 000 products take a gigabyte at most.
_GROUPED = tuple(
    case_name(s, e) for e in ELEMENTS for s in SHAPES if ITEMSIZE[e] * (s.m * s.k + s.k * s.n + s.m * s.n) <= 100_000
)
_SMALL = ("f32 16x16x16", "f64 20x9x20")

_TUNED = {
    "f32": "16x16x16 20x20x20 32x32x32 56x9x56 35x9x35 128x4x128".split(),
    "f64": "16x16x16 24x24x24 35x9x35 64x64x64".split(),
}


def _tuned(variant: str) -> tuple[str, ...]:
    return tuple(f"{element} {shape} {variant}".strip() for element, shapes in _TUNED.items() for shape in shapes)


def _with_batch(statistic: str, of: str, bound: float, batch: int) -> Target:
    return Target(statistic, of, bound, cases=lambda case: case.endswith(f" {batch}"), which=f"batch {batch}")


_SMALL_BATCH, _MIDDLE_BATCH, _LARGE_BATCH = BATCHES
_QUICK_PROGRAMS = ("f32 gru_step 100", "f32 leapfrog_lattice 100")


def fused_programs(programs: Programs) -> Section:
    """Return the section of these programs against dpnp and NumPy."""
    return Section(
        "fusion-programs", f"Realistic programs, fused, with seed {programs.seed}", programs.cases, programs.fused,
        (Target("least", "dpnp", 0.95), *(_with_batch("geometric mean", "dpnp", 12.0, batch) for batch in BATCHES),
         _with_batch("least", "numpy", 1.0, _LARGE_BATCH), _with_batch("geometric mean", "numpy", 3.5, _LARGE_BATCH),
         _with_batch("geometric mean", "numpy", 1.0, _MIDDLE_BATCH)),
        unit="µs", peers=("dpnp", "numpy"), columns=realistic_programs.COLUMNS, quick=_QUICK_PROGRAMS,
        remarks=realistic_programs.remarks,
    )


def against_peers(programs: Programs) -> Section:
    """Return the section of these programs against JAX and PyTorch."""
    return Section(
        "fusion-peers", f"Realistic programs in JAX and PyTorch, with seed {programs.seed}", programs.cases,
        programs.against_peers,
        (_with_batch("geometric mean", BEST, 1.5, _LARGE_BATCH), _with_batch("least", BEST, 0.9, _LARGE_BATCH),
         _with_batch("geometric mean", BEST, 1.0, _MIDDLE_BATCH)),
        unit="µs", peers=tuple(realistic_programs.PEERS), columns=(BEST,), quick=_QUICK_PROGRAMS,
    )


SECTIONS = {
    section.name: section
    for section in (
        Section(
            "cache-resident", "Products in the cache of one core", _products(SHAPES), contests.cache_resident,
            (Target("geometric mean", "limit", 0.90, **_LARGE), Target("least", "limit", 0.70, **_LARGE),
             Target("geometric mean", "numpy", 1.5), *_AGAINST_GENERATED),
            limits=("fma",), one_core=True, peers=("numpy", "torch", *GENERATED), quick=_SMALL, draw=_drawn(""),
            columns=(BEST_GENERATED,), drawn_targets=(
                Target("geometric mean", "limit", 0.76, **_LARGE), *_AGAINST_GENERATED,
                Target("least", "numpy", 1.0), Target("geometric mean", "numpy", 1.85)),
        ),
        Section(
            "complex", "Products of complex numbers in the cache of one core",
            tuple(case_name(shape, element) for element in COMPLEX for shape in SHAPES), contests.complex_products,
            (Target("geometric mean", "real", 0.95, **_LARGE), Target("least", "real", 0.75, **_LARGE),
             Target("geometric mean", "numpy", 1.5), Target("least", "numpy", 1.0)),
            limits=("fma",), one_core=True, peers=("real", "numpy"), quick=("c32 16x16x16", "c64 20x9x20"),
            draw=_drawn("", elements=tuple(COMPLEX)),
        ),
        Section(
            "memory", "Products from memory", _products(SHAPES), contests.from_memory,
            (Target("geometric mean", "limit", 0.82), Target("geometric mean", "numpy", 2.3),
             Target("geometric mean", "dpnp", 3.0), Target("geometric mean", "libxsmm", 1.1),
             Target("least", "libxsmm", 0.9)),
            limits=("fma", "triad"), peers=("numpy", "dpnp", "torch", *GENERATED), quick=_SMALL[:1], block=2e-2,
            draw=_drawn(""),
        ),
        Section(
            "one-call-100us", "One call of 100 µs of work", _products(SHAPES), contests.one_call(100e-6),
            (Target("geometric mean", "numpy", 2.1), Target("geometric mean", "dpnp", 8.0),
             Target("geometric mean", "libxsmm", 0.95)),
            peers=("numpy", "dpnp", "torch", *GENERATED), quick=_SMALL[:1], block=1e-2, draw=_drawn(""),
        ),
        Section(
            "one-call-30us", "One call of 10 to 60 µs of work", _products(SHAPES), contests.one_call(30e-6),
            (Target("geometric mean", "numpy", 1.5), Target("least", "numpy", 1.0),
             Target("geometric mean", "dpnp", 10.0), Target("geometric mean", "libxsmm", 0.75)),
            peers=("numpy", "dpnp", "torch", *GENERATED), quick=_SMALL[:1], block=1e-2, draw=_drawn(""),
        ),
        Section(
            "launch", "Launch of a trivial kernel", ("call", "submit", "recorded", "list", "lists in turns"),
            contests.launch,
            (Target("least", "dpnp", 20.0, cases=lambda case: case == "call", which="call"),),
            unit="µs", peers=("dpnp",), quick=("call",),
        ),
        Section(
            "transposes", "Transposed operands", _products(_WIDE, "n.t", "t.n", "t.t"), contests.transposed,
            (Target("least", "n.n", 0.8), Target("geometric mean", "n.n", 0.8)),
            limits=("fma",), one_core=True, peers=("n.n",), quick=("f32 16x16x16 t.n",),
            draw=_drawn("n.t", "t.n", "t.t"), drawn_targets=(
                Target("least", "n.n", 0.75), Target("geometric mean", "n.n", 0.88)),
        ),
        Section(
            "beta", "Adding to C (beta = 1)", _products(SHAPES), contests.accumulating,
            (Target("least", "beta = 0", 0.9), Target("geometric mean", "beta = 0", 0.9)),
            limits=("fma",), one_core=True, peers=("beta = 0",), quick=_SMALL[:1], draw=_drawn(""),
            drawn_targets=(Target("least", "beta = 0", 0.75), Target("geometric mean", "beta = 0", 0.88)),
        ),
        Section(
            "dynamic", "Sizes known at run time only", _products(SHAPES), contests.of_unknown_sizes,
            (Target("geometric mean", "known sizes", 0.6),),
            limits=("fma",), one_core=True, peers=("known sizes",), quick=_SMALL[:1], draw=_drawn(""),
        ),
        Section(
            "specialized", "Sizes that the program leaves open", _products(SHAPES), contests.of_sizes_of_the_call,
            (Target("geometric mean", "known sizes", 0.95),),
            limits=("fma",), one_core=True, peers=("known sizes",), quick=_SMALL[:1], draw=_drawn(""),
        ),
        Section(
            "chain", "A chain of products in the cache of one core", ("f32 sample",), contests.chain,
            (Target("least", "limit", 0.8),),
            limits=("fma",), one_core=True, peers=("numpy",), quick=("f32 sample",),
        ),
        Section(
            "chain-memory", "A chain of products from memory", ("f32 sample",), contests.chain_from_memory,
            limits=("fma", "triad"), peers=("numpy", "dpnp"), quick=("f32 sample",), block=2e-2,
        ),
        Section(
            "bandwidth", "Instructions at the speed of memory",
            tuple(f"{element} {name}" for name in Stream.NAMES for element in ELEMENTS), contests.bandwidth,
            (Target("least", "limit", 0.85, cases=lambda case: "hadamard" not in case, which="gemv ger axpby sum"),),
            unit="GB/s", limits=("triad",), peers=("numpy", "dpnp"), quick=("f32 axpby", "f64 ger"), block=2e-2,
        ),
        Section(
            "functions", "Functions of arrays in the cache of one core", functions.CASES, functions.functions,
            (Target("least", "numpy", 1.0),),
            unit="µs", one_core=True, peers=("numpy",), columns=functions.ERRORS, quick=("f32 exp", "f64 tanh"),
        ),
        Section(
            "groups", "Groups of separate arrays", _GROUPED, contests.groups,
            (Target("least", "strided", 0.9), Target("geometric mean", "strided", 0.9)),
            peers=("strided", "allocated apart"), quick=_SMALL[:1], block=1e-2,
        ),
        Section(
            "tune", "Tuning", _tuned("") + _tuned("dynamic"), contests.tuned,
            (Target("least", "default", 0.97),),
            peers=("default",), columns=("reported", "tried"), block=2e-2, quick=("f32 16x16x16",),
        ),
        Section(
            "stages", "The stages of the tutorial", contests.stage_names(), contests.stage,
            (Target("least", "before", 1.0),
             Target("least", "default", 0.9, cases=lambda case: case == contests.stage_names()[-1], which="the last")),
            peers=("before", "default"), quick=contests.stage_names()[-1:],
        ),
        Section(
            "fusion", "Fused dpnp code", tuple(fusion.CASES), fusion.fused,
            (Target("most", fusion.KERNELS, 1, at_least=False),
             *(Target("least", peer, bound, cases=lambda case, name=name: name in case, which=name)
               for name in ("chain", "volume", "tensor product") for peer, bound in (("dpnp", 6.0), ("numpy", 2.0)))),
            unit="µs", peers=("dpnp", "numpy"), columns=(fusion.KERNELS,), quick=("f32 chain", "f32 volume 4"),
        ),
        Section(
            "fusion-alone", "Products alone, fused or left to dpnp", fusion.PRODUCTS, fusion.alone,
            (Target("least", "dpnp", 0.9),),
            unit="µs", peers=("dpnp",), columns=(fusion.KERNELS,), quick=fusion.PRODUCTS[:1],
        ),
        Section(
            "fusion-reductions", "Sums and the like of drawn arrays, fused", reductions.drawn(0), reductions.reduced,
            (Target("least", "dpnp", 0.95), Target("geometric mean", "dpnp", 10.0),
             Target("geometric mean", "numpy", 1.0)),
            unit="µs", peers=("dpnp", "numpy"), columns=(fusion.KERNELS,), quick=reductions.drawn(0)[:2],
            draw=reductions.drawn,
        ),
        Section(
            "fusion-calls", "Calls of a fused function", fusion.CALLS, fusion.calls,
            (Target("most", fusion.BEYOND, 10.0, at_least=False, cases=_is_same_batch, which="same batch"),
             Target("most", "value", 1000.0, at_least=False, cases=lambda case: not _is_same_batch(case),
                    which="new batch")),
            unit="µs", peers=("kernel", "dpnp"), columns=(fusion.BEYOND,), quick=fusion.CALLS,
        ),
        Section(
            "fusion-traces", "Functions that are traced at each call", traces.CASES, traces.traced,
            (Target("geometric mean", traces.PER_OPERATION, 4.0, at_least=False),),
            unit="µs", peers=("kept",), columns=(traces.PER_OPERATION,), quick=traces.CASES[:1],
        ),
        Section(
            "fusion-steps", "First calls of a fused recurrence", recurrences.CASES, recurrences.unrolled,
            (Target("most", "value", 10.0, at_least=False, cases=lambda case: case == "64 steps", which="64 steps"),
             Target("most", recurrences.PER_STEP, 150.0, at_least=False, cases=lambda case: int(case.split()[0]) >= 16,
                    which="from 16 steps")),
            unit="s", columns=("wall s", recurrences.PER_STEP, recurrences.KERNELS), quick=recurrences.CASES[:1],
        ),
        Section(
            "tiles", "Products of narrow types on AMX", tiles.CASES, tiles.products,
            (*(Target("geometric mean", "vectors", bound, cases=lambda case, name=name: case.startswith(f"{name} "),
                      which=name) for name, bound in (("bf16", 4.0), ("i8", 10.0))),
             Target("least", "vectors", 0.9)),
            one_core=True, peers=("vectors", "mkl"), columns=tiles.ERRORS, quick=("bf16 32x32x32", "i8 16x16x64"),
            draw=tiles.drawn,
        ),
        Section(
            "tile-programs", "Attention and chains of products in bf16 on AMX", tile_programs.CASES,
            tile_programs.program, (Target("least", "vectors", 0.95), Target("least", "torch", 1.0)),
            one_core=True, peers=("vectors", "torch"), columns=tiles.ERRORS,
            quick=("attention 32x32", "chain 35x24x33x40"), draw=tile_programs.drawn,
        ),
        fused_programs(Programs()),
        against_peers(Programs()),
        Section(
            "compile", "Cold compilation", _products(SHAPES), contests.cold_compile,
            (Target("most", "value", 2.0, at_least=False), Target("median", "value", 1.0, at_least=False)),
            unit="s", columns=("wall s",), quick=_SMALL[:1],
        ),
        Section(
            "codes-cache", "Shapes of other codes, in the cache of one core", _products(_CODES),
            contests.cache_resident,
            limits=("fma",), one_core=True, peers=("numpy", "torch"), quick=("f64 4x9x4",),
        ),
        Section(
            "codes-memory", "Shapes of other codes, from memory", _products(_CODES), contests.from_memory,
            limits=("fma", "triad"), peers=("numpy", "dpnp", "torch"), quick=("f64 4x9x4",), block=2e-2,
        ),
    )
}
