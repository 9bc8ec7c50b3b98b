"""Fixtures of the runtime's tests: a cache of their own, and sources that several of them compile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests away from the user's cache; one folder for the session, so that repeated sources stay cheap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path_factory.mktemp("cache") / "tl_dpnp"))
        yield
