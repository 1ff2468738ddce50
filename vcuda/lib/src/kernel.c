#include "kernel.h"

#include "claim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FUNCTIONS = 4096, PROBES = 16, GRAPH_NODES = 4096 };

/* Function -> identity. Read without a lock: `function` is published last; an entry is never taken away, only outdated by `generation`. */
static struct entry {
    _Atomic(CUfunction) function;
    atomic_uint_fast64_t identity;
    atomic_uint generation;
} functions[FUNCTIONS];

static atomic_uint generation = 1;

/* Executable graphs, and their nodes that were changed since they were made. */
static struct graph {
    struct graph *next;
    CUgraphExec exec;
    uint64_t sum; /* of its nodes' keys */
    struct node {
        struct node *next;
        CUgraphNode handle;
        uint64_t key;
        bool enabled;
    } *nodes;
} *graphs;
static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return mix(hash, 0);
}

/* Handles mean something in this process only. */
static uint64_t private_identity(const void *handle) {
    struct region *region = claim_region();
    int slot = region ? region_own_slot(region) : -1;
    uint64_t epoch = slot >= 0 ? __atomic_load_n(&region_slot(region, slot)->epoch, __ATOMIC_RELAXED) : 0;
    return mix(mix(UINT64_C(0x7072697661746500), (uint64_t)(uintptr_t)handle), epoch);
}

/* The name, and what tells two builds of one name apart without hashing whole modules. */
static uint64_t ask_identity(CUfunction function) {
    static const CUfunction_attribute traits[] = {
        CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_BINARY_VERSION,
    };
    const char *name = NULL;
    if (DRIVER(cuFuncGetName, &name, function) != CUDA_SUCCESS && DRIVER(cuKernelGetName, &name, (CUkernel)function) != CUDA_SUCCESS)
        return private_identity(function);
    uint64_t hash = name ? mix_text(UINT64_C(0xcbf29ce484222325), name) : private_identity(function);
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        int value = 0;
        if (DRIVER(cuFuncGetAttribute, &value, traits[i], function) == CUDA_SUCCESS)
            hash = mix(hash, (uint64_t)(unsigned)value);
    }
    return hash;
}

static uint64_t identity_of(CUfunction function) {
    unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
    size_t home = mix(0, (uint64_t)(uintptr_t)function) % FUNCTIONS;
    for (size_t i = 0; i < PROBES; i++) {
        struct entry *entry = &functions[(home + i) % FUNCTIONS];
        CUfunction found = atomic_load_explicit(&entry->function, memory_order_acquire);
        if (found == function && atomic_load_explicit(&entry->generation, memory_order_relaxed) == now)
            return atomic_load_explicit(&entry->identity, memory_order_relaxed);
        if (found && found != function)
            continue;
        uint64_t identity = ask_identity(function);
        if (found || atomic_compare_exchange_strong(&entry->function, &found, function) || found == function) {
            atomic_store_explicit(&entry->identity, identity, memory_order_relaxed);
            atomic_store_explicit(&entry->generation, now, memory_order_release);
        }
        return identity;
    }
    return ask_identity(function);
}

uint64_t kernel_key(CUfunction function, const struct shape *shape) {
    /* Side by side, not one after the other: this is in every launch. */
    uint64_t a = ((uint64_t)shape->grid[0] << 32 | shape->grid[1]) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t b = ((uint64_t)shape->grid[2] << 32 | shape->shared_bytes) * UINT64_C(0xd6e8feb86659fd93);
    uint64_t c = ((uint64_t)shape->block[0] << 40 | (uint64_t)shape->block[1] << 20 | shape->block[2]) * UINT64_C(0xa0761d6478bd642f);
    uint64_t hash = mix(identity_of(function), (a ^ a >> 32) + (b ^ b >> 29) + (c ^ c >> 31));
    return hash ? hash : 1;
}

void kernel_forget(void) {
    atomic_fetch_add(&generation, 1);
}

static uint64_t sum_of_nodes(CUgraph graph);

/* What one node adds to its graph's key. Where its work cannot be known (a condition decides on the card), something private. */
static uint64_t node_key(CUgraphNode node) {
    CUDA_KERNEL_NODE_PARAMS params = {0};
    CUgraphNodeType type;
    CUgraph child;
    if (DRIVER(cuGraphNodeGetType, node, &type) != CUDA_SUCCESS)
        return private_identity(node);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && DRIVER(cuGraphKernelNodeGetParams_v2, node, &params) == CUDA_SUCCESS)
        return kernel_key(params.func ? params.func : (CUfunction)params.kern, &SHAPE_OF(&params));
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && DRIVER(cuGraphChildGraphNodeGetGraph, node, &child) == CUDA_SUCCESS)
        return sum_of_nodes(child);
    return type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? private_identity(node) : mix(UINT64_C(0x6e6f646500000000), (uint64_t)type);
}

/* A sum, so that one node can be exchanged in it. */
static uint64_t sum_of_nodes(CUgraph graph) {
    size_t count = 0;
    if (DRIVER(cuGraphGetNodes, graph, NULL, &count) != CUDA_SUCCESS || count > GRAPH_NODES)
        return private_identity(graph);
    CUgraphNode *nodes = calloc(count + 1, sizeof(CUgraphNode));
    bool known = nodes && DRIVER(cuGraphGetNodes, graph, nodes, &count) == CUDA_SUCCESS;
    uint64_t sum = known ? 0 : private_identity(graph);
    for (size_t i = 0; known && i < count; i++)
        sum += mix(0, node_key(nodes[i]));
    free(nodes);
    return sum;
}

static struct graph *find_graph(CUgraphExec exec) {
    struct graph *graph = graphs;
    while (graph && graph->exec != exec)
        graph = graph->next;
    return graph;
}

static void forget_nodes(struct graph *graph) {
    while (graph->nodes) {
        struct node *node = graph->nodes;
        graph->nodes = node->next;
        free(node);
    }
}

void kernel_graph_made(CUgraphExec exec, CUgraph graph) {
    uint64_t sum = sum_of_nodes(graph);
    pthread_mutex_lock(&graph_lock);
    struct graph *entry = find_graph(exec);
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        *entry = (struct graph){.next = graphs, .exec = exec};
        graphs = entry;
    }
    if (entry) {
        forget_nodes(entry);
        entry->sum = sum;
    }
    pthread_mutex_unlock(&graph_lock);
}

/* The node's entry; made from what it was in the graph. NULL without memory: then the old cost stays. */
static struct node *node_of(struct graph *graph, CUgraphNode handle) {
    struct node *node = graph->nodes;
    while (node && node->handle != handle)
        node = node->next;
    if (node || !(node = malloc(sizeof *node)))
        return node;
    *node = (struct node){.next = graph->nodes, .handle = handle, .key = node_key(handle), .enabled = true};
    graph->nodes = node;
    return node;
}

static void change_node(CUgraphExec exec, CUgraphNode handle, const uint64_t *key, bool enabled) {
    pthread_mutex_lock(&graph_lock);
    struct graph *graph = find_graph(exec);
    struct node *node = graph ? node_of(graph, handle) : NULL;
    if (node) {
        graph->sum -= node->enabled ? mix(0, node->key) : 0;
        node->key = key ? *key : node->key;
        node->enabled = key ? node->enabled : enabled;
        graph->sum += node->enabled ? mix(0, node->key) : 0;
    }
    pthread_mutex_unlock(&graph_lock);
}

void kernel_graph_kernel(CUgraphExec exec, CUgraphNode node, CUfunction function, const struct shape *shape) {
    uint64_t key = kernel_key(function, shape);
    change_node(exec, node, &key, true);
}

void kernel_graph_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    uint64_t key = sum_of_nodes(child);
    change_node(exec, node, &key, true);
}

void kernel_graph_enabled(CUgraphExec exec, CUgraphNode node, bool enabled) {
    change_node(exec, node, NULL, enabled);
}

void kernel_graph_gone(CUgraphExec exec) {
    pthread_mutex_lock(&graph_lock);
    struct graph **link = &graphs, *found;
    while ((found = *link) && found->exec != exec)
        link = &found->next;
    if (found) {
        *link = found->next;
        forget_nodes(found);
    }
    pthread_mutex_unlock(&graph_lock);
    free(found);
}

uint64_t kernel_graph_key(CUgraphExec exec) {
    pthread_mutex_lock(&graph_lock);
    struct graph *entry = find_graph(exec);
    uint64_t key = mix(UINT64_C(0x6772617068000000), entry ? entry->sum : private_identity(exec));
    pthread_mutex_unlock(&graph_lock);
    return key ? key : 1;
}

void kernel_after_fork(void) {
    pthread_mutex_init(&graph_lock, NULL);
    graphs = NULL;
    kernel_forget();
}
