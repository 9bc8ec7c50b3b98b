"""Benchmarks of tl_dpnp, for asv and for ``python -m asv_bench.report``."""
