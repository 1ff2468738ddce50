/* What every launch passes: which card, may it go now, and measure it. */
#ifndef VCUDA_GATE_H
#define VCUDA_GATE_H

#include "kernel.h"
#include "lane.h"

struct gate {
    struct lane *lane; /* NULL: the launch is not metered */
    struct region *region;
    int slot;
    struct ticket ticket;
    struct probe probe;
    CUcontext context;
    int device;
};

/* The stream that a call means: `per_thread` is the flavour of the call (its name ends in _ptsz). */
CUstream gate_stream(CUstream stream, bool per_thread);

/* Before a launch: waits until it may go. Anything but CUDA_SUCCESS: do not launch. */
CUresult gate_enter(struct gate *gate, uint64_t key, CUstream stream);

/* After it, with the driver's answer, which is returned. */
CUresult gate_leave(struct gate *gate, CUresult result);

/* Work put into this stream is recorded only. */
bool gate_is_captured(CUstream stream);

/* Into the lane of the stream (looked up when NULL), with an event pair when the ticket says so. */
void gate_enter_lane(struct gate *gate, struct lane *lane, CUstream stream);

/* A capture was begun or ended: while one is open, launches are asked whether they are recorded only. */
void gate_capture(int change);

/* Around the program's own waiting for a stream (`stream`) or for the current context (`whole`). */
struct gate_wait {
    struct lane *lane;
    CUcontext context;
    uint64_t mark;
};
void gate_wait_begin(struct gate_wait *wait, CUstream stream, bool whole);
CUresult gate_wait_end(const struct gate_wait *wait, CUresult result);

/* Something that the program waited for has finished: look at our own events. */
void gate_look(void);

void gate_after_fork(void);

#endif
