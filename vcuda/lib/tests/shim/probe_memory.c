/* The probe's commands for less usual memory: of graphs, of the host, arrays of every kind. */
#include "probe.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static CUgraphExec graphs[HANDLES];
static CUmipmappedArray mipmaps[HANDLES];
static CUmemoryPool host_pool;
static CUstream stream;

static int instantiate(int i, CUgraph graph) {
    CUresult result = cuGraphInstantiate(&graphs[i], graph, 0);
    cuGraphDestroy(graph);
    return (int)result;
}

/* graph I BYTES FREES: allocates BYTES at pointer I, and frees them again if FREES | graphlaunch I | graphupload I | graphdestroy I | graphtrim */
static int do_graph(char **words) {
    int i = index_of(words[1]);
    CUgraph graph;
    CUgraphNode node, last;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = number(words[2])};
    CUresult result = cuGraphCreate(&graph, 0);
    if (!result)
        result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
    pointers[i] = params.dptr;
    if (!result && number(words[3]))
        result = cuGraphAddMemFreeNode(&last, graph, &node, 1, pointers[i]);
    return result ? (int)result : instantiate(i, graph);
}
static int do_graphlaunch(char **words) {
    return (int)cuGraphLaunch(graphs[index_of(words[1])], NULL);
}
static int do_graphupload(char **words) {
    return (int)cuGraphUpload(graphs[index_of(words[1])], NULL);
}
static int do_graphdestroy(char **words) {
    return (int)cuGraphExecDestroy(graphs[index_of(words[1])]);
}
static int do_graphtrim(char **words) {
    (void)words;
    return (int)cuDeviceGraphMemTrim(0);
}

/* capture I BYTES: the same by capture of cuMemAllocAsync and cuMemFreeAsync */
static int do_capture(char **words) {
    int i = index_of(words[1]);
    CUgraph graph;
    CUresult result = stream ? CUDA_SUCCESS : cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!result)
        result = cuMemAllocAsync(&pointers[i], number(words[2]), stream);
    if (!result)
        result = cuMemFreeAsync(pointers[i], stream);
    CUresult ended = cuStreamEndCapture(stream, &graph);
    return result || ended ? (int)(result ? result : ended) : instantiate(i, graph);
}

/* vmmhost I BYTES | poolhost I BYTES | pinned BYTES: memory of the host */
static int do_vmmhost(char **words) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
    return (int)cuMemCreate(&physical[index_of(words[1])], number(words[2]), &prop, 0);
}
static int do_poolhost(char **words) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
    CUresult result = host_pool ? CUDA_SUCCESS : cuMemPoolCreate(&host_pool, &props);
    return (int)(result ? result : cuMemAllocFromPoolAsync(&pointers[index_of(words[1])], number(words[2]), host_pool, NULL));
}
static int do_pinned(char **words) {
    void *host;
    return (int)cuMemHostAlloc(&host, number(words[1]), CU_MEMHOSTALLOC_DEVICEMAP);
}

/* peer DEVICE: lets the current context use that device's memory */
static int do_peer(char **words) {
    CUcontext own, other;
    CUresult result = cuCtxGetCurrent(&own);
    if (!result)
        result = cuDevicePrimaryCtxRetain(&other, (CUdevice)number(words[1]));
    return (int)(result ? result : cuCtxEnablePeerAccess(other, 0));
}

/* external I BYTES: memory of a graphics API is made and imported | mapbuffer I BYTES | mapmipmap I WIDTH HEIGHT | dropexternal I */
static CUexternalMemory external[HANDLES];
static int do_external(char **words) {
    int (*make)(int device, uint64_t bytes, int *fd) = NULL;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = number(words[2])};
    *(void **)&make = dlsym(RTLD_DEFAULT, "tesseraSimGraphicsMemory");
    if (!make || make(0, d.size, &d.handle.fd))
        return 1000;
    CUresult result = cuImportExternalMemory(&external[index_of(words[1])], &d);
    if (result)
        close(d.handle.fd);
    return (int)result;
}
static int do_mapbuffer(char **words) {
    int i = index_of(words[1]);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC d = {.size = number(words[2])};
    return (int)cuExternalMemoryGetMappedBuffer(&pointers[i], external[i], &d);
}
static int do_mapmipmap(char **words) {
    int i = index_of(words[1]);
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC d = {
        .arrayDesc = {.Width = number(words[2]), .Height = number(words[3]), .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, .numLevels = 1};
    return (int)cuExternalMemoryGetMappedMipmappedArray(&mipmaps[i], external[i], &d);
}
static int do_dropexternal(char **words) {
    return (int)cuDestroyExternalMemory(external[index_of(words[1])]);
}

/* setlimit LIMIT VALUE | loadmodule */
static int do_setlimit(char **words) {
    return (int)cuCtxSetLimit((CUlimit)number(words[1]), number(words[2]));
}
static int do_loadmodule(char **words) {
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\n  ret;\n}\n";
    CUmodule module;
    (void)words;
    return (int)cuModuleLoadData(&module, ptx);
}

static CUDA_ARRAY3D_DESCRIPTOR shape_of(char **words) {
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = number(words[0]), .Height = number(words[1]), .Depth = number(words[2]),
                                     .Format = (CUarray_format)number(words[3]), .NumChannels = (unsigned)number(words[4]),
                                     .Flags = (unsigned)number(words[5])};
}

/* array3d I WIDTH HEIGHT DEPTH FORMAT CHANNELS FLAGS | mipmap I WIDTH HEIGHT DEPTH FORMAT CHANNELS FLAGS LEVELS | freemipmap I */
static int do_array3d(char **words) {
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(words + 2);
    return (int)cuArray3DCreate(&arrays[index_of(words[1])], &shape);
}
static int do_mipmap(char **words) {
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(words + 2);
    return (int)cuMipmappedArrayCreate(&mipmaps[index_of(words[1])], &shape, (unsigned)number(words[8]));
}
static int do_freemipmap(char **words) {
    return (int)cuMipmappedArrayDestroy(mipmaps[index_of(words[1])]);
}

const struct command memory_commands[] = {
    {"graph", do_graph}, {"graphlaunch", do_graphlaunch}, {"graphupload", do_graphupload}, {"graphdestroy", do_graphdestroy},
    {"graphtrim", do_graphtrim}, {"capture", do_capture}, {"vmmhost", do_vmmhost}, {"poolhost", do_poolhost}, {"pinned", do_pinned},
    {"peer", do_peer}, {"external", do_external}, {"mapbuffer", do_mapbuffer}, {"mapmipmap", do_mapmipmap}, {"dropexternal", do_dropexternal},
    {"setlimit", do_setlimit}, {"loadmodule", do_loadmodule},
    {"array3d", do_array3d}, {"mipmap", do_mipmap}, {"freemipmap", do_freemipmap}, {NULL, NULL},
};
