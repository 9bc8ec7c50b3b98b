"""The parser's tables, ready-made: lark takes 0.1 s to make them of the grammar, as long as lowering a program takes.

The build of a wheel, or an editable installation, writes them beside this module (``tools/build_backend.py``).  Where
there are none for the grammar as it is, they are made at the first use.  They are of lark's classes and plain data, so
those that one Python wrote are right for all.

Tested with lark 1.3.1.  Private parts used: ``memo`` in what is saved, which `lark.utils.SerializeMemoizer` made.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lark import PostLex
from lark.lexer import TerminalDef
from lark.utils import SerializeMemoizer

from tl_dpnp.language.grammar import grammar_text

__all__ = ["FILE", "read", "write"]

#: Where the tables are kept: a key, then what `lark.Lark.save` writes, with its rules and terminals as objects.
FILE = Path(__file__).with_name("tensor.tables")


def _key(resolution: PostLex) -> bytes:
    """Return what tells tables of this grammar from others: lark's version decides how they are written."""
    made_of = [grammar_text(), lark.__version__, type(resolution).__qualname__]
    return hashlib.sha256(repr(made_of).encode()).digest()


def _make(resolution: PostLex) -> Lark:
    return Lark(grammar_text(), parser="lalr", lexer="basic", postlex=resolution, propagate_positions=True)


def read(resolution: PostLex) -> Lark:
    """Return the parser of the grammar; `resolution` is what its tokens go through on their way from the lexer."""
    key = _key(resolution)
    try:
        with FILE.open("rb") as file:
            if file.read(len(key)) == key:
                return Lark.load(file)
    except FileNotFoundError:
        pass
    return _make(resolution)


class _Pickler(pickle.Pickler):
    """Has rules made anew when they are read: they keep their hash, which is another one in each process."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Rule):
            return Rule, (value.origin, value.expansion, value.order, value.alias, value.options)
        return NotImplemented


def write(resolution: PostLex) -> None:
    """Make the tables and keep them."""
    saved = io.BytesIO()
    _make(resolution).save(saved)
    tables = pickle.loads(saved.getvalue())
    # As what they are instead of their parts: to put those together takes lark longer than all else at each start.
    tables["memo"] = SerializeMemoizer.deserialize(
        tables["memo"], {"Rule": Rule, "TerminalDef": TerminalDef}, {})
    own = FILE.with_suffix(f".{os.getpid()}")
    with own.open("wb") as file:
        file.write(_key(resolution))
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(tables)
    own.replace(FILE)
