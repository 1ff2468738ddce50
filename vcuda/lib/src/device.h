/* Which record of the claim a CUDA device has. By UUID, whatever order the driver counts in. */
#ifndef VCUDA_DEVICE_H
#define VCUDA_DEVICE_H

#include "driver.h"

#include <stdbool.h>

enum {
    DEVICE_UNLISTED = -1, /* not part of the claim, or there is no usable claim: closed */
    DEVICE_UNKNOWN = -2,  /* the driver could not say (no context, bad handle): let the driver answer the call itself */
};

/* Index of the card's record, or one of the above. */
int device_index(CUdevice device);

/* The same for the card of the current context, which goes to *context. One call of the driver where a thread stays in its context. */
int device_of_context(CUcontext *context);
int device_current(void);

/* A context is gone: its handle may come to mean one on another card. */
void device_forget_contexts(void);

#endif
