/* Runs kernels that tl_dpnp exported with target="cuda", by CUDA's driver API.  docs/export.md of tl_dpnp explains it. */
#ifndef TL_CUDA_H
#define TL_CUDA_H

#include <cuda.h>

#include "tl_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that was loaded into one context.  One thread uses it at a time. */
typedef struct tl_cuda tl_cuda;

/* Load a kernel into the current context.  Returns CUDA_SUCCESS or an error of the driver; what its compiler says of
   code that it refuses goes to standard error. */
CUresult tl_cuda_create(const tl_kernel *kernel, tl_cuda **built);

/* Put a launch of `groups` work-groups into a stream of the context, which is the current one; `values` are those of
   the arguments.  Returns CUDA_SUCCESS or an error of the driver. */
CUresult tl_cuda_launch(tl_cuda *built, CUstream stream, int64_t groups, const tl_value *values);

void tl_cuda_release(tl_cuda *built);

#ifdef __cplusplus
}
#endif

#endif
