/* The program waits for its work: then we know that it is finished. */
#include "gate.h"

CUresult cuStreamSynchronize(CUstream stream) {
    struct gate_wait wait;
    gate_wait_begin(&wait, gate_stream(stream, false), false);
    return gate_wait_end(&wait, DRIVER(cuStreamSynchronize, stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
    struct gate_wait wait;
    gate_wait_begin(&wait, gate_stream(stream, true), false);
    return gate_wait_end(&wait, DRIVER(cuStreamSynchronize_ptsz, stream));
}

CUresult cuCtxSynchronize(void) {
    struct gate_wait wait;
    gate_wait_begin(&wait, NULL, true);
    return gate_wait_end(&wait, DRIVER(cuCtxSynchronize));
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    struct gate_wait wait;
    gate_wait_begin(&wait, NULL, true);
    wait.context = wait.context && context ? context : wait.context;
    return gate_wait_end(&wait, DRIVER(cuCtxSynchronize_v2, context));
}

CUresult cuEventSynchronize(CUevent event) {
    CUresult result = DRIVER(cuEventSynchronize, event);
    if (result == CUDA_SUCCESS)
        gate_look();
    return result;
}
