/* A tenant's program that keeps the card busy: busy KERNEL_NS,KERNEL_NS... sync|async|graph|streams SECONDS [other]
 * Launches kernels of the given lengths in turn until SECONDS of node time are over. `sync` waits after each, `async` and `graph` let the
 * stream fill, `streams` fills four in turn. With `other` the kernel has another name, so that the simulator can be told another cost. Prints "ready", waits for a line, runs, prints "launches first_ns last_ns". It knows nothing of any limit. The driver is opened
 * and its functions are looked up at run time, as the CUDA runtime does it. */
#include <cuda.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first block spins for the asked time by the card's own clock, the others end at once; on the simulator the name tells the cost. */
#define SPIN                                                                                                       \
    "{\n .reg .u64 %t<4>;\n .reg .u32 %b;\n .reg .pred %p, %q;\n mov.u32 %b, %ctaid.x;\n setp.ne.u32 %q, %b, 0;\n" \
    " @%q bra DONE;\n ld.param.u64 %t0, [ns];\n mov.u64 %t1, %globaltimer;\n add.u64 %t2, %t1, %t0;\n"               \
    "LOOP:\n mov.u64 %t3, %globaltimer;\n setp.lt.u64 %p, %t3, %t2;\n @%p bra LOOP;\nDONE:\n ret;\n}\n"

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry tessera_busy(.param .u64 ns)\n" SPIN
                          ".visible .entry tessera_busy_other(.param .u64 ns)\n" SPIN;

#define FUNCTIONS(X)                                                                                                     \
    X(cuDriverGetVersion) X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuModuleLoadData) X(cuModuleGetFunction)   \
    X(cuStreamCreate) X(cuStreamSynchronize) X(cuLaunchKernel) X(cuGraphLaunch) X(cuGraphInstantiateWithFlags)           \
    X(cuStreamBeginCapture_v2) X(cuStreamEndCapture)

#define DECLARE(name) __typeof__(&name) name;
static struct {
    FUNCTIONS(DECLARE)
} driver;

enum { KINDS = 8, GRAPH_KERNELS = 10, STREAMS = 4 };

static uint64_t lengths[KINDS];
static int kinds;
static int (*served_now)(uint64_t *);
static int (*take_part)(void);

static uint64_t now(void) {
    uint64_t ns;
    if (served_now && served_now(&ns) == 0)
        return ns;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "busy: %s answered %d\n", what, result);
    exit(1);
}

/* The length is part of the grid too, as with a real kernel of which more blocks take longer. */
static void launch(CUfunction function, CUstream stream, int kind) {
    void *params[] = {&lengths[kind]};
    must(driver.cuLaunchKernel(function, (unsigned)(1 + lengths[kind] / 1000), 1, 1, 256, 1, 1, 0, stream, params, NULL), "cuLaunchKernel");
}

static CUgraphExec record(CUfunction function, CUstream stream) {
    CUgraph graph;
    CUgraphExec exec;
    must(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    for (int i = 0; i < GRAPH_KERNELS; i++)
        launch(function, stream, i % kinds);
    must(driver.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    must(driver.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    return exec;
}

static void parse(char *text) {
    for (char *word = strtok(text, ","); word && kinds < KINDS; word = strtok(NULL, ","))
        lengths[kinds++] = strtoull(word, NULL, 10);
}

static int open_driver(void) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        return 0;
#define LOOK_UP(name) *(void **)&driver.name = dlsym(handle, #name);
    FUNCTIONS(LOOK_UP)
    *(void **)&served_now = dlsym(handle, "tesseraSimNow");
    *(void **)&take_part = dlsym(handle, "tesseraSimRegisterThread");
    return 1;
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream streams[STREAMS];
    CUgraphExec exec = NULL;
    char line[16];
    if (argc < 4 || !open_driver())
        return 2;
    parse(argv[1]);
    int sync = strcmp(argv[2], "sync") == 0, graph = strcmp(argv[2], "graph") == 0;
    unsigned used = strcmp(argv[2], "streams") == 0 ? STREAMS : 1;
    uint64_t duration = (uint64_t)(atof(argv[3]) * 1e9), count = 0;
    must(driver.cuInit(0), "cuInit");
    must(driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(driver.cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    must(driver.cuModuleGetFunction(&function, module, argc > 4 ? "tessera_busy_other" : "tessera_busy"), "cuModuleGetFunction");
    for (unsigned i = 0; i < used; i++)
        must(driver.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (graph)
        exec = record(function, streams[0]);
    if (take_part)
        take_part(); /* so that virtual time waits for the first launch, however late this machine gets there */
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 3;
    uint64_t first = now(), end = first + duration;
    while (now() < end) {
        if (graph)
            must(driver.cuGraphLaunch(exec, streams[0]), "cuGraphLaunch");
        else
            launch(function, streams[count % used], (int)(count % (unsigned)kinds));
        count++;
        if (sync)
            must(driver.cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
    }
    printf("%llu %llu %llu\n", (unsigned long long)count, (unsigned long long)first, (unsigned long long)now());
    fflush(stdout);
    return 0;
}
