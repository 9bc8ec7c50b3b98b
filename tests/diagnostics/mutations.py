"""Damaged programs: valid ones with bytes, characters or tokens changed, cut, repeated or nested.

Everything follows from the random generator that is passed in; the same seed gives the same text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from tl_dpnp.scalars import SCALAR_TYPES

__all__ = ["MUTATIONS", "mutate"]

#: Words, numbers, names, punctuation and white space, as pieces that a mutation leaves whole.
_TOKEN = re.compile(r"[%@]?[A-Za-z0-9_.]+|->|\s+|.", re.DOTALL)
_PAIRS = ("{}", "()", "[]", "<>")
_CHARACTERS = "\x00\t\r\n \x0b\x85\xa0\u2028\ufeff\ud800é漢\U0001f600%@;:,.-+x?\"'\\"
_NUMBERS = ("0", "-1", "?", "9223372036854775807", "9223372036854775808", "9" * 40, "1e999", "0x1p9999", "1e-999",
            "nan", "-inf", "0X1", "00", "+0", "true", ".", "1.5", "0x1.8p3", "[1, 2]")  # fmt: skip
_LONGEST = 20_000


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _position(items: Sequence[object], rng: random.Random) -> int:
    return rng.randrange(len(items) + 1)


def _delete_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    tokens = _tokens(text)
    start = _position(tokens, rng)
    del tokens[start : start + rng.choice((1, 1, 1, 2, 5))]
    return "".join(tokens)


def _duplicate_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    tokens = _tokens(text)
    start = _position(tokens, rng)
    end = start + rng.choice((1, 1, 2, 8))
    return "".join(tokens[:end] + tokens[start:end] + tokens[end:])


def _swap_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    tokens = _tokens(text)
    if len(tokens) > 1:
        a, b = rng.sample(range(len(tokens)), 2)
        tokens[a], tokens[b] = tokens[b], tokens[a]
    return "".join(tokens)


def _splice_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    tokens, donor = _tokens(text), _tokens(rng.choice(others))
    start, source = _position(tokens, rng), _position(donor, rng)
    tokens[start : start + rng.choice((0, 1, 3))] = donor[source : source + rng.choice((1, 1, 4, 30))]
    return "".join(tokens)


def _kind(token: str) -> str:
    """Return what sort of word a token is: those of one sort can often stand for each other."""
    if token[0] in "%@":
        return token[0]
    if token[0].isdigit():
        return "number"
    if token in SCALAR_TYPES:
        return "type"
    return "shape" if re.match(r"[a-z]+[0-9]*x", token) else token.partition(".")[0] if "." in token else "word"


def _replace_word(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Replace a word by another of its kind: mostly the program then breaks a rule, not the grammar."""
    tokens = _tokens(text)
    words = [number for number, token in enumerate(tokens) if token[-1].isalnum()]
    if words:
        place = rng.choice(words)
        same = [tokens[number] for number in words if _kind(tokens[number]) == _kind(tokens[place])]
        tokens[place] = rng.choice(same)
    return "".join(tokens)


def _replace_number(text: str, others: Sequence[str], rng: random.Random) -> str:
    places = list(re.finditer(r"(?<![%@A-Za-z0-9])[0-9]+|(?<=x)[0-9]+|\?", text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(_NUMBERS) + text[place.end() :]


def _change_characters(text: str, others: Sequence[str], rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        start = _position(text, rng)
        piece = rng.choice((rng.choice(_CHARACTERS), chr(rng.randrange(128)), text[start : start + 3][::-1], ""))
        text = text[:start] + piece + text[start + rng.choice((0, 1, 1, 3)) :]
    return text


def _change_bytes(text: str, others: Sequence[str], rng: random.Random) -> str:
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.randint(1, 6)):
        start = _position(data, rng)
        data[start : start + rng.choice((0, 1, 2))] = rng.randbytes(rng.choice((0, 1, 1, 4)))
    return data.decode("latin-1") if rng.random() < 0.5 else data.decode("utf-8", "replace")


def _truncate(text: str, others: Sequence[str], rng: random.Random) -> str:
    end = _position(text, rng)
    return text[:end] if rng.random() < 0.7 else text[end:]


def _join(text: str, others: Sequence[str], rng: random.Random) -> str:
    return f"{text}{rng.choice(('', ' ', chr(10), ';'))}{rng.choice(others)}"


def _change_line_ends(text: str, others: Sequence[str], rng: random.Random) -> str:
    return text.replace("\n", rng.choice(("\r\n", "\r", " ", "", "\n\n;\n", "\u2028")))


def _repeat(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Repeat a token many times."""
    tokens = _tokens(text) or [" "]
    start = rng.randrange(len(tokens))
    piece = "".join(tokens[start : start + rng.choice((1, 1, 2, 6))])
    count = min(rng.choice((20, 200, 5000)), _LONGEST // len(piece))
    return "".join(tokens[:start]) + piece * count + "".join(tokens[start:])


def _nest(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Put many brackets around a place, all, too few or none of them closed."""
    tokens = _tokens(text)
    start = _position(tokens, rng)
    opening, closing = rng.choice(_PAIRS)
    head = rng.choice(("", "if true", "for %i = 0, 4", "foreach %i = 0, 4", "memref", "group", "else"))
    depth = rng.choice((3, 70, 1000))
    closed = rng.choice((depth, depth, depth - 1, 0))
    tokens.insert(start, f"{head}{opening}" * depth + closing * closed)
    return "".join(tokens)


def _garbage(text: str, others: Sequence[str], rng: random.Random) -> str:
    data = rng.randbytes(rng.randrange(300))
    return data.decode("latin-1") if rng.random() < 0.5 else data.decode("utf-8", "replace")


#: What may happen to a program, with its weight.
MUTATIONS: dict[Callable[[str, Sequence[str], random.Random], str], int] = {
    _delete_tokens: 5,
    _duplicate_tokens: 4,
    _swap_tokens: 5,
    _splice_tokens: 5,
    _replace_word: 30,
    _replace_number: 8,
    _change_characters: 5,
    _change_bytes: 4,
    _truncate: 2,
    _join: 1,
    _change_line_ends: 1,
    _repeat: 1,
    _nest: 2,
    _garbage: 1,
}


def mutate(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Return the text after one to three mutations; `others` are programs to take tokens from."""
    kinds, weights = list(MUTATIONS), list(MUTATIONS.values())
    for kind in rng.choices(kinds, weights, k=rng.choice((1, 1, 2, 3))):
        text = kind(text, others, rng)
    return text[: 2 * _LONGEST]
