/* The streams that this process launches into, and the event pairs that are under way in them. A lane counts the estimated GPU time put in
 * and known to be finished; an event pair that has finished tells both its own duration and that all before it is done. */
#ifndef VCUDA_LANE_H
#define VCUDA_LANE_H

#include "device.h"
#include "meter.h"

struct lane;

struct probe {
    CUevent start, end;
    CUevent before; /* recorded right before start: what an empty pair measures; NULL once that is known or on an idle stream */
    struct ticket ticket;
    uint64_t *counter; /* a copy: its time is counted here; NULL: a launch */
    uint64_t upto;    /* how far the lane was filled with this launch */
    bool timed;       /* nothing else went into the stream between the two events */
    bool idle;        /* the stream had nothing to do when `start` was recorded, at host_ns */
    uint64_t host_ns; /* then: how long our own calls kept the card waiting between the events */
};

/* The lane of a stream in a context, and its card; the default streams by their reserved handles. NULL where it has none yet. */
struct lane *lane_find(CUstream stream, CUcontext context, int *device);

/* The same, made when it is new. NULL when all lanes are busy. */
struct lane *lane_of(CUstream stream, CUcontext context, int device);

/* Unmarked work is so large that the next launch should carry a marker. */
bool lane_wants_marker(const struct lane *lane);

/* Around one launch. With `sample`, an event pair is recorded around it; *probe says whether that worked. `slot` is this process's. */
void lane_enter(struct lane *lane, bool sample, const struct ticket *ticket, struct probe *probe);
void lane_leave(struct lane *lane, int slot, struct probe *probe, const struct ticket *ticket, bool launched);

/* Look at pairs that may have finished: in one lane where something is due, or in every one. */
void lane_poll(struct lane *lane, uint64_t now_ns);
void lane_poll_all(void);

/* The program has waited for all work of a stream, or of the current context. */
uint64_t lane_mark(const struct lane *lane);
void lane_finished(struct lane *lane, uint64_t mark);
void lane_finished_context(CUcontext context);

/* The context is gone, and its events with it. */
void lane_drop_context(CUcontext context);

void lane_after_fork(void);

#endif
