"""Recurrent cells and networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


class RNNCell:
    """Elman's cell."""

    def __init__(self, W: Any, U: Any, b: Any) -> None:
        self.W, self.U, self.b = W, U, b

    def __call__(self, x: Any, h: Any) -> Any:
        return xp.tanh(x @ self.W + h @ self.U + self.b)


def run_rnn(cell: RNNCell, xs: Any, h: Any) -> Any:
    for t in range(xs.shape[1]):
        h = cell(xs[:, t], h)
    return h


@program
def rnn_sequence(draw: Draw, batch: int) -> Any:
    n, m, steps = draw.size(4, 16), draw.size(8, 24), draw.size(3, 6)
    cell = RNNCell(draw.weights(n, m), draw.weights(m, m), draw.normal(m))
    return run_rnn, (cell, draw.normal(batch, steps, n), draw.normal(batch, m))


class GRUCell:
    """A gated recurrent unit, with a matrix for each gate."""

    def __init__(self, draw: Draw, n: int, m: int) -> None:
        self.Wz, self.Wr, self.Wh = (draw.weights(n, m) for _ in range(3))
        self.Uz, self.Ur, self.Uh = (draw.weights(m, m) for _ in range(3))
        self.bz, self.br, self.bh = (draw.normal(m) for _ in range(3))

    def __call__(self, x: Any, h: Any) -> Any:
        z = sigmoid(x @ self.Wz + h @ self.Uz + self.bz)
        r = sigmoid(x @ self.Wr + h @ self.Ur + self.br)
        candidate = xp.tanh(x @ self.Wh + (r * h) @ self.Uh + self.bh)
        return (1.0 - z) * h + z * candidate


def gru_once(cell: GRUCell, x: Any, h: Any) -> Any:
    return cell(x, h)


@program
def gru_step(draw: Draw, batch: int) -> Any:
    n, m = draw.size(6, 20), draw.size(8, 32)
    return gru_once, (GRUCell(draw, n, m), draw.normal(batch, n), draw.normal(batch, m))


def gru_outputs(cell: GRUCell, xs: Any, h: Any) -> Any:
    total = h
    for t in range(xs.shape[0]):
        h = cell(xs[t], h)
        total = total + h
    return total / (xs.shape[0] + 1)


@program
def gru_sequence(draw: Draw, batch: int) -> Any:
    n, m, steps = draw.size(4, 12), draw.size(8, 20), draw.size(5, 8)
    return gru_outputs, (GRUCell(draw, n, m), draw.normal(steps, batch, n), draw.normal(batch, m))


@dataclass
class LSTMState:
    h: Any
    c: Any


@dataclass
class LSTMCell:
    """A long short-term memory whose gates share one matrix."""

    W: Any
    U: Any
    b: Any

    def __call__(self, x: Any, state: LSTMState) -> LSTMState:
        gates = x @ self.W + state.h @ self.U + self.b
        size = gates.shape[-1] // 4
        i, f, o = (sigmoid(gates[..., k * size : (k + 1) * size]) for k in range(3))
        g = xp.tanh(gates[..., 3 * size :])
        c = f * state.c + i * g
        return LSTMState(o * xp.tanh(c), c)


def lstm_cell(draw: Draw, n: int, m: int) -> LSTMCell:
    return LSTMCell(draw.weights(n, 4 * m), draw.weights(m, 4 * m), draw.normal(4 * m))


def lstm_once(cell: LSTMCell, x: Any, state: LSTMState) -> LSTMState:
    return cell(x, state)


@program
def lstm_step(draw: Draw, batch: int) -> Any:
    n, m = draw.size(6, 20), draw.size(8, 24)
    state = LSTMState(draw.normal(batch, m), draw.normal(batch, m))
    return lstm_once, (lstm_cell(draw, n, m), draw.normal(batch, n), state)


def lstm_stack(cells: list[LSTMCell], xs: list[Any], states: list[LSTMState]) -> tuple[Any, list[LSTMState]]:
    states = list(states)
    x = xs[0]
    for x in xs:
        for layer, cell in enumerate(cells):
            states[layer] = cell(x, states[layer])
            x = states[layer].h
    return x, states


@program
def lstm_layers(draw: Draw, batch: int) -> Any:
    n, m = draw.size(4, 10), draw.size(6, 12)
    cells = [lstm_cell(draw, n, m), lstm_cell(draw, m, m)]
    states = [LSTMState(draw.normal(batch, m), draw.normal(batch, m)) for _ in cells]
    return lstm_stack, (cells, [draw.normal(batch, n) for _ in range(3)], states)


def reservoir_step(reservoir: dict[str, Any], x: Any, h: Any, leak: float) -> Any:
    drive = xp.tanh(x @ reservoir["input"] + h @ reservoir["recurrent"])
    return (1.0 - leak) * h + leak * drive


@program
def echo_state(draw: Draw, batch: int) -> Any:
    """A leaky reservoir with a changing leak."""
    n, m = draw.size(2, 6), draw.size(32, 56)
    reservoir = {"input": draw.weights(n, m), "recurrent": draw.weights(m, m)}
    return reservoir_step, (reservoir, draw.normal(batch, n), draw.normal(batch, m), 0.3)


def gate(x: Any, h: Any, weights: tuple[Any, Any, Any]) -> Any:
    W, U, b = weights
    return x @ W + h @ U + b


def minimal_gated(x: Any, h: Any, forget: Any, update: Any) -> Any:
    f = sigmoid(gate(x, h, forget))
    return (1.0 - f) * h + f * xp.tanh(gate(x, f * h, update))


@program
def minimal_gated_unit(draw: Draw, batch: int) -> Any:
    n, m = draw.size(4, 16), draw.size(8, 24)
    forget, update = ((draw.weights(n, m), draw.weights(m, m), draw.normal(m)) for _ in range(2))
    return minimal_gated, (draw.normal(batch, n), draw.normal(batch, m), forget, update)
