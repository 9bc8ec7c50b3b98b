"""Machine code for Intel GPUs that are not there: compiled with Intel's offline compiler, and read.

What is compiled here has not been run.  The compiler's exit status says little: it drops calls of functions that it
does not know.  So whatever is compiled is also disassembled and checked for what it was meant to hold.
"""
