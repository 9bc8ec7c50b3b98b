"""How dpnp's functions are recorded: for each name, a function that adds its nodes to the graph.

A recorder raises `NotFused` for whatever it does not know exactly, wrong arguments included: then dpnp itself is
called, with its own results and errors.  Dtypes are dpnp's (`inference.result_dtype`).
"""

from __future__ import annotations

from tl_dpnp.graph import (  # noqa: F401  # they fill the table
    assembly_operations,
    composed_operations,
    creation_operations,
    elementwise_operations,
    linalg_operations,
    product_operations,
    vector_operations,
    view_operations,
)
from tl_dpnp.graph.recorders import RECORDERS, Recorder

__all__ = ["RECORDERS", "Recorder"]
