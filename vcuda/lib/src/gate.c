#include "gate.h"

#include "claim.h"
#include "clock.h"
#include "pool.h"

#include <stdatomic.h>

static atomic_int open_captures;

CUstream gate_stream(CUstream stream, bool per_thread) {
    if (stream)
        return stream;
    return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

void gate_capture(int change) {
    atomic_fetch_add(&open_captures, change);
}

/* A launch into a capture runs nothing: the graph pays when it is launched. */
bool gate_is_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&open_captures, memory_order_relaxed) <= 0)
        return false;
    return DRIVER(cuStreamIsCapturing, stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Event queries disturb a capture that is open anywhere in the process. */
static void poll_own(void *lane) {
    (void)lane;
    if (atomic_load_explicit(&open_captures, memory_order_relaxed) <= 0)
        lane_poll_all();
}

static void note_unlimited(struct region *region, int slot, int device) {
    uint64_t now = clock_now();
    flight_add(region, slot, device, 0, now);
    __atomic_fetch_add(&region_device(region, device)->launches, 1, __ATOMIC_RELAXED); /* read by the agent */
}

/* The launch may go: into which lane, and is it measured? */
void gate_enter_lane(struct gate *gate, struct lane *lane, CUstream stream) {
    lane = gate->lane = lane ? lane : lane_of(stream, gate->context, gate->device);
    bool quiet = atomic_load_explicit(&open_captures, memory_order_relaxed) > 0;
    if (!lane) {
        meter_unmeasured(gate->region, gate->slot, gate->device, &gate->ticket);
        return;
    }
    if (!quiet)
        lane_poll(lane, gate->ticket.at_ns);
    lane_enter(lane, !quiet && (gate->ticket.sample || lane_wants_marker(lane)), &gate->ticket, &gate->probe);
}

CUresult gate_enter(struct gate *gate, uint64_t key, CUstream stream) {
    struct lane *lane = NULL;
    gate->lane = NULL;
    gate->device = DEVICE_UNKNOWN;
    if (DRIVER(cuCtxGetCurrent, &gate->context) == CUDA_SUCCESS && gate->context) {
        lane = lane_find(stream, gate->context, &gate->device); /* it knows its card */
        if (!lane)
            gate->device = device_of_context(&gate->context);
    }
    if (gate->device == DEVICE_UNKNOWN || gate_is_captured(stream))
        return CUDA_SUCCESS;
    gate->region = claim_region();
    gate->slot = gate->region ? region_own_slot(gate->region) : -1;
    if (gate->slot < 0 || gate->device < 0 ||
        !meter_admit(gate->region, gate->slot, gate->device, key, &gate->ticket, poll_own, NULL))
        return claim_count_refusal(), CUDA_ERROR_OUT_OF_MEMORY;
    gate->probe.counter = NULL;
    if (gate->ticket.cost)
        gate_enter_lane(gate, lane, stream);
    else
        note_unlimited(gate->region, gate->slot, gate->device);
    return CUDA_SUCCESS;
}

CUresult gate_leave(struct gate *gate, CUresult result) {
    if (!gate->lane)
        return result;
    lane_leave(gate->lane, gate->slot, &gate->probe, &gate->ticket, result == CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        meter_refund(gate->region, gate->slot, gate->device, &gate->ticket);
    return result;
}

void gate_wait_begin(struct gate_wait *wait, CUstream stream, bool whole) {
    *wait = (struct gate_wait){0};
    CUcontext context = NULL;
    int device = claim_region() ? device_of_context(&context) : DEVICE_UNKNOWN;
    if (device < 0)
        return;
    wait->context = context;
    wait->lane = whole ? NULL : lane_of(stream, context, device);
    wait->mark = wait->lane ? lane_mark(wait->lane) : 0;
}

static void unlimited_is_idle(void) {
    struct region *region = claim_region();
    int device = device_current(), slot = region_own_slot(region);
    if (device >= 0 && slot >= 0 && !__atomic_load_n(&region_slot(region, slot)->device[device].outstanding_ns, __ATOMIC_RELAXED))
        flight_idle(region, slot, device, clock_now());
}

CUresult gate_wait_end(const struct gate_wait *wait, CUresult result) {
    if (result != CUDA_SUCCESS || !wait->context)
        return result;
    meter_book();
    if (wait->lane)
        lane_finished(wait->lane, wait->mark);
    else
        lane_finished_context(wait->context);
    unlimited_is_idle();
    pool_refresh(true);
    return result;
}

void gate_look(void) {
    meter_book();
    if (claim_region())
        poll_own(NULL);
}

void gate_after_fork(void) {
    atomic_store(&open_captures, 0);
}
