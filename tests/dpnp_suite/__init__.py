"""dpnp's own tests in plain dpnp, through `tl_dpnp.xp` and fused: no test may be lost that plain dpnp passes.

    python -m tests.dpnp_suite --sample 100

The tests are other people's work and no part of this repository: they are downloaded, or lie in a folder that is given.
"""
