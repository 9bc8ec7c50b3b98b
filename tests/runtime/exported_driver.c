/* Runs an exported kernel once on the CPU; the compiler's options name the kernel and include its header. */
#include "tl_opencl.h"

cl_int run(const ARGUMENTS *arguments, int64_t groups, int64_t bytes);
void plan(int64_t groups, int64_t bytes, int64_t units, int64_t *found);
float number(int is_bf16, int bits);

cl_int run(const ARGUMENTS *arguments, int64_t groups, int64_t bytes)
{
    tl_value values[COUNT];
    tl_opencl *built = NULL;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_event event;
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL);
    if (code != CL_SUCCESS)
        return code;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &code);
    VALUES(arguments, values);
    code = tl_opencl_create(&KERNEL, context, device, &built);
    if (code == CL_SUCCESS)
        code = tl_opencl_launch(built, queue, groups, bytes, values, 0, NULL, &event);
    if (code == CL_SUCCESS) {
        code = clWaitForEvents(1, &event);
        clReleaseEvent(event);
    }
    tl_opencl_release(built);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return code;
}

void plan(int64_t groups, int64_t bytes, int64_t units, int64_t *found)
{
    tl_launch launch = tl_plan(&KERNEL, groups, bytes, units);
    found[0] = launch.variant - KERNEL.variant;
    for (int each = 0; each < 3; each++)
        found[1 + each] = launch.last[each];
    for (unsigned each = 0; each < launch.dimensions; each++) {
        found[4 + each] = (int64_t)launch.global_size[each];
        found[6 + each] = (int64_t)launch.local_size[each];
    }
}

float number(int is_bf16, int bits)
{
    return (is_bf16 ? tl_bf16((uint16_t)bits) : tl_f16((uint16_t)bits)).as.f32;
}
