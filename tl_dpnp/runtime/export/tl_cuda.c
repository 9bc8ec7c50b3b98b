/* See tl_cuda.h. */
#include "tl_cuda.h"

#include <stdio.h>
#include <stdlib.h>

/* Blocks of a grid along x. */
#define TL_MOST_BLOCKS 0x7fffffff

struct tl_cuda {
    const tl_kernel *kernel;
    CUmodule module;
    CUfunction function;
    int64_t running; /* blocks that run at the same time */
    void **arguments;
};

static CUresult tl_load(tl_cuda *built)
{
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    const tl_variant *variant = built->kernel->variant;
    CUresult code = cuModuleLoadDataEx(&built->module, variant->code, 2, options, values);
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "%s is not loaded: %s\n", built->kernel->name, log);
        return code;
    }
    code = cuModuleGetFunction(&built->function, built->module, variant->entry);
    if (code != CUDA_SUCCESS)
        return code;
    return cuFuncSetAttribute(
        built->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)variant->local_memory);
}

static CUresult tl_count(tl_cuda *built)
{
    const tl_variant *variant = built->kernel->variant;
    int threads = (int)(variant->subgroup_size * variant->subgroups * variant->teams), blocks = 0, units = 0;
    CUdevice device;
    CUresult code = cuCtxGetDevice(&device);
    if (code == CUDA_SUCCESS)
        code = cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (code == CUDA_SUCCESS)
        code = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, built->function, threads, (size_t)variant->local_memory);
    built->running = (int64_t)blocks * units;
    return code == CUDA_SUCCESS && built->running == 0 ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : code;
}

CUresult tl_cuda_create(const tl_kernel *kernel, tl_cuda **built)
{
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;
    tl_cuda *made = (tl_cuda *)calloc(1, sizeof *made);
    *built = NULL;
    if (made == NULL)
        return code;
    made->kernel = kernel;
    made->arguments = (void **)malloc((kernel->values + 3) * sizeof *made->arguments);
    if (made->arguments != NULL)
        code = tl_load(made);
    if (code == CUDA_SUCCESS)
        code = tl_count(made);
    if (code == CUDA_SUCCESS)
        *built = made;
    else
        tl_cuda_release(made);
    return code;
}

CUresult tl_cuda_launch(tl_cuda *built, CUstream stream, int64_t groups, const tl_value *values)
{
    const tl_variant *variant = built->kernel->variant;
    int64_t last[3], blocks;

    if (groups == 0)
        return CUDA_SUCCESS;
    if (groups < 0 || groups > TL_MOST_BLOCKS / variant->parts)
        return CUDA_ERROR_INVALID_VALUE;
    last[0] = blocks = groups * variant->parts;
    last[1] = 1;
    last[2] = 0;
    for (size_t each = 0; each < built->kernel->values; each++)
        built->arguments[each] = (void *)(uintptr_t)&values[each].as;
    for (size_t each = 0; each < 3; each++)
        built->arguments[built->kernel->values + each] = &last[each];
    if (variant->is_persistent) {
        blocks = (blocks + variant->teams - 1) / variant->teams;
        blocks = blocks < built->running ? blocks : built->running;
    }
    return cuLaunchKernel(
        built->function, (unsigned)blocks, 1, 1, (unsigned)variant->subgroup_size, (unsigned)variant->subgroups,
        (unsigned)variant->teams, (unsigned)variant->local_memory, stream, built->arguments, NULL);
}

void tl_cuda_release(tl_cuda *built)
{
    if (built == NULL)
        return;
    if (built->module != NULL)
        cuModuleUnload(built->module);
    free(built->arguments);
    free(built);
}
