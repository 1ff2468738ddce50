#include "copy.h"

#include "claim.h"
#include "clock.h"

enum { TIMED_BYTES = 1 << 20 }; /* 40 us and more: an event pair costs 1 to 2 */

static bool is_host(CUmemorytype type, CUdeviceptr pointer) {
    unsigned int found = 0;
    if (type == CU_MEMORYTYPE_HOST)
        return true;
    if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY)
        return false;
    return DRIVER(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) != CUDA_SUCCESS ||
           found == CU_MEMORYTYPE_HOST; /* memory that the driver does not know is the program's own */
}

enum direction copy_direction(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from) {
    if (is_host(to_type, to))
        return TO_HOST;
    return is_host(from_type, from) ? TO_DEVICE : ON_DEVICE;
}

static uint64_t *bytes_of(struct vcuda_ledger_device *books, enum direction direction) {
    uint64_t *counters[] = {&books->copy_to_device, &books->copy_to_host, &books->copy_on_device};
    return counters[direction];
}

static uint64_t *time_of(struct vcuda_ledger_device *books, enum direction direction) {
    uint64_t *counters[] = {&books->copy_to_device_ns, &books->copy_to_host_ns, &books->copy_on_device_ns};
    return counters[direction];
}

void copy_begin(struct copy *copy, CUstream stream, enum direction direction, uint64_t bytes) {
    struct gate *gate = &copy->gate;
    gate->region = claim_region();
    gate->device = gate->region && !gate_is_captured(stream) ? device_of_context(&gate->context) : DEVICE_UNKNOWN;
    gate->lane = NULL;
    copy->direction = direction;
    copy->bytes = bytes;
    if (gate->device < 0)
        return;
    gate->slot = region_own_slot(gate->region);
    gate->ticket = (struct ticket){.sample = bytes >= TIMED_BYTES && gate->slot >= 0};
    gate->probe.counter = time_of(region_device(gate->region, gate->device), direction);
    if (gate->ticket.sample) {
        gate->ticket.at_ns = clock_now();
        gate_enter_lane(gate, NULL, stream);
    }
}

CUresult copy_end(struct copy *copy, CUresult result) {
    struct gate *gate = &copy->gate;
    if (gate->lane)
        lane_leave(gate->lane, gate->slot, &gate->probe, &gate->ticket, result == CUDA_SUCCESS);
    if (gate->device >= 0 && result == CUDA_SUCCESS)
        __atomic_fetch_add(bytes_of(region_device(gate->region, gate->device), copy->direction), copy->bytes,
                           __ATOMIC_RELAXED); /* read by the agent */
    return result;
}

CUresult copy_end_waited(struct copy *copy, CUresult result) {
    copy_end(copy, result);
    if (result == CUDA_SUCCESS)
        gate_look();
    return result;
}
