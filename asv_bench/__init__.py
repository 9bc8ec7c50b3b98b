"""Commands that measure tl_dpnp: `asv_bench/README.md` explains them."""
