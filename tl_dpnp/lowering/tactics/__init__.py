"""The ways to compute an instruction, one module for each (`tl_dpnp.lowering.tactics.choice` has the list of them)."""
