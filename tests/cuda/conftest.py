"""The CUDA target's tests: they need numba-cuda; those that run kernels also need a GPU and CuPy or PyTorch."""

from __future__ import annotations

import importlib.util

import pytest

import tests.benchmarks_imported  # noqa: F401  # programs of theirs are run

#: numba-cuda needs a younger Numba than numba-dpex does, so one environment has only one of them: ``make test-cuda``.
HAS_NUMBA_CUDA = importlib.util.find_spec("numba_cuda") is not None

collect_ignore_glob = [] if HAS_NUMBA_CUDA else ["test_*.py"]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Keep the tests away from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "tl_dpnp"))
        # Else JAX takes three quarters of the GPU's memory, and the tests' other processes find none.
        patch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        yield
