/* What contexts cost: charged once per process and card, from the first context to the last. */
#ifndef VCUDA_CONTEXT_H
#define VCUDA_CONTEXT_H

#include "device.h"

/* Before the driver makes (or retains) a context. CUDA_SUCCESS, or out-of-memory when the overhead does not fit. */
CUresult context_begin(int device);

/* The driver answered. False when the true overhead, known only now, does not fit: the caller undoes the call; nothing is charged. */
bool context_end(int device, CUresult result);

/* A context that context_end accepted is gone, or one retain of it. */
void context_gone(int device);

/* Both charge, whatever the limit says, what is on the card already, and are cheap while nothing is new.
 * A context is in use that no hooked call made (the runtime has private ways). */
void context_notice(int device);
/* The agent has measured what this process's contexts, modules and heaps take. */
void context_told(int device);

/* cuCtxSetLimit: what a raised limit takes is charged first. */
CUresult context_limit(CUlimit limit, size_t value);

/* Which device a context made by hand belongs to; forgetting an unknown one answers DEVICE_UNKNOWN. */
void context_remember(CUcontext context, int device);
int context_forget(CUcontext context);

/* The primary context: how often it is retained. */
void context_primary_retained(int device, CUcontext context);
/* The primary context that a reset (0), or the release of its last retain (1), ends; else NULL. */
CUcontext context_primary(int device, uint32_t released);

/* In the child of a fork. */
void context_after_fork(void);

#endif
