"""What the pages of the language say: each instruction, how it is spelled, and the element types that it takes.

Transcribed by hand from the pages, and independent of the tables of the package, so that the two can differ. Each entry
names the versions of the language whose pages have it, or ``guide`` for docs/language.md, which alone has extensions;
the sections of the pages stand beside the lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

# --- types: 0.4, section "Types" -------------------------------------------------------------------------------------

SIGNED = ("i8", "i16", "i32", "i64", "index")
UNSIGNED = ("u8", "u16", "u32", "u64")  # 0.3, "Two spellings": accepted, and kept by 0.4
NARROW = ("i4", "i2", "u4", "u2")  # kept by 0.4; elements of memrefs that are read: guide, "Integers of 4 and 2 bits"
FLOATS = ("bf16", "f16", "f32", "f64")
COMPLEX = ("c32", "c64")
BOOL = ("bool",)
INTEGERS = SIGNED + UNSIGNED
REALS = INTEGERS + FLOATS
NUMBERS = REALS + COMPLEX
TYPES = BOOL + NARROW + NUMBERS
#: The type of the parts of a complex number, and of an element of 4 or 2 bits that is a value.
PARTS = {"c32": "f32", "c64": "f64"}
VALUES = {name: f"{name[0]}8" for name in NARROW}

#: 0.4, "Promotion", and what is lossless of the types that are not there: 0.3, "Points the references leave open".
PROMOTIONS = {
    "i8": "i16 i32 i64 index bf16 f16 f32 f64 c32 c64", "i16": "i32 i64 index f32 f64 c32 c64",
    "i32": "i64 index f64 c64", "i64": "index", "index": "i64",
    "bf16": "f32 f64 c32 c64", "f16": "f32 f64 c32 c64", "f32": "f64 c32 c64", "f64": "c64", "c32": "c64", "c64": "",
    "u8": "i16 i32 i64 index u16 u32 u64 bf16 f16 f32 f64 c32 c64", "u16": "i32 i64 index u32 u64 f32 f64 c32 c64",
    "u32": "i64 index u64 f64 c64", "u64": "",
    "i4": "i8 i16 i32 i64 index bf16 f16 f32 f64 c32 c64",
    "i2": "i8 i16 i32 i64 index bf16 f16 f32 f64 c32 c64",
    "u4": "i8 i16 i32 i64 index u8 u16 u32 u64 bf16 f16 f32 f64 c32 c64",
    "u2": "i8 i16 i32 i64 index u8 u16 u32 u64 bf16 f16 f32 f64 c32 c64",
}

Types = tuple[tuple[str, ...], ...]


def pairs(sources: Iterable[str], targets: Iterable[str]) -> Types:
    """Return each of some types with each of others."""
    return tuple(itertools.product(sources, targets))


PROMOTED: Types = tuple((a, b) for a in (*NARROW, *NUMBERS) for b in (a, *PROMOTIONS[a].split()) if b not in NARROW)
#: 0.4, "Values", `cast`, and 0.3 for `bool`, to which a cast is "not equal to zero".
CASTS: Types = pairs(BOOL + NARROW + REALS, BOOL + NUMBERS) + pairs(COMPLEX, COMPLEX + BOOL)
#: 0.5, `bitcast`: both ways.
BITCASTS: Types = tuple(pair for name in ("i16-bf16", "i16-f16", "i32-f32", "i64-f64", "i64-c32")
                        for pair in (tuple(name.split("-")), tuple(name.split("-")[::-1])))


# --- instructions ----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Entry:
    """Instructions of a page that are spelled alike and take the same types.

    `versions` have them. `words` are theirs; of ``eq:equal`` the first stands for ``{w}`` in a spelling and the second
    for ``{v}``, which are one word else. ``{T}``, or ``{A}`` and ``{B}`` of two types, are those of `types`, ``{R}`` is
    that of the `result`, ``{P}`` the type of the parts of T. `harness` is the program around it (`programs.HARNESSES`).
    """

    versions: str
    words: str
    spellings: tuple[str, ...]
    types: Types
    harness: str = "values"
    result: str = "{T}"
    #: Bounds of what floats are drawn from, where small whole numbers do not do.
    domain: tuple[float, float] | None = None
    #: What the types are called, where there is no room for a list of them.
    described: str = ""
    #: What tells it from another of the same name.
    note: str = ""
    #: Whether what is accepted runs, too; it takes long where other entries have the same code.
    runs: bool = True
    #: What it is tried with, accepted or not; each type with each other if it is empty.
    candidates: Types = ()

    @property
    def tried(self) -> Types:
        """The types that it is tried with."""
        return self.candidates or tuple(itertools.product(TYPES, repeat=len(self.types[0])))

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The two words of each of its instructions."""
        return tuple((word.partition(":")[0], word.rpartition(":")[2]) for word in self.words.split())


def one(*names: str) -> Types:
    """Return lists of one type."""
    return tuple((name,) for name in names)


_BINARY = ("%r = arith.{w} %a, %b : {T}", "%r = {w} %a, %b : {T}")
_UNARY = ("%r = arith.{w} %a : {T}", "%r = {w} %a : {T}")
_MATH = ("%r = math.{w} %a : {T}", "%r = {w} %a : {T}")
_COMPARED = ("%r = cmp.{w} %a, %b : {T}", "%r = {v} %a, %b : bool", "%r = {v} %a, %b : i1")
_UNIT = (0.5, 1.0)

#: 0.4, sections "Values" and "Types"; 0.5, "What 0.5 adds"; 0.3, "Types beyond the reference".
VALUE_ENTRIES = (
    Entry("0.4", "add sub mul div", _BINARY, one(*NUMBERS)),
    Entry("0.4", "rem", _BINARY, one(*REALS)),
    Entry("0.4", "min max", ("%r = math.{w} %a, %b : {T}", "%r = {w} %a, %b : {T}"), one(*REALS)),
    Entry("0.4", "shl shr", _BINARY, one(*INTEGERS)),
    Entry("0.4", "and or xor", _BINARY, one(*INTEGERS, *BOOL)),
    Entry("0.4", "neg", _UNARY, one(*NUMBERS)),
    Entry("0.4", "not", _UNARY, one(*INTEGERS, *BOOL)),
    Entry("0.4", "abs", ("%r = math.abs %a : {R}", "%r = abs %a : {R}"), one(*NUMBERS), result="{P}"),
    Entry("0.4", "re im", ("%r = {w} %a : {T} -> {R}", "%r = {w} %a : {R}"), one(*COMPLEX), result="{P}"),
    Entry("0.4", "conj", _UNARY, one(*COMPLEX)),
    Entry("guide", "cmplx", ("%r = cmplx %a, %b : {P} -> {T}", "%r = cmplx %a, %b : {T}"), one(*COMPLEX),
          harness="parts"),
    Entry("0.4", "eq:equal ne:not_equal", _COMPARED, one(*NUMBERS, *BOOL), result="bool"),
    Entry("0.4", "lt:less_than le:less_than_equal gt:greater_than ge:greater_than_equal", _COMPARED,
          one(*REALS, *BOOL), result="bool"),
    Entry("0.3, 0.4", "cast", ("%r = cast %a : {A} -> {B}", "%r = cast %a : {B}"), CASTS, harness="conversion",
          result="{B}", described="each to each, but no complex one to a real one"),
    Entry("0.5", "bitcast", ("%r = bitcast %a : {A} -> {B}", "%r = bitcast %a : {B}"), BITCASTS, harness="conversion",
          result="{B}", described="i16 and f16 or bf16, i32 and f32, i64 and f64 or c32"),
    Entry("0.4", "exp exp2", _MATH, one(*FLOATS, *COMPLEX), domain=_UNIT),
    Entry("0.4", "cos sin log log2", _MATH, one(*FLOATS), domain=_UNIT),
    Entry("0.4", "native_exp native_exp2", ("%r = {w} %a : {T}",), one(*FLOATS, *COMPLEX), domain=_UNIT),
    Entry("0.4", "native_cos native_sin native_log native_log2", ("%r = {w} %a : {T}",), one(*FLOATS), domain=_UNIT),
    Entry("0.3, guide", "sqrt rsqrt tanh expm1 log10 log1p cbrt tan asin acos atan sinh cosh asinh atanh erf "
          "floor ceil trunc rint", ("%r = math.{w} %a : {T}",), one(*FLOATS), domain=_UNIT),
    Entry("guide", "acosh", ("%r = math.{w} %a : {T}",), one(*FLOATS), domain=(1.5, 2.0)),
    Entry("guide", "atan2 hypot copysign", ("%r = math.{w} %a, %b : {T}",), one(*FLOATS)),
    Entry("0.3", "fma", ("%r = math.fma %a, %b, %c : {T}",), one(*FLOATS)),
    Entry("0.4", "constant", ("%r = constant {value} : {T}",), one(*NUMBERS, *BOOL), harness="constants"),
    Entry("0.3, 0.4", "group_id group_size:num_groups", ("%r = {w}", *(f"%r = {{v}}.{a} : index" for a in "xyz")),
          one("index"), harness="places", candidates=one("index")),
    Entry("0.4", "num_subgroups", tuple(f"%r = num_subgroups.{axis} : i32" for axis in "xyz"), one("i32"),
          harness="places", candidates=one("i32")),
    Entry("0.4", "subgroup_size", ("%r = subgroup_size : i32",), one("i32"), harness="places",
          candidates=one("i32")),
    Entry("0.4", "associated", ("%r = associated %x : bool",), one(*BOOL, *NARROW, *NUMBERS), harness="asked"),
    Entry("0.3, 0.4", "size", ("%r = size %x[0] : memref<{T}x8>", "%r = size %x[0] : index"),
          one(*BOOL, *NARROW, *NUMBERS), harness="sizes"),
    Entry("0.4", "size", ("%r = size %x[0] : index",), one(*BOOL, *NARROW, *NUMBERS), harness="lengths",
          note="of a group"),
)

_SCOPES = (".cross_device", ".device", ".work_group", ".subgroup")
_LOADING = (".relaxed", ".acquire", ".sequentially_consistent")
_STORING = (".relaxed", ".release", ".sequentially_consistent")
_UPDATING = (".relaxed", ".acquire", ".release", ".acquire_release", ".sequentially_consistent")


def _modified(spelling: str, semantics: tuple[str, ...], before: str = "") -> tuple[str, ...]:
    """Return a spelling with each scope and each semantics behind its name, but the scope that has an entry itself."""
    scopes = _SCOPES[1:]
    modifiers = ["", *scopes, *semantics, *(a + b for a, b in zip(scopes, semantics[::-1], strict=False))]
    return tuple(spelling.replace("{m}", before + modifier) for modifier in modifiers)


#: 0.4, sections "Memory" and "Views", and "One parser for all dialects" for the spellings; 0.5, "What 0.5 adds".
MEMORY_ENTRIES = (
    Entry("0.3, 0.4", "alloca", ("%t = alloca -> memref<{T}x8>", "%t = alloca : memref<{T}x8,local>",
                                  "%t = alloca {{alignment=64}} : memref<{T}x8,local>"), one(*NUMBERS, *BOOL),
          harness="temporaries"),
    Entry("0.3", "lifetime_stop", ("lifetime_stop %t",), one(*NUMBERS, *BOOL), harness="stopped"),
    Entry("0.3, 0.4", "load", ("%r = load %x[%i] : memref<{T}x8>", "%r = load %x[%i] : {T}"),
          one(*NUMBERS, *BOOL, *NARROW), harness="loads"),
    Entry("0.3, 0.4", "load", ("%m = load %x[1] : group<memref<{T}x8>>", "%m = load %x[1] : memref<{T}x8>"),
          one(*NUMBERS, *BOOL, *NARROW), harness="groups", note="of a group"),
    Entry("0.3, 0.4", "store", ("store %a, %y[%i] : memref<{T}x8>", "store %a, %y[%i]"), one(*NUMBERS, *BOOL),
          harness="stores"),
    Entry("0.4", "atomic_load", _modified("%r = atomic_load{m} %x[%i] : {T}", _LOADING), one(*NUMBERS),
          harness="loads"),
    Entry("0.4", "atomic_store", _modified("atomic_store{m} %a, %y[%i]", _STORING), one(*NUMBERS), harness="stores"),
    Entry("0.4", "atomic_add", _modified("%r = atomic_add{m} %a, %x[%i] : {T}", _UPDATING), one(*NUMBERS),
          harness="updates"),
    Entry("0.4", "atomic_min atomic_max", _modified("%r = {w}{m} %a, %x[%i] : {T}", _UPDATING), one(*REALS),
          harness="updates"),
    Entry("0.4", "atomic_load", ("%r = atomic_load.cross_device %x[%i] : {T}",), one(*NUMBERS), harness="loads",
          note="`.cross_device`"),
    Entry("0.4", "atomic_store", ("atomic_store.cross_device %a, %y[%i]",), one(*NUMBERS), harness="stores",
          note="`.cross_device`"),
    Entry("0.4", "atomic_add", ("%r = atomic_add.cross_device %a, %x[%i] : {T}",), one(*NUMBERS), harness="updates",
          note="`.cross_device`"),
    Entry("0.4", "atomic_min atomic_max", ("%r = {w}.cross_device %a, %x[%i] : {T}",), one(*REALS),
          harness="updates", note="`.cross_device`"),
    Entry("0.3, 0.4", "barrier", ("barrier", "barrier.global", "barrier.local", "barrier.global.local",
                                   "barrier.local.global"), one("i32"), harness="barriers", candidates=one("i32")),
    Entry("0.3, 0.4", "subview", ("%v = subview %x[4:4, %i] : memref<{T}x8x8>",
                                   "%v = subview %x[4:4, %i] : memref<{T}x4>",
                                   "%v = subview %x[4:?, %i] : memref<{T}x8x8>"), one(*NUMBERS, *BOOL, *NARROW),
          harness="views"),
    Entry("0.3, 0.4", "expand", ("%v = expand %x[0 -> 4x2] : memref<{T}x8x8>",
                                   "%v = expand %x[0 -> 4x2] : memref<{T}x4x2x8>",
                                  "%v = expand %x[0 -> 4x?] : memref<{T}x8x8>"), one(*NUMBERS, *BOOL, *NARROW),
          harness="expanded"),
    Entry("0.3, 0.4", "fuse", ("%v = fuse %x[0, 1] : memref<{T}x8x8>", "%v = fuse %x[0, 1] : memref<{T}x64>"),
          one(*NUMBERS, *BOOL, *NARROW), harness="fused"),
    Entry("0.5", "expandc2r", ("%v = expandc2r %x : memref<{P}x2x8>",
                                         "%v = expandc2r %x : memref<{P}x2x8,strided<?,?>>"),
          one(*COMPLEX), harness="parted"),
)
