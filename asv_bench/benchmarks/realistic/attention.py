"""Attention, in variants for short sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def softmax(scores: Any) -> Any:
    e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ xp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    return softmax(xp.where(mask > 0.0, scores, mask - 1e9)) @ v


def self_attention(weights: dict[str, Any], x: Any, mask: Any) -> Any:
    q, k, v = x @ weights["q"], x @ weights["k"], x @ weights["v"]
    return masked(q, k, v, mask) @ weights["out"]


@program
def causal_attention(draw: Draw, batch: int) -> Any:
    length, n = draw.size(6, 12), draw.size(8, 16)
    weights = {name: draw.weights(n, n) for name in ("q", "k", "v", "out")}
    causal = [[float(j <= i) for j in range(length)] for i in range(length)]
    return self_attention, (weights, draw.normal(batch, length, n), draw.array(causal))


def positive(x: Any) -> Any:
    """ELU plus one."""
    return xp.where(x > 0.0, x + 1.0, xp.exp(xp.minimum(x, 0.0)))


def kernel_attention(q: Any, k: Any, v: Any) -> Any:
    q, k = positive(q), positive(k)
    context = xp.einsum("bti,btj->bij", k, v)
    return q @ context / (q @ k.sum(axis=1)[:, :, None])


@program
def linear_attention(draw: Draw, batch: int) -> Any:
    length, n, m = draw.size(6, 16), draw.size(6, 12), draw.size(6, 12)
    return kernel_attention, (draw.normal(batch, length, n), draw.normal(batch, length, n),
                              draw.normal(batch, length, m))


class MultiQuery:
    """Heads that share their keys and values."""

    def __init__(self, draw: Draw, n: int, heads: int, size: int) -> None:
        self.q = draw.normal(heads, n, size, scale=n**-0.5)
        self.k, self.v = draw.weights(n, size), draw.weights(n, size)
        self.out = draw.normal(heads, size, n, scale=size**-0.5)

    def __call__(self, x: Any) -> Any:
        q = xp.einsum("btn,hns->bhts", x, self.q)
        k, v = x @ self.k, x @ self.v
        weights = softmax(xp.einsum("bhts,bus->bhtu", q, k))
        return xp.einsum("bhtu,bus,hsn->btn", weights, v, self.out)


def call(layer: Any, x: Any) -> Any:
    return layer(x)


@program
def multi_query_attention(draw: Draw, batch: int) -> Any:
    length, n = draw.size(4, 8), draw.size(8, 12)
    return call, (MultiQuery(draw, n, draw.size(2, 3), 4), draw.normal(batch, length, n))


def pool(query: Any, keys: Any, values: Any, temperature: float) -> Any:
    scores = xp.einsum("bn,btn->bt", query, keys) / temperature
    return xp.einsum("bt,btn->bn", softmax(scores), values)


@program
def attention_pooling(draw: Draw, batch: int) -> Any:
    length, n = draw.size(6, 20), draw.size(8, 20)
    return pool, (draw.normal(batch, n), draw.normal(batch, length, n), draw.normal(batch, length, n), 2.0)


@dataclass
class Rotary:
    cos: Any
    sin: Any

    def turn(self, x: Any) -> Any:
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return xp.concatenate([a * self.cos - b * self.sin, b * self.cos + a * self.sin], axis=-1)


def rotary(embedding: Rotary, q: Any, k: Any, v: Any) -> Any:
    scores = embedding.turn(q) @ xp.swapaxes(embedding.turn(k), -1, -2)
    return softmax(scores * q.shape[-1] ** -0.5) @ v


@program
def rotary_attention(draw: Draw, batch: int) -> Any:
    length, n = draw.size(4, 10), 2 * draw.size(3, 8)
    embedding = Rotary(draw.uniform(-1.0, 1.0, length, n // 2), draw.uniform(-1.0, 1.0, length, n // 2))
    return rotary, (embedding, *(draw.normal(batch, length, n) for _ in range(3)))


def biased(q: Any, k: Any, v: Any, distance: Any, slope: float) -> Any:
    return softmax(xp.einsum("bti,bui->btu", q, k) - slope * distance) @ v


@program
def distance_biased_attention(draw: Draw, batch: int) -> Any:
    length, n = draw.size(6, 12), draw.size(6, 16)
    distance = [[float(abs(i - j)) for j in range(length)] for i in range(length)]
    return biased, (*(draw.normal(batch, length, n, scale=0.5) for _ in range(3)), draw.array(distance), 0.25)
