#include "charge.h"

#include "backing.h"
#include "claim.h"
#include "context.h"
#include "ledger.h"
#include "pool.h"
#include "vmm.h"

CUresult charge_begin_on(struct charge *charge, int device, enum vcuda_class kind, uint64_t bytes) {
    CUcontext current = NULL;
    *charge = (struct charge){.device = device, .kind = kind};
    if (device == DEVICE_UNKNOWN || bytes == 0)
        return charge->device = DEVICE_UNKNOWN, CUDA_SUCCESS;
    struct region *region = claim_region();
    if (!region || device == DEVICE_UNLISTED)
        return claim_count_refusal(), CUDA_ERROR_OUT_OF_MEMORY;
    context_told(device);
    if (DRIVER(cuCtxGetCurrent, &current) == CUDA_SUCCESS)
        charge->owner = (uint64_t)(uintptr_t)current;
    charge->shares_page = backing_shares_page(bytes);
    if (charge->shares_page && kind == VCUDA_CLASS_PITCHED)
        charge->kind = VCUDA_CLASS_LINEAR; /* they share pages with linear ones, and a page has one class */
    uint64_t wanted = backing_bytes(bytes);
    pool_refresh(false);
    if (ledger_reserve(region, device, charge->kind, wanted))
        return CUDA_ERROR_OUT_OF_MEMORY;
    charge->bytes = wanted;
    return CUDA_SUCCESS;
}

CUresult charge_begin(struct charge *charge, enum vcuda_class kind, uint64_t bytes) {
    int device = device_current();
    if (device >= 0)
        context_notice(device);
    return charge_begin_on(charge, device, kind, bytes);
}

static void give_back(const struct charge *charge, uint64_t bytes) {
    if (bytes)
        ledger_release(claim_region(), charge->device, charge->kind, bytes);
}

bool charge_correct(struct charge *charge, uint64_t bytes) {
    if (charge->device < 0)
        return true;
    uint64_t wanted = backing_bytes(bytes);
    if (wanted > charge->bytes && ledger_reserve(claim_region(), charge->device, charge->kind, wanted - charge->bytes))
        return false;
    if (wanted < charge->bytes)
        give_back(charge, charge->bytes - wanted);
    charge->bytes = wanted;
    charge->shares_page &= backing_shares_page(bytes);
    return true;
}

CUresult charge_end(struct charge *charge, CUresult result, uint64_t address) {
    if (charge->device < 0)
        return result;
    if (result != CUDA_SUCCESS) {
        give_back(charge, charge->bytes);
        return result;
    }
    struct block block = {
        .address = address,
        .bytes = charge->shares_page ? 0 : charge->bytes,
        .owner = charge->owner,
        .device = charge->device,
        .kind = charge->kind,
    };
    /* Without memory for the entry the bytes stay charged until the process ends: too much, never too little. */
    if (charge->shares_page && !backing_enter(address))
        give_back(charge, charge->bytes);
    blocks_put(block);
    return result;
}

void charge_settle(const struct block *block) {
    uint64_t bytes = block->bytes;
    bool exported = block->sharing == BLOCK_EXPORTED;
    if (block->sharing == BLOCK_MAPPED)
        vmm_unmapped(block->address, 1);
    else if (!bytes && block->address && backing_leave(block->address, &exported))
        bytes = BACKING_PAGE;
    if (!bytes)
        return;
    if (block->sharing == BLOCK_IMPORTED)
        ledger_import_end(claim_region(), block->device, bytes);
    else if (exported)
        ledger_release_exported(claim_region(), block->device, block->kind, bytes);
    else
        ledger_release(claim_region(), block->device, block->kind, bytes);
}

void charge_exported(uint64_t address) {
    struct block block;
    if (!claim_region() || !blocks_export(address, &block))
        return;
    if (block.bytes || backing_export(address))
        ledger_export(claim_region(), block.device, (int64_t)(block.bytes ? block.bytes : BACKING_PAGE));
}

void charge_importing(int change) {
    if (claim_region())
        ledger_importing(claim_region(), change);
}

bool charge_import(struct block *block) {
    struct region *region = claim_region();
    if (!region || block->device < 0)
        return block->device == DEVICE_UNKNOWN;
    if (ledger_import(region, block->device, block->bytes))
        block->sharing = BLOCK_IMPORTED;
    else if (ledger_reserve(region, block->device, block->kind, block->bytes))
        return false;
    return true;
}

bool charge_free_begin(uint64_t address, struct block *block) {
    /* Before the driver is asked: once it has freed the address, another thread may get the same one. */
    return claim_region() && blocks_take(address, block);
}

CUresult charge_free_end(const struct block *block, bool known, CUresult result) {
    if (known && result == CUDA_SUCCESS)
        charge_settle(block);
    else if (known)
        blocks_put(*block);
    return result;
}

void charge_drop_owner(CUcontext context) {
    if (claim_region() && context)
        blocks_take_owned((uint64_t)(uintptr_t)context, charge_settle);
}
