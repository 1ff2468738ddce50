/* The life of executable graphs and modules, as far as the meter must know what a launch runs; and stream capture. */
#include "gate.h"
#include "graphmem.h"

static CUresult made(CUresult result, const CUgraphExec *exec, CUgraph graph) {
    if (result == CUDA_SUCCESS)
        kernel_graph_made(*exec, graph), graphmem_made(*exec, graph);
    return result;
}

/* A call that makes or updates an executable graph: name, where the result is, parameters, arguments. */
#define MAKES(name, exec, parameters, ...)                \
    CUresult name parameters {                            \
        return made(DRIVER(name, __VA_ARGS__), exec, graph); \
    }

MAKES(cuGraphInstantiate, exec, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size), exec, graph, node, log, size)
MAKES(cuGraphInstantiate_v2, exec, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size), exec, graph, node, log,
      size)
MAKES(cuGraphInstantiateWithFlags, exec, (CUgraphExec *exec, CUgraph graph, unsigned long long flags), exec, graph, flags)
MAKES(cuGraphInstantiateWithParams, exec, (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), exec, graph, params)
MAKES(cuGraphInstantiateWithParams_ptsz, exec, (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params), exec, graph, params)
MAKES(cuGraphExecUpdate, &exec, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *outcome), exec, graph, node,
      outcome)
MAKES(cuGraphExecUpdate_v2, &exec, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *outcome), exec, graph, outcome)

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult result = DRIVER(cuGraphExecDestroy, exec);
    if (result == CUDA_SUCCESS)
        kernel_graph_gone(exec), graphmem_gone(exec);
    return result;
}

/* ---- one node of an executable graph ---- */

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
    CUresult result = DRIVER(cuGraphExecKernelNodeSetParams, exec, node, params);
    if (result == CUDA_SUCCESS)
        kernel_graph_kernel(exec, node, params->func, &SHAPE_OF(params));
    return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    CUresult result = DRIVER(cuGraphExecKernelNodeSetParams_v2, exec, node, params);
    if (result == CUDA_SUCCESS)
        kernel_graph_kernel(exec, node, params->func ? params->func : (CUfunction)params->kern, &SHAPE_OF(params));
    return result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    CUresult result = DRIVER(cuGraphExecChildGraphNodeSetParams, exec, node, child);
    if (result == CUDA_SUCCESS)
        kernel_graph_child(exec, node, child);
    return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
    CUresult result = DRIVER(cuGraphExecNodeSetParams, exec, node, params);
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        kernel_graph_kernel(exec, node, params->kernel.func ? params->kernel.func : (CUfunction)params->kernel.kern,
                            &SHAPE_OF(&params->kernel));
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        kernel_graph_child(exec, node, params->graph.graph);
    return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
    CUresult result = DRIVER(cuGraphNodeSetEnabled, exec, node, enabled);
    if (result == CUDA_SUCCESS)
        kernel_graph_enabled(exec, node, enabled != 0);
    return result;
}

/* ---- modules ---- */

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

/* ---- capture ---- */

/* Counted up before the driver begins, so that no launch in between is taken for one that runs; down when it does not. */
#define BEGINS(name, parameters, ...)                   \
    CUresult name parameters {                          \
        gate_capture(1);                                \
        CUresult result = DRIVER(name, __VA_ARGS__);    \
        gate_capture(result == CUDA_SUCCESS ? 0 : -1);  \
        return result;                                  \
    }

BEGINS(cuStreamBeginCapture, (CUstream stream), stream)
BEGINS(cuStreamBeginCapture_ptsz, (CUstream stream), stream)
BEGINS(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGINS(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGINS(cuStreamBeginCaptureToGraph,
       (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
       stream, graph, nodes, edges, count, mode)
BEGINS(cuStreamBeginCaptureToGraph_ptsz,
       (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
       stream, graph, nodes, edges, count, mode)
BEGINS(cuStreamBeginRecaptureToGraph, (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data), stream, mode,
       graph, callback, data)
BEGINS(cuStreamBeginRecaptureToGraph_ptsz, (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data), stream,
       mode, graph, callback, data)
BEGINS(cuStreamBeginCaptureToCig, (CUstream stream, void *params), stream, params)
BEGINS(cuStreamBeginCaptureToCig_ptsz, (CUstream stream, void *params), stream, params)

/* A capture that is not open is none of ours; any other answer has ended it. */
static CUresult ended(CUresult result) {
    if (result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_HANDLE &&
        result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED && result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && result != CUDA_ERROR_NOT_FOUND)
        gate_capture(-1);
    return result;
}

#define ENDS(name, parameters, ...)               \
    CUresult name parameters {                    \
        return ended(DRIVER(name, __VA_ARGS__)); \
    }

ENDS(cuStreamEndCapture, (CUstream stream, CUgraph *graph), stream, graph)
ENDS(cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *graph), stream, graph)
ENDS(cuStreamEndCaptureToCig, (CUstream stream), stream)
ENDS(cuStreamEndCaptureToCig_ptsz, (CUstream stream), stream)
