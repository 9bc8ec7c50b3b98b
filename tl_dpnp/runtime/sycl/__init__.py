"""SYCL devices through dpctl, OpenCL beneath it, and numba-dpex, which compiles for them."""
