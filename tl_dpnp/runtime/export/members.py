"""What a program in C gives a kernel: the members of a struct, and how they become the kernel's arguments.

The order of the arguments is that of the calling convention (`tl_dpnp.lowering.plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.interface import Usage
from tl_dpnp.runtime.call.signature import free_names
from tl_dpnp.scalars import BF16, F16, F32, F64, INDEX, ScalarType

__all__ = ["Member", "members_of"]

#: Keywords of C23 and C++23, and macros that compilers, <stddef.h> and <complex.h> define.
_RESERVED = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq I complex imaginary linux unix i386 offsetof NULL
""".split())


@dataclass(frozen=True)
class Member:
    """A member of the struct: its name, what stands before that in C, the function of its value, and its meaning.

    The function is one of ``tl_kernel.h``, called with the member, which is `cast` before where that is not empty.
    """

    name: str
    type: str
    function: str
    meaning: str = ""
    cast: str = ""

    @property
    def declaration(self) -> str:
        """The member as it is declared."""
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name};"


def members_of(parameters: Sequence[ops.Value], usage: Usage, measured: Sequence[int]) -> list[Member]:
    """Return one member for each argument of a kernel but the last three, in their order.

    `measured` are the positions of the groups whose length the kernel takes (`tl_dpnp.lowering.plan.LaunchPlan`).
    """
    names = free_names(parameters, _RESERVED)
    taken = set(names)
    found: list[Member] = []
    for position, (name, parameter) in enumerate(zip(names, parameters, strict=True)):
        of_parameter = [*_members(name, parameter, is_written=position in usage.written)]
        if position in measured:
            of_parameter.append(_integer(f"{name}_length", "elements of the group"))
        for member in of_parameter:
            free = member.name
            while free != name and free in taken:
                free += "_"
            taken.add(free)
            found.append(Member(free, *(getattr(member, field) for field in ("type", "function", "meaning", "cast"))))
    return found


def _integer(name: str, meaning: str) -> Member:
    return Member(name, "int64_t", "tl_integer", meaning)


def _members(name: str, parameter: ops.Value, is_written: bool) -> Iterator[Member]:
    match parameter.type:
        case MemrefType() as memref:
            yield Member(name, f"{_element(memref.element, is_written)} *", "tl_address", str(memref))
            yield from (_integer(f"{name}_size_{mode}", f"size of mode {mode}")
                        for mode, size in enumerate(memref.shape) if size is None)
            yield from (_integer(f"{name}_stride_{mode}", f"stride of mode {mode}, in elements")
                        for mode, stride in enumerate(memref.strides) if stride is None)
        case GroupType(memref=memref, offset=offset) as group:
            element = _element(memref.element, is_written)
            yield Member(name, f"{element} *const *", "tl_address", f"{group}: the addresses of the elements")
            if offset is None:
                yield _integer(f"{name}_offset", "offset, in elements of the memrefs")
            row = [f"{what} of mode {mode}" for what, sizes in (("size", memref.shape), ("stride", memref.strides))
                   for mode, size in enumerate(sizes) if size is None]
            if row:
                yield Member(f"{name}_dope", "const int64_t *", "tl_address", f"for each element: {', '.join(row)}")
        case ScalarType(is_complex=True) as scalar:
            yield from (Member(f"{name}_{part}", *_number(scalar.part), f"{part} part, {scalar}")
                        for part in ("real", "imag"))
        case ScalarType() as scalar if scalar in (F16, BF16):
            yield Member(name, "uint16_t", f"tl_{scalar}", f"the bits of an {scalar}")
        case ScalarType() as scalar if scalar.is_float:
            yield Member(name, *_number(scalar), str(scalar))
        case ScalarType() as scalar:
            meaning = f"{scalar}: 0 or 1" if scalar.is_boolean else str(scalar)
            yield Member(name, _element(scalar, True), "tl_integer", meaning, "(int64_t)")


def _number(scalar: ScalarType) -> tuple[str, str]:
    return {F32: "float", F64: "double"}[scalar], f"tl_{scalar}"


def _element(element: ScalarType, is_written: bool) -> str:
    """Return the type in C of an element in memory; complex numbers are their parts, in turns."""
    if (element.is_float and element not in (F16, BF16)) or element.is_complex:
        type_ = "float" if element.part == F32 else "double"
    elif element.is_float or element.is_subbyte or element.is_boolean:
        type_ = "uint16_t" if element.is_float else "uint8_t"
    else:
        bits = 64 if element == INDEX else element.bits
        type_ = f"{'u' if element.kind == 'unsigned' else ''}int{bits}_t"
    return type_ if is_written else f"const {type_}"
