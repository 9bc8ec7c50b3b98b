/* Runs an exported kernel once in the current context; the compiler's options name the kernel and include its header. */
#include "tl_cuda.h"

CUresult run(const ARGUMENTS *arguments, int64_t groups);

CUresult run(const ARGUMENTS *arguments, int64_t groups)
{
    tl_value values[COUNT];
    tl_cuda *built = NULL;
    CUresult code = tl_cuda_create(&KERNEL, &built);
    VALUES(arguments, values);
    if (code == CUDA_SUCCESS)
        code = tl_cuda_launch(built, NULL, groups, values);
    if (code == CUDA_SUCCESS)
        code = cuCtxSynchronize();
    tl_cuda_release(built);
    return code;
}
