"""From a scheduled loop nest to LLVM IR.

``variables`` says what a loop variable is while its body is emitted, ``patterns`` which loads and stores an access of a
vector takes, ``memory`` emits these, and ``emitter`` walks the nest.
"""

from tl_dpnp.lowering.emission.emitter import emit_nest
from tl_dpnp.lowering.emission.memory import Ahead, NestArguments
from tl_dpnp.lowering.emission.prefetching import Shares

__all__ = ["Ahead", "NestArguments", "Shares", "emit_nest"]
