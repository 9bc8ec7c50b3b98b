"""Machine code that the OpenCL runtime for CPUs made of a kernel, loaded so that this process can call it.

A launch by OpenCL takes 2 to 7 µs; the machine code of a small kernel can be called in its place.  What is private to
Intel's runtime, and checked here before it is relied on, is the form of a program's binary:

- it is an ELF file with the sections ``.ocl.ver``, ``.ocl.meta`` and ``.ocl.obj``;
- ``.ocl.obj`` is an object file in ELF whose function with the kernel's name is that of a work-group: it takes the
  address of the arguments, that of four words (the work-group's three numbers, and the address of memory for what is
  private to it, 0 for its thread's stack), and one of the runtime's services, which kernels without barriers, local
  memory and ``printf`` do not use;
- it may call functions of C, and functions of vectors (``__ocl_svml_…``), which are in a
  library of that runtime that the process has loaded;
- ``.ocl.meta`` has, in a row, the number of arguments, four 32-bit integers for each (kind, size, 0, offset), their
  size together and their largest alignment.  Arguments have C's alignment.

Tested with intel-opencl-rt 2024.2.1 (``.ocl.ver`` 20) and 2026.2.0 (23).  A binary that is not so is refused, and
OpenCL launches the kernel as before.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm

__all__ = ["HostCode", "HostCodeError", "argument_offsets", "load", "refusal"]

_VERSIONS = (20, 23)
#: Functions of the C library that LLVM makes of loops; the loader finds them.
_FUNCTIONS_OF_C = (b"memcpy", b"memmove", b"memset")
#: What the names of functions of vectors begin with, and those of the files that have them.
_VECTOR_FUNCTIONS, _LIBRARIES = b"__ocl_svml_", ("/__ocl_svml_", "/libocl_svml_")
_X86_64, _LITTLE_64, _RELOCATABLE = 62, b"\x7fELF\x02\x01", 1
_SYMBOLS, _STRINGS, _RELOCATIONS, _RELOCATIONS_WITHOUT_ADDEND = 2, 3, 4, 9
_UNDEFINED, _FUNCTION = 0, 2
#: The relocations that LLVM's loader resolves inside one object: R_X86_64_64, PC32, PLT32, 32, 32S, PC64.
_KNOWN_RELOCATIONS = {1, 2, 4, 10, 11, 24}
#: How ``.ocl.meta`` calls the types of arguments.
_KINDS: dict[Any, int] = {ctypes.c_longlong: 0, ctypes.c_float: 2, ctypes.c_double: 3}


class HostCodeError(Exception):
    """The machine code of a kernel cannot be called; the text says why."""


class HostCode(NamedTuple):
    """The address of the function of a work-group, and what keeps its machine code."""

    address: int
    keep: Any


class _Section(NamedTuple):
    name: bytes
    kind: int
    content: bytes
    link: int


def load(binary: bytes, entry: str, arguments: Sequence[Any]) -> HostCode:
    """Load the machine code of the kernel `entry` of a program; raises `HostCodeError`.

    `binary` is the program's, `arguments` are the ctypes types of the kernel's arguments.
    """
    problem = refusal(binary, entry, arguments)
    if problem is not None:
        raise HostCodeError(problem)
    with _lock:
        engine = _engine()
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(_object_of(binary)))
        engine.finalize_object()
        address = engine.get_function_address(entry)
    if not address:
        raise HostCodeError(f"LLVM's loader does not find {entry}")
    return HostCode(address, engine)


#: LLVM's loader is given one object file at a time.
_lock = threading.Lock()


def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def argument_offsets(arguments: Sequence[Any]) -> tuple[list[int], int]:
    """Return where arguments of these ctypes types lie, in bytes, and how many bytes they take together."""
    offsets, end = [], 0
    for type_ in arguments:
        offsets.append(-(-end // ctypes.alignment(type_)) * ctypes.alignment(type_))
        end = offsets[-1] + ctypes.sizeof(type_)
    return offsets, -(-end // 8) * 8


def refusal(binary: bytes, entry: str, arguments: Sequence[Any]) -> str | None:
    """Return why the machine code of a kernel cannot be called, None if it can."""
    try:
        parts = {section.name: section.content for section in _sections(binary)}
        if parts.get(b".ocl.ver") not in [struct.pack("<I", version) for version in _VERSIONS]:
            return f"the program's binary has another version than {' and '.join(map(str, _VERSIONS))}"
        if _argument_table(arguments) not in parts.get(b".ocl.meta", b""):
            return "the program's binary says otherwise where the arguments lie"
        if b".ocl.obj" not in parts:
            return "the program's binary has no machine code"
        return _refusal_of_object(parts[b".ocl.obj"], entry)
    except (struct.error, IndexError, ValueError) as problem:
        return f"the program's binary is not in the expected form ({problem})"


def _argument_table(arguments: Sequence[Any]) -> bytes:
    """Return what ``.ocl.meta`` has of the arguments; raises `ValueError` for types that it has no known number for."""
    offsets, size = argument_offsets(arguments)
    if not all(type_ in _KINDS for type_ in arguments):
        raise ValueError("an argument is of another type than 64-bit integers, f32 and f64")
    rows = [struct.pack("<IIII", _KINDS[type_], ctypes.sizeof(type_), 0, offset)
            for type_, offset in zip(arguments, offsets, strict=True)]
    return b"".join([struct.pack("<I", len(rows)), *rows, struct.pack("<II", size, 8)])


def _refusal_of_object(code: bytes, entry: str) -> str | None:
    """Return why LLVM's loader must not be given an object file: it ends the process where something is missing."""
    machine, kind = struct.unpack_from("<H", code, 18)[0], struct.unpack_from("<H", code, 16)[0]
    if (machine, kind) != (_X86_64, _RELOCATABLE):
        return "the machine code is none of x86-64 that can be moved"
    sections = _sections(code)
    is_there = False
    for section in sections:
        if section.kind == _RELOCATIONS_WITHOUT_ADDEND:
            return "the machine code has relocations of another form"
        if section.kind == _RELOCATIONS:
            for _, info, _ in struct.iter_unpack("<QQq", section.content):
                if info & 0xFFFFFFFF not in _KNOWN_RELOCATIONS:
                    return f"the machine code has relocations of type {info & 0xFFFFFFFF}"
        if section.kind == _SYMBOLS:
            names = sections[section.link].content
            for number, (name, info, _, defined_in, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", section.content)):
                text = _text_at(names, name)
                if number and defined_in == _UNDEFINED and not _is_known_function(text):
                    return f"the machine code calls {text.decode(errors='replace')}, which is the runtime's own"
                is_there |= text == entry.encode() and info & 15 == _FUNCTION
    return None if is_there else f"the machine code has no function {entry}"


def _is_known_function(name: bytes) -> bool:
    """Return whether a function is C's, or one of vectors, which is made known to LLVM's loader if it is there."""
    if name in _FUNCTIONS_OF_C:
        return True
    if not name.startswith(_VECTOR_FUNCTIONS):
        return False
    for library in _loaded_libraries():
        try:
            function = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)[name.decode()]
        except (OSError, AttributeError):
            continue
        llvm.add_symbol(name.decode(), ctypes.cast(function, ctypes.c_void_p).value)
        return True
    return False


def _loaded_libraries() -> list[str]:
    """Return the files of the libraries of vector functions that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            paths = {line.split(maxsplit=5)[5].strip() for line in file if any(name in line for name in _LIBRARIES)}
    except OSError:
        return []
    return sorted(paths)


def _object_of(binary: bytes) -> bytes:
    return next(section.content for section in _sections(binary) if section.name == b".ocl.obj")


def _sections(file: bytes) -> list[_Section]:
    """Return the sections of an ELF file of 64 bits; raises `ValueError`, `IndexError` or `struct.error` for another.

    Source: System V application binary interface, chapters 4, "ELF Header" and "Sections".
    """
    if file[:6] != _LITTLE_64:
        raise ValueError("it is no ELF file of 64 bits")
    (start,) = struct.unpack_from("<Q", file, 40)
    entry_size, count, names_at = struct.unpack_from("<HHH", file, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", file, start + number * entry_size) for number in range(count)]
    contents = [b"" if header[1] == 8 else file[header[4] : header[4] + header[5]] for header in headers]
    names = contents[names_at]
    return [_Section(_text_at(names, header[0]), header[1], content, header[6])
            for header, content in zip(headers, contents, strict=True)]


def _text_at(strings: bytes, place: int) -> bytes:
    return strings[place : strings.index(b"\0", place)]
