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
    without, one, several = (
        [rule for rule, kind in RULES.items() if kind.result_count() == count] for count in (0, 1, None)
    )
    named = ["value_instruction", "multi_value_instruction", "constant_definition"]
    rules = {
        "_instruction": " | ".join([*named, *without]),
        "_value": " | ".join(one),
        "_values": " | ".join(several),
    }
    for kind in ops.INSTRUCTIONS:
        rules |= kind.grammar()
    return "\n".join([fixed, *(f"{name}: {body}" for name, body in rules.items()), ""])
