/* Times single launches: launches COUNT prints "p50 p99" in ns. The clock's own cost is in both runs and falls out of the difference. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM_UP = 2000 };

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    long left = *(const long *)a, right = *(const long *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 100000;
    long *took = calloc((size_t)count, sizeof *took);
    CUcontext context;
    void *params[] = {NULL};
    if (!took || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    for (long i = -WARM_UP; i < count; i++) {
        long begun = now();
        CUresult result = cuLaunchKernel((CUfunction)&context, 1, 1, 1, 1, 1, 1, 0, (CUstream)&params, params, NULL);
        if (result != CUDA_SUCCESS)
            return 2;
        if (i >= 0)
            took[i] = now() - begun;
    }
    qsort(took, (size_t)count, sizeof *took, compare);
    printf("%ld %ld\n", took[count / 2], took[count - count / 100 - 1]);
    return 0;
}
