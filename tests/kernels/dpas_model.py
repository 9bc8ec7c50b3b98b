"""The pseudo-code of the DPAS specification in NumPy, on the raw bytes of the registers.

Nothing here knows how the compiler lays operands out: a register is a row of bytes, as in section "Semantics".
"""

from __future__ import annotations

import numpy as np

from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.instructions import Element

_NUMPY = {"f32": np.float32, "i32": np.int32, "f16": np.float16}


def accumulator_from_bytes(name: str, data: np.ndarray) -> np.ndarray:
    """Return the elements of an accumulator as f64 or as i32."""
    if name == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    values = data.view(_NUMPY[name])
    return values if name == "i32" else values.astype(np.float64)


def _bits(data: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return `count` bits from bit `first` of each row of bytes as integers; they lie in 8 bytes at most."""
    byte, shift = divmod(first, 8)
    word = np.zeros(data.shape[:-1], dtype=np.uint64)
    for i in range(-(-(shift + count) // 8)):
        word |= data[..., byte + i].astype(np.uint64) << np.uint64(8 * i)
    return (word >> np.uint64(shift)) & np.uint64((1 << count) - 1)


def _value(precision: Element, bits: np.ndarray) -> np.ndarray:
    if precision.name == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if precision.name == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    if precision.name == "tf32":
        return (bits.astype(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)
    values = bits.astype(np.int64)
    if precision.kind == "signed":
        values -= (values >> (precision.bits - 1)) << precision.bits
    return values


def dpas(row: DpasRow, src0: np.ndarray, src1: np.ndarray, src2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return D for several instructions at once, and the sum of the magnitudes that went into each element.

    `src0`, `src1` and `src2` are the bytes of the operands, one row for each instruction.  D is i32, or f64 with every
    partial sum rounded to f32.
    """
    lanes = row.execution_size
    w, a = row.source1, row.source2
    if w.bits == 32:
        ops_per_chan = 1
    elif w.bits == 16:
        ops_per_chan = 2
    elif w.bits == 8 or a.bits == 8:
        ops_per_chan = 4
    else:
        ops_per_chan = 8
    src1_operands_per_chan = 32 // (ops_per_chan * w.bits)
    total = accumulator_from_bytes(row.source0, src0).reshape(len(src0), row.repeat, lanes)
    is_float = row.destination != "i32"
    magnitude = np.abs(total.astype(np.float64))
    channels = src1.reshape(len(src1), -1, 4)  # of 32 bits each
    rows = src2.reshape(len(src2), row.repeat, -1)  # each for one row of the result
    with np.errstate(all="ignore"):
        for d in range(8):
            m = d // src1_operands_per_chan
            n = d % src1_operands_per_chan * ops_per_chan
            for j in range(ops_per_chan):
                y = _value(w, _bits(channels[:, m * lanes : (m + 1) * lanes], (n + j) * w.bits, w.bits))[:, None]
                x = _value(a, _bits(rows, (d * ops_per_chan + j) * a.bits, a.bits))[..., None]
                if is_float:
                    magnitude += np.abs(x * y)
                    total = (total + x * y).astype(np.float32).astype(np.float64)
                else:
                    total = (total.astype(np.int64) + x * y).astype(np.int32)
    return total, magnitude
