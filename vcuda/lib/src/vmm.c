#include "vmm.h"

#include "claim.h"
#include "ledger.h"

#include <pthread.h>
#include <stdlib.h>

struct physical {
    struct physical *next;
    CUmemGenericAllocationHandle handle;
    uint64_t bytes; /* charged */
    int device;
    uint32_t handles, ranges; /* what keeps it alive */
};

struct range {
    struct range *next;
    CUdeviceptr begin, end;
    struct physical *physical;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *all;
static struct range *ranges;

static struct physical *find(CUmemGenericAllocationHandle handle) {
    struct physical *physical = all;
    while (physical && !(physical->handle == handle && physical->handles))
        physical = physical->next;
    return physical;
}

static void drop_unused(struct physical *physical) {
    if (physical->handles || physical->ranges)
        return;
    struct physical **link = &all;
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    ledger_release(claim_region(), physical->device, VCUDA_CLASS_VMM, physical->bytes);
    free(physical);
}

CUresult vmm_created(struct charge *charge, CUresult result, const CUmemGenericAllocationHandle *handle) {
    if (charge->device < 0)
        return result;
    struct physical *physical = result == CUDA_SUCCESS ? malloc(sizeof *physical) : NULL;
    if (result != CUDA_SUCCESS)
        ledger_release(claim_region(), charge->device, VCUDA_CLASS_VMM, charge->bytes);
    if (!physical)
        return result; /* without memory for the entry the bytes stay charged until the process ends */
    pthread_mutex_lock(&lock);
    *physical = (struct physical){.next = all, .handle = *handle, .bytes = charge->bytes, .device = charge->device, .handles = 1};
    all = physical;
    pthread_mutex_unlock(&lock);
    return result;
}

void vmm_retained(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    if (physical)
        physical->handles++;
    pthread_mutex_unlock(&lock);
}

void vmm_released(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    if (physical) {
        physical->handles--;
        drop_unused(physical);
    }
    pthread_mutex_unlock(&lock);
}

void vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    struct range *range = physical ? malloc(sizeof *range) : NULL;
    if (range) {
        *range = (struct range){.next = ranges, .begin = address, .end = address + bytes, .physical = physical};
        ranges = range;
    }
    if (physical)
        physical->ranges++; /* without memory for the entry it counts as mapped for ever */
    pthread_mutex_unlock(&lock);
}

void vmm_unmapped(CUdeviceptr address, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    for (struct range **link = &ranges; *link;) {
        struct range *range = *link;
        if (range->begin < address || range->end > address + bytes) {
            link = &range->next;
            continue;
        }
        *link = range->next;
        range->physical->ranges--;
        drop_unused(range->physical);
        free(range);
    }
    pthread_mutex_unlock(&lock);
}

void vmm_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    all = NULL;
    ranges = NULL;
}
