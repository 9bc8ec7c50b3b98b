"""The parser's tables, ready-made: lark takes 0.1 s to make them of the grammar, as long as lowering a program takes.

The build of a wheel, or an editable installation, writes them beside this module (``tools/build_backend.py``).  Where
there are none for the grammar as it is, they are made at the first use.  They are of lark's classes and plain data, so
those that one Python wrote are right for all.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import lark
from lark import Lark
from lark.lark import PostLex

from tl_dpnp.language.grammar import grammar_text
from tl_dpnp.language.lark_adapter import dump

__all__ = ["FILE", "read", "write"]

#: Where the tables are kept: a key, then what `lark.Lark.load` reads.
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


def write(resolution: PostLex) -> None:
    """Make the tables and keep them."""
    own = FILE.with_suffix(f".{os.getpid()}")
    with own.open("wb") as file:
        file.write(_key(resolution))
        dump(_make(resolution), file)
    own.replace(FILE)
