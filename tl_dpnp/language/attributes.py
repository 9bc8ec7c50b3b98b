"""The attributes of the dialect 0.4, ``name=value`` in braces: which there are, and what they may be.

Source: language 0.4, section "Attributes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from lark import Token, Tree

from tl_dpnp.language.constants import parse_integer
from tl_dpnp.language.rule_error import RuleError

__all__ = ["ALLOWED", "Attribute", "read_attributes"]

#: Reports what is wrong: a message, a node of the parse tree, a hint, and the node of an earlier place, if any.
Report = Callable[[str, Any, str, Any], None]


class Attribute(NamedTuple):
    """A known attribute: a legal value as text, and whether a value is legal."""

    example: str
    accepts: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_unrolling(value: Any) -> bool:
    return type(value) is bool or (_is_integer(value) and value > 0)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_integer, value))


#: What may have attributes, and which.
ALLOWED: Mapping[str, Mapping[str, Attribute]] = {
    "a function": {
        "work_group_size": Attribute("[16, 1]", lambda v: isinstance(v, tuple) and list(map(type, v)) == [int, int]),
        "subgroup_size": Attribute("16", _is_integer),
    },
    "a for loop": {"unroll": Attribute("true", _is_unrolling)},
    "a memref or group": {
        "alignment": Attribute("64", _is_integer),
        "shape_gcd": Attribute("[8, 1]", _are_numbers),
        "stride_gcd": Attribute("[1, 8]", _are_numbers),
    },
    "a scalar": {},
    "an alloca": {"alignment": Attribute("64", _is_integer)},
}


def read_attributes(tree: Tree[Token] | None, owner: str, report: Report) -> Iterator[tuple[str, Any, Tree[Token]]]:
    """Yield name, value and node of each legal attribute of a dictionary; names in quotes are ignored.

    A value is a bool, an int, a tuple of such, or "" for what no known attribute may be.
    """
    known = ALLOWED[owner]
    seen: dict[str, Tree[Token]] = {}
    for entry in [] if tree is None else tree.children:
        if not isinstance(entry, Tree):
            continue
        word, node = entry.children
        assert isinstance(word, Tree)
        name = str(word.children[0])
        if name in seen:
            report(f"the attribute {name} is given twice", entry, "remove one of them", seen[name])
            continue
        seen[name] = entry
        if name.startswith('"'):
            continue
        if name not in known:
            hint = f"those of {owner}: {', '.join(known)}" if known else "leave it out"
            report(f"{name} is no attribute of {owner}", entry, hint, None)
        else:
            try:
                value = _value(node)
            except RuleError as error:
                report(error.message, entry, error.hint or "", None)
                continue
            if known[name].accepts(value):
                yield name, value, entry
            else:
                message = f"the attribute {name} of {owner} has no such value"
                report(message, entry, f"write for example {name}={known[name].example}", None)


def _value(node: Any) -> Any:
    """Return the value of an attribute.  Raises `RuleError` for an integer that is too large."""
    if isinstance(node, Token):
        match node.type:
            case "INTEGER_CONSTANT":
                return parse_integer(node)
            case "BOOLEAN_CONSTANT":
                return node == "true"
        return ""
    if node.data != "attribute_list":
        return ""
    # No attribute has lists of lists, which may be nested more deeply than Python's calls.
    return tuple(_value(entry) if isinstance(entry, Token) else "" for entry in node.children if entry is not None)
