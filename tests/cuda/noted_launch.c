/* A driver of CUDA that runs nothing: it notes how an exported kernel is launched, of which the compiler's options name
   the number of arguments. */
#include <cuda.h>
#include <stdint.h>

enum { UNITS = 100, BLOCKS_OF_A_UNIT = 2 };

/* Blocks of the last launch, and the work-groups that its kernel was told of. */
int64_t noted[2];

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    (void)image, (void)count, (void)options, (void)values;
    *module = (CUmodule)noted;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module, (void)name;
    *function = (CUfunction)noted;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *value = UNITS;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t memory)
{
    (void)function, (void)threads, (void)memory;
    *blocks = BLOCKS_OF_A_UNIT;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(
    CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
    unsigned memory, CUstream stream, void **arguments, void **extra)
{
    (void)function, (void)y, (void)z, (void)block_x, (void)block_y, (void)block_z, (void)memory, (void)stream,
        (void)extra;
    noted[0] = x;
    noted[1] = *(const int64_t *)arguments[COUNT];
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}
