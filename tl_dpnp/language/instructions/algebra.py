"""Linear algebra: instructions ``out := alpha · f(inputs) + beta · out`` that a work-group does together.

The `shapes` of a class name the sizes of its operands, as `numpy.einsum` does.  Those of a `Contraction` say all that
it computes: its rules, its spelling, the method of the builder and its loops on every device follow from them.

Source: tensor language reference, sections "Axpby" to "Sum".
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.assembly import Writing
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.ir import Constant, Operand, Operation, Value, memref_type, scalar_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.rules import cast_hint, operand_name
from tl_dpnp.language.type_rules import check_mode, describe
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, I1, PRECISIONS, Precision, ScalarType, is_lossless

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import WorkGroup
    from tl_dpnp.language.interpreter.scalar import Array

_ORDERS = {0: "a scalar memref (order 0)", 1: "a vector (order 1)", 2: "a matrix (order 2)"}
#: A name for the size of each of the most modes that a memref has.
_LETTERS = f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}#$"
#: The shapes of the product of two matrices, as those of an instruction.
_MATRIX_PRODUCT = ("MK,KN->MN",)


@dataclass(frozen=True)
class LinearAlgebra(Operation):
    """Base of the collective instructions ``out := alpha · f(inputs) + beta · out``.

    `transposes` holds one flag for each input that the spelling gives a ``.t`` or ``.n``; `atomic` updates `out`
    atomically.  `alpha` and `beta` carry their annotated types.  `precision` is what a product of f32 may lose on a
    matrix engine, None where the kernel's option decides.
    """

    collective: ClassVar[bool] = True
    #: The named sizes of each input and of the output, after transposition.  Where an instruction accepts several
    #: orders, the order of the first input chooses the alternative.
    shapes: ClassVar[tuple[str, ...]]
    #: The names of the inputs and of the output, as the builder has them.
    names: ClassVar[tuple[str, ...]]
    #: So many inputs, from the first on, have a ``.t`` or ``.n``.
    transposable: ClassVar[int] = 0
    has_precision: ClassVar[bool] = False
    #: Whether the number of a mode stands behind the inputs, in the field `mode`.
    has_mode: ClassVar[bool] = False
    #: f of NumPy arrays of the type in which sums are kept, transposed already.
    product: ClassVar[Callable[..., Array]]
    #: Whether the older reference writes a comma before the operands.
    older_comma: ClassVar[bool] = True

    alpha: Operand
    inputs: tuple[Value, ...]
    beta: Operand
    output: Value
    transposes: tuple[bool, ...] = ()
    atomic: bool = False
    precision: Precision | None = None

    @property
    def keeps(self) -> bool:
        """Whether the output is added to, or may be: a beta that is the constant 0 leaves it unread."""
        return not (isinstance(self.beta, Constant) and self.beta.value == 0)

    @property
    def reads(self) -> tuple[Value, ...]:
        return (*self.inputs, self.output) if self.keeps or self.atomic else self.inputs

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.output,)

    @property
    def is_matrix_product(self) -> bool:
        """Whether it computes products of matrices, as matrix engines do."""
        return isinstance(self, Contraction) and self.shapes == _MATRIX_PRODUCT

    @property
    def dimension_names(self) -> list[tuple[Value, str]]:
        """Each input and the output, of a verified instruction, with one letter for each of its modes.

        Modes with the same letter have the same size: ``gemm.t.n`` gives KM, KN and MN.
        """
        memrefs = (*self.inputs, self.output)
        row = self.row_of(memref_type(memrefs[0]).order)
        assert row is not None
        flags = (*self.transposes, *[False] * len(self.inputs))
        inputs = [dims[::-1] if flag else dims for dims, flag in zip(row[:-1], flags, strict=False)]
        return list(zip(memrefs, [*inputs, row[-1]], strict=True))

    @classmethod
    def row_of(cls, order: int) -> tuple[str, ...] | None:
        """Return the letters of inputs and output where the first input is of an order; None where it cannot be."""
        return next((row for row in _alternatives(cls) if len(row[0]) == order), None)

    # --- spelling ----------------------------------------------------------------------------------------------------

    @classmethod
    def grammar(cls) -> dict[str, str]:
        count, flags = len(cls.names) - 1, " transpose" * cls.transposable
        precision = " precision?" if cls.has_precision else ""
        words = " | ".join(f'"{word}"' for word in (*cls.aliases, cls.mnemonic))
        memrefs, types = ' "," LOCAL_IDENTIFIER' * count, ' "," memref_type' * count
        # Instructions with the same modifiers and numbers of operands share these rules.
        suffix = f"_{cls.transposable}{'_precision' * cls.has_precision}"
        older, newer = f"_modifiers{suffix}", f"_fewer_modifiers{suffix}"
        operands = f'_const_or_val{memrefs} "," _const_or_val "," LOCAL_IDENTIFIER'
        rules = {
            f"{cls.mnemonic}_instruction":
                f"""({words}) {older} {'","? ' * cls.older_comma}_operands_{count} [":" types_{count}]""",
            older: f"{flags}{precision} atomic?" + (f" | atomic{flags}{precision}" if flags else ""),
            f"_operands_{count}": operands,
            f"types_{count}": f'scalar_type{types} "," scalar_type "," memref_type',
        }
        if cls.transposable:  # without types, the last transposes may be left out
            fewer = [" transpose" * number + precision for number in range(cls.transposable)]
            rules |= {
                f"{cls.mnemonic}_newer_instruction": f"({words}) {newer} _operands_{count}",
                newer: " | ".join([*(f"{some} atomic?" for some in fewer), *(f"atomic{some}" for some in fewer)]),
            }
        return rules

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """Constants without a type take the element type of the output."""
        types = None if tree.data.endswith("_newer_instruction") else tree.children[-1]
        nodes = tree.children if tree.data.endswith("_newer_instruction") else tree.children[:-1]
        count = len(nodes) - len(cls.names) - 2
        words = [elaborator.word(child) for child in nodes[:count]]
        places = nodes[count:]
        if types is None:
            type = elaborator.type_of(places[-1])
            element = type.element if isinstance(type, MemrefType) else type
            annotations: list[Any] = [(element, None), *[None] * (len(places) - 3), (element, None), None]
        else:
            annotations = [(elaborator.type(type), type) for type in types.children]
        first, *middle, last_scalar, last = zip(places, annotations, strict=True)
        alpha, inputs = elaborator.agreed(*first), [elaborator.memref(*each) for each in middle]
        beta, output = elaborator.agreed(*last_scalar), elaborator.memref(*last)
        flags = [word == "t" for word in words if word in ("t", "n")]
        return cls(
            alpha=alpha,
            inputs=tuple(inputs),
            beta=beta,
            output=output,
            transposes=(*flags, *[False] * (cls.transposable - len(flags))),
            atomic="atomic" in words,
            precision=next((name for name in PRECISIONS if name in words), None),
        )

    def spell(self, writing: Writing) -> str:
        flags = list(self.transposes)
        if writing.newer:
            while flags and not flags[-1]:
                flags.pop()
        transposes = "".join(".t" if flag else ".n" for flag in flags)
        precision, atomic = f".{self.precision}" if self.precision else "", ".atomic" * self.atomic
        if writing.newer:
            return f"{self.mnemonic}{atomic}{transposes}{precision} {writing.listed(self.operands)}"
        types = ", ".join(map(writing.type_of, self.operands))
        return f"{self.mnemonic}{transposes}{precision}{atomic} {writing.listed(self.operands)} : {types}"

    # --- rules -------------------------------------------------------------------------------------------------------

    def errors(self) -> Iterator[RuleError]:
        name, count = self.mnemonic, len(self.names)
        if len(self.transposes) != self.transposable:
            takes = counted(self.transposable, "transpose")
            yield RuleError(f"{name} takes {takes}, but {len(self.transposes)} given")
            return
        memrefs = (*self.inputs, self.output)
        if len(memrefs) != count:
            yield RuleError(f"{name} takes {counted(count - 1, 'input')}, but {len(self.inputs)} given")
            return
        positions = (*range(1, count), count + 1)
        sound = True
        for memref, position in zip(memrefs, positions, strict=True):
            if not isinstance(memref.type, MemrefType):
                hint = "load one memref of the group first" if isinstance(memref.type, GroupType) else (
                    "write the name of a memref")
                yield RuleError(f"{name} needs a memref, but {memref} is {describe(memref.type)}", hint, position)
                sound = False
            elif memref.type.element == I1:
                message = f"{name} does not work on elements of type i1"
                yield RuleError(message, "use an integer or floating-point type", position)
                sound = False
        if sound:
            yield from self._precision_errors()
            yield from self._element_errors(positions)
            yield from self._shape_errors(positions)

    def _precision_errors(self) -> Iterator[RuleError]:
        """Yield an error for a precision of what is no product of f32."""
        if self.precision is None:
            return
        if not self.has_precision or self.precision not in PRECISIONS:
            message = f"{self.mnemonic} has no precision {self.precision!r}"
            yield RuleError(message, f"there are {', '.join(PRECISIONS)}")
            return
        elements = [memref_type(value).element for value in (*self.inputs, self.output)]
        if any(element != F32 for element in elements):
            types = ", ".join(map(str, elements))
            yield RuleError(f".{self.precision} is for products of f32, not of {types}", "leave it away")

    def _element_errors(self, positions: tuple[int, ...]) -> Iterator[RuleError]:
        """Yield an error for each operand that does not convert to the output's element type without loss."""
        target = memref_type(self.output).element
        operands: list[tuple[Operand, int]] = [(self.alpha, 0), (self.beta, len(self.inputs) + 1)]
        operands += zip(self.inputs, positions, strict=False)
        for operand, position in operands:
            source = operand.type.element if isinstance(operand.type, MemrefType) else operand.type
            if position not in positions and not isinstance(operand.type, ScalarType):  # alpha or beta
                message = f"{self.mnemonic} needs a scalar here, but {operand} is {describe(operand.type)}"
                yield RuleError(message, "write a constant, or load an element", position)
                continue
            assert isinstance(source, ScalarType)
            if not is_lossless(source, target):
                what = "elements of type" if isinstance(operand.type, MemrefType) else "type"
                hint = cast_hint(operand, target)
                if isinstance(operand.type, MemrefType):
                    hint = f"use elements of type {target} in {operand}, or of another type in {self.output}"
                yield RuleError(
                    f"{operand_name(operand)} has {what} {source}, which cannot become {target}, the element type of "
                    f"the output {self.output}, without loss",
                    hint,
                    position,
                )

    def _shape_errors(self, positions: tuple[int, ...]) -> Iterator[RuleError]:
        """Yield an error for each operand of a wrong order, and each size unlike another of the same name."""
        name, memrefs, alternatives = self.mnemonic, (*self.inputs, self.output), _alternatives(type(self))
        shapes = [memref_type(memref).shape for memref in memrefs]
        row = self.row_of(len(shapes[0]))
        if row is None:
            expected = " or ".join(_order(len(row[0])) for row in alternatives)
            formulas = " or ".join(map(_formula, alternatives))
            yield RuleError(
                f"{name} needs {expected}, but {memrefs[0]} is {describe(memrefs[0].type)}",
                f"{name} computes {formulas}; subview, expand or fuse give memrefs of other orders",
                positions[0],
            )
            return
        entries = list(zip(memrefs, row, shapes, positions, strict=True))
        wrong = [entry for entry in entries if len(entry[1]) != len(entry[2])]
        for memref, dims, _, position in wrong:
            message = f"{name} needs {_order(len(dims))} here, but {memref} is {describe(memref.type)}"
            hint = f"{name} computes {_formula(row)}; subview, expand or fuse give memrefs of other orders"
            yield RuleError(message, hint, position)
        if wrong:
            return
        known: dict[str, tuple[int, Value, bool]] = {}
        flags = (*self.transposes, *[False] * len(memrefs))
        for (memref, dims, shape, position), flag in zip(entries, flags, strict=False):
            transposed = flag and len(shape) == 2 and memref is not self.output
            for dim, size in zip(dims, shape[::-1] if transposed else shape, strict=True):
                if size is None:
                    continue
                first, owner, owner_transposed = known.setdefault(dim, (size, memref, transposed))
                if first != size:
                    yield RuleError(
                        f"the shapes do not fit: {dim} is {first} in {_operand(owner, owner_transposed)} "
                        f"but {size} in {_operand(memref, transposed)}",
                        f"{name} computes {_formula(row)}; change a size{' or a transpose' * bool(self.transposable)}",
                        position,
                    )

    # --- meaning -----------------------------------------------------------------------------------------------------

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        element = memref_type(self.output).element
        alpha, beta = (
            group.scalar.convert(group.value(operand), scalar_type(operand), element)
            for operand in (self.alpha, self.beta)
        )
        inputs = [group.value(value) for value in self.inputs]
        group.algebra.update(self, alpha, inputs, beta if self.keeps else None, group.value(self.output))
        return ()


def _alternatives(kind: type[LinearAlgebra]) -> list[tuple[str, ...]]:
    """Return the letters of inputs and output for each of the shapes that an instruction accepts."""
    return [(*inputs.split(","), output) for inputs, output in (shapes.split("->") for shapes in kind.shapes)]


def _order(order: int) -> str:
    return _ORDERS.get(order, f"a memref of order {order}")


def _operand(memref: Value, transposed: bool) -> str:
    return f"the transpose of {memref}" if transposed else str(memref)


def _formula(row: tuple[str, ...]) -> str:
    """Return the shapes of inputs and output as text: ``MxK, KxN -> MxN``."""
    *inputs, output = ("x".join(dims) or "order 0" for dims in row)
    return f"{', '.join(inputs)} -> {output}"


class Contraction(LinearAlgebra):
    """Base of the instructions ``out := alpha · Σ Π inputs + beta · out``, the sum over the sizes that `out` lacks.

    It is what `numpy.einsum` computes of the `shapes`, and what `tl_dpnp.lowering.contraction` makes loops of.
    """


class Axpby(Contraction):
    """B := alpha op(A) + beta B"""

    mnemonic = "axpby"
    shapes = ("->", "M->M", "MN->MN")
    names = ("A", "B")
    transposable = 1
    older_comma = False
    product = staticmethod(lambda a: a)


class Gemm(Contraction):
    """C := alpha op(A) op(B) + beta C"""

    mnemonic = "gemm"
    shapes = _MATRIX_PRODUCT
    names = ("A", "B", "C")
    transposable = 2
    has_precision = True
    product = staticmethod(lambda a, b: a @ b)


class Gemv(Contraction):
    """c := alpha op(A) b + beta c"""

    mnemonic = "gemv"
    shapes = ("MK,K->M",)
    names = ("A", "b", "c")
    transposable = 1
    has_precision = True
    product = staticmethod(lambda a, b: a @ b)


class Ger(Contraction):
    """C := alpha a bᵀ + beta C"""

    mnemonic = "ger"
    shapes = ("M,N->MN",)
    names = ("a", "b", "C")
    product = staticmethod(lambda a, b: a[:, None] * b[None, :])


class Hadamard(Contraction):
    """c := alpha a ∘ b + beta c, of vectors or matrices"""

    mnemonic = "hadamard"
    shapes = ("M,M->M", "MN,MN->MN")
    names = ("a", "b", "c")
    aliases = ("hadamard_product",)
    product = staticmethod(lambda a, b: a * b)


@dataclass(frozen=True)
class Cumsum(LinearAlgebra):
    """B := alpha (sums of A from the first element on, along a mode) + beta B"""

    mnemonic = "cumsum"
    shapes = ("M->M", "MN->MN", "MNP->MNP")  # and so on
    names = ("A", "B")
    has_mode = True
    is_newer = True

    mode: int = 0

    @classmethod
    def row_of(cls, order: int) -> tuple[str, ...] | None:
        return (_LETTERS[:order],) * 2 if order else None

    def product(self, a: Array) -> Array:
        return a.cumsum(axis=self.mode, dtype=a.dtype)

    @classmethod
    def grammar(cls) -> dict[str, str]:
        operands = '_const_or_val "," LOCAL_IDENTIFIER "," INTEGER_CONSTANT "," _const_or_val "," LOCAL_IDENTIFIER'
        return {f"{cls.mnemonic}_newer_instruction": f'"{cls.mnemonic}" atomic? {operands}'}

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        *nodes, mode, beta, output = tree.children
        operation = super().read(elaborator, type(tree)(tree.data, [*nodes, beta, output]), results)
        return replace(operation, mode=elaborator.mode(mode))  # type: ignore[call-arg]

    def spell(self, writing: Writing) -> str:
        first, last = writing.listed((self.alpha, *self.inputs)), writing.listed((self.beta, self.output))
        return f"{self.mnemonic}{'.atomic' * self.atomic} {first}, {self.mode}, {last}"

    def errors(self) -> Iterator[RuleError]:
        type = self.inputs[0].type if self.inputs else None
        if isinstance(type, MemrefType) and not type.order:
            hint = "write the name of a memref of order 1 or more"
            yield RuleError(f"{self.mnemonic} needs a mode to sum along, but {self.inputs[0]} is {describe(type)}",
                            hint, 1)
            return
        yield from super().errors()
        if isinstance(type, MemrefType):
            try:
                check_mode(self.mode, type, len(self.operands))
            except RuleError as error:
                yield error


class Sum(Contraction):
    """B := alpha op(A) 1 + beta B, or the sum of a vector"""

    mnemonic = "sum"
    shapes = ("M->", "MN->M")
    names = ("A", "B")
    transposable = 1
    product = staticmethod(lambda a: a.sum(axis=-1, dtype=a.dtype))


# --- the builder -----------------------------------------------------------------------------------------------------


def _method(kind: type[LinearAlgebra]) -> Callable[..., None]:
    """Return the builder's method for an instruction: its operands, then by keyword its modifiers."""
    *inputs, output = kind.names
    transposes = ["transpose"] if kind.transposable == 1 else [
        f"transpose_{name.lower()}" for name in inputs[: kind.transposable]
    ]
    positional = ["self", "alpha", *inputs, *["mode"] * kind.has_mode, "beta", output]
    types: dict[str, Any] = dict.fromkeys((*inputs, output), Value)
    types |= {"alpha": Argument, "beta": Argument, "mode": int}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                          annotation=types.get(name, inspect.Parameter.empty)) for name in positional
    ]
    keywords: list[tuple[str, Any, Any]] = [(name, bool, False) for name in (*transposes, "atomic")]
    if kind.has_precision:
        keywords.append(("precision", Precision | None, None))
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type)
                   for name, type, default in keywords]
    signature = inspect.Signature(parameters, return_annotation=None)

    def method(self: AlgebraMethods, *arguments: Any, **options: Any) -> None:
        bound = signature.bind(self, *arguments, **options)
        bound.apply_defaults()
        given = bound.arguments
        self._linear_algebra(kind, given, inputs, output, transposes)

    method.__name__, method.__qualname__ = kind.mnemonic, f"FunctionBuilder.{kind.mnemonic}"
    method.__doc__ = f"``{kind.mnemonic}``: {kind.__doc__}"
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


class AlgebraMethods(Building):
    """What a function builder has for linear algebra: a method for each class, named as the instruction.

    Numbers for alpha and beta take the element type of the output.
    """

    #: Methods by what their instructions are called elsewhere.
    called_elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(("matmul", "dot", "mm", "bmm"), "gemm")

    def _linear_algebra(
        self, kind: type[LinearAlgebra], given: dict[str, Any], inputs: list[str], output: str, transposes: list[str]
    ) -> None:
        element = self._memref(given[output]).element
        mode: dict[str, Any] = {"mode": self._integer(given["mode"], "a mode")} if kind.has_mode else {}
        self._add(kind(
            alpha=self._operand(given["alpha"], element),
            inputs=tuple(self._value(given[name]) for name in inputs),
            beta=self._operand(given["beta"], element),
            output=given[output],
            transposes=tuple(self._flag(given[name], name) for name in transposes),
            atomic=self._flag(given["atomic"], "atomic"),
            precision=given.get("precision"),
            **mode,
        ))


def _example(kind: type[LinearAlgebra]) -> str:
    """Return an instruction as hints show it: the last input that may be transposed is, where there are several."""
    if kind.has_mode:
        return f"{kind.mnemonic} alpha, %A, 0, beta, %B"
    count, flags = len(kind.names) - 1, [".n"] * kind.transposable
    inputs = ", ".join(f"%{letter}" for letter in "ABCDEFGH"[: count + 1])
    first, last = inputs.rsplit(", ", 1)
    memrefs = ", ".join(["memref<...>"] * count)
    if kind.transposable > 1:
        flags[-1] = ".t"
    return f"{kind.mnemonic}{''.join(flags)} alpha, {first}, beta, {last} : f32, {memrefs}, f32, memref<...>"


for _kind in list(vars().values()):
    if isinstance(_kind, type) and issubclass(_kind, LinearAlgebra) and hasattr(_kind, "mnemonic"):
        _kind.example = _example(_kind)
        setattr(AlgebraMethods, _kind.mnemonic, _method(_kind))
