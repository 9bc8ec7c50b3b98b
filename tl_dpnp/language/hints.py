"""Hints of syntax errors: what to write instead of a token or a character that the grammar does not accept.

`FORMS` shows how each instruction is written; the other tables translate what other languages write.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from lark import Token

from tl_dpnp.language import ops
from tl_dpnp.scalars import SCALAR_TYPES

__all__ = ["FORMS", "STARTS", "VALUES", "Hints", "form_hint"]

def _forms() -> Iterator[tuple[str, str]]:
    """Yield each word that an instruction begins with, and how it is written."""
    for kind in ops.INSTRUCTIONS:
        yield kind.mnemonic, kind.example + kind.remark
        for word in kind.aliases:
            example = re.sub(r"= \w+", f"= {word}", kind.newer_example) if kind.newer_example else kind.example
            remark = "" if kind.newer_example else kind.remark
            yield word, re.sub(rf"\b{kind.mnemonic}\.\w+", word, example) + remark


#: How each instruction is written, by its first word; of several with one word, the first of them.
FORMS: dict[str, str] = {
    **dict(reversed([*_forms()])),
    "func": "func @name(%a: f32, %B: memref<f32x16x8>) work_group_size(16, 1) subgroup_size(16) { ... }",
    "attributes": "attributes{subgroup_size=16, work_group_size=[16, 1]}",
    "init": "for %i = %from, %to init(%c=%first) -> (f32) { ... yield (%next) }",
    "constant": "%c = constant 1.0 : f32",
    "work_group_size": "work_group_size(rows, columns)",
    "subgroup_size": "subgroup_size(number), or %n = subgroup_size : i32",
    "memref": "memref<f32x16x?> or memref<f32x16x8,strided<1,32>>",
    "group": "group<memref<f32x16x8>>, group<memref<f32x16x8> x ?> or group<memref<f32x16x8>, offset: 4>",
    "coopmatrix": "coopmatrix<f32x16x8,matrix_acc>; or matrix_a, matrix_b",
    "strided": "strided<1,16>, one stride for each mode",
    "complex": "[1.0, -2.0], the real and the imaginary part, both constants",
}

#: Words that begin an instruction without a result, and with one.
STARTS, VALUES = (
    frozenset(word for kind in ops.INSTRUCTIONS if (kind.result_count() == 1) == has_result
              for word in (kind.mnemonic, *kind.aliases))
    for has_result in (False, True)
)
VALUES |= {"constant"}
#: Words that take a modifier, such as the ``.add`` of ``arith.add``, and their modifiers.
_FAMILIES: dict[str, tuple[str, ...]] = {}
for _kind in ops.INSTRUCTIONS:
    if _kind.kinds:
        _FAMILIES[_kind.mnemonic] = (*_FAMILIES.get(_kind.mnemonic, ()), *_kind.kinds)

#: What a type is followed by where somebody looks for the place of its attributes.
_ATTRIBUTES = frozenset({"attributes", "alignment", "shape_gcd", "stride_gcd"})

_NAME = "a name is % or @, then a letter followed by letters, digits or _, or a number"
_NUMBER = "numbers are written 1, -2, 1.5, 1e3 or 0x1.8p3"
_OPERATOR = f"there are no operators: write {FORMS['arith']}"
_BITS = "there are no operators: write and, or, xor or not"
_MINUS = f"{_OPERATOR}, or -1 without a space"
_COMMENT = "a comment starts with ;"
_STRING = "there are no strings: a value is written %a, a function @name"

#: Characters of other languages, and what the tensor language writes instead.
_CHARACTERS: dict[str, str] = {
    **dict.fromkeys("#/", _COMMENT),
    **dict.fromkeys("\"'`\u2018\u2019\u201c\u201d", _STRING),
    **dict.fromkeys("%@", _NAME),
    **dict.fromkeys("+*", _OPERATOR),
    **dict.fromkeys("&|^~", _BITS),
    "!": f"negation is arith.not; {_COMMENT}",
    "-": _MINUS,
    "\u2212": "write the minus sign of ASCII, -",
    "\u2192": "write ->",
    "$": "a compile-time variable is written $n, and defined by $n = 8",
    "\\": "an instruction may go on in the next line: leave this out",
    "\ufeff": "save the file without a byte order mark",
    "\u00a0": "write an ordinary space",
}
#: Words of other languages, in small letters, and what the tensor language writes instead.
_WORDS: dict[str, str] = {
    **dict.fromkeys(("float", "float32"), "the type is written f32"),
    **dict.fromkeys(("double", "float64"), "the type is written f64"),
    **dict.fromkeys(("half", "float16"), "the type is written f16"),
    **dict.fromkeys(("int", "int32"), "the type is written i32"),
    **dict.fromkeys(("long", "int64"), "the type is written i64"),
    **dict.fromkeys(("char", "int8"), "the type is written i8"),
    "bfloat16": "the type is written bf16",
    "size_t": "the type is written index",
    "u1": "the type is written i1",
    **dict.fromkeys(("tensor", "vector", "array"), f"write {FORMS['memref']}"),
    **dict.fromkeys(("infinity", "infty"), "infinity is written inf"),
    "return": "a function gives no result: it writes to its memrefs",
    "call": "a function cannot call another",
    "while": "loops are written with for and foreach",
    **dict.fromkeys(("elif", "elseif"), "write else { if %condition { ... } }"),
    **{name: f"write {family}.{name}" for family, names in _FAMILIES.items() for name in names},
    **{f"native_{name}": f"write {family}.{name}" for family, names in _FAMILIES.items() for name in names},
    **{word: f"{kind.foreign[1]} {FORMS[kind.mnemonic]}" for kind in ops.INSTRUCTIONS for word in kind.foreign[0]},
}


def form_hint(context: str | None) -> str | None:
    """Return how the instruction or type is written that begins with the word `context`."""
    return None if context is None else f"the form is: {FORMS[context]}"


class Hints:
    """Finds hints for one text; `literals` are the quoted words of the grammar by terminal.

    `accepted` are the terminals that the grammar accepts at the place; `context` is the word that begins the
    unfinished instruction or type, if there is one.
    """

    def __init__(self, literals: Mapping[str, str], text: str) -> None:
        self.literals = literals
        self.text = text

    def for_character(self, char: str, position: int, accepted: set[str], context: str | None) -> str | None:
        """Return a hint for a character that begins no token."""
        if char == "-" and self.text[position + 1 :].lstrip().startswith(">"):
            return "write -> without a space"
        if char == "*" and context in ("func", "memref", "group", "strided", "expand"):
            return form_hint(context)
        known = self._glued(position) or _CHARACTERS.get(char)
        if known is not None:
            return known
        if char.isascii() and char.isprintable():
            return form_hint(context) or self._place_hint(accepted)
        return "remove it: outside of comments a program is written in ASCII"

    def for_token(self, token: Token, accepted: set[str], context: str | None) -> str | None:
        """Return a hint for a token that is not accepted at its place."""
        word = self.literals.get(token.type, str(token))
        if context == "expand" and accepted == {"_X"}:
            return "sizes are joined by x, with a space behind a name: 4x? or %n x ?"
        glued = None
        if token.type != "_X" and word[:1] not in "()[]{}<>,:=?-":
            glued = self._glued(token.start_pos or 0)
        if glued is not None:
            return glued
        if word[:1] == "$" and token.type == "WORD":
            return f"define it before: {word} = 8; a value is written %{word[1:]}"
        if context in ("memref", "group") and word in _ATTRIBUTES:
            return "attributes of a parameter stand in braces behind its type: memref<f32x?> {alignment=16}"
        if word == "coopmatrix" and (of_matrices := f"cooperative_matrix_{context}") in FORMS:
            return f"write {FORMS[of_matrices]}"
        if token.type == "CALCULATION":
            return "give it a name before, and use that: $n = !calc(...)"
        if token.type == "STRING":
            return _STRING
        if word == "{" and context in VALUES:
            return f"{context} has no attributes: only functions, memrefs, groups, alloca and for have some"
        if token.type == "WORD":
            if word[:1] == "." and word[1:] in VALUES:
                return f"it stands alone: {FORMS[word[1:]]}"
            hint = self._word_hint(str(token), accepted, self.text[token.end_pos or 0 :][:80])
            if hint is not None:
                return hint
        if token.type == "_X" and context not in ("memref", "expand"):
            return f"a tensor is written {FORMS['memref']}"
        if word in VALUES and "FOREACH" in accepted:
            return f"give its result a name: {FORMS[word]}"
        if word in STARTS and "ALLOCA" in accepted:
            return f"{word} gives no result: leave out the name and ="
        if word == "else":
            return "an else follows the closing brace of its if"
        if word == "func" and "RBRACE" in accepted:
            return "close the function before with }: functions do not nest"
        if f".{word}" in (self.literals.get(name) for name in accepted):
            return f"did you mean .{word}?"
        for family, names in _FAMILIES.items():
            if word.startswith(".") and word[1:] in names and context != family and context in _FAMILIES:
                return f"did you mean {family}{word}?"
        return form_hint(context) or self._place_hint(accepted)

    def is_start(self, token: Token) -> bool:
        """Return whether a word begins an instruction without a result, rightly or nearly so spelt."""
        if token.type != "WORD":
            return self.literals.get(token.type) in STARTS
        return bool(difflib.get_close_matches(token[:80].lower(), STARTS, n=1, cutoff=0.75))

    def _word_hint(self, word: str, accepted: set[str], following: str) -> str | None:
        """Return a hint for a word that is no keyword, and the text after it."""
        is_result = following.lstrip().startswith(("=", ","))
        words = [text for name, text in self.literals.items() if name in accepted and text[-1].isalpha()]
        if "LOCAL_IDENTIFIER" in accepted and "FOREACH" in accepted:
            words += sorted(VALUES)
        if "SCALAR_TYPE" in accepted:
            words += SCALAR_TYPES
        if "FLOATING_CONSTANT" in accepted:
            words += ("inf", "nan")
        if "BOOLEAN_CONSTANT" in accepted:
            words += ("true", "false")
        small = word[:80].lower()
        if small in words:
            return f"did you mean {small}?"
        if small in _WORDS:
            return _WORDS[small]
        if "SCALAR_TYPE" in accepted:
            small = re.sub(r"(?<=[0-9])x.*", "", small)  # f33x16 begins with f33
        # Words of one or two letters resemble too much.
        words = [text for text in words if (len(text) > 2 or text in SCALAR_TYPES)
                 and text.startswith(".") == small.startswith(".")]
        match = _nearest(small, words, following)
        if match is not None and not is_result:
            return f"did you mean {match}?"
        if "SCALAR_TYPE" in accepted:
            return f"the scalar types are {', '.join(SCALAR_TYPES)}"
        is_name = re.fullmatch("[A-Za-z][A-Za-z0-9_]*", word) is not None
        if is_name and "GLOBAL_IDENTIFIER" in accepted:
            return f"the name of a function begins with @: write @{word[:80]}"
        if is_name and "LOCAL_IDENTIFIER" in accepted and ("FOREACH" not in accepted or is_result):
            return f"the name of a value begins with %: write %{word[:80]}"
        return None

    def _glued(self, position: int) -> str | None:
        """Return a hint about the name or the number that ends where something else begins."""
        before = self.text[max(0, position - 80) : position]
        if re.search(r"[%@][A-Za-z0-9_]+$", before):
            return _NAME
        if re.search(r"(?<![A-Za-z0-9_.%@])[+-]?\.?[0-9][0-9A-Za-z_.]*$", before):
            if self.text[position] == "X":
                return "hexadecimal constants start with a small 0x, as in 0x1.8p3"
            if self.text[position] == "x" and before.endswith("0"):
                return "hexadecimal constants are floats, as in 0x1.8p3; integers are written in decimal"
            return _NUMBER
        return None

    def _place_hint(self, accepted: set[str]) -> str | None:
        """Return what may stand at a place outside of any instruction or type."""
        if "ALLOCA" in accepted:
            return f"write an instruction, as in {FORMS['arith']}; a value is used by its name"
        if "FOREACH" in accepted:
            return f"an instruction begins with %name = or with {', '.join(sorted(STARTS))}"
        if "FUNC" in accepted:
            return f"a program consists of functions: {FORMS['func']}"
        if accepted == {"IF", "FOR"}:
            return "only an if and a for give several results: write one name before ="
        if "EQUAL" in accepted:
            return f"the result of an instruction is written before it: {FORMS['arith']}"
        return "a region stands in braces: { ... }" if accepted == {"LBRACE"} else None


def _nearest(word: str, words: Iterable[str], following: str) -> str | None:
    """Return the word that is most like one that nobody knows: of several, one with as many modifiers as follow."""
    matches = difflib.get_close_matches(word, words, n=4)
    likeness = {match: difflib.SequenceMatcher(None, match, word).ratio() for match in matches}
    count = _modifiers(following)
    return max(matches, default=None, key=lambda match: (
        likeness[match], _modifiers(FORMS.get(match, "").removeprefix(match)) == count))


def _modifiers(text: str) -> int:
    """Return how many modifiers, such as the ``.n`` of ``gemm.n.t``, a text begins with."""
    found = re.match(r"(?:\.\w+)*", text)
    return 0 if found is None else found.group().count(".")
