/* The life of executable graphs and modules, as far as the meter must know what a launch runs; and stream capture. */
#include "gate.h"
#include "graphmem.h"

static CUresult made(CUresult result, const CUgraphExec *exec, CUgraph graph) {
    if (result == CUDA_SUCCESS)
        kernel_graph_made(*exec, graph), graphmem_made(*exec, graph);
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return made(DRIVER(cuGraphInstantiate, exec, graph, node, log, size), exec, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return made(DRIVER(cuGraphInstantiate_v2, exec, graph, node, log, size), exec, graph);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return made(DRIVER(cuGraphInstantiateWithFlags, exec, graph, flags), exec, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    return made(DRIVER(cuGraphInstantiateWithParams, exec, graph, params), exec, graph);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    return made(DRIVER(cuGraphInstantiateWithParams_ptsz, exec, graph, params), exec, graph);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *outcome) {
    return made(DRIVER(cuGraphExecUpdate, exec, graph, node, outcome), &exec, graph);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *outcome) {
    return made(DRIVER(cuGraphExecUpdate_v2, exec, graph, outcome), &exec, graph);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult result = DRIVER(cuGraphExecDestroy, exec);
    if (result == CUDA_SUCCESS)
        kernel_graph_gone(exec), graphmem_gone(exec);
    return result;
}

CUresult cuModuleUnload(CUmodule module) {
    CUresult result = DRIVER(cuModuleUnload, module);
    kernel_forget();
    return result;
}

CUresult cuLibraryUnload(CUlibrary library) {
    CUresult result = DRIVER(cuLibraryUnload, library);
    kernel_forget();
    return result;
}

/* Counted up before the driver begins, so that no launch in between is taken for one that runs; down when it does not. */
static CUresult begun(CUresult result) {
    if (result != CUDA_SUCCESS)
        gate_capture(-1);
    return result;
}

CUresult cuStreamBeginCapture(CUstream stream) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCapture, stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCapture_ptsz, stream));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCapture_v2, stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCapture_v2_ptsz, stream, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                          size_t count, CUstreamCaptureMode mode) {
    gate_capture(1);
    return begun(DRIVER(cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count, mode));
}

/* A capture that is not open is none of ours; any other answer has ended it. */
static CUresult ended(CUresult result) {
    if (result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_HANDLE &&
        result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && result != CUDA_ERROR_NOT_FOUND)
        gate_capture(-1);
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return ended(DRIVER(cuStreamEndCapture, stream, graph));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return ended(DRIVER(cuStreamEndCapture_ptsz, stream, graph));
}
