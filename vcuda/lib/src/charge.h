/* Reserve, ask, commit: the three steps around every call of the driver that makes device memory. */
#ifndef VCUDA_CHARGE_H
#define VCUDA_CHARGE_H

#include "blocks.h"
#include "device.h"

struct charge {
    uint64_t bytes;   /* reserved and not yet settled */
    uint64_t owner;   /* current context */
    int device;       /* DEVICE_UNKNOWN: nothing was reserved, the driver will refuse the call itself */
    enum vcuda_class kind;
    bool shares_page;
};

/* Reserve room for `bytes` on the current context's card. CUDA_SUCCESS: now ask the driver. CUDA_ERROR_OUT_OF_MEMORY: do not. */
CUresult charge_begin(struct charge *charge, enum vcuda_class kind, uint64_t bytes);

/* The same on a card given by its record's index. */
CUresult charge_begin_on(struct charge *charge, int device, enum vcuda_class kind, uint64_t bytes);

/* The driver answered `result`. On success the block at `address` is remembered, else the room is given back. Returns `result`. */
CUresult charge_end(struct charge *charge, CUresult result, uint64_t address);

/* Like charge_end where the driver tells the true size only afterwards; false when that does not fit and the caller must undo the call. */
bool charge_correct(struct charge *charge, uint64_t bytes);

/* Free `address` by `result = driver's free`: take the block, and afterwards give its bytes back, or remember it again on failure. */
bool charge_free_begin(uint64_t address, struct block *block);
CUresult charge_free_end(const struct block *block, bool known, CUresult result);

/* A call of the driver that frees: name, address or handle of the block, parameters, arguments. */
#define FREES(name, key, parameters, ...)                                        \
    CUresult name parameters {                                                   \
        struct block block;                                                      \
        bool known = charge_free_begin((uint64_t)(key), &block);                 \
        return charge_free_end(&block, known, DRIVER(name, __VA_ARGS__));        \
    }

/* Other processes may open the block at `address` from now on. */
void charge_exported(uint64_t address);

/* Around a call that opens memory of other processes: +1 before, -1 after charge_import. */
void charge_importing(int change);

/* A block of another process was opened here. Nothing is charged for what our own claim pays for already; false when it does not and
 * there is no room. */
bool charge_import(struct block *block);

/* What the block stands for is gone from the card, or from this process. */
void charge_settle(const struct block *block);

/* A context was destroyed and with it all blocks that it owned. */
void charge_drop_owner(CUcontext context);

#endif
