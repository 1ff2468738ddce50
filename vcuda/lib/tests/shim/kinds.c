/* A tenant's program that keeps the card busy in one of the ways that there are: kinds KIND KERNEL_NS sync|async SECONDS
 * KIND: plain ex cooperative multi, each also with _ptsz (not multi); old, priority; graph1 graph200 graph_ptsz child condition uploaded
 * changed (one node gets other parameters before each launch, of the same length) updated (as a whole) disabled (half of its nodes).
 * Prints "ready", waits for a line, launches until SECONDS of node time are over, prints "launches first_ns last_ns". Knows nothing of limits. */
#define __CUDA_API_VERSION_INTERNAL 1 /* the names of both stream flavours */
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int tesseraSimNow(uint64_t *ns);

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry tessera_busy(.param .u64 ns)\n{\n ret;\n}\n";

enum { MOST_NODES = 200 };

static uint64_t kernel_ns;
static void *params[] = {&kernel_ns};
static CUfunction function;
static CUcontext context;
static CUstream stream;
static CUgraph graph;
static CUgraphExec exec;
static CUgraphNode nodes[MOST_NODES];

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "kinds: %s answered %d\n", what, (int)result);
    exit(1);
}
#define MUST(call) must(call, #call)

static unsigned grid(void) {
    return (unsigned)(1 + kernel_ns / 1000);
}

static CUDA_KERNEL_NODE_PARAMS node_params(uint64_t *ns) {
    static void *values[1];
    values[0] = ns;
    return (CUDA_KERNEL_NODE_PARAMS){.func = function, .gridDimX = (unsigned)(1 + *ns / 1000), .gridDimY = 1, .gridDimZ = 1,
                                     .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1, .kernelParams = values};
}

static void add_kernels(CUgraph to, int count) {
    for (int i = 0; i < count; i++) {
        CUDA_KERNEL_NODE_PARAMS p = node_params(&kernel_ns);
        MUST(cuGraphAddKernelNode_v2(&nodes[i], to, i ? &nodes[i - 1] : NULL, i > 0, &p));
    }
}

static void make_graph(int count) {
    MUST(cuGraphCreate(&graph, 0));
    add_kernels(graph, count);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void make_child(void) {
    CUgraph inner;
    CUgraphNode node;
    MUST(cuGraphCreate(&inner, 0));
    add_kernels(inner, 10);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

/* While a value that nobody changes: the simulated driver runs the body so often. */
static void make_condition(void) {
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphNode node;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphConditionalHandleCreate(&p.conditional.handle, graph, context, 7, CU_GRAPH_COND_ASSIGN_DEFAULT));
    p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    p.conditional.size = 1;
    MUST(cuGraphAddNode(&node, graph, NULL, 0, &p));
    add_kernels(p.conditional.phGraph_out[0], 1);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void launch_plain(void) {
    MUST(cuLaunchKernel(function, grid(), 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static void launch_plain_ptsz(void) {
    MUST(cuLaunchKernel_ptsz(function, grid(), 1, 1, 256, 1, 1, 0, NULL, params, NULL));
}

static CUlaunchConfig config(void) {
    return (CUlaunchConfig){.gridDimX = grid(), .gridDimY = 1, .gridDimZ = 1, .blockDimX = 256, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
}

static void launch_ex(void) {
    CUlaunchConfig c = config();
    MUST(cuLaunchKernelEx(&c, function, params, NULL));
}

static void launch_ex_ptsz(void) {
    CUlaunchConfig c = config();
    c.hStream = NULL;
    MUST(cuLaunchKernelEx_ptsz(&c, function, params, NULL));
}

static void launch_cooperative(void) {
    MUST(cuLaunchCooperativeKernel(function, 64, 1, 1, 256, 1, 1, 0, stream, params));
}

static void launch_cooperative_ptsz(void) {
    MUST(cuLaunchCooperativeKernel_ptsz(function, 64, 1, 1, 256, 1, 1, 0, NULL, params));
}

static void launch_multi(void) {
    CUDA_LAUNCH_PARAMS list[] = {{.function = function, .gridDimX = 64, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 256, .blockDimY = 1,
                                  .blockDimZ = 1, .hStream = stream, .kernelParams = params}};
    MUST(cuLaunchCooperativeKernelMultiDevice(list, 1, 0));
}

static void launch_old(void) {
    MUST(cuFuncSetBlockShape(function, 256, 1, 1));
    MUST(cuParamSetSize(function, 8));
    MUST(cuParamSetv(function, 0, &kernel_ns, 8));
    MUST(cuLaunchGridAsync(function, (int)grid(), 1, stream));
}

static void launch_graph(void) {
    MUST(cuGraphLaunch(exec, stream));
}

static void launch_graph_ptsz(void) {
    MUST(cuGraphLaunch_ptsz(exec, NULL));
}

static void launch_uploaded(void) {
    MUST(cuGraphUpload(exec, stream));
    launch_graph();
}

/* Back and forth between two lengths. */
static void launch_changed(void) {
    static uint64_t longer;
    static int turn;
    longer = 2 * kernel_ns;
    CUDA_KERNEL_NODE_PARAMS p = node_params(turn++ % 2 ? &longer : &kernel_ns);
    MUST(cuGraphExecKernelNodeSetParams_v2(exec, nodes[0], &p));
    launch_graph();
}

static void launch_updated(void) {
    CUgraphExecUpdateResultInfo info;
    MUST(cuGraphExecUpdate_v2(exec, graph, &info));
    launch_graph();
}

static void make_disabled(void) {
    make_graph(10);
    for (int i = 0; i < 5; i++)
        MUST(cuGraphNodeSetEnabled(exec, nodes[i], 0));
}

static void make_one(void) { make_graph(1); }
static void make_many(void) { make_graph(MOST_NODES); }

static void make_priority(void) {
    int least, greatest;
    MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
    MUST(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
}

static const struct kind {
    const char *name;
    void (*make)(void), (*launch)(void);
} kinds[] = {
    {"plain", NULL, launch_plain}, {"plain_ptsz", NULL, launch_plain_ptsz}, {"ex", NULL, launch_ex}, {"ex_ptsz", NULL, launch_ex_ptsz},
    {"cooperative", NULL, launch_cooperative}, {"cooperative_ptsz", NULL, launch_cooperative_ptsz}, {"multi", NULL, launch_multi},
    {"old", NULL, launch_old}, {"priority", make_priority, launch_plain}, {"graph1", make_one, launch_graph},
    {"graph200", make_many, launch_graph}, {"graph_ptsz", make_one, launch_graph_ptsz}, {"child", make_child, launch_graph},
    {"condition", make_condition, launch_graph}, {"uploaded", make_one, launch_uploaded}, {"changed", make_one, launch_changed},
    {"updated", make_one, launch_updated}, {"disabled", make_disabled, launch_graph},
};

static const struct kind *find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

int main(int argc, char **argv) {
    const struct kind *kind = argc == 5 ? find(argv[1]) : NULL;
    CUmodule module;
    char line[16];
    uint64_t first, now, count = 0;
    if (!kind)
        return 2;
    kernel_ns = strtoull(argv[2], NULL, 10);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&function, module, "tessera_busy"));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (kind->make)
        kind->make();
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || tesseraSimNow(&first))
        return 3;
    for (now = first; now < first + (uint64_t)(atof(argv[4]) * 1e9); tesseraSimNow(&now), count++) {
        kind->launch();
        if (strcmp(argv[3], "sync") == 0)
            MUST(cuCtxSynchronize());
    }
    printf("%llu %llu %llu\n", (unsigned long long)count, (unsigned long long)first, (unsigned long long)now);
    return 0;
}
