"""What the runtime asks of PyTorch beyond its public interface, without importing it.

Tested with PyTorch 2.11.  Private is ``torch._C._cuda_getCurrentRawStream``, which `torch.cuda.current_stream` looks up
as well, in ten times the time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

__all__ = ["current_stream_function"]


@functools.cache
def current_stream_function(ordinal: int) -> Callable[[], int]:
    """Return a function that gives PyTorch's current stream on a device; PyTorch has been imported."""
    return functools.partial(sys.modules["torch"]._C._cuda_getCurrentRawStream, ordinal)
