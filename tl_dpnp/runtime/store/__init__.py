"""What is kept on disk: the cache of programs and kernels, and what its keys depend on."""
