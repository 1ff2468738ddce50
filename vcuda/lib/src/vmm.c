#include "vmm.h"

#include "backing.h"
#include "claim.h"
#include "ledger.h"

#include <pthread.h>
#include <stdlib.h>

struct physical {
    struct physical *next;
    CUmemGenericAllocationHandle handle;
    struct block block; /* what is charged; its address means nothing */
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
    charge_settle(&physical->block);
    free(physical);
}

/* Without memory for the entry the bytes stay charged until the process ends. */
static void remember(CUmemGenericAllocationHandle handle, struct block block) {
    struct physical *physical = malloc(sizeof *physical);
    if (!physical)
        return;
    pthread_mutex_lock(&lock);
    *physical = (struct physical){.next = all, .handle = handle, .block = block, .handles = 1};
    all = physical;
    pthread_mutex_unlock(&lock);
}

CUresult vmm_created(struct charge *charge, CUresult result, const CUmemGenericAllocationHandle *handle) {
    if (charge->device < 0)
        return result;
    struct block block = {.bytes = charge->bytes, .device = charge->device, .kind = charge->kind};
    if (result == CUDA_SUCCESS)
        remember(*handle, block);
    else
        charge_settle(&block);
    return result;
}

void vmm_exported(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    if (physical && physical->block.sharing == BLOCK_OWN) {
        physical->block.sharing = BLOCK_EXPORTED;
        ledger_export(claim_region(), physical->block.device, (int64_t)physical->block.bytes);
    }
    pthread_mutex_unlock(&lock);
}

/* No call tells how large an imported handle is; only what can be mapped of it. The size in pages is between the two. */
static uint64_t search_size(CUmemGenericAllocationHandle handle, CUdeviceptr room, uint64_t least, uint64_t most) {
    while (least + 1 < most) {
        uint64_t middle = least + (most - least) / 2;
        bool fits = DRIVER(cuMemMap, room, middle * BACKING_PAGE, 0, handle, 0) == CUDA_SUCCESS;
        if (fits)
            DRIVER(cuMemUnmap, room, middle * BACKING_PAGE);
        *(fits ? &least : &most) = middle;
    }
    return least * BACKING_PAGE;
}

static uint64_t size_of(CUmemGenericAllocationHandle handle, CUdevice card) {
    size_t total = 0;
    CUdeviceptr room;
    DRIVER(cuDeviceTotalMem_v2, &total, card);
    if (DRIVER(cuMemAddressReserve, &room, total / BACKING_PAGE * BACKING_PAGE, 0, 0, 0) != CUDA_SUCCESS)
        return total;
    uint64_t bytes = search_size(handle, room, 0, total / BACKING_PAGE + 1);
    DRIVER(cuMemAddressFree, room, total / BACKING_PAGE * BACKING_PAGE);
    return bytes ? bytes : total; /* unknown: anything that the card can hold */
}

bool vmm_imported(CUmemGenericAllocationHandle handle) {
    CUmemAllocationProp prop;
    struct block block = {.kind = VCUDA_CLASS_OTHER, .device = DEVICE_UNKNOWN};
    if (DRIVER(cuMemGetAllocationPropertiesFromHandle, &prop, handle) == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        block.device = device_index(prop.location.id);
    if (block.device == DEVICE_UNKNOWN)
        return true;
    block.bytes = size_of(handle, prop.location.id);
    if (!charge_import(&block))
        return false;
    remember(handle, block);
    return true;
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

bool vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle) {
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
    return physical != NULL;
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
