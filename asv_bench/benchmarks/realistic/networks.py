"""Message passing on fixed graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def relu(x: Any) -> Any:
    return xp.maximum(x, 0.0)


@dataclass(frozen=True)
class Graph:
    """Edges from `source` to target; `incidence` adds up at targets what edges carry, `(nodes, edges)`."""

    source: Any
    target: Any
    incidence: Any


def graph_of(draw: Draw, nodes: int, edges: int) -> Graph:
    # A ring with chords, so that the incidence matches the targets.
    targets = [edge % nodes for edge in range(edges)]
    incidence = [[float(target == node) for target in targets] for node in range(nodes)]
    return Graph(draw.indices(edges, nodes), draw.integers(targets), draw.array(incidence))


@dataclass
class Interaction:
    W: Any
    U: Any
    V: Any

    def messages(self, graph: Graph, h: Any) -> Any:
        sent, received = xp.take(h, graph.source, axis=1), xp.take(h, graph.target, axis=1)
        return relu(sent @ self.W + received @ self.U)

    def __call__(self, graph: Graph, h: Any) -> Any:
        return h + (graph.incidence @ self.messages(graph, h)) @ self.V


def interact(layers: list[Interaction], graph: Graph, h: Any) -> Any:
    for layer in layers:
        h = layer(graph, h)
    return h


@program
def message_passing(draw: Draw, batch: int) -> Any:
    nodes, n, m = draw.size(5, 8), draw.size(4, 8), draw.size(6, 10)
    layers = [Interaction(draw.weights(n, m), draw.weights(n, m), draw.weights(m, n))]
    return interact, (layers, graph_of(draw, nodes, 2 * nodes), draw.normal(batch, nodes, n))


def convolve(adjacency: Any, weights: list[Any], h: Any) -> Any:
    for k, W in enumerate(weights):
        h = adjacency @ (h @ W)
        if k + 1 < len(weights):
            h = relu(h)
    return h.mean(axis=1)


@program
def graph_convolution(draw: Draw, batch: int) -> Any:
    nodes, n = draw.size(6, 12), draw.size(4, 12)
    return convolve, (draw.probabilities(nodes, nodes), [draw.weights(n, n) for _ in range(3)],
                      draw.normal(batch, nodes, n))


def propagate(labels: Any, adjacency: Any, start: Any, alpha: float, sweeps: int = 3) -> Any:
    for _ in range(sweeps):
        labels = alpha * xp.einsum("ij,bjk->bik", adjacency, labels) + (1.0 - alpha) * start
        labels = labels / labels.sum(axis=-1, keepdims=True)
    return labels


@program
def label_propagation(draw: Draw, batch: int) -> Any:
    nodes, labels = draw.size(6, 14), draw.size(2, 5)
    start = draw.probabilities(batch, nodes, labels)
    return propagate, (start, draw.probabilities(nodes, nodes), start, 0.8)


def distances(x: Any) -> Any:
    difference = x[:, :, None, :] - x[:, None, :, :]
    return (difference * difference).sum(axis=-1)


def equivariant(x: Any, h: Any, adjacency: Any, W: Any, scale: float) -> tuple[Any, Any]:
    """One layer of an E(n)-equivariant network with simple weights."""
    d2 = distances(x)
    strength = adjacency * xp.exp(-d2 / scale)
    h = xp.tanh(strength @ h @ W)
    shift = strength.sum(axis=-1, keepdims=True) * x - strength @ x
    return x + shift / x.shape[1], h


@program
def equivariant_layer(draw: Draw, batch: int) -> Any:
    nodes, n = draw.size(4, 8), draw.size(4, 8)
    return equivariant, (draw.normal(batch, nodes, 3), draw.normal(batch, nodes, n),
                         draw.uniform(0.0, 1.0, nodes, nodes), draw.weights(n, n), 1.5)


def diffuse(graph: Graph, u: Any, conductance: Any, dt: float) -> Any:
    difference = xp.take(u, graph.source, axis=-1) - xp.take(u, graph.target, axis=-1)
    return u + dt * (conductance * difference) @ graph.incidence.T


@program
def graph_diffusion(draw: Draw, batch: int) -> Any:
    nodes = draw.size(8, 16)
    graph = graph_of(draw, nodes, 2 * nodes)
    return diffuse, (graph, draw.normal(batch, nodes), draw.uniform(0.5, 1.0, 2 * nodes), 0.05)
