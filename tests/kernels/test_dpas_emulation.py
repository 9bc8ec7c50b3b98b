"""DPAS that can be reached, run lane for lane on the CPU and compared with the specification's pseudo-code.

All types, each with a number of rows that is drawn; ``pytest --every-row`` tries each with all.
"""

import dpctl
import dpctl.program
import numpy as np
import pytest

from tests.drawing import drawn_rows, seed_of
from tests.kernels.dpas_model import accumulator_from_bytes, dpas
from tl_dpnp.kernels.dpas.probe import probe_module
from tl_dpnp.kernels.dpas.rows import ACCUMULATOR_BITS, EXECUTION_SIZES, rows
from tl_dpnp.runtime.sycl.compilation import translate
from tl_dpnp.runtime.sycl.dpctl_adapter import default_queue

#: Bits of the significand and smallest normal and largest value, of what floats are stored in.
_STORED = {"f32": (24, 2.0**-126, 3.4e38), "bf16": (8, 2.0**-126, 3.39e38), "f16": (11, 2.0**-14, 65504.0)}
_INPUTS = ("ordinary", "ordinary", "ordinary", "denormal", "infinite", "extreme", "zero")


def _floats(kind, name, count, random):
    """Return the bytes of `count` floats of a kind of inputs."""
    values = random.uniform(-2, 2, count)
    special = random.random(count) < 0.1
    _, normal, largest = _STORED.get(name, _STORED["f32"])
    if kind == "denormal":
        values[special] = random.uniform(-1, 1, special.sum()) * normal
    elif kind == "infinite":
        values[special] = random.choice([np.inf, -np.inf, np.nan], special.sum(), p=[0.45, 0.45, 0.1])
    elif kind == "extreme":
        values[special] = random.choice([largest, -largest, normal], special.sum())
    elif kind == "zero":
        values[:] = random.choice([0.0, -0.0], count)
    if name == "f16":
        return values.astype(np.float16).view(np.uint8)
    single = values.astype(np.float32).view(np.uint32)
    return (single >> 16).astype(np.uint16).view(np.uint8) if name == "bf16" else single.view(np.uint8)


def _operand(name, bits, random):
    """Return the bytes of an operand of `bits` bits, one row for each kind of inputs."""
    if name in ("f32", "tf32", "bf16", "f16"):
        width = 32 if name in ("f32", "tf32") else 16
        return np.stack([_floats(kind, name, bits // width, random) for kind in _INPUTS])
    data = random.integers(0, 256, (len(_INPUTS), bits // 8), dtype=np.uint8)
    data[3], data[4] = 0x80, 0x7F
    return data


def _shared(data, queue):
    memory = dpctl.memory.MemoryUSMShared(data.nbytes, queue=queue)
    view = np.frombuffer(memory, dtype=np.uint8).reshape(data.shape)
    view[:] = data
    return memory, view


def _run(kernel, row, operands, queue):
    """Run one kernel of the module on operands as bytes, A, B and C; return the bytes of D."""
    bits = ACCUMULATOR_BITS[row.destination]
    result = np.zeros((len(_INPUTS), row.repeat * row.execution_size * bits // 8), dtype=np.uint8)
    memories = [_shared(data, queue) for data in (*operands, result)]
    groups = len(_INPUTS) * row.execution_size
    queue.submit_async(kernel, [memory for memory, _ in memories], [groups], [row.execution_size]).wait()
    return memories[-1][1].copy()


def _close(row, found, expected, magnitude):
    """Return whether floats agree within the rounding of the sum, in any order, and of the result."""
    significand, smallest, largest = _STORED[row.destination]
    tolerance = 2 * row.k * 2.0**-24 * magnitude + 2.0**-significand * np.abs(expected) + smallest * 2.0**-significand
    finite = np.isfinite(expected) & (np.abs(expected) < largest) & np.isfinite(magnitude)
    with np.errstate(invalid="ignore"):
        equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
        # Beyond the largest value of the result it is infinite, or the sum of others that are.
        overflow = (np.abs(expected) >= largest) & (np.abs(found) >= largest) & (np.sign(found) == np.sign(expected))
        near = np.abs(found - expected) <= tolerance
    return np.where(finite, near, equal | overflow)


@pytest.mark.drawn(count=6)
@pytest.mark.parametrize("size", EXECUTION_SIZES)
@pytest.mark.parametrize("a", ["bf16", "f16", "tf32", "i8", "u8", "i4", "u4", "i2", "u2"])
def test_reachable_rows_follow_the_specification(size, a, pytestconfig):
    chosen = [row for row in rows(size) if row.unreachable is None and row.source2.name == a]
    if not chosen:
        assert (size, a) == (8, "tf32")
        return
    seed = seed_of(pytestconfig)
    if not pytestconfig.getoption("--every-row"):
        types = [((row.source1.name, row.source0, row.destination), row.repeat) for row in chosen]
        chosen = [chosen[place] for place in drawn_rows(types, f"{seed} {size} {a}")]
    queue = default_queue()
    program = dpctl.program.create_program_from_spirv(queue, translate(probe_module(chosen, emulated=True)))
    random = np.random.default_rng([size, *a.encode()])
    for row in chosen:
        operands = (
            _operand(row.source2.name, row.a_bits, random),
            _operand(row.source1.name, row.b_elements * 32 * size, random),
            _operand(row.source0, row.repeat * size * ACCUMULATOR_BITS[row.source0], random),
        )
        found = _run(program.get_sycl_kernel(row.name), row, operands, queue)
        expected, magnitude = dpas(row, operands[2], operands[1], operands[0])
        found = accumulator_from_bytes(row.destination, found).reshape(expected.shape)
        if row.destination == "i32":
            np.testing.assert_array_equal(found, expected, f"{row.name} --seed {seed}")
        else:
            assert _close(row, found, expected, magnitude).all(), f"{row.name} --seed {seed}"
