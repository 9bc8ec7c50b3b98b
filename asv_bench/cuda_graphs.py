"""CUDA graphs of several calls and their times, which leave out what a call from Python takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["graph_of", "interleaved_seconds", "replay_seconds"]


def graph_of(call: Callable[[], Any], calls: int, before: int = 1) -> torch.cuda.CUDAGraph:
    """Return a graph of so many calls, after some `before` that compile what they need."""
    for _ in range(before):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def replay_seconds(graph: torch.cuda.CUDAGraph) -> float:
    """Return the seconds that the GPU takes for a graph."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3


def interleaved_seconds(graphs: Sequence[torch.cuda.CUDAGraph], rounds: int) -> list[list[float]]:
    """Return the seconds of graphs that take turns: a list for each of them, with those of all rounds."""
    samples = [[replay_seconds(graph) for graph in graphs] for _ in range(rounds)]
    return [list(each) for each in zip(*samples, strict=True)]

