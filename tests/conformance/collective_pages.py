"""What the pages say of linear algebra, control flow, sub-groups and cooperative matrices; see `pages`."""

from __future__ import annotations

from tests.conformance.pages import (
    BITCASTS,
    BOOL,
    COMPLEX,
    INTEGERS,
    MEMORY_ENTRIES,
    NARROW,
    NUMBERS,
    PROMOTED,
    REALS,
    TYPES,
    VALUE_ENTRIES,
    Entry,
    one,
    pairs,
)

#: Modifiers of linear algebra with and without types (0.3, and 0.4, "Spellings"), by how many transpositions there are.
_OLDER = {0: ("", ".atomic"), 1: (".n", ".t", ".n.atomic", ".atomic.t"),
          2: (".n.n", ".n.t", ".t.n", ".t.t", ".n.t.atomic", ".atomic.t.n")}
_NEWER = {0: ("", ".atomic"), 1: ("", ".n", ".t", ".atomic", ".atomic.t"),
          2: ("", ".n", ".t", ".n.t", ".t.t", ".atomic", ".atomic.t", ".atomic.n.t")}


def _spelled(modified: int, operands: str, types: str, comma: bool = True) -> tuple[str, ...]:
    """Return the spellings of linear algebra; a comma before alpha may stand where 0.3 prints one."""
    older = [f"{{w}}{m} {operands} : {types}" for m in _OLDER[modified]]
    newer = [f"{{w}}{m} {operands}" for m in _NEWER[modified]]
    commas = [text.replace(" 2,", ", 2,", 1) for text in older[:1]] if comma else []
    return (*older, *commas, *newer)


_TWO = "{B}, memref<{A}%s>, {B}, memref<{B}%s>"
_THREE = "{B}, memref<{A}%s>, memref<{A}%s>, {B}, memref<{B}%s>"
_MATRIX, _VECTOR = "x8x8", "x8"
_DESCRIBED = "inputs convert to the output without loss"


def _algebra(words: str, spellings: tuple[str, ...], versions: str = "0.3, 0.4") -> tuple[Entry, ...]:
    """Return linear algebra in all spellings with one type, and in one of them with each pair of types."""
    return (Entry(versions, words, spellings, tuple((name, name) for name in NUMBERS), harness="algebra",
                  candidates=tuple((name, name) for name in TYPES)),
            Entry(versions, words, spellings[:1], PROMOTED, harness="algebra", described=_DESCRIBED,
                  runs=words in ("axpby", "gemm")))


#: 0.4, sections "Linear algebra" and "Promotion"; 0.3, "Grammar points".
ALGEBRA_ENTRIES = (
    *_algebra("axpby", _spelled(1, "2, %A, 1, %C", _TWO % (_MATRIX, _MATRIX), comma=False)),
    *_algebra("sum", _spelled(1, "2, %A, 1, %y", _TWO % (_MATRIX, _VECTOR))),
    *_algebra("cumsum", ("cumsum 2, %A, 1, 1, %C", "cumsum.atomic 2, %A, 0, 1, %C"), "0.4"),
    *_algebra("gemv", _spelled(1, "2, %A, %x, 1, %y", _THREE % (_MATRIX, _VECTOR, _VECTOR))),
    *_algebra("ger", _spelled(0, "2, %x, %x, 1, %C", _THREE % (_VECTOR, _VECTOR, _MATRIX))),
    *_algebra("hadamard hadamard_product", _spelled(0, "2, %A, %A, 1, %C", _THREE % (_MATRIX, _MATRIX, _MATRIX))),
    *_algebra("gemm", _spelled(2, "2, %A, %A, 1, %C", _THREE % (_MATRIX, _MATRIX, _MATRIX))),
    Entry("guide", "gemm", tuple(f"gemm.n.t.{word} 2, %A, %A, 1, %C" for word in ("highest", "high", "default")),
          pairs(["f32"], ["f32"]), harness="algebra", candidates=tuple((name, name) for name in TYPES)),
)

_LOOPS = ("for %i = {zero}, {eight} : {T} {{ {stored} }}", "for %i = {zero}, {eight}, 3 : {T} {{ {stored} }}",
          "for %i = %z, %e {{ {stored} }} attributes{{unroll=4}}")
#: 0.4, section "Control flow"; 0.3, "Grammar points".
CONTROL_ENTRIES = (
    Entry("0.3, 0.4", "for", _LOOPS, one(*INTEGERS), harness="loops"),
    Entry("0.3, 0.4", "foreach", ("foreach %i = 0, 8 : {T} {{ {stored} }}", "foreach %i = %z, %e {{ {stored} }}",
                                   "foreach (%i) = (%z), (%e) {{ {stored} }}",
                                   "foreach (%i, %j) = (0, 0), (8, 2) : {T}, i32 {{ {stored} }}"), one(*INTEGERS),
          harness="loops"),
    Entry("0.4", "foreach_tile", ("foreach_tile (%i, %j) = (%z, %z), (%e, %e) as (%s, %t) <= (32, 2) {{ {stored} }}",),
          one(*INTEGERS), harness="loops"),
    Entry("0.4", "for", ("%r = for %n = 0, 5 init(%s=%a) -> ({T}) {{ yield (%b) }}",
                          "%r = for %n = 0, 5 init(%s=%a) -> ({T}) {{ yield %s : {T} }}"), one(*NUMBERS, *BOOL),
          note="with carried values"),
    Entry("0.3, 0.4", "if", ("%r = if %odd -> ({T}) {{ yield %a : {T} }} else {{ yield %b : {T} }}",
                              "%r = if %odd -> ({T}) {{ yield (%a) }} else {{ yield (%b) }}"), one(*NUMBERS, *BOOL),
          harness="branches"),
    Entry("0.4", "parallel", ("parallel {{ {each} }}",), one(*NUMBERS, *BOOL), harness="regions"),
)

#: 0.4, sections "Sub-groups" and "Control flow" (what they do in `foreach`).
SUBGROUP_ENTRIES = (
    Entry("0.4", "subgroup_id", tuple(f"%r = subgroup_id.{axis} : i32" for axis in "xyz"), one("i32"),
          harness="own places", candidates=one("i32")),
    Entry("0.4", "subgroup_linear_id subgroup_local_id", ("%r = {w} : i32",), one("i32"), harness="own places"),
    Entry("0.4", "subgroup_broadcast", ("%r = subgroup_broadcast %a, %k : {T}", "%r = subgroup_broadcast %a, 3 : {T}"),
          one(*NUMBERS), harness="work-items"),
    Entry("0.4", "subgroup_reduce_add subgroup_inclusive_scan_add subgroup_exclusive_scan_add", ("%r = {w} %a : {T}",),
          one(*NUMBERS), harness="work-items"),
    Entry("0.4", "subgroup_reduce_max subgroup_reduce_min subgroup_inclusive_scan_max subgroup_inclusive_scan_min "
          "subgroup_exclusive_scan_max subgroup_exclusive_scan_min", ("%r = {w} %a : {T}",), one(*REALS),
          harness="work-items"),
    Entry("0.4", "subgroup_broadcast", ("%r = subgroup_broadcast %a, %k : {T}",), one(*NUMBERS),
          harness="iterations", note="in `foreach`"),
    Entry("0.4", "subgroup_reduce_add subgroup_inclusive_scan_add subgroup_exclusive_scan_add",
          ("%r = {w} %a : {T}",), one(*NUMBERS), harness="iterations", note="in `foreach`"),
    Entry("0.4", "subgroup_reduce_max subgroup_reduce_min subgroup_inclusive_scan_max "
          "subgroup_inclusive_scan_min subgroup_exclusive_scan_max subgroup_exclusive_scan_min",
          ("%r = {w} %a : {T}",), one(*REALS), harness="iterations", note="in `foreach`"),
)

_ACC = "coopmatrix<{T}x8x8,matrix_acc>"
_CHECKS = ("", ".n", ".t", ".rows_checked", ".cols_checked", ".t.both_checked")
#: A scope and semantics behind the transposition and the check.
_ORDERED = (*_CHECKS, ".device", ".t.rows_checked.subgroup.relaxed")
#: 0.4, sections "Cooperative matrices" and "Values"; 0.5, "What 0.5 adds".
MATRIX_ENTRIES = (
    Entry("0.4", "cooperative_matrix_load", tuple(f"%r = {{w}}{m} %x[0, 0] : {_ACC}" for m in _CHECKS), one(*NUMBERS),
          harness="matrix results"),
    Entry("0.4", "cooperative_matrix_atomic_load", tuple(f"%r = {{w}}{m} %x[0, 0] : {_ACC}" for m in _ORDERED),
          one(*NUMBERS), harness="matrix results"),
    Entry("0.4", "cooperative_matrix_store", tuple(f"{{w}}{m} %a, %z[0, 0]" for m in _CHECKS), one(*NUMBERS),
          harness="matrix accesses"),
    Entry("0.4", "cooperative_matrix_atomic_store", tuple(f"{{w}}{m} %a, %z[0, 0]" for m in _ORDERED), one(*NUMBERS),
          harness="matrix accesses"),
    Entry("0.4", "cooperative_matrix_atomic_add", tuple(f"%r = {{w}}{m} %a, %z[0, 0] : {_ACC}" for m in _ORDERED),
          one(*NUMBERS), harness="matrix results"),
    Entry("0.4", "cooperative_matrix_atomic_max cooperative_matrix_atomic_min",
          tuple(f"%r = {{w}}{m} %a, %z[0, 0] : {_ACC}" for m in _ORDERED), one(*REALS), harness="matrix results"),
    Entry("0.4", "cooperative_matrix_prefetch", ("{w} 0, %x[0, 0], 8, 8",), one(*NUMBERS),
          harness="matrix accesses"),
    Entry("0.4", "cooperative_matrix_construct", (f"%r = {{w}} %v : {_ACC}",), one(*NUMBERS),
          harness="matrix results"),
    Entry("0.4", "constant", (f"%r = constant {{value}} : {_ACC}",), one(*NUMBERS), harness="matrix results"),
    Entry("0.4", "cooperative_matrix_scale", (f"%r = {{w}} %v, %a : {_ACC}",), one(*NUMBERS),
          harness="matrix results"),
    Entry("0.4", "cooperative_matrix_reduce_add cooperative_matrix_reduce_max cooperative_matrix_reduce_min",
          ("%r = {w}.row %a : coopmatrix<{T}x8x1,matrix_acc>", "%r = {w}.column %a : coopmatrix<{T}x1x8,matrix_acc>"),
          one(*REALS), harness="matrix reductions"),
    Entry("0.4, 0.5", "cooperative_matrix_apply",
          (f"%r = {{w}} (%i, %j, %u)=%a -> {_ACC} {{{{ yield (%u) }}}}",
           f"%r = {{w}} (%i, %j, %u, %w)=%a, %b -> {_ACC} {{{{ %q = add %u, %w : {{T}} yield (%q) }}}}"), one(*NUMBERS),
          harness="matrix results"),
    Entry("0.4", "cooperative_matrix_extract", ("%e = {w} %a[1] : {T}",), one(*NUMBERS), harness="matrix components"),
    Entry("0.4", "cooperative_matrix_insert", (f"%r = {{w}} %v, %a[1] : {_ACC}",), one(*NUMBERS),
          harness="matrix results"),
    Entry("0.4", "cooperative_matrix_mul_add", ("%r = {w} %a, %b, %c : coopmatrix<{B}x8x8,matrix_acc>",),
          tuple((a, b) for a, b in PROMOTED if a not in NARROW), harness="matrix products", described=_DESCRIBED),
    Entry("0.4", "add sub mul div", (f"%r = {{w}} %a, %b : {_ACC}",), one(*NUMBERS), harness="matrix results"),
    Entry("0.4", "rem min max", (f"%r = {{w}} %a, %b : {_ACC}",), one(*REALS), harness="matrix results"),
    Entry("0.4", "shl shr", (f"%s = constant 2 : {_ACC} %r = {{w}} %a, %s : {_ACC}",), one(*INTEGERS),
          harness="matrix results"),  # %b has negative components, and shifts by such are undefined
    Entry("0.4", "and or xor", (f"%r = {{w}} %a, %b : {_ACC}",), one(*INTEGERS), harness="matrix results"),
    Entry("0.4", "neg", (f"%r = neg %a : {_ACC}",), one(*NUMBERS), harness="matrix results"),
    Entry("0.4", "not", (f"%r = not %a : {_ACC}",), one(*INTEGERS), harness="matrix results"),
    Entry("0.4", "conj", (f"%r = conj %a : {_ACC}",), one(*COMPLEX), harness="matrix results"),
    Entry("0.4", "abs", ("%r = abs %a : coopmatrix<{P}x8x8,matrix_acc>",), one(*NUMBERS),
          harness="matrix results", result="{P}"),
    Entry("0.4", "re im", ("%r = {w} %a : coopmatrix<{P}x8x8,matrix_acc>",), one(*COMPLEX),
          harness="matrix results", result="{P}"),
    Entry("0.4", "cast", ("%r = cast %a : coopmatrix<{B}x8x8,matrix_acc>",
                                 "%r = cast %a : coopmatrix<{B}x8x8,matrix_a>"),
          pairs(REALS, NUMBERS) + pairs(COMPLEX, COMPLEX), harness="matrix conversions", result="{B}",
          described="each to each, but no complex one to a real one"),
    Entry("0.5", "bitcast", ("%r = bitcast %a : coopmatrix<{B}x8x8,matrix_acc>",), BITCASTS,
          harness="matrix conversions", result="{B}",
          described="i16 and f16 or bf16, i32 and f32, i64 and f64 or c32"),
)

#: The parts of the table, each with its title.
ENTRIES: dict[str, tuple[Entry, ...]] = {
    "Values": VALUE_ENTRIES, "Memory and views": MEMORY_ENTRIES, "Linear algebra": ALGEBRA_ENTRIES,
    "Control flow": CONTROL_ENTRIES, "Sub-groups": SUBGROUP_ENTRIES, "Cooperative matrices": MATRIX_ENTRIES,
}
