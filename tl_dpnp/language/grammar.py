"""The grammar of the language: `tensor.lark` with the rules of the instructions, as their classes give them."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from tl_dpnp.language import ops
from tl_dpnp.language.ops import Operation

__all__ = ["RULES", "grammar_text"]

#: From the rules of the grammar that are spellings of instructions to their classes.
RULES: dict[str, type[Operation]] = {
    rule: kind for kind in ops.INSTRUCTIONS for rule in kind.grammar() if rule.endswith("_instruction")
}


@lru_cache(maxsize=1)
def grammar_text() -> str:
    """Return the grammar in lark's language."""
    fixed = files(__package__).joinpath("tensor.lark").read_text(encoding="utf-8")
    rules: dict[str, str] = {}
    for kind in ops.INSTRUCTIONS:
        rules |= kind.grammar()
    spellings = {rule: f"({rules.pop(rule)}) -> {rule}" for rule in RULES}  # trees have the names of the rules
    for name, count in (("instruction", 0), ("value", 1), ("values", None)):
        rules[name] = " | ".join(spellings[rule] for rule, kind in RULES.items() if kind.result_count() == count)
    return "\n".join([fixed, *(f"{name}: {body}" for name, body in rules.items()), ""])
