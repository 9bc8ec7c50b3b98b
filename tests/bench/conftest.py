"""The tests of the benchmarks import these."""

import tests.benchmarks_imported  # noqa: F401
