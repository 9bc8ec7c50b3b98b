"""The instructions of the language, each one class that says all there is to say about it.

A class carries the spelling, the operands and their types, the effects, the rules and the reference meaning; grammar,
printer, builder and hints are derived from it.  Loops for the devices follow from the shapes of a `Contraction`; what
is none needs a lowering in `tl_dpnp.lowering`.
"""
