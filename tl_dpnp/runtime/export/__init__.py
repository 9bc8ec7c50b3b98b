"""Kernels for programs in C, C++ and other languages: code, a description of it, and what launches it.

`tl_kernel.h`, `tl_opencl.h` and `tl_opencl.c` are the same for all kernels and copied as they are; `export.py` writes
what a kernel has of its own.  docs/export.md is for those who call it.
"""
