"""How each case is measured: what is timed in turns for it."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import processes
from .results import Measurement
from .small_products import generated_products
from .streams import Stream
from .tables import CACHE_MEGABYTES, COMPLEX, MEMORY_MEGABYTES, QUICK, Shape
from .timing import Contestant, quartiles
from .torch_peer import TorchProducts
from .workloads import Chain, Gemm, Groups, Launch, Tuned, Workload

__all__ = ["Contest", "case_name", "have", "parse_case"]

#: Work of one launch on cache-resident data: seconds that make the cost of the launch, 10 µs, small beside it.
_LAUNCH_SECONDS = 5e-3
#: Passes of a launch of chains: about a millisecond, so that the tables of its groups are small beside the matrices.
_CHAIN_PASSES = 64
_MEGABYTES = 16 if QUICK else MEMORY_MEGABYTES


@dataclass(frozen=True)
class Contest:
    """What is timed in turns for one case: ``tl_dpnp`` and its peers; `flops` and `bytes` are those of one pass.

    `written` are those bytes that are written.
    `batch` is the batch where it was fitted to a time; the case with it as its variant is measured with that batch.
    """

    contestants: dict[str, Contestant]
    flops: int = 0
    bytes: int = 0
    batch: int = 0
    written: int = 0
    facts: Mapping[str, float] = field(default_factory=dict)


def case_name(shape: Shape, element: str, variant: str = "") -> str:
    """Return the name of a case: ``f32 16x16x16 t.n``."""
    return f"{element} {shape} {variant}".strip()


def parse_case(case: str) -> tuple[str, Shape, str]:
    """Return element type, shape and variant of a case."""
    element, shape, *variant = case.split()
    return element, Shape(*map(int, shape.split("x"))), " ".join(variant)


def _resident(
    shape: Shape, element: str, transposes: str = "n.n", beta: float = 0.0, dynamic: bool = False,
    arrays_of: Gemm | None = None,
) -> Gemm:
    gemm = Gemm(shape, element, megabytes=CACHE_MEGABYTES, looped=True, passes=2, transposes=transposes, beta=beta,
                dynamic=dynamic, arrays_of=arrays_of)
    gemm.tl_dpnp()
    for _ in range(3):  # the first time it is the launch that takes most of the time
        start = time.perf_counter()
        gemm.tl_dpnp()
        gemm.passes = max(2, round(gemm.passes * _LAUNCH_SECONDS / (time.perf_counter() - start)))
    return gemm


def cache_resident(case: str) -> Contest:
    """One core; operands of 0.5 MB in all, in its second-level cache.  A work-group runs through the whole batch and
    a launch has as many work-groups as take 5 ms, so that the launch does not count.  NumPy runs through the batch in
    a stacked product, libxsmm and oneMKL's JIT in a loop in C.  The limit is the FMA peak, measured in the same
    rounds."""
    element, shape, _ = parse_case(case)
    gemm = _resident(shape, element)
    return Contest({"tl_dpnp": Contestant(gemm.tl_dpnp, gemm.passes), **_peers_of_gemm(gemm)}, gemm.flops, gemm.bytes)


def complex_products(case: str) -> Contest:
    """As cache-resident, with complex numbers; real operations count, four products and their sums.  The peer real is
    tl_dpnp's own product of real numbers of the same sizes and precision, for as many operations: how many times as
    fast the complex one is as that is its share of the FMA peak over the real one's.  NumPy takes a stacked product."""
    element, shape, _ = parse_case(case)
    own, real = _resident(shape, element), _resident(shape, COMPLEX[element])
    return Contest({"tl_dpnp": Contestant(own.tl_dpnp, own.passes),
                    "real": Contestant(real.tl_dpnp, real.passes * real.flops / own.flops),
                    "numpy": Contestant(own.numpy)}, own.flops, own.bytes)


def have(peer: str) -> bool:
    """Return whether a peer is installed."""
    return importlib.util.find_spec(peer) is not None


def _peers(workload: Workload) -> dict[str, Contestant]:
    workload.check_dpnp()
    return {"numpy": Contestant(workload.numpy), "dpnp": Contestant(workload.dpnp)}


def _peers_of_gemm(gemm: Gemm) -> dict[str, Contestant]:
    torch = {"torch": TorchProducts.of(gemm.shape, gemm.element, gemm.batch)} if have("torch") else {}
    return _peers(gemm) | torch | generated_products(gemm.shape, gemm.element, gemm.host, gemm.passes)


def from_memory(case: str) -> Contest:
    """All cores; operands of 256 MB in all, blocking calls for 20 ms; libxsmm and oneMKL's JIT in a loop of OpenMP.
    The limit is the roofline: the largest of the times that the operations take at the FMA peak, the operands at the
    speed of a triad, read or written once, what is read at the speed of a sum, and the results at the speed of filling
    memory."""
    element, shape, _ = parse_case(case)
    gemm = Gemm(shape, element, megabytes=_MEGABYTES)
    return Contest({"tl_dpnp": Contestant(gemm.tl_dpnp), **_peers_of_gemm(gemm)}, gemm.flops, gemm.bytes,
                   written=gemm.written)


def one_call(seconds: float) -> Callable[[str], Contest]:
    def prepare(case: str) -> Contest:
        element, shape, batch = parse_case(case)
        gemm = Gemm(shape, element, batch=int(batch)) if batch else Gemm.lasting(shape, element, seconds)
        contestants = {"tl_dpnp": Contestant(gemm.tl_dpnp), **_peers_of_gemm(gemm)}
        return Contest(contestants, gemm.flops, gemm.bytes, gemm.batch)

    prepare.__doc__ = f"""All cores; one blocking call, of a batch that tl_dpnp takes about {seconds * 1e6:.0f} µs for,
        with the launch, one call after another for 10 ms.  Where a single product takes longer, the batch is one.
        libxsmm and oneMKL's JIT run in a loop of OpenMP, whose threads spin between calls."""
    return prepare


def _against(own: Gemm, name: str, peer: Gemm) -> Contest:
    """Return a contest of two products of tl_dpnp, of which the second is the peer."""
    contestants = {who: Contestant(gemm.tl_dpnp, gemm.passes) for who, gemm in (("tl_dpnp", own), (name, peer))}
    return Contest(contestants, own.flops, own.bytes)


def transposed(case: str) -> Contest:
    """As cache-resident; the peer n.n is tl_dpnp's own product of the same sizes without transposes."""
    element, shape, transposes = parse_case(case)
    return _against(_resident(shape, element, transposes), "n.n", _resident(shape, element))


def accumulating(case: str) -> Contest:
    """As cache-resident, with C := A · B + C; the peer is tl_dpnp's own product with beta = 0, on the same arrays."""
    element, shape, _ = parse_case(case)
    own = _resident(shape, element, beta=1.0)
    return _against(own, "beta = 0", _resident(shape, element, arrays_of=own))


def of_unknown_sizes(case: str) -> Contest:
    """As cache-resident, with a program that knows none of the sizes, and a kernel for any; the peer is the one that
    knows them, on the same arrays."""
    element, shape, _ = parse_case(case)
    from tl_dpnp import config

    with config.scope(SPECIALIZE=False):
        own = _resident(shape, element, dynamic=True)
    return _against(own, "known sizes", _resident(shape, element, arrays_of=own))


def of_sizes_of_the_call(case: str) -> Contest:
    """As cache-resident, with a program that leaves the sizes open, so that calls have kernels for theirs; the peer is
    the one that knows them, on the same arrays."""
    element, shape, _ = parse_case(case)
    own = _resident(shape, element, dynamic=True)
    return _against(own, "known sizes", _resident(shape, element, arrays_of=own))


def chain(case: str) -> Contest:
    """One core; D := D + alpha A · Bᵀ · C with 16 × 8, 8 × 8 and 8 × 16 matrices, for a batch of 0.5 MB, measured as
    cache-resident products are, but that a work-group does one element: A and D are groups that hold each matrix many
    times.  NumPy and dpnp take two stacked products, a scaling and a sum."""
    chain = Chain(CACHE_MEGABYTES, passes=_CHAIN_PASSES)
    return Contest({"tl_dpnp": Contestant(chain.tl_dpnp, chain.passes), **_peers(chain)}, chain.flops, chain.bytes)


def chain_from_memory(case: str) -> Contest:
    """All cores; the same chain for a batch of 256 MB, against the roofline."""
    chain = Chain(_MEGABYTES)
    return Contest({"tl_dpnp": Contestant(chain.tl_dpnp), **_peers(chain)}, chain.flops, chain.bytes,
                   written=chain.written)


def bandwidth(case: str) -> Contest:
    """All cores; 256 MB.  Matrices are 64 × 64, vectors of axpby and hadamard have 4096 elements.  The traffic is that
    of the operands, read and written once.  The limit is the speed of a triad, or that of a sum where most is read, or
    that of filling memory where most is written; each is the faster of two: with prefetches or streaming stores, and
    without."""
    element, instruction = case.split()
    stream = Stream(instruction, element, _MEGABYTES)
    return Contest({"tl_dpnp": Contestant(stream.tl_dpnp), **_peers(stream)}, stream.flops, stream.bytes,
                   written=stream.written)


def groups(case: str) -> Contest:
    """All cores; 10 000 separate arrays for each operand, made by tl_dpnp.empty_group, through handles that were made
    once; each contestant runs for 10 ms at a time, so that it finds in the caches what it left there.  The peers are
    tl_dpnp's own kernel for the same batch in one array for each operand, and the same kernel for arrays that were
    allocated one by one.  The latter have gaps of one to three kilobytes between them, so that small ones use few sets
    of the caches and a page each, and are slow for that: where tl_dpnp is faster than they are it is for them that a
    group is slower than one array."""
    element, shape, _ = parse_case(case)
    groups = Groups(shape, element, 500 if QUICK else 10_000)
    contestants = {"tl_dpnp": Contestant(groups.tl_dpnp), "strided": Contestant(groups.strided),
                   "allocated apart": Contestant(groups.apart)}
    return Contest(contestants, groups.flops, groups.bytes)


def launch(case: str) -> Contest:
    """A compiled kernel that copies 16 elements: a blocking call, submit and a wait, and a recorded graph of ten calls,
    of which a tenth counts; and a blocking call that copies those of each array in a list of ten, the same list each
    time or one of 64 lists in turns.  The peer is one dpnp.matmul of 32 × 32 matrices."""
    launch = Launch()
    match case:
        case "call":
            own = Contestant(launch.tl_dpnp)
        case "submit":
            own = Contestant(launch.submit)
        case "list":
            own = Contestant(launch.of_lists(10, 1))
        case "lists in turns":
            own = Contestant(launch.of_lists(10, 64))
        case _:
            own = Contestant(launch.recorded(10), passes=10)
    return Contest({"tl_dpnp": own, "dpnp": Contestant(launch.dpnp)})


def tuned(case: str) -> Contest:
    """All cores; a batch of 4 MB, blocking calls for 20 ms, after six seconds of tuning, with sizes that the program
    knows and with dynamic ones. The peer is the same program with the default schedules, timed once more after the
    tuning: the ratio is the gain. Beside it stands the gain that tuning reported, and how many schedules it tried."""
    element, shape, variant = parse_case(case)
    product = Tuned(shape, element, 4.0, 1.0 if QUICK else 6.0, variant == "dynamic")
    contestants = {"tl_dpnp": Contestant(product.tl_dpnp), "default": Contestant(product.default)}
    return Contest(contestants, product.flops, product.bytes, facts=product.facts)


def stage(case: str) -> Contest:
    """The schedules of ``examples/gemm_stages.py``, all of the same product of 768 × 768 matrices; peers are the stage
    before and the compiler's own schedule."""
    example = _stages()
    size = example.TILE if QUICK else 4 * example.TILE
    names = [stage.__name__ for stage in example.STAGES]
    before = names[names.index(case) - 1] if case != names[0] else None
    schedules: dict[str, Any] = {stage.__name__: {"gemm_0": stage} for stage in example.STAGES} | {"default": None}
    wanted = {"tl_dpnp": case, "before": before, "default": "default"}
    product = _Product(example, size)
    contestants = {
        name: Contestant(product.kernel(schedules[which])) for name, which in wanted.items() if which is not None
    }
    return Contest(contestants, 2 * size**3, 12 * size**2)


def stage_names() -> tuple[str, ...]:
    """Return the names of the stages, without loading what they need."""
    text = _STAGES.read_text(encoding="utf-8")
    return tuple(text.partition("STAGES = [")[2].partition("]")[0].replace(",", " ").split())


_STAGES = Path(__file__).parents[2] / "examples" / "gemm_stages.py"


def _stages() -> Any:
    spec = importlib.util.spec_from_file_location("gemm_stages", _STAGES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Product:
    """A product of square matrices, a tile of the result for each work-group, for schedules to be tried on."""

    def __init__(self, example: Any, size: int) -> None:
        import dpnp
        import numpy as np

        self._source, self._groups = example.program(size), (size // example.TILE) ** 2
        random = np.random.default_rng(0)
        self._a, self._b = (
            dpnp.asarray(random.standard_normal((size, size), dtype=np.float32), order="F") for _ in range(2)
        )
        self._c = dpnp.zeros((size, size), dtype=np.float32, order="F")
        self._expected = dpnp.asnumpy(self._a) @ dpnp.asnumpy(self._b)

    def kernel(self, schedule: Any) -> Callable[[], None]:
        """Return a call of the product under a schedule, which was checked."""
        import dpnp
        import numpy as np

        import tl_dpnp

        kernel = tl_dpnp.compile(self._source, form="vector", schedule=schedule)
        self._c[:] = 0
        kernel(self._a, self._b, self._c, group_size=self._groups)
        np.testing.assert_allclose(dpnp.asnumpy(self._c), self._expected, rtol=1e-3, atol=1e-3)
        return lambda: kernel(self._a, self._b, self._c, group_size=self._groups)


def cold_compile(case: str) -> Measurement:
    """From the source text of a batched product to its first result, in a fresh process with an empty cache: the
    processor seconds, imports not counted.  Wall-clock seconds are a column of their own."""
    element, shape, _ = parse_case(case)
    runs = [processes.cold_gemm(shape, element) for _ in range(1 if QUICK else 3)]
    cpu = quartiles([run["cpu"] for run in runs])
    return Measurement(case, cpu, cpu.median, facts={"wall s": quartiles([run["compile"] for run in runs]).median})
