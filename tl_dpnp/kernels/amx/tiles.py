"""The instructions of tiles: in inline assembly, with the numbers of registers fixed, or emulated.

LLVM 14 would choose registers itself, and stores and loads tiles that it copies with a wrong stride; so it is told
nothing of tiles.  All instructions are said to touch memory, which keeps their order and that of stores around them.

The emulation has tiles in the work-item's own memory and does what the manual's pseudo-code does, sums of floats in its
order included: those of even and of odd elements apart, subnormal operands, products and sums as 0.  The one
instruction whose pseudo-code rounds otherwise is not told apart: each product is added with one rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from llvmlite import ir

from tl_dpnp.kernels.amx.rows import MOST, WORD, AmxRow, Palette
from tl_dpnp.kernels.llvm import I8, I32, I64, PRIVATE, builtin, constant, counted_loop, index, private_array, shuffle
from tl_dpnp.kernels.narrow_floats import bf16_from_f32, f32_from_bf16
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import U32

__all__ = ["EmulatedTiles", "HardwareTiles", "Tiles", "configure", "joined", "release"]

_F32 = ir.FloatType()
_VOID = ir.VoidType()
_WORDS = ir.VectorType(I32, MOST)
_ROW = MOST * WORD
#: Words within which an instruction moves bytes, and a bit for each byte of a vector: those of lower halves of words.
_LANE_WORDS = 4
_LOWER_HALVES = 0x3333333333333333


def configure(builder: ir.IRBuilder, palette: Palette) -> None:
    """Set the shapes of all tiles; those who do must `release` them."""
    data = palette.configuration
    words = [int.from_bytes(data[place : place + WORD], "little") for place in range(0, len(data), WORD)]
    area = private_array(builder, U32, len(words))
    for place, word in enumerate(words):
        builder.store(constant(I32, word), builder.gep(area, [index(place)]), align=WORD)
    _assembly(builder, "ldtilecfg ($0)", builder.ptrtoint(area, I64))


def release(builder: ir.IRBuilder) -> None:
    """Give the tiles back, so that the processor keeps no state of them."""
    _assembly(builder, "tilerelease")


def joined(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """Return vectors, a power of two of them, side by side as one."""
    while len(parts) > 1:
        lanes = parts[0].type.count
        parts = [shuffle(builder, low, [high], range(2 * lanes))
                 for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _assembly(builder: ir.IRBuilder, text: str, *registers: ir.Value) -> None:
    type_ = ir.FunctionType(_VOID, [register.type for register in registers])
    builder.asm(type_, text, "r," * len(registers) + "~{memory}", list(registers), True)


class Tiles(Protocol):
    """Tiles of known shapes; strides of rows are in bytes."""

    def zero(self, tile: int) -> None:
        """Set a tile to zeros."""

    def load(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        """Load the rows of a tile."""

    def store(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        """Store the rows of a tile."""

    def interleaved(self, pieces: Sequence[ir.Value]) -> ir.Value:
        """Return 16 words of elements of 16 bits of two vectors, or of 8 bits of four, the first one's lowest."""

    def upper_halves(self, low: ir.Value, high: ir.Value) -> ir.Value:
        """Return the upper halves of words: those of `low` as lower halves, those of `high` where they are."""

    def rounded(self, sums: ir.Value) -> ir.Value:
        """Return 16 sums of products, which are never subnormal, as bf16: the nearest, ties to even."""

    def multiply_add(self, row: AmxRow, total: int, b: int, a: int) -> None:
        """Add a product to a tile of sums: of tiles with rows of words along k, and with those words as rows."""


@dataclass(frozen=True)
class HardwareTiles:
    """The processor's own; they are configured."""

    builder: ir.IRBuilder

    def zero(self, tile: int) -> None:
        _assembly(self.builder, f"tilezero %tmm{tile}")

    def load(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        _assembly(self.builder, f"tileloadd ($0,$1), %tmm{tile}", self.builder.ptrtoint(pointer, I64), stride)

    def store(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        _assembly(self.builder, f"tilestored %tmm{tile}, ($0,$1)", self.builder.ptrtoint(pointer, I64), stride)

    def interleaved(self, pieces: Sequence[ir.Value]) -> ir.Value:
        """By one instruction (`AVX512_VBMI`, which each processor with tiles has); LLVM makes several of a shuffle."""
        count, bits = len(pieces), 8 * WORD // len(pieces)
        places = [sum((part * MOST + lane) << part * bits for part in range(count)) for lane in range(MOST)]
        order = ir.Constant(_WORDS, [ir.Constant(I32, word) for word in places])
        words = joined(self.builder, [self._words(piece, len(pieces)) for piece in pieces])
        type_ = ir.FunctionType(_WORDS, [_WORDS, _WORDS])
        return self.builder.asm(type_, f"vperm{'w' if bits == 16 else 'b'} $1, $2, $0", "=v,v,v", [words, order], False)

    def _words(self, piece: ir.Value, count: int) -> ir.Value:
        """Return one of so many pieces as words; LLVM would join bytes, to vectors that are too long for SPIR-V."""
        words = self.builder.bitcast(piece, ir.VectorType(I32, MOST // count))
        return words if isinstance(piece, ir.Constant) else target_of(self.builder).kept(self.builder, words)

    def upper_halves(self, low: ir.Value, high: ir.Value) -> ir.Value:
        """By one instruction, of bytes of `low` into `high`; a shift and an or are two, and shifts have one port."""
        lane = [ir.Constant(I32, 0x0302 + 0x0404 * word) for word in range(_LANE_WORDS)]
        order = ir.Constant(_WORDS, lane * (MOST // _LANE_WORDS))
        bytes_ = ir.Constant(I64, _LOWER_HALVES)
        type_ = ir.FunctionType(_WORDS, [_WORDS, _WORDS, _WORDS, I64])
        return self.builder.asm(type_, "vpshufb $3, $2, $0 {$4}", "=v,0,v,v,^Yk", [high, low, order, bytes_], False)

    def rounded(self, sums: ir.Value) -> ir.Value:
        """By one instruction (`AVX512_BF16`, which each processor with tiles has), for which subnormal f32 are 0."""
        type_ = ir.FunctionType(ir.VectorType(ir.IntType(16), MOST), [sums.type])
        return self.builder.asm(type_, "vcvtneps2bf16 $1, $0", "=v,v", [sums], False)

    def multiply_add(self, row: AmxRow, total: int, b: int, a: int) -> None:
        _assembly(self.builder, f"{row.instruction} %tmm{a}, %tmm{b}, %tmm{total}")


class EmulatedTiles:
    """Tiles in the work-item's own memory; functions that are not inlined work on them, to keep kernels small."""

    def __init__(self, builder: ir.IRBuilder, palette: Palette) -> None:
        self.builder = builder
        self.shapes = palette.shapes
        self.registers = [private_array(builder, U32, MOST * MOST) for _ in palette.shapes]

    def zero(self, tile: int) -> None:
        self._call("tile_zero", _emit_zero, self.registers[tile])

    def load(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        source = self.builder.bitcast(pointer, I8.as_pointer(pointer.type.addrspace))
        self._call(f"tile_load_{pointer.type.addrspace}", _emit_load, self.registers[tile], source, stride,
                   *map(index, self.shapes[tile]))

    def store(self, tile: int, pointer: ir.Value, stride: ir.Value) -> None:
        target = self.builder.bitcast(pointer, I8.as_pointer(pointer.type.addrspace))
        self._call(f"tile_store_{pointer.type.addrspace}", _emit_store, self.registers[tile], target, stride,
                   *map(index, self.shapes[tile]))

    def interleaved(self, pieces: Sequence[ir.Value]) -> ir.Value:
        builder, bits = self.builder, 8 * WORD // len(pieces)
        wide = [builder.zext(piece, _WORDS) for piece in pieces]
        return functools.reduce(builder.or_, [builder.shl(words, constant(_WORDS, bits * part)) if part else words
                                              for part, words in enumerate(wide)])

    def upper_halves(self, low: ir.Value, high: ir.Value) -> ir.Value:
        builder = self.builder
        return builder.or_(builder.lshr(low, constant(_WORDS, 16)), builder.and_(high, constant(_WORDS, -1 << 16)))

    def rounded(self, sums: ir.Value) -> ir.Value:
        return bf16_from_f32(self.builder, sums)

    def multiply_add(self, row: AmxRow, total: int, b: int, a: int) -> None:
        (rows, words), (b_rows, b_words), (a_rows, a_words) = (self.shapes[tile] for tile in (total, b, a))
        assert (rows, b_words, words) == (b_rows, a_rows, a_words), "the processor refuses tiles that do not fit"
        emit = _emit_float_product if row.c.is_float else _emit_integer_product
        self._call(f"tile_{row.name}", lambda builder, *tiles: emit(builder, row, *tiles),
                   *(self.registers[tile] for tile in (total, b, a)), *map(index, (rows, words, b_words)))

    def _call(self, name: str, emit: Callable[..., None], *arguments: ir.Value) -> None:
        module = self.builder.module
        function = module.globals.get(f"emulated_{name}")
        if function is None:
            type_ = ir.FunctionType(_VOID, [argument.type for argument in arguments])
            function = ir.Function(module, type_, f"emulated_{name}")
            function.linkage, function.calling_convention = "internal", "spir_func"
            function.attributes.add("noinline")
            builder = ir.IRBuilder(function.append_basic_block("entry"))
            emit(builder, *function.args)
            builder.ret_void()
        self.builder.call(function, arguments, cconv="spir_func")


def _each(builder: ir.IRBuilder, stop: ir.Value, body: Callable[[ir.Value], None]) -> None:
    def iteration(counter: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        body(counter)
        return []

    counted_loop(builder, index(0), stop, index(1), [], iteration)


def _word(builder: ir.IRBuilder, tile: ir.Value, row: ir.Value, word: ir.Value) -> ir.Value:
    return builder.gep(tile, [builder.add(builder.mul(row, index(MOST)), word)])


def _memory(builder: ir.IRBuilder, start: ir.Value, stride: ir.Value, row: ir.Value, word: ir.Value) -> ir.Value:
    place = builder.add(builder.mul(row, stride), builder.mul(word, index(WORD)))
    return builder.bitcast(builder.gep(start, [place]), I32.as_pointer(start.type.addrspace))


def _emit_zero(builder: ir.IRBuilder, tile: ir.Value) -> None:
    _each(builder, index(MOST * MOST), lambda place: builder.store(constant(I32, 0), builder.gep(tile, [place])))


def _emit_load(
    builder: ir.IRBuilder, tile: ir.Value, source: ir.Value, stride: ir.Value, rows: ir.Value, words: ir.Value
) -> None:
    """Rows and words beyond the tile's shape become 0."""
    _emit_zero(builder, tile)
    _each(builder, rows, lambda row: _each(builder, words, lambda word: builder.store(
        builder.load(_memory(builder, source, stride, row, word), align=1), _word(builder, tile, row, word))))


def _emit_store(
    builder: ir.IRBuilder, tile: ir.Value, target: ir.Value, stride: ir.Value, rows: ir.Value, words: ir.Value
) -> None:
    def store(row: ir.Value, word: ir.Value) -> None:
        value = builder.load(_word(builder, tile, row, word))
        builder.store(value, _memory(builder, target, stride, row, word), align=1)

    _each(builder, rows, lambda row: _each(builder, words, lambda word: store(row, word)))


def _emit_integer_product(
    builder: ir.IRBuilder, row: AmxRow, total: ir.Value, b: ir.Value, a: ir.Value, rows: ir.Value, words: ir.Value,
    depth: ir.Value,
) -> None:
    def add(i: ir.Value, j: ir.Value, p: ir.Value) -> None:
        left, right = builder.load(_word(builder, b, i, p)), builder.load(_word(builder, a, p, j))
        place = _word(builder, total, i, j)
        value = builder.load(place)
        for part in range(row.per_word):
            factors = (_byte(builder, left, part, row.b.name), _byte(builder, right, part, row.a.name))
            value = builder.add(value, builder.mul(*factors))
        builder.store(value, place)

    _each(builder, rows, lambda i: _each(builder, words, lambda j: _each(builder, depth, lambda p: add(i, j, p))))


def _byte(builder: ir.IRBuilder, word: ir.Value, part: int, name: str) -> ir.Value:
    high = builder.shl(word, constant(I32, 24 - 8 * part))
    return (builder.ashr if name == "i8" else builder.lshr)(high, constant(I32, 24))


def _emit_float_product(
    builder: ir.IRBuilder, row: AmxRow, total: ir.Value, b: ir.Value, a: ir.Value, rows: ir.Value, words: ir.Value,
    depth: ir.Value,
) -> None:
    def element(i: ir.Value, j: ir.Value) -> None:
        def add(p: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            left, right = builder.load(_word(builder, b, i, p)), builder.load(_word(builder, a, p, j))
            result = []
            for part, value in enumerate(sums):
                factors = [_half(builder, word, part, row.a.name) for word in (left, right)]
                result.append(_flushed(builder, builtin(builder, "_Z3fmafff", _F32, [*factors, value])))
            return result

        place = builder.bitcast(_word(builder, total, i, j), _F32.as_pointer(PRIVATE))
        even, odd = counted_loop(builder, index(0), depth, index(1), [constant(_F32, 0.0)] * row.per_word, add)
        added = _flushed(builder, builder.fadd(even, odd))
        old = _flushed(builder, builder.load(place))
        builder.store(_flushed(builder, builder.fadd(old, added)), place)

    _each(builder, rows, lambda i: _each(builder, words, lambda j: element(i, j)))


def _half(builder: ir.IRBuilder, word: ir.Value, part: int, name: str) -> ir.Value:
    """Return one of the two elements of a word as f32."""
    bits = builder.trunc(builder.lshr(word, constant(I32, 16 * part)), ir.IntType(16))
    if name == "f16":  # whose subnormals are normal f32
        return builder.fpext(builder.bitcast(bits, ir.HalfType()), _F32)
    return _flushed(builder, f32_from_bf16(builder, bits))


def _flushed(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return an f32, or a zero of its sign where it is subnormal."""
    word = builder.bitcast(value, I32)
    exponent = builder.and_(word, constant(I32, 0x7F800000))
    is_small = builder.icmp_unsigned("==", exponent, constant(I32, 0))
    return builder.select(is_small, builder.bitcast(builder.and_(word, constant(I32, 1 << 31)), _F32), value)
