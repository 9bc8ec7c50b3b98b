/* Runs kernels that tl_dpnp exported, by OpenCL 2.1 or newer.  docs/export.md of tl_dpnp explains it. */
#ifndef TL_OPENCL_H
#define TL_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#include <CL/cl.h>

#include "tl_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that was built for one device.  One thread uses it at a time. */
typedef struct tl_opencl tl_opencl;

/* Build all variants of a kernel.  Returns CL_SUCCESS or an error of OpenCL; what the driver's compiler says of code
   that it does not build goes to standard error.  CL_INVALID_KERNEL_DEFINITION: what was built is not what was
   exported. */
cl_int tl_opencl_create(const tl_kernel *kernel, cl_context context, cl_device_id device, tl_opencl **built);

/* Put a launch of `groups` work-groups into a queue; `values` are those of the arguments, `bytes` is as for tl_plan.
   The rest is as for clEnqueueNDRangeKernel.  Returns CL_SUCCESS or an error of OpenCL. */
cl_int tl_opencl_launch(
    tl_opencl *built, cl_command_queue queue, int64_t groups, int64_t bytes, const tl_value *values, cl_uint waits,
    const cl_event *wait_list, cl_event *event);

void tl_opencl_release(tl_opencl *built);

#ifdef __cplusplus
}
#endif

#endif
