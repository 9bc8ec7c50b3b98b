"""Whether a change of the compiler changes the code that it generates: ``python -m tools.same_code``.

``record FILE`` builds some hundred kernels for every mapping, engine, target and type, and keeps their LLVM IR and PTX;
``compare FILE`` builds the same ones again and says which came out otherwise.  No kernel is run, no kernel cache is
used, and no GPU is needed.
"""
