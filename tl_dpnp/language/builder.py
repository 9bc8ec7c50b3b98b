"""Builder: the same IR as the parser's, written from Python.

    b = FunctionBuilder("fused_kernel", alpha=F32, A=group(memref(F32, 16, 8)), B=memref(F32, 8, 8),
                        C=memref(F32, 8, 16), D=memref(F32, 16, 16, None))
    i = b.group_id()
    tmp = b.alloca(memref(F32, 16, 8))
    b.gemm(1.0, b.load(b.A, i), b.B, 0.0, tmp, transpose_b=True)
    b.gemm(b.alpha, tmp, b.C, 1.0, b.subview(b.D, ALL, ALL, i))
    module = b.build()

Sizes are written one after another, None for ``?``; types are those of `tl_dpnp.scalars`.
Operands are values that the builder returned, or Python numbers: these take the type that their place demands.  Every
operation is checked where it is built: what breaks a rule raises `TLVerifyError` with the file and line of the caller.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from tl_dpnp.errors import Span, TLVerifyError, nearest
from tl_dpnp.language.attributes import ALLOWED
from tl_dpnp.language.building import Number, caller, located, python_number, type_hint
from tl_dpnp.language.constants import convert
from tl_dpnp.language.instructions.algebra import AlgebraMethods
from tl_dpnp.language.instructions.atomics import AtomicMethods
from tl_dpnp.language.instructions.control import Branch, ControlMethods
from tl_dpnp.language.instructions.mathematics import MathMethods
from tl_dpnp.language.instructions.matrix_methods import MatrixMethods
from tl_dpnp.language.instructions.memory import MemoryMethods
from tl_dpnp.language.instructions.parallel import ParallelMethods
from tl_dpnp.language.instructions.scalar import ScalarMethods
from tl_dpnp.language.instructions.subgroups import SubgroupMethods
from tl_dpnp.language.instructions.views import ALL, ViewMethods
from tl_dpnp.language.ir import Assertion, Function, Module, Operation, Region, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.type_rules import check_type, describe
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import verify
from tl_dpnp.scalars import ScalarType

__all__ = ["ALL", "Branch", "FunctionBuilder", "build_module", "coopmatrix", "group", "memref"]


def coopmatrix(component: ScalarType, rows: int, columns: int, use: str) -> CooperativeMatrixType:
    """Return the type of a cooperative matrix, whose use is ``matrix_a``, ``matrix_b`` or ``matrix_acc``.

    Raises `TLVerifyError` for what there is no such type of.
    """
    with located():
        if not isinstance(component, ScalarType):
            raise RuleError(f"coopmatrix takes the type of a component and then sizes, it was given {component!r}",
                            type_hint(component))
        found = CooperativeMatrixType(component, operator.index(rows), operator.index(columns), use)
        check_type(found)
    return found


def memref(element: ScalarType, *shape: Size, strides: Sequence[Size] | None = None) -> MemrefType:
    """Return a memref type; a size or stride of None is dynamic.  Without strides, the layout is packed.

    Raises `TLVerifyError` for an element that is no scalar type, and for sizes that are neither ints nor None.
    """
    with located():
        if not isinstance(element, ScalarType):
            raise RuleError(f"memref takes the type of an element and then sizes, it was given {element!r}",
                            type_hint(element))
        if len(shape) == 1 and isinstance(shape[0], Sequence):
            raise RuleError("memref takes sizes one after another, it was given a sequence of them",
                            f"write memref({element.name.upper()}, {', '.join(map(str, shape[0]))})")
        sizes = _sizes("a size", shape)
        if strides is None:
            return MemrefType(element, sizes)
        return MemrefType(element, sizes, _sizes("a stride", strides))


def group(memref: MemrefType, offset: Size = 0, length: Size = None) -> GroupType:
    """Return the type of a group of memrefs; `offset` is in elements, None if dynamic, `length` None for any.

    Raises `TLVerifyError` for anything but a memref type.
    """
    with located():
        if not isinstance(memref, MemrefType):
            given = memref if isinstance(memref, Type) else repr(memref)
            raise RuleError(f"group takes the type of its memrefs, it was given {given}",
                            "write group(memref(F32, 16, 8))")
        return GroupType(memref, *_sizes("an offset", (offset,)), *_sizes("a length", (length,)))


def build_module(*builders: FunctionBuilder) -> Module:
    """Return the verified module of several functions.

    Raises `TLVerifyError` with a diagnostic for each rule that is broken.
    """
    module = Module(tuple(builder.function() for builder in builders))
    verify(module)
    return module


class FunctionBuilder(
    ScalarMethods, MathMethods, MemoryMethods, AtomicMethods, ViewMethods, ControlMethods, ParallelMethods,
    SubgroupMethods, MatrixMethods, AlgebraMethods,
):
    """Builds one function.

    Parameters are given by name and type, as keywords or in a mapping; each is an attribute of the builder, and all are
    in `parameters`, in order.  `defaults` has numbers for scalar parameters by name, which calls of the kernel may then
    leave away; printed text does not keep them.  Results are numbered unless `name` is given.

    Raises `TLVerifyError` for types that are none or break a rule, and for defaults that their parameter cannot have.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Type] | None = None,
        /,
        *,
        work_group_size: tuple[int, int] | None = None,
        subgroup_size: int | None = None,
        defaults: Mapping[str, Number] | None = None,
        attributes: Mapping[str, Mapping[str, Any]] | None = None,
        **more_parameters: Type,
    ) -> None:
        self.span = caller()
        types = {**(parameters or {}), **more_parameters}
        self.parameters = tuple(Value(key, type, self.span) for key, type in types.items())
        self._regions: list[list[Operation]] = [[]]
        self._returned: list[tuple[Type, ...]] = [()]  # for each open region, the types that its yield gives
        self._names = set(types)
        self._next = 0
        with located():
            for text in (name, *types):
                if not isinstance(text, str):
                    raise RuleError(f"a name is text, not {text!r}", 'write FunctionBuilder("name", x=memref(F32, 4))')
            self.name = name
            self.work_group_size = _pair("work_group_size", work_group_size)
            (self.subgroup_size,) = _sizes("a sub-group size", (subgroup_size,))
            for value in self.parameters:
                if not isinstance(value.type, Type):
                    raise RuleError(f"the parameter {value} needs a type, it was given {value.type!r}",
                                    type_hint(value.type))
                check_type(value.type)
            self.defaults = tuple(_default(types, *item) for item in (defaults or {}).items())
            asserted = (_assertion(types, *item, self.span) for item in (attributes or {}).items())
            self.assertions = tuple(each for each in asserted if each.says_something)

    def __getattr__(self, name: str) -> Any:
        for value in self.__dict__.get("parameters", ()):
            if isinstance(value, Value) and value.name == name:
                return value
        known = [*(value.name for value in self.__dict__.get("parameters", ())), *filter(str.isidentifier, dir(self))]
        near = self.called_elsewhere.get(name) or nearest(name, [each for each in known if not each.startswith("_")])
        raise AttributeError(f"the function builder has neither a method nor a parameter {name!r}"
                             + (f": did you mean {near}?" if near else ""))

    def function(self) -> Function:
        """Return the function as it stands, not verified."""
        if len(self._regions) > 1:
            raise TLVerifyError(f"the function @{self.name} is still inside a region")
        body = Region(tuple(self._regions[0]))
        return Function(self.name, self.parameters, body, self.work_group_size, self.subgroup_size, self.span,
                        self.defaults, self.assertions)

    def build(self) -> Module:
        """Return the verified module that holds this function alone.

        Raises `TLVerifyError` with a diagnostic for each rule that is broken.
        """
        return build_module(self)


def _sizes(what: str, sizes: Sequence[Any]) -> tuple[Size, ...]:
    """Return sizes as Python has them; raises `RuleError` for anything but integers and None."""
    found: list[Size] = []
    for size in sizes:
        try:
            found.append(None if size is None else operator.index(size))
        except TypeError:
            hint = f"write {size:.0f}" if isinstance(size, float) and size.is_integer() else "write None where it is ?"
            raise RuleError(f"{what} is an int or None, not {size!r}", hint) from None
    return tuple(found)


def _pair(what: str, given: Any) -> tuple[int, int] | None:
    """Return two sizes as Python has them, None where there are none; raises `RuleError` for anything else."""
    if given is None:
        return None
    sizes = _sizes(f"an entry of {what}", given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    match sizes:
        case (int(rows), int(columns)):
            return rows, columns
    raise RuleError(f"{what} is a pair of ints, not {given!r}", f"write {what}=(16, 1)")


def _assertion(types: Mapping[str, Type], name: str, given: Mapping[str, Any], span: Span) -> Assertion:
    """Return what the attributes of a parameter assert; raises `RuleError` for what are none."""
    if name not in types:
        near = nearest(name, types)
        raise RuleError(f"there is no parameter %{name} to have attributes",
                        f"did you mean {near}?" if near else f"the parameters are {', '.join(types)}")
    known = ALLOWED["a memref or group"]
    if not isinstance(given, Mapping):
        raise RuleError(f"the attributes of %{name} are given by their names, not as {given!r}",
                        f'write {{"{name}": {{"alignment": 64}}}}')
    values: dict[str, Any] = {}
    for attribute, value in given.items():
        values[attribute] = tuple(value) if isinstance(value, list) else value
        if attribute not in known:
            raise RuleError(f"{attribute} is no attribute of a memref or group", f"those are {', '.join(known)}")
        if not known[attribute].accepts(values[attribute]):
            raise RuleError(f"the attribute {attribute} of %{name} has no such value: {value!r}",
                            f"write for example {attribute}={known[attribute].example}")
    return Assertion(name, **values, span=span)


def _default(types: Mapping[str, Type], name: str, given: Any) -> tuple[str, Number]:
    """Return a parameter's name and its default; raises `RuleError` for one that it cannot have."""
    if name not in types:
        near = nearest(name, types)
        raise RuleError(f"there is no parameter %{name} to have a default",
                        f"did you mean {near}?" if near else f"the parameters are {', '.join(types)}")
    scalar = types[name]
    if not isinstance(scalar, ScalarType):
        raise RuleError(f"%{name} is {describe(scalar)}, and only scalars have defaults", "leave its default out")
    number = python_number(given)
    exact = convert(number, scalar)
    return name, number if scalar.is_float or scalar.is_complex else exact  # calls round floats
