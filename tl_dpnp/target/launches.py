"""How the work-groups of a call become work-items on the cores of a processor, and threads share it, in numbers."""

from __future__ import annotations

from tl_dpnp.records import dataclass

__all__ = ["LaunchNumbers", "PersistentNumbers", "ShortCallNumbers"]


@dataclass(frozen=True)
class LaunchNumbers:
    """Numbers that measurements chose for launches on a processor; work is counted in multiply-adds of vectors.

    A work-item computes at most `work`, which hides the cost of starting it (about 10 ns each against 15 µs), and where
    the work is small and known at least `least_work`: a second core comes to help some 10 µs after the first has begun,
    and what is smaller is done by then.  `items` of them for each core remain, so that the load can be balanced.

    Of a product of its own, each core gets at most so many `parts`; a part has at least `columns_of_a_part`, so that
    elements of the first factor are loaded for several, or is `vectors_of_a_part` high where rows are divided.

    `cache` is how many bytes of it a core is taken to have where the device does not tell, `share_of_cache` the part of
    the last-level cache that arrays may take before their results are stored past it: on an EPYC with 32 MB, stores
    into the cache make a call up to twice as fast with 4 to 16 MB, and 1.2 times as slow with 32 MB or more.  They may
    not take more than `cache_of_a_core` for each core: a large cache that all cores of a processor share is that of
    other programs, too.  Two cores of a Xeon of the class Granite Rapids with 504 MB (a virtual machine), nine drawn
    products: stores past the cache took 0.93 times as long with 256 MB (at the least 0.74), 0.99 with 100 MB, 1.07 with
    40 MB.
    """

    work: int = 60_000
    least_work: int = 30_000
    items: int = 4
    parts: int = 4
    columns_of_a_part: int = 8
    vectors_of_a_part: int = 2
    cache: int = 1 << 20
    share_of_cache: float = 0.75
    cache_of_a_core: int = 64 << 20


@dataclass(frozen=True)
class PersistentNumbers:
    """Numbers that measurements on an H200 chose for blocks of threads that stay as long as there is work.

    A block has at most so many `threads`: `threads_of_chain` where they wait for one another between instructions on
    f32, while other blocks compute, `threads_of_narrow` where they read elements of 16 bits, or have results of `large`
    many elements, without tensor cores, `threads_of_products` where they compute several products on those, and
    `threads_of_padded` where it is one of operands of 16 bits.

    Of a result, a thread keeps at most `tile` elements in registers, `tile_of_f64` of larger ones than f32, of at most
    `rows` of them.  Work-groups with more than `intense` operations for an element that is copied are not bound by
    memory: there it keeps `tile_of_intense`.

    Products of f64 with `large_f64` elements are bound by arithmetic without tensor cores.  Those that a tile does not
    divide are faster on them by themselves from so many elements on as `large_padded` has for their type; others, and
    chains, where work-groups are intense, and chains of f64 also where their products have `multiplications_of_chain`
    on the average: of 21 drawn chains on an H200 those with more took 0.63 to 1.03 times as long on tensor cores as by
    the threads, and those with fewer, but for two, 0.99 to 1.84 times.  Calls of many products of 16 bits go by an
    estimate instead.

    In a call of few products a part of one has at least `columns_of_a_part`, or `columns_of_narrow` with operands of
    16 bits, and a multiprocessor at most so many `blocks_of_few`, or `blocks_of_few_on_tensor_cores`, which wait for
    memory more than for one another.  These were measured on an H100, with cubes of 8 to 64 in batches of 1 to 1000.

    One product of `least_tiled` multiplications is worth a kernel whose blocks compute tiles of it, one of
    `least_tiled_of_batch` where blocks could compute work-groups; it was found with cubes of 64 and of 96.
    """

    threads: int = 256
    threads_of_chain: int = 96
    threads_of_narrow: int = 128
    threads_of_products: int = 512
    threads_of_padded: int = 256
    tile: int = 32
    tile_of_f64: int = 16
    tile_of_intense: int = 36
    rows: int = 8
    large: int = 4096
    intense: int = 64
    large_f64: int = 1024
    multiplications_of_chain: int = 3500
    large_padded: tuple[tuple[str, int], ...] = (("f64", 300), ("f16", 500), ("bf16", 500))
    columns_of_a_part: int = 8
    columns_of_narrow: int = 16
    blocks_of_few: int = 1
    blocks_of_few_on_tensor_cores: int = 2
    least_tiled: int = 1 << 18
    least_tiled_of_batch: int = 1 << 19


@dataclass(frozen=True)
class ShortCallNumbers:
    """Numbers for calls whose machine code the calling thread runs itself, with the help of others.

    A call is short if it takes up to `longest` seconds on one thread; threads are started to help from `worth_help`
    seconds by OpenCL on, 3 to 7 µs of which OpenCL takes itself.

    In nanoseconds of the last call: from `worth_releasing` on other threads of Python may run meanwhile, since handing
    over the interpreter takes longer than a small kernel where another thread wants it.  After `calls_alone` that were
    timed on one thread, of which the shortest counts, a call is shared from `worth_sharing` on, and sleeping helpers
    are woken from `worth_waking` on; for a shorter one they are if it soon follows another, and help with the next.
    Each thread gets at most so many `items`, so that the load can be balanced, of at least `least_work` nanoseconds.

    A step of a plan keeps arrays for its results, which are then made without Python, if its kernel takes up to
    `longest_step` seconds by OpenCL.

    Where other programs want the cores, sharing may lose the time of `calls_to_lose` calls, and `calls_after_loss` are
    not shared then.  One that comes after a pause, or wakes helpers, counts as one that is lost at most.
    """

    longest: float
    longest_step: float
    worth_help: float
    worth_releasing: int
    worth_sharing: int
    worth_waking: int
    least_work: int
    items: int = 4
    calls_alone: int = 4
    calls_to_lose: int = 16
    calls_after_loss: int = 500
