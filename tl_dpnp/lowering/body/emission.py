"""The body of a kernel as LLVM IR: a function in a module of its own, which the adapters of Numba link.

Variables are in memory, which LLVM's mem2reg turns into registers at the beginning of its pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from llvmlite import ir

from tl_dpnp.kernels.llvm import constant, value_type
from tl_dpnp.kernels.targets import Target, new_module
from tl_dpnp.lowering.body.tree import (
    And,
    Argument,
    Assign,
    Binary,
    Break,
    Call,
    Choice,
    Comparison,
    Constant,
    Count,
    Define,
    Evaluate,
    Expression,
    If,
    Name,
    Not,
    Return,
    Statement,
    While,
)
from tl_dpnp.lowering.faults import located
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1 as BOOLEAN
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = ["BODY_NAME", "emit_body"]

#: The name of the function in the module of a body.
BODY_NAME = "tl_body"
_INSTRUCTIONS = {"+": "add", "-": "sub", "*": "mul", ">>": "ashr", "&": "and_"}


def emit_body(arguments: Sequence[Argument], statements: Sequence[Statement], target: Target) -> str:
    """Return the text of a module with the function `BODY_NAME`, which is inlined where it is called.

    Raises what the emission of an intrinsic raises, with the place of its instruction.
    """
    module = new_module("body", target)
    types = [value_type(argument.type) for argument in arguments]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), BODY_NAME)
    function.linkage = "linkonce_odr"  # nothing is left of it once it is inlined
    function.calling_convention = target.calling_convention
    for attribute in ("alwaysinline", "nounwind"):
        function.attributes.add(attribute)
    # The first block is for arrays, variables, and what their first values are; it ends when all else is written.
    entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
    values: dict[str, ir.Value] = {}
    for argument, value in zip(arguments, function.args, strict=True):
        value.name = argument.name
        values[argument.name] = value
    emitter = _Emitter(ir.IRBuilder(start), values)
    emitter.block(statements)
    if not emitter.builder.block.is_terminated:
        emitter.builder.ret_void()
    ir.IRBuilder(entry).branch(start)
    return str(module)


@dataclass
class _Emitter:
    builder: ir.IRBuilder
    values: dict[str, ir.Value]
    variables: dict[str, ir.AllocaInstr] = field(default_factory=dict)
    #: What follows the loops around the current place.
    exits: list[ir.Block] = field(default_factory=list)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            assert not self.builder.block.is_terminated, f"nothing reaches {statement}"
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Define(name, value):
                assert name.name not in self.values, f"{name.name} is defined already"
                self.values[name.name] = self.value(value, name.type)
            case Assign(variable, value):
                self.builder.store(self.value(value, variable.type), self.variable(variable))
            case Count(variable, step):
                following = self.builder.add(self.value(variable), self.value(step), flags=("nsw",))
                self.builder.store(following, self.variable(variable))
            case Evaluate(call):
                self.call(call)
            case If(condition, then, otherwise):
                self.branch(condition, then, otherwise)
            case While(condition, body):
                self.loop(condition, body)
            case Return():
                self.builder.ret_void()
            case Break():
                self.builder.branch(self.exits[-1])

    def variable(self, name: Name) -> ir.AllocaInstr:
        if name.name not in self.variables:
            with self.builder.goto_entry_block():
                self.variables[name.name] = self.builder.alloca(value_type(name.type), name=name.name)
        return self.variables[name.name]

    def branch(
        self, condition: Expression, then: Sequence[Statement], otherwise: Sequence[Statement] | None
    ) -> None:
        builder = self.builder
        test = self.value(condition, BOOLEAN)
        blocks = [(builder.append_basic_block("then"), then)]
        if otherwise is not None:
            blocks.append((builder.append_basic_block("else"), otherwise))
        after = builder.append_basic_block("after")
        builder.cbranch(test, blocks[0][0], after if otherwise is None else blocks[1][0])
        for block, statements in blocks:
            builder.position_at_end(block)
            self.block(statements)
            if not builder.block.is_terminated:
                builder.branch(after)
        builder.position_at_end(after)

    def loop(self, condition: Expression, body: Sequence[Statement]) -> None:
        """Emit a loop with its test in front of it and, once more, at its end, which back ends need to unroll it."""
        builder = self.builder
        inside, after = builder.append_basic_block("while"), builder.append_basic_block("after")
        builder.cbranch(self.value(condition, BOOLEAN), inside, after)
        builder.position_at_end(inside)
        self.exits.append(after)
        self.block(body)
        self.exits.pop()
        if not builder.block.is_terminated:
            builder.cbranch(self.value(condition, BOOLEAN), inside, after)
        builder.position_at_end(after)

    # --- expressions -------------------------------------------------------------------------------------------------

    def value(self, expression: Expression, wanted: ScalarType = INDEX) -> ir.Value:
        """Return the value of an expression, which is of the type that is wanted."""
        type_ = value_type(wanted)
        match expression:
            case int():
                return ir.Constant(type_, _wrapped(expression, type_.width))
            case Constant(value):
                known = value_type(expression.type)
                if isinstance(known, ir.IntType):
                    assert not isinstance(value, complex)
                    value = _wrapped(value, known.width)
                result = constant(known, value)
            case Name(name):
                result = self.values[name] if name in self.values else self.builder.load(self.variables[name])
            case Binary(operator, left, right):
                result = getattr(self.builder, _INSTRUCTIONS[operator])(self.value(left), self.value(right))
            case Comparison(operator, left, right):
                result = self.builder.icmp_signed(operator, self.value(left), self.value(right))
            case And(left, right):
                result = self.builder.and_(self.value(left, BOOLEAN), self.value(right, BOOLEAN))
            case Not(condition):
                result = self.builder.not_(self.value(condition, BOOLEAN))
            case Choice(condition, then, otherwise):
                result = self.builder.select(self.value(condition, BOOLEAN), self.value(then), self.value(otherwise))
            case Call():
                result = self.call(expression)
        assert getattr(result, "type", None) == type_, f"{expression} is no {wanted}"
        return result

    def call(self, call: Call) -> ir.Value | None:
        intrinsic = call.intrinsic
        arguments = [self.value(argument, type_)
                     for argument, type_ in zip(call.arguments, intrinsic.parameters, strict=True)]
        with located(intrinsic.span):
            return intrinsic.emit(self.builder, arguments)


def _wrapped(value: bool | int | float, bits: int) -> int:
    """Return an integer as the signed one of so many bits that it wraps around to."""
    half = 1 << (bits - 1)
    return int(value) if bits == 1 else (int(value) + half) % (2 * half) - half
