"""The matrix engine of Intel GPUs (XMX): its one instruction, DPAS, as a table of rows, an emitter and an emulation.

Source: "DPAS", documentation/visa/instructions of the Intel Graphics Compiler, here called the specification.
"""
