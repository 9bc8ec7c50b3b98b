"""The tiles of Intel's processors (AMX): their products as a table of rows, instructions, an emulation, and products.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter "Programming with Intel Advanced
Matrix Extensions", here called the manual, and volume 2 for the instructions.
"""
