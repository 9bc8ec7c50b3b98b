"""NVIDIA's tensor cores and what feeds them, as tables: `rows` and `sparse`, `moves`, and their emitters in `emit`.

These are the operations of MLIR's nvgpu dialect: ``mma.sync``, ``mma.sp.sync``, ``ldmatrix``, ``device_async_copy``,
``device_async_create_group`` and ``device_async_wait``.  Beyond it go ``wgmma``, in `warpgroup`, and kernels for large
products, in `tile_product`.
"""
