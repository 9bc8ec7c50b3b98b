/* Batches of products of column-major matrices by generated kernels of other libraries, one after another in memory.

   With WITH_LIBXSMM the kernels of libxsmm are found by `libxsmm_kernel` (libxsmm 1.17, libxsmm.h); those of oneMKL's
   JIT are given from outside (Developer Reference for C, "JIT Matrix Multiplication"). */
#include <stddef.h>

typedef void (*plain_kernel)(const void *, const void *, void *);
typedef void (*jitted_kernel)(void *, const void *, const void *, void *);

/* `jitter` is the first argument of the kernel, NULL for one that has none; strides are in bytes. */
struct products {
    void *kernel, *jitter;
    const char *a, *b;
    char *c;
    size_t a_stride, b_stride, c_stride;
    long count;
};

static void one(const struct products *p, long i) {
    const char *a = p->a + i * p->a_stride, *b = p->b + i * p->b_stride;
    char *c = p->c + i * p->c_stride;
    if (p->jitter)
        ((jitted_kernel)p->kernel)(p->jitter, a, b, c);
    else
        ((plain_kernel)p->kernel)(a, b, c);
}

void multiply(const struct products *p, long passes, int threads) {
    if (threads == 1) {
        for (long pass = 0; pass < passes; ++pass)
            for (long i = 0; i < p->count; ++i)
                one(p, i);
        return;
    }
    for (long pass = 0; pass < passes; ++pass) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (long i = 0; i < p->count; ++i)
            one(p, i);
    }
}

#ifdef WITH_LIBXSMM
#include <libxsmm.h>

/* C := A B, of 4 or 8 bytes an element; NULL where libxsmm has no kernel. */
void *libxsmm_kernel(int m, int n, int k, int bytes) {
    const double one_f64 = 1, zero_f64 = 0;
    const float one_f32 = 1, zero_f32 = 0;
    if (bytes == 8)
        return (void *)libxsmm_dmmdispatch(m, n, k, NULL, NULL, NULL, &one_f64, &zero_f64, NULL, NULL);
    return (void *)libxsmm_smmdispatch(m, n, k, NULL, NULL, NULL, &one_f32, &zero_f32, NULL, NULL);
}
#endif
