"""Small networks of layer objects."""

from __future__ import annotations

import math
from typing import Any

from . import Draw, program, xp


def silu(x: Any) -> Any:
    return x / (1.0 + xp.exp(-x))


def gelu(x: Any) -> Any:
    """GELU by its approximation with tanh."""
    return 0.5 * x * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def relu(x: Any) -> Any:
    return xp.maximum(x, 0.0)


def softmax(x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Layer:
    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def forward(self, x: Any) -> Any:
        raise NotImplementedError


class Linear(Layer):
    def __init__(self, draw: Draw, rows: int, columns: int) -> None:
        self.W, self.b = draw.weights(rows, columns), draw.normal(columns, scale=0.1)

    def forward(self, x: Any) -> Any:
        return x @ self.W + self.b


class Activation(Layer):
    def __init__(self, function: Any) -> None:
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class LayerNorm(Layer):
    eps = 1e-5

    def __init__(self, draw: Draw, size: int) -> None:
        self.gain, self.bias = draw.normal(size, mean=1.0, scale=0.1), draw.normal(size, scale=0.1)

    def forward(self, x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + self.eps) * self.gain + self.bias


class Sequential(Layer):
    def __init__(self, *layers: Layer) -> None:
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def apply_model(model: Layer, x: Any) -> Any:
    return model(x)


@program
def mlp_silu(draw: Draw, batch: int) -> Any:
    n, m, k = draw.size(8, 24), draw.size(16, 40), draw.size(4, 16)
    model = Sequential(Linear(draw, n, m), Activation(silu), Linear(draw, m, k))
    return apply_model, (model, draw.normal(batch, n))


class Residual(Layer):
    def __init__(self, inner: Layer) -> None:
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return x + self.inner(x)


@program
def residual_gelu(draw: Draw, batch: int) -> Any:
    n = draw.size(12, 24)
    blocks = [Residual(Sequential(LayerNorm(draw, n), Linear(draw, n, 2 * n), Activation(gelu), Linear(draw, 2 * n, n)))
              for _ in range(2)]
    return apply_model, (Sequential(*blocks), draw.normal(batch, n))


def train_gradient(model: Sequential, x: Any, target: Any) -> tuple[Any, Any, Any]:
    """Return the loss of each sample, and the gradients of the hidden layer's inputs, by hand."""
    first, second = model.layers
    hidden = xp.tanh(first(x))
    error = second(hidden) - target
    back = (error @ second.W.T) * (1.0 - hidden * hidden)
    return (error * error).mean(axis=-1), back, back @ first.W.T


@program
def backpropagation(draw: Draw, batch: int) -> Any:
    n, m, k = draw.size(6, 16), draw.size(10, 32), draw.size(2, 8)
    return train_gradient, (Sequential(Linear(draw, n, m), Linear(draw, m, k)), draw.normal(batch, n),
                            draw.normal(batch, k))


class Experts(Layer):
    """A mixture of experts, all of which are computed."""

    def __init__(self, draw: Draw, experts: int, n: int, m: int) -> None:
        self.gate = Linear(draw, n, experts)
        self.W = draw.normal(experts, n, m, scale=n**-0.5)

    def forward(self, x: Any) -> Any:
        weights = softmax(self.gate(x))
        return xp.einsum("bk,bkm->bm", weights, relu(xp.einsum("bn,knm->bkm", x, self.W)))


@program
def mixture_of_experts(draw: Draw, batch: int) -> Any:
    model = Experts(draw, draw.size(3, 5), draw.size(6, 16), draw.size(6, 16))
    return apply_model, (model, draw.normal(batch, model.W.shape[1]))


def modulate(features: Any, condition: Any, scale: Linear, shift: Linear) -> Any:
    return gelu(features * (1.0 + scale(condition))[:, None, :] + shift(condition)[:, None, :])


@program
def film_conditioning(draw: Draw, batch: int) -> Any:
    points, n, k = draw.size(4, 12), draw.size(6, 16), draw.size(4, 10)
    return modulate, (draw.normal(batch, points, n), draw.normal(batch, k), Linear(draw, k, n), Linear(draw, k, n))


def encode_set(encoder: Layer, decoder: Layer, elements: Any) -> Any:
    return decoder(encoder(elements).mean(axis=1))


@program
def deep_sets(draw: Draw, batch: int) -> Any:
    points, n, m, k = draw.size(5, 12), draw.size(3, 6), draw.size(8, 20), draw.size(4, 10)
    encoder = Sequential(Linear(draw, n, m), Activation(relu), Linear(draw, m, m))
    return encode_set, (encoder, Linear(draw, m, k), draw.normal(batch, points, n))


def fourier_features(x: Any, frequencies: Any) -> Any:
    phase = x @ frequencies
    return xp.concatenate([xp.sin(phase), xp.cos(phase)], axis=-1)


def neural_field(parameters: dict[str, Any], x: Any) -> Any:
    features = fourier_features(x, parameters["frequencies"])
    hidden = relu(features @ parameters["W1"] + parameters["b1"])
    return hidden @ parameters["W2"]


@program
def coordinate_network(draw: Draw, batch: int) -> Any:
    f, m = draw.size(6, 12), draw.size(12, 24)
    parameters = {"frequencies": draw.normal(3, f), "W1": draw.weights(2 * f, m), "b1": draw.normal(m),
                  "W2": draw.weights(m, 4)}
    return neural_field, (parameters, draw.uniform(-1.0, 1.0, batch, 3))


def gated(x: Any, up: Any, side: Any, down: Any) -> Any:
    return (silu(x @ side) * (x @ up)) @ down


@program
def swiglu(draw: Draw, batch: int) -> Any:
    n, m = draw.size(8, 24), draw.size(16, 48)
    return gated, (draw.normal(batch, n), draw.weights(n, m), draw.weights(n, m), draw.weights(m, n))


def reconstruct(encoder: Layer, decoder: Layer, x: Any, beta: float) -> Any:
    code = encoder(x)
    error = decoder(code) - x
    return (error * error).sum(axis=-1) + beta * (code * code).sum(axis=-1)


@program
def autoencoder_loss(draw: Draw, batch: int) -> Any:
    n, m, k = draw.size(12, 32), draw.size(8, 16), draw.size(2, 6)
    encoder = Sequential(Linear(draw, n, m), Activation(silu), Linear(draw, m, k))
    decoder = Sequential(Linear(draw, k, m), Activation(silu), Linear(draw, m, n))
    return reconstruct, (encoder, decoder, draw.normal(batch, n), 0.1)
