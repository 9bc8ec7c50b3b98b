"""The smallest programs of the conformance run: one instruction, in one spelling, with elements of one type.

A program has memrefs for parameters, all of which are compared after its run. Programs are joined, many to a kernel:
every name gets the number of its program in front.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from tests.conformance.pages import COMPLEX, FLOATS, NARROW, PARTS, UNSIGNED, VALUES, Entry

#: The types of the arrays of a memref, where they are not NumPy's of that name.
STORAGE = {"bool": "bool", "index": "int64", "bf16": "uint16", "f16": "float16", "f32": "float32", "f64": "float64",
           "c32": "complex64", "c64": "complex128", **dict.fromkeys(NARROW, "uint8")}

_EACH = "foreach %i = 0, 8 {{\n{body}\n}}"
_LOADED = "{load}\n{op}\nstore %r, %y[%i] : memref<{R}x8>"
_ITEM = "%k = subgroup_local_id : i32\n%i = cast %k : index\n"
_ACC = "coopmatrix<{T}x8x8,matrix_acc>"
_HELD = "parallel {{\n%v = load %x[2, 1] : memref<{T}x8x8>\n" + "".join(
    f"%{name} = cooperative_matrix_load %x[{row}, 0] : {_ACC}\n" for name, row in (("a", 0), ("b", 0)))


def _shown(count: int, place: str, shape: str, index: str = "i") -> str:
    """Return the loop that copies elements of a view, of some shape, to the output."""
    return (f"foreach %{index} = 0, {count} {{{{\n%e = load %v[{place}] : memref<{{T}}{shape}>\n"
            f"%f = cast %e : {{T}} -> {{S}}\nstore %f, %y[%{index}] : memref<{{S}}x8>\n}}}}")


#: Programs around an instruction, ``{op}``: the parameters with their types, then the body.
HARNESSES: dict[str, tuple[dict[str, str], str]] = {
    "values": ({"x0": "{T}x8", "x1": "{T}x8", "x2": "{T}x8", "y": "{R}x8"}, _EACH.replace("{body}", _LOADED)),
    "parts": ({"x0": "{P}x8", "x1": "{P}x8", "y": "{T}x8"},
              _EACH.replace("{body}", _LOADED.replace("{R}", "{T}"))),
    "conversion": ({"x0": "{A}x8", "y": "{R}x8"}, _EACH.replace("{body}", _LOADED)),
    "constants": ({"y": "{T}x8"}, _EACH.replace("{body}", "{op}\nstore %r, %y[%i] : memref<{T}x8>")),
    "places": ({"y": "{T}x8"}, "{op}\nstore %r, %y[0] : memref<{T}x8>"),
    "own places": ({"y": "{T}x16"}, "parallel {{\n" + _ITEM + "{op}\nstore %r, %y[%i] : memref<{T}x16>\n}}"),
    "asked": ({"x": "{T}x8", "y": "boolx8"}, "{op}\nstore %r, %y[0] : memref<boolx8>"),
    "sizes": ({"x": "{T}x8", "y": "indexx8"}, "{op}\nstore %r, %y[0] : memref<indexx8>"),
    "lengths": ({"x": "group {T}x8", "y": "indexx8"}, "{op}\nstore %r, %y[0] : memref<indexx8>"),
    "groups": ({"x": "group {T}x8", "y": "{S}x8"}, "{op}\nforeach %i = 0, 8 {{\n%e = load %m[%i] : memref<{T}x8>\n"
               "%f = cast %e : {T} -> {S}\nstore %f, %y[%i] : memref<{S}x8>\n}}"),
    "temporaries": ({"x": "{T}x8", "y": "{T}x8"}, "{op}\nforeach %i = 0, 8 {{\n%a = load %x[%i] : memref<{T}x8>\n"
                    "store %a, %t[%i] : memref<{T}x8>\n}}\nforeach %i = 0, 8 {{\n%a = load %t[%i] : memref<{T}x8>\n"
                    "store %a, %y[%i] : memref<{T}x8>\n}}"),
    "stopped": ({"x": "{T}x8", "y": "{T}x8"}, "%t = alloca -> memref<{T}x8>\nforeach %i = 0, 8 {{\n"
                "%a = load %x[%i] : memref<{T}x8>\nstore %a, %t[%i] : memref<{T}x8>\n}}\n{op}"),
    "loads": ({"x": "{T}x8", "y": "{S}x8"}, _EACH.replace(
        "{body}", "{op}\n%s = cast %r : {T} -> {S}\nstore %s, %y[%i] : memref<{S}x8>")),
    "stores": ({"x": "{T}x8", "y": "{T}x8"}, _EACH.replace("{body}", "%a = load %x[%i] : memref<{T}x8>\n{op}")),
    "updates": ({"x": "{T}x8", "z": "{T}x8", "y": "{T}x8"}, _EACH.replace(
        "{body}", "%a = load %z[%i] : memref<{T}x8>\n{op}\nstore %r, %y[%i] : memref<{T}x8>")),
    "barriers": ({"x": "{T}x16", "y": "{T}x16"}, "parallel {{\n" + _ITEM + "store %k, %x[%i] : memref<{T}x16>\n{op}\n"
                 "%j = sub 15, %i : index\n%a = load %x[%j] : memref<{T}x16>\nstore %a, %y[%i] : memref<{T}x16>\n}}\n"
                 "{op}"),
    "views": ({"x": "{T}x8x8", "y": "{S}x8"}, "%i = arith.add 2, 1 : index\n{op}\n" + _shown(4, "%n", "x4", "n")),
    "expanded": ({"x": "{T}x8x8", "y": "{S}x8"}, "{op}\n" + _shown(4, "%i, 1, 3", "x4x2x8")),
    "fused": ({"x": "{T}x8x8", "y": "{S}x8"}, "{op}\n" + _shown(8, "%i", "x64")),
    "parted": ({"x": "{T}x8", "y": "{P}x2x8"}, "{op}\naxpby 1, %v, 0, %y"),
    "algebra": ({"A": "{A}x8x8", "x": "{A}x8", "y": "{B}x8", "C": "{B}x8x8"}, "{op}"),
    "loops": ({"y": "i64x8"}, "%z = constant 0 : {T}\n%e = constant 8 : {T}\n{op}"),
    "branches": ({"x0": "{T}x8", "x1": "{T}x8", "y": "{T}x8"}, _EACH.replace(
        "{body}", "%h = rem %i, 2 : index\n%odd = cmp.eq %h, 1 : index\n" + _LOADED.replace("{R}", "{T}"))),
    "regions": ({"x": "{T}x16", "y": "{T}x16"}, "{op}"),
    "work-items": ({"x": "{T}x16", "y": "{T}x16"}, "parallel {{\n" + _ITEM.replace("%k", "%l") +
                   "%k = constant 5 : i32\n%a = load %x[%i] : memref<{T}x16>\n{op}\n"
                   "store %r, %y[%i] : memref<{T}x16>\n}}"),
    "iterations": ({"x": "{T}x16", "y": "{T}x16"}, "foreach %i = 0, 16 {{\n%k = constant 5 : i32\n"
                   "%a = load %x[%i] : memref<{T}x16>\n{op}\nstore %r, %y[%i] : memref<{T}x16>\n}}"),
    "matrix results": ({"x": "{T}x8x8", "z": "{T}x8x8", "y": "{R}x8x8"},
                       _HELD + "{op}\ncooperative_matrix_store %r, %y[0, 0]\n}}"),
    "matrix accesses": ({"x": "{T}x8x8", "z": "{T}x8x8"}, _HELD + "{op}\n}}"),
    "matrix reductions": ({"x": "{T}x8x8", "y": "{T}x8x8"},
                          _HELD + "{op}\ncooperative_matrix_store %r, %y[0, 0]\n}}"),
    "matrix components": ({"x": "{T}x8x8", "y": "{T}x16"}, _HELD + _ITEM +
                          "{op}\nstore %e, %y[%i] : memref<{T}x16>\n}}"),
    "matrix conversions": ({"x": "{A}x8x8", "y": "{B}x8x8"}, "parallel {{\n%a = cooperative_matrix_load %x[0, 0] : "
                           "coopmatrix<{A}x8x8,matrix_acc>\n{op}\ncooperative_matrix_store %r, %y[0, 0]\n}}"),
    "matrix products": ({"x": "{A}x8x8", "y": "{B}x8x8"}, "parallel {{\n" + "".join(
        f"%{name} = cooperative_matrix_load %{memref}[0, 0] : coopmatrix<{{{type}}}x8x8,{use}>\n"
        for name, memref, type, use in (("a", "x", "A", "matrix_a"), ("b", "x", "A", "matrix_b"),
                                        ("c", "y", "B", "matrix_acc"))) +
                        "{op}\ncooperative_matrix_store %r, %y[0, 0]\n}}"),
}
#: What stands in the bodies of control flow.
_STORED = "%c = cast %i : index store 7, %y[%c] : memref<i64x8>"
_OWN = ("%k = subgroup_local_id : i32 %i = cast %k : index %a = load %x[%i] : memref<{T}x16> "
        "store %a, %y[%i] : memref<{T}x16>")
_OPERANDS = re.compile(r"%([abc])\b")
_NAME = re.compile(r"%([A-Za-z]\w*)")


def _value(name: str) -> str:
    """Return a constant of a type."""
    if name == "bool":
        return "true"
    return "[1.5, -2.0]" if name in COMPLEX else "1.5" if name in FLOATS else "3"


@dataclass(frozen=True)
class Case:
    """One instruction in one spelling, with elements of certain types."""

    entry: Entry
    word: str
    spelling: str
    types: tuple[str, ...]

    @property
    def is_allowed(self) -> bool:
        """Whether the pages accept it."""
        return self.types in self.entry.types

    @cached_property
    def names(self) -> dict[str, str]:
        """What stands for the names in braces."""
        first, last = self.types[0], self.types[-1]
        first_word, last_word = next(pair for pair in self.entry.kinds if pair[0] == self.word)
        names = {"T": first, "A": first, "B": last, "P": PARTS.get(first, first), "S": VALUES.get(first, first),
                 "w": first_word, "v": last_word, "value": _value(first), "zero": "0", "eight": "8"}
        names |= {"stored": _STORED, "each": _OWN.format(**names)}
        return names | {"R": self.entry.result.format(**names)}

    @cached_property
    def instruction(self) -> str:
        """The instruction itself, a line of the program."""
        return self.spelling.format(**self.names)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The names and types of its parameters, as a memref or a group has them."""
        parameters, _ = HARNESSES[self.entry.harness]
        used = {f"x{'abc'.index(name)}" for name in _OPERANDS.findall(self.spelling)}
        return {name: type.format(**self.names) for name, type in parameters.items()
                if not re.fullmatch(r"x\d", name) or name in used}

    def body(self) -> str:
        """Return the program without its head."""
        _, body = HARNESSES[self.entry.harness]
        loads = "\n".join(f"%{'abc'[int(name[1])]} = load %{name}[%i] : memref<{type}>"
                          for name, type in self.parameters.items() if re.fullmatch(r"x\d", name))
        return body.format(**self.names, op=self.instruction, load=loads)

    def arrays(self) -> list[Any]:
        """Return arrays for its parameters, the same each time."""
        rng = np.random.default_rng(zlib.crc32(repr((self.spelling, self.types)).encode()))
        signed = not set(self.types) & set(UNSIGNED)
        return [_arrays(type, signed and place == 0, rng, self.entry.domain)
                for place, type in enumerate(self.parameters.values())]

    def __str__(self) -> str:
        return f"{self.instruction.strip()} ({self.entry.harness})"


def _arrays(type: str, negative: bool, rng: np.random.Generator, domain: tuple[float, float] | None) -> Any:
    if type.startswith("group "):
        return [_arrays(type.removeprefix("group "), negative, rng, domain) for _ in range(3)]
    element, *sizes = re.split(r"x(?=\d)", type)
    return _filled(element, list(map(int, sizes)), negative, rng, domain)


def _filled(
    element: str, shape: list[int], negative: bool, rng: np.random.Generator, domain: tuple[float, float] | None
) -> np.ndarray:
    """Return whole numbers from 1 to 3, some of them `negative`, or floats of a domain."""
    if element in NARROW:  # the bytes of the elements, which share one along mode 0
        bytes = (shape[0] * int(element[1]) // 8, *shape[1:])
        return np.asfortranarray(rng.integers(0, 256, bytes).astype(np.uint8))
    dtype = np.dtype(STORAGE.get(element) or element.replace("u", "uint").replace("i", "int", element[0] == "i"))
    if element == "bool":
        return np.asfortranarray(rng.integers(0, 2, shape).astype(bool))
    values = rng.integers(1, 4, shape) * (rng.choice([-1, 1], shape) if negative else 1)
    if domain is not None and element in (*FLOATS, *COMPLEX):
        values = rng.uniform(*domain, shape)
    if element in COMPLEX:
        values = values + 1j * rng.integers(-3, 4, shape)
    if element == "bf16":
        return np.asfortranarray((values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(dtype))
    return np.asfortranarray(values.astype(dtype))


def cases(entries: Iterable[Entry]) -> Iterator[Case]:
    """Yield each instruction of some entries in each spelling with each type of the language, accepted or not."""
    for entry in entries:
        for word, _ in entry.kinds:
            for spelling in entry.spellings:
                yield from (Case(entry, word, spelling, types) for types in entry.tried)


def batches(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Yield the cases, so many at a time."""
    rest = iter(cases)
    while batch := list(islice(rest, size)):
        yield batch


def joined(cases: Sequence[Case]) -> tuple[str, list[int]]:
    """Return the text of one function that has the programs one after another, and the lines of their instructions."""
    parameters, lines, places = [], [], []
    for number, case in enumerate(cases):
        for name, type in case.parameters.items():
            group = type.startswith("group ")
            memref = f"memref<{type.removeprefix('group ')}>"
            parameters.append(f"%p{number}_{name}: {f'group<{memref}>' if group else memref}")
        body = case.body().splitlines()
        places.append(len(lines) + body.index(case.instruction) + 2)
        lines += [_NAME.sub(rf"%p{number}_\1", line) for line in body]
    return "\n".join([f"func @f({', '.join(parameters)}) {{", *lines, "}"]), places
