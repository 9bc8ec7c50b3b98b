"""What holds for each instruction because it is a class: its example, its spelling, its meaning, its builder method."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pytest

from tl_dpnp.errors import TLError
from tl_dpnp.language import FunctionBuilder, ops, parse, print_module
from tl_dpnp.language.grammar import RULES
from tl_dpnp.language.hints import FORMS
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import F32

ALGEBRA = [kind for kind in ops.INSTRUCTIONS if issubclass(kind, ops.LinearAlgebra)]
CONTRACTIONS = [kind for kind in ops.INSTRUCTIONS if issubclass(kind, ops.Contraction)]
#: Instructions that the builder has under another name: theirs is a word of Python, or an attribute of the builder.
BUILDER_NAMES = {"if": "if_", "for": "for_", "yield": "yield_", "subgroup_size": "subgroup_size_"}


def name_of(kind):
    return kind.__name__


def spelled(kind):
    """Return the spellings of an instruction: its example with each of its kinds and modifiers."""
    if issubclass(kind, ops.LinearAlgebra):
        operands = re.sub(r"\balpha\b", "1.0", re.sub(r"\bbeta\b", "0.0", kind.example.partition(" ")[2]))
        for letters in re.split(",|->", kind.shapes[-1]):
            operands = operands.replace("memref<...>", f"memref<f32{'x4' * len(letters)}>", 1)
        precisions = ("", ".highest", ".high", ".default") if kind.has_precision else ("",)
        modifiers = itertools.product(*[(".n", ".t")] * kind.transposable, precisions, ("", ".atomic"))
        return [f"{kind.mnemonic}{''.join(words)} {operands}" for words in modifiers]
    if kind is ops.Math:
        return [f"%b = math.{word} {', '.join(['%a'] * function.operands)} : f32"
                for word, function in ops.MATHEMATICS.items()]
    example = kind.example.replace("{ ... }", "{ }")
    if not kind.kinds:
        return [example]
    return [re.sub(rf"\b{kind.mnemonic}\.\w+", f"{kind.mnemonic}.{word}", example) for word in kind.kinds]


def with_matrices(text):
    """Yield programs around an instruction on cooperative matrices."""
    for use in ("acc", "a"):
        values = {"A": f"16x8,matrix_{use}", "B": "8x8,matrix_b", "C": "16x8,matrix_acc"}
        matrices = " ".join(f"%{name} = constant 1.0 : coopmatrix<f32x{type}>" for name, type in values.items()
                            if not text.startswith(f"%{name} ="))
        number = "" if "(%i, %j, %v)" in text else ", %v: f32"
        yield f"func @f(%M: memref<f32x64x64>, %x: index, %y: index{number}) {{ parallel {{ {matrices} {text} }} }}"


def completed(text):
    """Yield programs around an instruction, with the types that its values may have."""
    if "cooperative_matrix" in text:
        yield from with_matrices(text)
        return
    defined = re.match(r"(%\w+(?:, %\w+)*) =", text)
    names = sorted(set(re.findall(r"%[A-Za-z]\w*", text)) - set(defined[1].split(", ") if defined else ()))
    names = [name for name in names if not re.search(rf"for(each)? {name} =", text)]
    names = [] if text.startswith("foreach_tile") else names  # it defines them all
    memrefs = re.findall(r"memref<[^>]*>", text)
    scalars = re.findall(r"(?<=[ (])(?:f32|i32|c32)\b", text) or ["f32"]
    vector = memrefs[:1] or ["memref<f32x4>"]  # where the spelling has no type of it
    candidates = {"%i": ["index"], "%l": ["i32"], "%m": vector, "%A": vector, "%B": vector, "%condition": ["i1"]}
    if len(memrefs) > 1:  # of linear algebra, in the order of its operands
        names = re.findall(r"%\w", text)
        candidates = {name: [memref] for name, memref in zip(names, memrefs, strict=True)}
    for types in itertools.product(*(candidates.get(name, dict.fromkeys(scalars)) for name in names)):
        parameters = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True))
        yield f"func @f({parameters}) {{ {text} }}"
        yield f"func @f({parameters}) {{ parallel {{ {text} }} }}"
        yield f"func @f({parameters}) {{ %u, %v = if true -> (f32, i32) {{ {text} }} else {{ {text} }} }}"
    yield f"func @f() {{ %m = alloca -> memref<f32x4> {text} }}"


def parsed(program):
    """Return the module of a program, None for one that is not legal."""
    try:
        return parse(program)
    except TLError:
        return None


def is_operation(module, kind):
    return any(isinstance(operation, kind) for operation in module.functions[0].body.walk())


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=name_of)
def test_the_spelling_is_read_and_printed(kind):
    """The example, with each kind and each modifier, is legal for operands of some types, and prints as itself."""
    for text in spelled(kind):
        module = next(filter(None, map(parsed, completed(text))), None)
        if module is None:  # of the kinds, some are for other numbers alone
            others = (program for other in ("i32", "c32") for program in completed(text.replace("f32", other)))
            parts = (program.replace("%m: memref<f32x2x", "%m: memref<c32x") for program in completed(text))
            module = next(filter(None, map(parsed, itertools.chain(others, parts))), None)
        assert module is not None, text
        assert is_operation(module, kind)
        printed = print_module(module, dialect="0.4" if kind.is_newer else "0.3")
        assert f"{text.split('= ')[-1].split(' ')[0]}" in printed
        assert parse(printed) == parse(print_module(module)) == module


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=name_of)
def test_hints_show_every_word(kind):
    for word in (kind.mnemonic, *kind.aliases):
        assert word in FORMS
    assert re.sub(r"^%\w+ = ", "", FORMS[kind.mnemonic]).startswith(kind.mnemonic)


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=name_of)
def test_every_instruction_has_a_meaning_and_words_for_it(kind):
    assert kind.steps is not ops.Operation.steps if kind.waits else kind.execute is not ops.Operation.execute
    assert kind.spell is not ops.Operation.spell
    assert inspect.getdoc(kind)
    assert kind in RULES.values()


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=name_of)
def test_the_builder_has_a_method(kind):
    method = getattr(FunctionBuilder, BUILDER_NAMES.get(kind.mnemonic, kind.mnemonic))
    assert method.__doc__.startswith("``")
    assert next(iter(inspect.signature(method).parameters)) == "self"


def test_methods_of_linear_algebra_say_what_they_take():
    signature = inspect.signature(FunctionBuilder.gemm)
    assert list(signature.parameters) == [
        "self", "alpha", "A", "B", "beta", "C", "transpose_a", "transpose_b", "atomic", "precision",
    ]
    assert signature.parameters["transpose_b"].kind is inspect.Parameter.KEYWORD_ONLY
    assert FunctionBuilder.gemv.__doc__ == "``gemv``: c := alpha op(A) b + beta c"
    with pytest.raises(TypeError, match="missing a required argument: 'C'"):
        FunctionBuilder("f", x=F32).gemm(1.0, None, None, 0.0)


@pytest.mark.parametrize("kind", CONTRACTIONS, ids=name_of)
def test_the_meaning_of_a_contraction_is_that_of_its_shapes(kind):
    """The interpreter computes `product`, the devices what the shapes say: they must be one formula."""
    rng = np.random.default_rng(0)
    for shapes in kind.shapes:
        letters = shapes.partition("->")[0].split(",")
        sizes = dict(zip("KMN", (5, 3, 4), strict=True))
        inputs = [rng.random([sizes[letter] for letter in names]) for names in letters]
        np.testing.assert_allclose(kind.product(*inputs), np.einsum(shapes, *inputs), rtol=1e-13)


@pytest.mark.parametrize("kind", ALGEBRA, ids=name_of)
def test_linear_algebra_touches_what_it_says(kind):
    values = [ops.Value(name, MemrefType(F32, (4,))) for name in kind.names]
    *inputs, output = values
    for beta, atomic in itertools.product((0.0, 1.0), (False, True)):
        operation = kind(alpha=ops.Constant(1.0, F32), inputs=tuple(inputs),
                         beta=ops.Constant(beta, F32), output=output, atomic=atomic)
        assert operation.writes == (output,)
        assert operation.reads == ((*inputs, output) if beta or atomic else tuple(inputs))
