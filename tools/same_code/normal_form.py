"""LLVM IR and PTX without what differs between two runs and means nothing: numbers of names, comments, hashes."""

from __future__ import annotations

import re

__all__ = ["normal_form", "without_names"]

#: Numba's names of functions: they have the number of the compilation and a hash of the options in them.
_MANGLED = re.compile(r"\b_ZN\w*?_3cdynamic_3e\w*?(?=_param_\d+\b|\b(?!_param))")
#: In LLVM IR: names of values, strings, metadata, groups of attributes; strings stay as they are.
_TOKENS = re.compile(r'%"(?:[^"\\]|\\.)*"|%[-\w.$]+|@?"(?:[^"\\]|\\.)*"|![0-9]+\b|#[0-9]+\b')
_LABEL = re.compile(r'(?m)^(?:"([^"\n]+)"|([-\w.$]+)):')
_TYPE = re.compile(r'(?m)^(%"[^"]*"|%[-\w.$]+) = type')
_FUNCTION = re.compile(r"(?m)^(?=define )")
_SKIPPED = re.compile(r"(?m)^(?:; ModuleID|source_filename).*\n")


def normal_form(part: str, text: str) -> str:
    """Return a text of a kernel such that equal code gives equal texts; `part` is ``llvm``, ``ptx`` or another.

    Values, labels, metadata and groups of attributes are numbered in the order in which they come.
    """
    text = _without_mangled(text)
    if part == "ptx":
        return _stripped(re.sub(r"//.*", "", text))
    if part == "llvm":
        return _renamed(_plain_llvm(text), keep=True)
    return text


def without_names(part: str, text: str) -> str:
    """Return a text in which a value that is added or left out changes no other line, for people to read."""
    text = _without_mangled(text)
    if part == "ptx":
        text = re.sub(r"(%[a-z]+)\d+|(\$L__BB)\w+", r"\1\2", re.sub(r"//.*", "", text))
        return _stripped(text)
    if part == "llvm":
        return _renamed(_plain_llvm(text), keep=False)
    return text


def _without_mangled(text: str) -> str:
    names: dict[str, str] = {}
    return _MANGLED.sub(lambda found: names.setdefault(found[0], f"mangled_{len(names)}"), text)


def _plain_llvm(text: str) -> str:
    text = _SKIPPED.sub("", text)
    # A comment reaches to the end of its line; strings, in which inline assembly has semicolons, may have several.
    return _stripped("".join(
        piece if piece.startswith('"') else re.sub(r";.*", "", piece)
        for piece in re.split(r'("(?:[^"\\]|\\.)*")', text)
    ))


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _renamed(text: str, keep: bool) -> str:
    """Number the names of LLVM IR anew, or leave only their first character."""
    types = set(_TYPE.findall(text))
    shared: dict[str, str] = {}
    result = []
    for function in _FUNCTION.split(text):
        values: dict[str, str] = {}

        def number(name: str, values: dict[str, str] = values) -> str:
            if name[0] in '@"' or name in types:
                return name
            if not keep:
                return name[0]
            if name[0] != "%":
                return shared.setdefault(name, f"{name[0]}{sum(key[0] == name[0] for key in shared)}")
            plain = name[1:].strip('"')
            return values.setdefault(plain, f"%{len(values)}")

        function = _LABEL.sub(lambda found: f'%"{found[1] or found[2]}" :', function)
        result.append(_TOKENS.sub(lambda found: number(found[0]), function))
    head, separator, tail = "".join(result).rpartition("\n}\n")
    if not separator:
        return tail
    return head + separator + "\n".join(sorted(tail.splitlines()))
