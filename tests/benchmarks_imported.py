"""Importing the benchmarks changes the environment for the whole process; the tests must not see that."""

import os

_before = dict(os.environ)

import asv_bench.benchmarks  # noqa: E402, F401

os.environ.clear()
os.environ.update(_before)
