/* Many threads that allocate and free at random against the limit: race THREADS ROUNDS MAX_MIB. Prints "ready", waits for a line,
 * prints "allocated denied other", waits for another line. */
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HELD = 8 };

static atomic_long allocated, denied, other;
static CUcontext context;
static long rounds, max_mib;

static unsigned next_random(unsigned long long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)(*state >> 11);
}

static void count(CUresult result) {
    atomic_fetch_add(result == CUDA_SUCCESS ? &allocated : result == CUDA_ERROR_OUT_OF_MEMORY ? &denied : &other, 1);
}

static void *work(void *seed) {
    unsigned long long state = (unsigned long long)(size_t)seed;
    CUdeviceptr held[HELD] = {0};
    cuCtxSetCurrent(context);
    for (long i = 0; i < rounds; i++) {
        unsigned at = next_random(&state) % HELD;
        if (held[at] && cuMemFree(held[at]) != CUDA_SUCCESS)
            atomic_fetch_add(&other, 1);
        held[at] = 0;
        size_t bytes = next_random(&state) % 4 ? (size_t)(next_random(&state) % (unsigned)max_mib + 1) << 20 : 1 + next_random(&state) % 900000;
        CUresult result = cuMemAlloc(&held[at], bytes);
        count(result);
        if (result != CUDA_SUCCESS)
            held[at] = 0;
    }
    for (int i = 0; i < HELD; i++)
        if (held[i])
            cuMemFree(held[i]);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t ids[256];
    CUdevice device;
    char line[16];
    rounds = argc > 2 ? atol(argv[2]) : 100;
    max_mib = argc > 3 ? atol(argv[3]) : 64;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))
        return 2;
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 3;
    for (int i = 0; i < threads && i < 256; i++)
        if (pthread_create(&ids[i], NULL, work, (void *)(size_t)(getpid() * 1000 + i + 1)))
            return 4;
    for (int i = 0; i < threads && i < 256; i++)
        pthread_join(ids[i], NULL);
    printf("%ld %ld %ld\n", allocated, denied, other);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) ? 0 : 5; /* keeps its context until it is told to end */
}
