/* What a kernel costs: the shared table of estimates and the rules by which samples change them. No CUDA types, no clock, no locks:
 * a lost update between processes is harmless. The rules and their reasons are in vcuda/README.md, "Estimating". */
#ifndef VCUDA_COST_H
#define VCUDA_COST_H

#include "region.h"

/* Who else uses the card now. */
struct surroundings {
    uint32_t others;   /* active processes other than this one, of all claims */
    uint32_t siblings; /* those of them that belong to this claim */
    double phi;        /* how much longer work takes beside them; 1: no longer */
    double own;        /* beside siblings: which part of a sample was its own time; below 0 where they got more done than fits */
};

#define COST_LONG_NS 2.2e6 /* a default time slice and a tenth: shorter kernels can run uninterrupted beside busy neighbours, longer ones cannot */

/* The entry of a key (never 0) on a device; made when it is new. Never NULL: a full table gives an old entry away. */
struct vcuda_cost *cost_find(const struct region *region, int device, uint64_t key);

/* The present estimate in ns, 0 when the kernel is not known yet. Takes an estimate back when neighbours have just appeared. */
double cost_estimate(struct vcuda_cost *cost, const struct surroundings *around);

/* A finished launch took `wall_ns` on the card and was charged as `charged_ns`; `weight` launches are represented by this one.
 * Returns by how many ns of GPU time the charge was too small (negative: too large). */
double cost_sample(struct vcuda_cost *cost, const struct surroundings *around, double wall_ns, double charged_ns, uint32_t weight,
                   uint64_t now_ns);

/* Each launch is to be sampled now, whatever the spacing. */
bool cost_always(const struct vcuda_cost *cost, const struct surroundings *around);

/* One launch in how many is to be sampled: 1 = each. */
uint32_t cost_interval(const struct vcuda_cost *cost, const struct surroundings *around);

/* A denser phase after a surprise is counted down by launches. */
void cost_launched(struct vcuda_cost *cost);

#endif
