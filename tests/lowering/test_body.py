"""The body of a kernel: its text and its LLVM IR mean the same, and what is lowered can be kept and sent."""

from __future__ import annotations

import ctypes
import pickle
import random
from collections.abc import Callable

import pytest
from llvmlite import binding, ir

from tests.lowering.support import CPU, GPU
from tl_dpnp.errors import LoweringError, Span, UnsupportedError
from tl_dpnp.kernels.llvm import I64, Intrinsic, index
from tl_dpnp.kernels.targets import target_for
from tl_dpnp.language import parse
from tl_dpnp.lowering import lower
from tl_dpnp.lowering.body.building import BodyBuilder, call
from tl_dpnp.lowering.body.emission import BODY_NAME, emit_body
from tl_dpnp.lowering.body.printing import print_body
from tl_dpnp.lowering.body.tree import (
    And,
    Argument,
    Binary,
    Break,
    Choice,
    Comparison,
    Constant,
    Define,
    Evaluate,
    Expression,
    Name,
    Not,
    Return,
    add,
    bytes_of,
    multiply,
    offset_of,
    subtract,
)
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.scalars import F32, I1, I4, I8, INDEX
from tl_dpnp.target.device import Device

SPIRV = target_for("opencl")
ARGUMENTS = tuple(Argument(name, INDEX) for name in ("a", "b", "out"))

def _write(builder: ir.IRBuilder, arguments: list[ir.Value]) -> None:
    """Append a number to an array whose first element counts the others."""
    value, address = arguments
    array = builder.inttoptr(address, I64.as_pointer())
    count = builder.add(builder.load(array), index(1))
    builder.store(count, array)
    builder.store(value, builder.gep(array, [count]))


WRITE = Intrinsic("write", (INDEX, INDEX), None, _write)
TWICE = Intrinsic("twice", (INDEX,), INDEX, lambda builder, arguments: builder.mul(arguments[0], index(2)))


class _Random:
    """Writes a body at random; all loops end and no number leaves 64 bits."""

    def __init__(self, seed: int) -> None:
        self.random, self.body = random.Random(seed), BodyBuilder(debug=False)
        self.names = [Name("a"), Name("b")]
        self.block(3)
        for name in self.names:
            self.write(name)

    def write(self, value: Expression) -> None:
        self.body.evaluate(call(WRITE, value, Name("out")))

    def index(self, depth: int = 2) -> Expression:
        draw = self.random
        if depth == 0 or draw.random() < 0.2:
            return draw.choice([*self.names, draw.randint(-9, 9)])
        left, right = self.index(depth - 1), self.index(depth - 1)
        return draw.choice([
            lambda: add(left, right), lambda: subtract(left, right), lambda: multiply(left, right),
            lambda: Binary(">>", left, draw.randint(0, 3)), lambda: Binary("&", left, draw.randint(0, 7)),
            lambda: Choice(self.condition(), left, right), lambda: call(TWICE, left),
        ])()

    def condition(self, depth: int = 1) -> Expression:
        draw = self.random
        if depth and draw.random() < 0.3:
            return draw.choice([And(self.condition(0), self.condition(0)), Not(call(IS_ODD, self.index(1)))])
        return Comparison(draw.choice(["<", "<=", "==", "!="]), self.index(1), self.index(1))

    def small(self, value: Expression) -> Expression:
        """Return a number below 1024, so that what is made of it stays within 64 bits."""
        return Binary("&", value, 1023)

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        known, body = list(self.names), self.body
        match self.random.choice(["define", "assign", "write", "if", "while", "return"][: 6 if depth else 3]):
            case "define":
                self.names.append(body.define(self.small(self.index())))
            case "assign":
                self.names.append(body.variable(self.small(self.index())))
                body.assign(self.names[-1], self.small(self.index()))
            case "write":
                self.write(self.index())
            case "if":
                result = body.fresh()
                with body.branch(self.condition()):
                    self.block(depth - 1)
                    body.assign(result, self.small(self.index()))
                self.names = list(known)
                with body.otherwise():
                    self.block(depth - 1)
                    body.assign(result, self.small(self.index()))
                self.names = [*known, result]
            case "while":
                counter = body.variable(0)
                with body.loop(Comparison("<", counter, self.random.randint(0, 4))):
                    self.names = [*known, counter]
                    body.count_up(counter, self.random.randint(1, 2))
                    self.block(depth - 1)
                    if self.random.random() < 0.5:
                        with body.branch(self.condition()):
                            body.append(Break())
                self.names = [*known, counter]
            case "return":
                with body.branch(Comparison("==", self.index(), self.random.randint(0, 1023))):
                    body.append(Return())


IS_ODD = Intrinsic("is_odd", (INDEX,), I1, lambda builder, arguments: builder.icmp_unsigned(
    "==", builder.and_(arguments[0], index(1)), index(1)))


def compiled(statements: list, arguments: tuple[Argument, ...] = ARGUMENTS) -> Callable[..., list[int]]:
    """Compile a body for this machine; the function returns what it writes."""
    binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    text = emit_body(arguments, statements, SPIRV)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("target "))
    module = binding.parse_assembly(text.replace("spir_func ", "").replace("linkonce_odr", ""))
    module.verify()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(arguments))(engine.get_function_address(BODY_NAME))

    def run(*numbers: int) -> list[int]:
        assert engine  # which owns the code
        out = (ctypes.c_int64 * 4096)()
        function(*numbers, ctypes.addressof(out))
        return list(out[1 : 1 + out[0]])

    return run


def interpreted(statements: list, *numbers: int) -> list[int]:
    """Run the text of a body as Python, which it reads like."""
    written: list[int] = []
    namespace = {"write": lambda value, _out: written.append(value), "twice": lambda value: 2 * value,
                 "is_odd": lambda value: value % 2 == 1}
    exec(print_body("body", ARGUMENTS, statements), namespace)
    namespace["body"](*numbers, 0)
    return written


@pytest.mark.parametrize("seed", range(100))
def test_text_and_code_of_random_bodies_do_the_same(seed: int) -> None:
    statements = _Random(seed).body.statements
    run, draw = compiled(statements), random.Random(seed)
    for _ in range(4):
        numbers = [draw.randint(-1000, 1000) for _ in range(2)]
        assert run(*numbers) == interpreted(statements, *numbers)


def test_numbers_wrap_around() -> None:
    a, b, out = (Name(argument.name) for argument in ARGUMENTS)
    run = compiled([Evaluate(call(WRITE, value, out)) for value in (
        add(a, b), subtract(a, b), multiply(a, b), 1 << 63, (1 << 64) - 1, Binary(">>", a, 1))])
    largest, smallest = (1 << 63) - 1, -(1 << 63)
    assert run(largest, 2) == [smallest + 1, largest - 2, -2, smallest, -1, largest >> 1]
    assert run(smallest, -1)[:3] == [largest, smallest + 1, smallest]


def test_what_is_known_is_computed_beforehand() -> None:
    a, b = Name("a"), Name("b")
    assert offset_of([(a, 256), (b, 0), (3, 4), (0, a)]) == Binary("+", Binary("*", a, 256), 12)
    assert (add(a, 0), multiply(1, a), multiply(a, 0), subtract(a, 0)) == (a, a, 0, a)
    assert (bytes_of(6, I4), bytes_of(6, F32)) == (3, 24)
    assert bytes_of(a, I4) == Binary(">>", a, 1)


def test_text_has_the_parentheses_that_it_needs() -> None:
    a, b = Name("a"), Name("b")
    values = [multiply(add(a, 1), b), subtract(a, subtract(b, a)), add(Binary(">>", a, 1), b),
              multiply(Choice(Comparison("<", a, b), a, b), 2), Constant(7, I8), Constant(float("inf"), F32)]
    text = print_body("body", ARGUMENTS, [Define(Name(f"v{number}"), value) for number, value in enumerate(values)])
    assert text.splitlines()[1:] == [
        "    v0 = (a + 1) * b", "    v1 = a - (b - a)", "    v2 = (a >> 1) + b", "    v3 = (a if a < b else b) * 2",
        "    v4 = i8(7)", "    v5 = f32(inf)"]
    assert print_body("body", (), []) == "def body():\n    pass\n"


def test_values_of_other_types_are_not_taken() -> None:
    with pytest.raises(AssertionError, match="is no index"):
        emit_body(ARGUMENTS, [Evaluate(call(WRITE, Constant(1, I8), Name("out")))], SPIRV)


@pytest.mark.parametrize(("raised", "expected"), [
    (KeyError("planted"), LoweringError), (UnsupportedError("planted"), UnsupportedError),
    (MemoryError(), MemoryError)])
def test_what_an_intrinsic_raises_has_its_place(raised: Exception, expected: type[Exception]) -> None:
    def fail(_builder: ir.IRBuilder, _arguments: list[ir.Value]) -> None:
        raise raised

    place = Span("program.tl", 3, 5, 3, 9)
    with pytest.raises(expected) as error:
        emit_body((), [Evaluate(call(Intrinsic("fails", (), None, fail, place)))], SPIRV)
    if expected is not MemoryError:
        (diagnostic,) = error.value.diagnostics
        assert diagnostic.span == place


PROGRAMS = {
    "products": """func @f(%a: memref<f32x16x16x?>, %b: memref<f32x16x16>) {
        %g = group_id
        %x = subview %a[:, :, %g] : memref<f32x16x16x?>
        gemm.n.n 1.0, %b, %b, 1.0, %x : f32, memref<f32x16x16>, memref<f32x16x16>, f32, memref<f32x16x16>
    }""",
    "large product": """func @f(%a: memref<bf16x512x512>, %b: memref<bf16x512x512>, %c: memref<f32x512x512>) {
        gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<bf16x512x512>, memref<bf16x512x512>, f32, memref<f32x512x512>
    }""",
    "scalar code": """func @f(%x: memref<f32x?>, %n: index) {
        foreach %i = 0, %n {
          %a = load %x[%i] : memref<f32x?>
          %c = cmp.lt %a, 0.0 : f32
          %b = if %c -> (f32) { %e = math.exp %a : f32
            yield %e : f32 } else { yield %a : f32 }
          store %b, %x[%i] : memref<f32x?>
        }
    }""",
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("device", [CPU, GPU, H200], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_lowered_pickles(program: str, device: Device, debug: bool) -> None:
    (function,) = parse(PROGRAMS[program])
    lowered = lower(function, device, LoweringOptions(debug=debug))
    kept = pickle.loads(pickle.dumps(lowered))
    for part in ("plan", "arguments", "llvm", "source", "stages", "schedule", "mapping", "remarks"):
        assert getattr(kept, part) == getattr(lowered, part), part
    assert f"@\"{BODY_NAME}\"" in kept.llvm
