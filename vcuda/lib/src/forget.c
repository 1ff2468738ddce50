/* The child of a fork holds no device memory and owns no process slot: everything that the parent's copy says is the parent's. */
#include "blocks.h"
#include "claim.h"
#include "context.h"
#include "flight.h"
#include "gate.h"
#include "graphmem.h"
#include "pool.h"
#include "vmm.h"

void claim_forget_in_child(void) {
    blocks_after_fork();
    context_after_fork();
    pool_after_fork();
    vmm_after_fork();
    graphmem_after_fork();
    flight_after_fork();
    lane_after_fork();
    meter_after_fork();
    kernel_after_fork();
    gate_after_fork();
}
