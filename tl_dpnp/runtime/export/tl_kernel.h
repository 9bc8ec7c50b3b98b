/* Kernels that tl_dpnp exported, for any API that runs them: their description, the values of their arguments, and how
   a call is launched.  C99 and C++.  docs/export.md of tl_dpnp explains it. */
#ifndef TL_KERNEL_H
#define TL_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses are handed to kernels as 64-bit integers. */
typedef char tl_addresses_have_64_bits[sizeof(void *) == 8 ? 1 : -1];

/* The value of one argument of a kernel: `size` bytes of one of these. */
typedef struct tl_value {
    size_t size;
    union {
        int64_t integer;
        float f32;
        double f64;
    } as;
} tl_value;

/* One of the kernels that a program was compiled to. */
typedef struct tl_variant {
    const char *form;
    const char *entry;           /* the name of the kernel in its module */
    const unsigned char *code;   /* the module: SPIR-V, or PTX as text that ends with a zero */
    size_t code_size;
    const char *options;         /* for the driver's compiler */
    int is_alone;                /* a work-item computes whole work-groups of the program, one after another */
    int is_persistent;           /* as many blocks of threads as run at the same time compute all work-groups */
    int for_few;                 /* only for calls of few work-groups */
    int64_t parts;               /* work-groups of the device for one of the program */
    int64_t work;                /* of one work-group, in multiply-adds of vectors, about */
    int64_t subgroups;           /* in a work-group of the device */
    int64_t subgroup_size;
    int64_t teams;               /* work-groups that a block of threads computes at a time */
    int64_t local_memory;        /* bytes of a block of threads */
    int exchanges;               /* its lanes exchange values: wrong unless it was built with sub-groups of that size */
} tl_variant;

/* A program that was compiled for one device: its variants, the best one first, and the numbers of the device. */
typedef struct tl_kernel {
    const char *name;
    size_t values;               /* the arguments of a kernel but the last three */
    size_t variants;
    const tl_variant *variant;
    int has_fixed_work;          /* all work-groups do the same, whatever the call */
    int64_t items;               /* work-items that each core should at least have */
    int64_t most_work;           /* of a work-item */
    int64_t least_work;
    int64_t core_cache;          /* bytes */
    int64_t last_cache;          /* bytes of it that a call may use */
} tl_kernel;

/* How a call is launched on devices of OpenCL, Level Zero and SYCL.  Sizes are OpenCL's: dimension 0 runs fastest. */
typedef struct tl_launch {
    const tl_variant *variant;
    int64_t last[3];             /* the last three arguments of the kernel */
    unsigned dimensions;
    size_t global_size[2];
    size_t local_size[2];
} tl_launch;

/* Return how a call of so many work-groups is launched on a device of so many compute units.

   `bytes` is the size of all arrays of the call together, 0 if it is not known: with more than the caches hold, kernels
   fetch ahead and store past them.  `groups` is not negative.  Not for PTX, which tl_cuda.c launches. */
static inline tl_launch tl_plan(const tl_kernel *kernel, int64_t groups, int64_t bytes, int64_t units)
{
    const tl_variant *variant = kernel->variant;
    int64_t everything = kernel->core_cache * units, busy = kernel->items * units, chunk = 1;
    tl_launch launch;

    if (kernel->last_cache > everything)
        everything = kernel->last_cache;
    while (variant->for_few && !(0 < groups && groups < busy))
        variant++;
    launch.variant = variant;
    launch.last[0] = groups *= variant->parts;
    launch.last[2] = bytes > everything ? 2 : bytes > kernel->core_cache ? 1 : 0;
    if (variant->is_alone) {
        int64_t most = kernel->most_work / variant->work, least = (groups + busy - 1) / busy;
        if (kernel->has_fixed_work && launch.last[2] == 0) {
            int64_t small = (kernel->least_work + variant->work - 1) / variant->work;
            least = small > least ? small : least;
        }
        chunk = groups < most ? groups : most;
        chunk = chunk < least ? chunk : least;
        chunk = chunk > 1 ? chunk : 1;
        launch.dimensions = 1;
        launch.global_size[0] = (size_t)((groups + chunk - 1) / chunk);
        launch.global_size[1] = launch.local_size[0] = launch.local_size[1] = 1;
    } else {
        launch.dimensions = 2;
        launch.global_size[0] = launch.local_size[0] = (size_t)variant->subgroup_size;
        launch.global_size[1] = (size_t)(groups * variant->subgroups);
        launch.local_size[1] = (size_t)variant->subgroups;
    }
    launch.last[1] = chunk;
    return launch;
}

static inline tl_value tl_integer(int64_t integer)
{
    tl_value value;
    value.size = sizeof integer;
    value.as.integer = integer;
    return value;
}

static inline tl_value tl_address(const void *address)
{
    return tl_integer((int64_t)(intptr_t)address);
}

static inline tl_value tl_f32(float number)
{
    tl_value value;
    value.size = sizeof number;
    value.as.f32 = number;
    return value;
}

static inline tl_value tl_f64(double number)
{
    tl_value value;
    value.size = sizeof number;
    value.as.f64 = number;
    return value;
}

/* The bits of a bf16, which are the upper half of those of an f32. */
static inline tl_value tl_bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &word, sizeof number);
    return tl_f32(number);
}

/* The bits of an f16 (IEEE 754 binary16). */
static inline tl_value tl_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u, word;
    float number;
    if (exponent == 0) { /* zero, and what is smaller than normal numbers: fractions of 2^-24 */
        number = (float)fraction * 5.9604644775390625e-8f;
        return tl_f32(sign ? -number : number);
    }
    word = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13;
    memcpy(&number, &word, sizeof number);
    return tl_f32(number);
}

#ifdef __cplusplus
}
#endif

#endif
