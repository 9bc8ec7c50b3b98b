/* See tl_opencl.h. */
#include "tl_opencl.h"

#include <stdio.h>
#include <stdlib.h>

/* Kernels number their work-items with 32 bits; of work-groups there are fewer than overflow when they are counted. */
#define TL_MOST_WORK_ITEMS 0x7fffffff
#define TL_MOST_GROUPS ((int64_t)1 << 48)

struct tl_opencl {
    const tl_kernel *kernel;
    cl_int units;
    cl_kernel *built; /* of each variant */
};

static void tl_print_log(cl_program program, cl_device_id device, const char *name)
{
    size_t size = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS)
        log = (char *)malloc(size + 1);
    if (log != NULL && clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS) {
        log[size] = 0;
        fprintf(stderr, "%s is not built: %s\n", name, log);
    }
    free(log);
}

/* A driver may build lanes that exchange values as work-items without a sub-group, and say nothing. */
static cl_int tl_check(cl_kernel built, const tl_kernel *kernel, const tl_variant *variant, cl_device_id device)
{
    cl_uint arguments = 0;
    size_t local[2], lanes = 0;
    cl_int code = clGetKernelInfo(built, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);
    if (code == CL_SUCCESS && arguments != kernel->values + 3)
        return CL_INVALID_KERNEL_DEFINITION;
    if (code != CL_SUCCESS || !variant->exchanges)
        return code;
    local[0] = (size_t)variant->subgroup_size;
    local[1] = (size_t)variant->subgroups;
    code = clGetKernelSubGroupInfo(
        built, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, sizeof local, local, sizeof lanes, &lanes, NULL);
    return code != CL_SUCCESS || lanes == local[0] ? code : CL_INVALID_KERNEL_DEFINITION;
}

/* Kernels reach memory by addresses among their arguments: devices but CPUs must be told. */
static cl_int tl_allow_addresses(cl_kernel built, cl_device_id device)
{
    const cl_kernel_exec_info accesses[] = {0x4200, 0x4201, 0x4202}; /* cl_intel_unified_shared_memory: INDIRECT_... */
    cl_device_type type = 0;
    cl_bool allowed = CL_TRUE;
    cl_int code = clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    for (size_t each = 0; each < 3 && code == CL_SUCCESS && !(type & CL_DEVICE_TYPE_CPU); each++)
        code = clSetKernelExecInfo(built, accesses[each], sizeof allowed, &allowed);
    return code;
}

static cl_int tl_build(
    const tl_kernel *kernel, const tl_variant *variant, cl_context context, cl_device_id device, cl_kernel *built)
{
    cl_int code;
    cl_program program = clCreateProgramWithIL(context, variant->code, variant->code_size, &code);
    if (code != CL_SUCCESS)
        return code;
    code = clBuildProgram(program, 1, &device, variant->options, NULL, NULL);
    if (code == CL_SUCCESS)
        *built = clCreateKernel(program, variant->entry, &code);
    else
        tl_print_log(program, device, kernel->name);
    clReleaseProgram(program); /* the kernel keeps it */
    if (code == CL_SUCCESS)
        code = tl_check(*built, kernel, variant, device);
    return code == CL_SUCCESS ? tl_allow_addresses(*built, device) : code;
}

cl_int tl_opencl_create(const tl_kernel *kernel, cl_context context, cl_device_id device, tl_opencl **built)
{
    cl_uint units = 0;
    cl_int code = clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    tl_opencl *made = (tl_opencl *)malloc(sizeof *made);
    *built = NULL;
    if (made == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    made->kernel = kernel;
    made->units = (cl_int)units;
    made->built = (cl_kernel *)calloc(kernel->variants, sizeof *made->built);
    if (made->built == NULL)
        code = CL_OUT_OF_HOST_MEMORY;
    for (size_t each = 0; each < kernel->variants && code == CL_SUCCESS; each++)
        code = tl_build(kernel, &kernel->variant[each], context, device, &made->built[each]);
    if (code == CL_SUCCESS)
        *built = made;
    else
        tl_opencl_release(made);
    return code;
}

cl_int tl_opencl_launch(
    tl_opencl *built, cl_command_queue queue, int64_t groups, int64_t bytes, const tl_value *values, cl_uint waits,
    const cl_event *wait_list, cl_event *event)
{
    const tl_kernel *kernel = built->kernel;
    tl_launch launch;
    cl_kernel chosen;
    cl_int code = CL_SUCCESS;

    if (groups == 0)
        return clEnqueueMarkerWithWaitList(queue, waits, wait_list, event);
    if (groups < 0 || groups > TL_MOST_GROUPS)
        return CL_INVALID_GLOBAL_WORK_SIZE;
    launch = tl_plan(kernel, groups, bytes, built->units);
    if (launch.global_size[0] > TL_MOST_WORK_ITEMS / launch.global_size[1])
        return CL_INVALID_GLOBAL_WORK_SIZE;
    chosen = built->built[launch.variant - kernel->variant];
    for (size_t each = 0; each < kernel->values && code == CL_SUCCESS; each++)
        code = clSetKernelArg(chosen, (cl_uint)each, values[each].size, &values[each].as);
    for (size_t each = 0; each < 3 && code == CL_SUCCESS; each++)
        code = clSetKernelArg(chosen, (cl_uint)(kernel->values + each), sizeof launch.last[each], &launch.last[each]);
    if (code != CL_SUCCESS)
        return code;
    return clEnqueueNDRangeKernel(
        queue, chosen, launch.dimensions, NULL, launch.global_size, launch.local_size, waits, wait_list, event);
}

void tl_opencl_release(tl_opencl *built)
{
    if (built == NULL)
        return;
    for (size_t each = 0; built->built != NULL && each < built->kernel->variants; each++)
        if (built->built[each] != NULL)
            clReleaseKernel(built->built[each]);
    free(built->built);
    free(built);
}
