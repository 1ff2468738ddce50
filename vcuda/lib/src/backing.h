/* What a request costs on the card. The driver hands out device memory in pages of 2 MiB; requests below 1 MiB share pages. A page is charged
 * once, from the first small block in it to the last, so that the books are never below what the card holds. No CUDA types. */
#ifndef VCUDA_BACKING_H
#define VCUDA_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#define BACKING_PAGE (UINT64_C(2) << 20)

/* True when the driver cuts such a request from a shared page. */
static inline bool backing_shares_page(uint64_t bytes) {
    return bytes < BACKING_PAGE / 2;
}

/* Bytes to reserve before asking for `bytes`; saturates at UINT64_MAX. */
static inline uint64_t backing_bytes(uint64_t bytes) {
    return bytes > UINT64_MAX - (BACKING_PAGE - 1) ? UINT64_MAX : (bytes + BACKING_PAGE - 1) / BACKING_PAGE * BACKING_PAGE;
}

/* A small block begins to use the page around `address`; true when it is the first one there. */
bool backing_enter(uint64_t address);

/* A small block is gone; true when it was the last one of its page. */
bool backing_leave(uint64_t address, bool *exported);

/* Other processes may open the page from now on; true when it was not so before. */
bool backing_export(uint64_t address);

#endif
