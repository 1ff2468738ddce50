#include "graphmem.h"

#include "backing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What an executable graph allocates on one device. */
struct footprint {
    struct footprint *next;
    CUgraphExec exec;
    CUdevice device;
    uint64_t bytes;
    CUstream stream; /* of the last launch: there the driver promises to map it again without more memory, */
    unsigned mapped; /* until a trim; `trims` + 1 at that time */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct footprint *all; /* by device in each graph, so that locks of several devices are taken in one order */
static atomic_uint trims;

static void add(CUgraphExec exec, CUdevice device, uint64_t bytes) {
    struct footprint **link = &all, *found;
    while ((found = *link) && !(found->exec == exec && found->device >= device))
        link = &found->next;
    if (!found || found->device != device) {
        struct footprint *fresh = malloc(sizeof *fresh);
        if (!fresh)
            return; /* its memory is found by the next look at the allocator */
        *fresh = (struct footprint){.next = found, .exec = exec, .device = device};
        *link = found = fresh;
    }
    found->bytes += backing_bytes(bytes);
}

static void add_node(CUgraphExec exec, CUgraphNode node);

static void add_graph(CUgraphExec exec, CUgraph graph) {
    size_t count = 0;
    DRIVER(cuGraphGetNodes, graph, NULL, &count);
    CUgraphNode *nodes = count ? calloc(count, sizeof(CUgraphNode)) : NULL;
    if (nodes && DRIVER(cuGraphGetNodes, graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++)
            add_node(exec, nodes[i]);
    free(nodes);
}

static void add_node(CUgraphExec exec, CUgraphNode node) {
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNodeType type;
    CUgraph child;
    if (DRIVER(cuGraphNodeGetType, node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && DRIVER(cuGraphChildGraphNodeGetGraph, node, &child) == CUDA_SUCCESS)
        add_graph(exec, child);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && DRIVER(cuGraphMemAllocNodeGetParams, node, &params) == CUDA_SUCCESS &&
        params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        add(exec, params.poolProps.location.id, params.bytesize);
}

static void drop(CUgraphExec exec) {
    for (struct footprint **link = &all, *found; (found = *link);)
        if (found->exec == exec) {
            *link = found->next;
            free(found);
        } else
            link = &found->next;
}

void graphmem_made(CUgraphExec exec, CUgraph graph) {
    pthread_mutex_lock(&lock);
    drop(exec);
    add_graph(exec, graph);
    pthread_mutex_unlock(&lock);
}

void graphmem_gone(CUgraphExec exec) {
    pthread_mutex_lock(&lock);
    drop(exec);
    pthread_mutex_unlock(&lock);
}

/* Room for one device's part; the allocator's idle memory makes way for it. */
static CUresult begin(struct pool_charge *charge, const struct footprint *part, bool mapped) {
    int device = device_index(part->device);
    CUresult result = pool_begin(charge, pool_of_graphs(part->device), device, mapped ? 0 : part->bytes);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    DRIVER(cuDeviceGraphMemTrim, part->device);
    graphmem_trimmed();
    return pool_begin(charge, pool_of_graphs(part->device), device, part->bytes);
}

CUresult graphmem_begin(struct graphmem *memory, CUgraphExec exec, CUstream stream) {
    CUresult result = CUDA_SUCCESS;
    memory->count = 0;
    if (!__atomic_load_n(&all, __ATOMIC_RELAXED)) /* no graph allocates: a launch pays one load */
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct footprint *part = all; part && result == CUDA_SUCCESS && memory->count < VCUDA_MAX_DEVICES; part = part->next) {
        unsigned now = atomic_load(&trims) + 1;
        if (part->exec != exec)
            continue;
        result = begin(&memory->charges[memory->count], part, part->stream == stream && part->mapped == now);
        if (result == CUDA_SUCCESS) {
            memory->count++;
            part->stream = stream;
            part->mapped = atomic_load(&trims) + 1;
        }
    }
    pthread_mutex_unlock(&lock);
    return result == CUDA_SUCCESS ? result : graphmem_end(memory, result);
}

CUresult graphmem_end(struct graphmem *memory, CUresult result) {
    while (memory->count > 0)
        pool_end(&memory->charges[--memory->count]);
    return result;
}

void graphmem_trimmed(void) {
    atomic_fetch_add(&trims, 1);
}

void graphmem_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    all = NULL;
}
