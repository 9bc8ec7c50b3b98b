"""Products of arrays as contractions of two operands each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.long_reductions import PROCESSORS, reduced, summed_product
from tl_dpnp.graph.nodes import Contract, Map, Node
from tl_dpnp.graph.views import permute, slice_axes, view
from tl_dpnp.graph.work_groups import WorkGroups

__all__ = ["contraction", "einsum_node", "matmul_node"]


def contraction(
    a: Node, b: Node, of_a: str, of_b: str, out: str, dtype: np.dtype[Any], device: WorkGroups = PROCESSORS
) -> Node:
    """Return the node of ``einsum(f"{of_a},{of_b}->{out}", a, b)``; raises `NotFused` for sizes that do not fit.

    Letters of the result are distinct and each is in an operand.  An axis of size 1 broadcasts.
    """
    sizes: dict[str, int] = {}
    for node, letters in ((a, of_a), (b, of_b)):
        for letter, size in zip(letters, node.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                if 1 not in (size, sizes[letter]):
                    raise NotFused("the shapes do not fit")
                sizes[letter] = size if sizes[letter] == 1 else sizes[letter]
    if 0 in sizes.values() and all(sizes[letter] for letter in out):
        raise NotFused("the summed axis is empty")
    a, of_a = _reduced(a, of_a, of_b + out, sizes, dtype)
    b, of_b = _reduced(b, of_b, of_a + out, sizes, dtype)
    shape = tuple(sizes[letter] for letter in out)
    return summed_product(Contract(shape, dtype, (a, b), (of_a, of_b), out), device)


def _reduced(
    node: Node, letters: str, others: str, sizes: dict[str, int], dtype: np.dtype[Any]
) -> tuple[Node, str]:
    """Return an operand without the axes of size 1 that broadcast, and summed over letters that nothing else has."""
    dropped = [axis for axis, letter in enumerate(letters) if node.shape[axis] != sizes.get(letter, 1)]
    if dropped:
        node = slice_axes(node, [0 if axis in dropped else (0, 1, size) for axis, size in enumerate(node.shape)])
        letters = "".join(letter for axis, letter in enumerate(letters) if axis not in dropped)
    alone = tuple(axis for axis, letter in enumerate(letters) if letter not in others)
    if alone:
        node = reduced("sum", node, alone, dtype)
        letters = "".join(letter for axis, letter in enumerate(letters) if axis not in alone)
    return node, letters


def matmul_node(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """Return the node of ``a @ b``."""
    if not a.shape or not b.shape:
        raise NotFused("a matrix product with a 0-d array")
    batch = max(len(a.shape), len(b.shape)) - 2
    names = "abcdefghijklmnopqrstuvw"
    if batch > len(names):
        raise NotFused("there are too many axes")
    of_a = names[:batch][batch - len(a.shape) + 2 :] + "xy" if len(a.shape) > 1 else "y"
    of_b = names[:batch][batch - len(b.shape) + 2 :] + "yz" if len(b.shape) > 1 else "y"
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise NotFused("the shapes do not fit")
    out = names[: max(batch, 0)] + ("x" if len(a.shape) > 1 else "") + ("z" if len(b.shape) > 1 else "")
    return contraction(a, b, of_a, of_b, out, dtype)


def einsum_node(
    subscripts: str, nodes: Sequence[Node], dtype: np.dtype[Any], sees_diagonals: Callable[[], bool] = lambda: True
) -> Node:
    """Return the node of an einsum of any number of operands, contracted in the order that opt_einsum finds.

    `sees_diagonals` says whether the diagonal of a single operand is a view of it; else it is a copy.
    """
    words, out = _parsed(subscripts, tuple(node.shape for node in nodes))
    sizes: dict[str, int] = {}
    for word, node in zip(words, nodes, strict=True):
        for letter, size in zip(word, node.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise NotFused("the shapes do not fit")
    if 0 in sizes.values() and all(sizes[letter] for letter in out):
        raise NotFused("the summed axis is empty")
    operands = [_diagonal(node, word) for node, word in zip(nodes, words, strict=True)]
    if len(operands) == 1:
        node, word = operands[0]
        if len(word) < len(words[0]) and not sees_diagonals():
            node = Map(node.shape, node.dtype, "positive", (node,), node.dtype)
        node, word = _reduced(node, word, out, sizes, dtype)
        return permute(node, tuple(word.index(letter) for letter in out))
    for pair in _path(",".join(word for _, word in operands) + "->" + out, tuple(node.shape for node, _ in operands)):
        taken = [operands[place] for place in pair]
        for place in sorted(pair, reverse=True):
            operands.pop(place)
        needed = set(out).union(*(word for _, word in operands))
        while len(taken) > 1:
            (a, of_a), (b, of_b) = taken.pop(0), taken.pop(0)
            kept = needed.union(*(word for _, word in taken)) if taken else needed
            result = "".join(dict.fromkeys(letter for letter in of_a + of_b if letter in kept))
            if not operands and not taken:
                result = out
            taken.insert(0, (contraction(a, b, of_a, of_b, result, dtype), result))
        operands.append(taken[0])
    node, word = operands[0]
    return permute(node, tuple(word.index(letter) for letter in out)) if word != out else node


def _diagonal(node: Node, word: str) -> tuple[Node, str]:
    """Return an operand with each letter once: repeated letters are a diagonal."""
    letters = "".join(dict.fromkeys(word))
    if letters == word:
        return node, word
    shape = tuple(node.shape[word.index(letter)] for letter in letters)
    return view(node, shape, tuple((0, 1, letters.index(letter)) for letter in word)), letters


@lru_cache(maxsize=512)
def _parsed(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], str]:
    from opt_einsum.parser import parse_einsum_input

    try:
        inputs, out, _ = parse_einsum_input((subscripts, *shapes), shapes=True)
    except (ValueError, TypeError, IndexError):
        raise NotFused("the subscripts are not understood") from None
    words = inputs.split(",")
    if any(len(word) != len(shape) for word, shape in zip(words, shapes, strict=True)):
        raise NotFused("the subscripts do not fit the operands")
    given, arrow, result = subscripts.partition("->")
    if not subscripts.isascii() or (arrow and "..." in given and "..." not in result):
        raise NotFused("the subscripts are not understood")  # opt_einsum takes them, and dpnp does not
    return words, out


@lru_cache(maxsize=512)
def _path(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    import opt_einsum

    return list(opt_einsum.contract_path(subscripts, *shapes, shapes=True)[0])
