"""The body of a kernel: scalar code, loops and branches, and one call for each instruction.

It is a small tree of expressions and statements (`tree`), which `writer` makes of a function.  People read it as text
(`printing`), the adapters of Numba get it as LLVM IR (`emission`).
"""
