"""Raising: programs whose work-groups compute a product tile by tile become one ``gemm`` of whole matrices.

The reverse of lowering (Chelini et al., "Progressive Raising in Multi-level IR", CGO 2021): `trace` runs a program for
all work-groups at once and notes which tiles are loaded, multiplied and stored; `product` finds the ``gemm`` that the
tiles are parts of; whether they are all of its parts is known at the call (`cover`).
"""
