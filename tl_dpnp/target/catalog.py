"""The devices and cores that are known, each number with its source."""

from __future__ import annotations

from collections.abc import Mapping

from tl_dpnp.target.core import Core, ShortTile, TileNumbers
from tl_dpnp.target.device import Device
from tl_dpnp.target.fusion import FusionNumbers
from tl_dpnp.target.launches import ShortCallNumbers
from tl_dpnp.target.matrix_units import AmxNumbers, DpasNumbers, OverlapNumbers
from tl_dpnp.target.multiprocessor import (
    BlockedBatches,
    BlockedNumbers,
    Multiprocessor,
    NarrowBatches,
    PackedBatches,
    PaddedNumbers,
    TiledBatches,
    TiledNumbers,
    TileSpeed,
)

__all__ = [
    "AMX", "AVX2", "CORES", "DPAS", "FUSION", "GPU", "H200", "HOPPER", "INTEL_CLIENT", "INTEL_SERVER", "SHORT_CALLS",
    "SSE", "TENSOR_CORES", "ZEN4", "ZEN5", "core_of",
]

#: Zen 4 has vectors of 512 bits in two halves: one multiply-add and one load a cycle; shuffles have ports of their own
#: (Fog, "The microarchitecture of Intel, AMD and VIA CPUs", chapter "AMD Zen 4").  The numbers of a tile were measured
#: on an EPYC of that generation, with 38 shapes from 4 to 256.
ZEN4 = Core("zen4", vector_bytes=64, registers=32, multiply_adds=1)
#: Zen 5's server cores: whole vectors ("Software Optimization Guide for the AMD Zen5 Microarchitecture", section
#: "Floating-Point Unit").  What a shuffle takes, that masks are free and how wide a tile of one vector is were measured
#: on an EPYC of that generation, with products of 17 to 72 rows (f32) and 9 to 28 (f64), 48 columns and a sum of 64.
ZEN5 = Core("zen5", vector_bytes=64, registers=32, load_bytes=64, shuffle=0.12, masks=True,
            tiles=TileNumbers(columns_of_a_row=30))
#: Intel's server cores from Skylake on: multiply-adds on ports 0 and 5, of which shuffles need the second; two loads of
#: 512 bits or, from Golden Cove on, three of less (Fog, chapter "Intel Skylake-X"; Intel, "Optimization Reference
#: Manual", section "Golden Cove Microarchitecture").  Measured on a processor of the generation Sapphire Rapids; that
#: elements wait for nothing, and how high and wide tiles are, on one of Granite Rapids, with 120 drawn products.
#: Un-lamination: Fog, chapter "Sandy Bridge and Ivy Bridge pipeline", section "Micro-op fusion"; tiles of one vector
#: are 5 to 16 % faster without, on Granite Rapids.  Tiles of short sums: there, of 100 drawn products with sums of 3 to
#: 8 terms and up to 10 tiles each, the 41 whose rows 4, 5 or 6 vectors cut evenly were 1.07 times as fast so as with 3
#: by 3 (0.96 to 1.24), 11 of 7 vectors 0.97 times with 4; 60 others were 1.016 times as fast as with 3 by 3 (0.90 to
#: 1.23), 45 with sums of 9 to 11 terms 0.97 times.  How high tiles are: there, 7 of 180 drawn products have tiles of
#: more than 4 vectors, and are 1.04 times as fast so (0.99 to 1.16).
#: What is fetched to be used once: there, of 29 drawn products from memory (800 MB) those whose
#: operands are fetched shortly ahead took up to twice as long with PREFETCHNTA as with PREFETCHT0, and 18 x 5 x 100 and
#: 40 x 6 x 90 (f64) and 64 x 9 x 64 (f32) longer than without any: such lines are in the nearest cache alone and soon
#: replaced ("Optimization Reference Manual", section "Prefetch").  Bytes ahead: there, 24 drawn products of 3 to 24 KB
#: from memory were 1.03 times as fast as with twice as many (0.98 to 1.10), 12 with groups of arrays apart 1.01 times.
#: Bytes of a panel: there, 24 drawn products of up to 59 columns, first factors transposed: 0.99 to 1.2 times as fast
#: as with tiles of four vectors; of more columns, 0.96 to 1.04 times.
#: Flat tiles: there, 20 products of 8 to 122 rows and columns (256 MB): those whose flat tiles have two or three
#: columns and take 1.3 to 2 times the cycles of others were 1.04 to 1.29 times as fast with others, unless these were
#: less than 8 cycles for each line that is read or stored.
#: Disturbance and doubt: there, of 120 drawn products in the cache of one core those whose tiles are others with 0.1
#: and 0.02, a third, were 1.03 times as fast (0.92 to 1.19), and 45 of 180 with transposed factors 1.01 times (0.83 to
#: 1.22); 15 of 400 with transposed first factors that save 6 to 10 % along the sum were 1.07 times as fast so (0.99 to
#: 1.19).
INTEL_SERVER = Core("intel-server", vector_bytes=64, registers=32, element_loads=3, load_bytes=64, load_share=0.6,
                    disturbance=0.18, shuffle=0.5, masks=True, unlaminates=True, keeps_what_is_used_once=False,
                    tiles=TileNumbers(highest=8, columns_of_a_row=30, short_sum=16, iteration=120, doubt=0.01,
                                      doubt_along_sum=0.06, short_iteration_of_a_row=256,
                                      short_tile=ShortTile(8, 3, 6, 12), bytes_ahead=24 << 10, cost_of_flat=1.15,
                                      hidden_cycles=8.0))
#: Intel's cores for clients with AVX-512: one port of 512 bits, made of two of 256 (Fog, chapter "Ice Lake").
INTEL_CLIENT = Core("intel-client", vector_bytes=64, registers=32, multiply_adds=1, load_bytes=64)
#: Cores with AVX2, and with SSE only.
AVX2 = Core("avx2", vector_bytes=32, registers=16)
SSE = Core("sse", vector_bytes=16, registers=16)
#: All cores of processors, by name.
CORES = {core.name: core for core in (ZEN4, ZEN5, INTEL_SERVER, INTEL_CLIENT, AVX2, SSE)}

#: AMD's family of Zen 5 ("Processor Programming Reference for AMD Family 1Ah").
_FAMILY_OF_ZEN5 = 26
#: Models of Intel's family 6 with AVX-512 and one port for it: Cannon Lake, Ice Lake, Tiger Lake and Rocket Lake
#: (Linux, arch/x86/include/asm/intel-family.h).
_INTEL_CLIENTS = frozenset({102, 125, 126, 140, 141, 167})

#: DPAS by its execution size, which is 8 on Xe-HPG and 16 on Xe-HPC: by the instructions, registers and scratch memory
#: of what Intel's compiler makes of drawn products (``python -m tools.xmx_quality``).  No device was there to measure.
DPAS = {
    8: DpasNumbers(
        packed=((4, 4), (4, 2), (2, 2), (2, 1), (1, 1)),
        packed_f32=((2, 2), (2, 1), (1, 1)), registers=206, panel_bytes=2048),
    16: DpasNumbers(
        packed=((4, 4), (2, 4), (2, 2), (2, 1), (1, 1)),
        packed_f32=((4, 4), (2, 3), (2, 2), (2, 1), (1, 1)), registers=212, panel_bytes=4096),
}
#: Measured on a processor of the generation Granite Rapids with operands in its second-level cache, by 70 drawn
#: products of up to 96 rows, columns and steps, bf16 and i8, each on tiles and by vectors: estimates are off by 11 %
#: (standard deviation; vectors: 8 to 15 %), and what they choose took 1.002 times as long as the faster one on the
#: geometric mean.
#: Rows that are changed were measured on one of Sapphire Rapids; those that are rounded there, by 26 products of f32
#: of 8 to 128, most of them drawn: off by 14 %, and the faster way is chosen for all of them.
#: Operands that are packed between products: by 83 products of f32 as sums of three bf16, of 16 to 160, on Granite
#: Rapids, relative to vectors, off by 15 %, with other programs beside them.  Tiles must be worth it, so that they are
#: only chosen where they are faster.
AMX = AmxNumbers(
    start=16.0, tile=7.9, row=0.5, changed=1.2, rounded=3.2, line=0.67, vector_line=0.2, vector_rounded=1.6,
    multiply_add=(("f32", 0.166), ("bf16", 0.28), ("f16", 0.28), ("i8", 0.5), ("u8", 0.5)),
    overlap=OverlapNumbers(start=10.6, tile=8.1, row=0.45, turned=1.7, cut=0.5, stored=0.4, finished=1.1, apart=2.1,
                           multiply_add=0.147, line=0.28, added=1.05, transposed=1.4, worth=1.05))

#: Measured on two cores of a Xeon of the Sapphire Rapids class (``python -m asv_bench.must_show one-call-30us``).  The
#: longest: on two cores of an EPYC of the class Zen 5, 36 of 38 programs that take 0.1 to 1.4 ms on one thread took
#: longer by OpenCL, 1.13 times as long in the median, 1.45 at most; from 1.5 ms on the two are equal.
SHORT_CALLS = ShortCallNumbers(
    longest=1e-3, longest_step=5e-5, worth_help=8e-6, worth_releasing=20_000, worth_sharing=5_000, worth_waking=20_000,
    least_work=1_000)

#: The sizes of matrices were measured with one batch element on a CPU with 2 cores, f32 and f64.  Square matrices of
#: 256 to 2048: kernels are 1.4 to 5 times as fast up to 8 MiB, equal at 9 MiB, and half as fast at 16 MiB and above.
#: Tall times small, 20 000 x 64 to 100 000 x 64: 5 to 6 times as fast; small times wide, from 24 MiB: 0.6 to 1.4 times.
#: The other numbers are from a Xeon of the Sapphire Rapids class: the steps from 89 programs of 2 to 20 rows and
#: columns, in f32 and f64, the operations from one to six products of f32 with rows of 4 to 23 elements and columns of
#: 20 to 125, and from cells of recurrent networks.  What makes transpositions of rows worth it: 14 regions of the 89
#: programs, f32 and f64, on a loaded EPYC of the class Zen 5, took 0.56 to 1.02 of the time, another one that
#: saves 1.4 times what it moves took 1.06.
FUSION = FusionNumbers(large_matrix=8 << 20, large_side=16, least_steps=4, steps_of_a_vector=0.7,
                       worth_transposing=2, transposing=10, collecting=4, short_tile=1.75)

#: A work-item of a GPU: vectors are its loads of 16 bytes.
GPU = Core("work-item", vector_bytes=16, registers=16, narrowest_bytes=1)


def core_of(facts: Mapping[str, str], vector_bytes: int) -> Core:
    """Return the core of a processor with vectors of 16, 32 or 64 bytes.

    `facts` are those of Linux's ``/proc/cpuinfo``.  An unknown processor counts as the one whose tiles ask for least.
    """
    if vector_bytes < ZEN4.vector_bytes:
        return AVX2 if vector_bytes == AVX2.vector_bytes else SSE
    family, model = (int(facts[name]) if facts.get(name, "").isdigit() else 0 for name in ("cpu family", "model"))
    if facts.get("vendor_id") == "GenuineIntel":
        # A hypervisor may tell the model of another processor; tiles are in servers only.
        is_server = "amx_tile" in facts.get("flags", "").split() or model not in _INTEL_CLIENTS
        return INTEL_SERVER if is_server else INTEL_CLIENT
    return ZEN5 if family >= _FAMILY_OF_ZEN5 else ZEN4


#: A multiprocessor of Hopper: the first two lines are of the CUDA C++ Programming Guide ("Arithmetic Instructions",
#: "Technical Specifications per Compute Capability"), the others were measured on an H200: the bandwidth is that of a
#: copy, the rest of the staged form was chosen by the times of 120 products with 3 to 64 rows, columns and terms, drawn
#: with their types, transposes and beta, each in 4 to 13 ways in registers and, of 16 bits, in up to four on tensor
#: cores: the way in registers that is chosen took 1.035 times as long as the fastest on the geometric mean, at most
#: 1.23; of 50 products of 16 bits, the way of all that is chosen 1.012 times, at most 1.09.  The numbers of the blocked
#: form were chosen by its times with whole waves of tiles, a sum of 2048, n.n and t.t.
HOPPER = Multiprocessor(
    multiply_adds_f32=128, multiply_adds_f64=64, instructions=4, banks=32, registers=65536, thread_registers=255,
    threads=2048, blocks=32, local_memory=228 << 10, block_memory=1 << 10,
    memory_bytes=17.0, turn=600, turn_instructions=160, copy_instructions=200, widening=1.9, barrier=80, exposed=0.3,
    alone=1.7, waited=0,
    # On an H200, by the odd cubes from 33 to 63 and 56 drawn products of f32 with an odd number of rows.
    shifted=1.05,
    # On an H200, by 59 chains of products, most of them drawn, each in three to twelve ways: times are off by 17 %
    # (standard deviation), and of these ways the one that is chosen took 1.03 times as long as the fastest on the
    # geometric mean, at most 1.28.
    product=100, product_instructions=60, exposed_of_products=0.3, waited_of_products=2,
    # The advantage: on an H200, by 44 drawn products for which the two estimates differ by less than a fifth, each in
    # both ways, and two more.  What is chosen was at 0.997 of the faster one (0.975 without).
    # The norm: on an H200, by 54 drawn products with beta = 1 in nine ways each, rings and warps: what is chosen of two
    # took 1.013 times as long as the fastest of nine, at most 1.05; without it 1.022, at most 1.26.
    padded=PaddedNumbers(
        multiplication=14, store=8, turn_instructions=90, turn=100, registers=72, advantage=1.03, norm=3),
    blocked=BlockedNumbers(
        # The least numbers: of f64, 181 x 4 x 92 and 24 cubed were the smallest that were measured.
        sums_added=8, worth_sharing=1.03, least_of_batch=1 << 16, least_of_complex=1 << 12,
        least_of_few=1 << 13, staged_speeds=(("c64", 10.2),),
        speeds=(
            # Those of f32: on an H100, by 36 drawn products from 500 to 6000, nine of them with 16 or 64 rows, each in
            # nine or ten ways.  The way that is chosen took 1.03 times as long as the fastest on the geometric
            # mean, at most 1.35.
            TileSpeed("f32", 128, 64, 96, 3, 0.88, 1550, 1100), TileSpeed("f32", 64, 128, 95.5, 3, 0.72, 2000, 1100),
            TileSpeed("f32", 64, 64, 90, 3, 0.92, 3850, 1100), TileSpeed("f32", 16, 128, 50, 3, 0.81, 3000, 1100),
            TileSpeed("f64", 128, 128, 133),
            TileSpeed("f64", 128, 64, 130, 2, 0.9), TileSpeed("f64", 64, 64, 116, 2, 0.86),
            TileSpeed("f64", 16, 128, 66, 2, 0.9), TileSpeed("16 bits", 128, 192, 700),
            TileSpeed("16 bits", 128, 128, 615), TileSpeed("16 bits", 128, 64, 461), TileSpeed("tf32", 128, 192, 330),
            TileSpeed("tf32", 128, 128, 270), TileSpeed("tf32", 128, 64, 226),
            # Those of complex numbers: on an H200, by two products of about 2000 and a batch of 192 x 192 x 200.
            TileSpeed("c32", 64, 64, 25, 3, 0.7, 1660), TileSpeed("c32", 32, 32, 19, 3, 0.7, 810),
            TileSpeed("c32", 16, 64, 19, 3, 0.7, 810), TileSpeed("c64", 64, 48, 27, 2, 0.7, 1500),
            TileSpeed("c64", 48, 64, 26, 2, 0.7, 2080), TileSpeed("c64", 32, 32, 21, 2, 0.7, 370),
            TileSpeed("c64", 16, 64, 20, 2, 0.7, 370),
        ),
        # Those of f32 on an H100 by nine drawn batches from 65 to 256, n.n, t.n and n.t; those of f64 on H200s by 90
        # drawn ones, all transposes, beta 0 and 1, each by all eight tiles: what is chosen took 1.005 times as long as
        # the fastest, at most 1.07; that of 32 x 16 on an H100 by few products of 24 to 64 cubed.
        known_speeds=(
            # What those of f32 take besides, and where they are added to, by 300 more on H200s, each with the tile that
            # was chosen (seeds 29112971, 29112981, 29113001, 29113011 of cuda_report sweep); for 128 x 128, 64 x 64 and
            # 96 x 128, which none had, 0.3 cycles more for each element, about the median of the others.
            TileSpeed("f32", 128, 128, 92, 2, 0.8, 5970, kept=4900),
            TileSpeed("f32", 128, 64, 94, 3, 0.6, 2060, kept=2600),
            TileSpeed("f32", 96, 64, 82, 4, 0.6, 1040, kept=1600),
            TileSpeed("f32", 64, 128, 91, 3, 0.6, 1850, kept=2300),
            TileSpeed("f32", 64, 96, 89, 4, 0.6, 1970, kept=2600),
            TileSpeed("f32", 64, 64, 84, 4, 0.6, 1080, kept=1250),
            TileSpeed("f32", 96, 128, 80, 3, 0.6, 3030, kept=3700),
            TileSpeed("f32", 48, 128, 81, 4, 0.6, 1370, kept=1500),
            TileSpeed("f32", 80, 128, 87, 3, 0.6, 6160, kept=1600),
            TileSpeed("f32", 128, 80, 86, 3, 0.6, 4040, kept=3900),
            TileSpeed("f32", 80, 64, 79, 6, 0.5, 1850, kept=1200),
            TileSpeed("f32", 64, 80, 76, 6, 0.5, 650, kept=4000),
            TileSpeed("f64", 128, 64, 116, 2, 0.7, 3360, kept=3350),
            TileSpeed("f64", 96, 64, 108, 2, 0.7, 2330, kept=1800),
            TileSpeed("f64", 80, 64, 99, 2, 0.7, 1660, kept=1890),
            TileSpeed("f64", 64, 80, 101, 2, 0.7, 1770, kept=1910),
            TileSpeed("f64", 64, 64, 103, 2, 0.8, 1670, kept=1830),
            TileSpeed("f64", 64, 32, 73, 4, 0.8, 690, kept=700), TileSpeed("f64", 32, 64, 71, 4, 0.8, 600, kept=820),
            TileSpeed("f64", 32, 32, 52, 5, 0.85, 380, kept=260),
            TileSpeed("f64", 32, 16, 20, 2, 0.9, 100),
            # On an H200, by 50 and 35 drawn batches from 24 to 256, each with all tiles: the tile that is chosen took
            # 1.02 times as long as the fastest on the geometric mean.
            TileSpeed("c32", 64, 64, 25.6, 3, 0.7, 1660), TileSpeed("c32", 48, 64, 25.3, 4, 0.7, 640),
            TileSpeed("c32", 64, 48, 23.3, 4, 0.7, 60), TileSpeed("c32", 64, 32, 25.1, 4, 0.7, 0),
            TileSpeed("c32", 32, 64, 24.6, 4, 0.7, 800), TileSpeed("c32", 32, 32, 19.9, 5, 0.7, 810),
            TileSpeed("c64", 48, 64, 26.1, 2, 0.7, 2080), TileSpeed("c64", 64, 48, 26.8, 2, 0.7, 1500),
            TileSpeed("c64", 64, 32, 25.7, 3, 0.7, 660), TileSpeed("c64", 32, 64, 24.3, 3, 0.7, 1340),
            TileSpeed("c64", 48, 32, 26.8, 4, 0.7, 1770), TileSpeed("c64", 32, 32, 21.2, 4, 0.7, 370),
        )),
    # On an H100, by 114 drawn products of bf16 with 16 to 256 rows, from 500 to 2500 and to 6000, and of tf32 t.n, each
    # in up to 30 ways: the way that is chosen took 1.03 times as long as the fastest on the geometric mean, at most
    # 1.25.  Those of tf32 by 96 others like these, of all transposes: 1.02 and 1.23.
    tiled=(
        TiledNumbers(
            "16 bits",
            tiles=(((128, 256), (4200, 810)), ((128, 192), (4700, 630)), ((128, 128), (2800, 500)),
                   ((128, 64), (1900, 410)), ((64, 64), (1800, 255))),
            crowded=1.8, crowded_together=1.5, sharing=(900, 1100)),
        TiledNumbers(
            "tf32",
            tiles=(((128, 256), (5400, 790)), ((128, 192), (4500, 605)), ((128, 128), (4600, 470)),
                   ((128, 64), (1600, 450)), ((64, 64), (1300, 290))),
            crowded=1.68, crowded_together=1.69, sharing=(800, 1500)),
        TiledNumbers(
            "tf32, one transposed",
            tiles=(((128, 192), (6700, 890)), ((128, 128), (6900, 635)), ((128, 64), (3000, 520)),
                   ((64, 64), (2200, 350))),
            crowded=1.55, crowded_together=1.44, sharing=(330, 340)),
    ),
    # On an H200, by drawn products from 65 to 256, bf16 and f16, n.n, t.n and n.t: the tiled form by 424, each in 5 to
    # 19 ways, off by 10 % (standard deviation); the packed form by 338 others, off by 9 %; the blocked form by 109,
    # each with three tiles, off by 9 %: what is chosen took 1.003 times as long as the fastest of the three.
    narrow=NarrowBatches(
        packed=PackedBatches(start=1670, word=16, half=27, multiplication=25.5, stored=4, kept=170, fill=1180,
                             memory_bytes=16.2, cache_bytes=43, norm=4),
        blocked=BlockedBatches(start=550, panel=978, column=6.77, stored=0.15, kept=(0.159, 0.227), wide=1.25),
        tiled=TiledBatches(start=1216, multiplications=1322, stored=(0, 0.102), kept=(0.156, 0.345), memory_bytes=17.3,
                           cache_bytes=31, norm=3)),
)
#: The first compute capability whose tensor cores compute single large products by tiles of loop nests: those tiles
#: were chosen on an H200, and not measured on earlier devices.
TENSOR_CORES = (9, 0)
#: An NVIDIA H200 as CUDA's driver describes it (compute capability 9.0; CUDA C++ Programming Guide, section "Technical
#: Specifications per Compute Capability"), so that kernels can be compiled where there is none.
H200 = Device(
    name="NVIDIA H200", vendor="NVIDIA", driver="13.0", backend="cuda", is_cpu=False, subgroup_sizes=(32,),
    max_work_group_size=1024, local_memory=227 << 10, compute_units=132, core=GPU, has_fp64=True, has_fp16=True,
    has_atomic64=True, caches=(256 << 10, 60 << 20), architecture="sm_90a",
    asynchronous_copies=True, copy_engine=True, warpgroup_products=True, multiprocessor=HOPPER,
)
