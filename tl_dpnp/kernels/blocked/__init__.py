"""Large products of any layout: kernels in PTX whose blocks compute one tile of a result after another.

`product` is what they have in common, `copies` brings operands to shared memory, `multiply` has the ways to multiply.
"""
