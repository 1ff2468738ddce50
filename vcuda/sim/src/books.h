/* Bytes, kernel costs and faults in the node state. */
#ifndef TESSERA_SIM_BOOKS_H
#define TESSERA_SIM_BOOKS_H

#include "node.h"

/* Charges bytes of a card to this process. 0, or -ENOMEM when the card has not that much left (dead processes are
 * reclaimed first). Takes the lock. */
int sim_charge(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes);
void sim_discharge(struct sim_handle *handle, uint32_t card, enum sim_class class, uint64_t bytes);

/* One more (or less) CUDA context of this process on the card; the first costs model.context bytes. */
int sim_context_begin(struct sim_handle *handle, uint32_t card);
void sim_context_end(struct sim_handle *handle, uint32_t card);

/* Sums over the live processes. Need the lock. */
uint64_t sim_card_used(const struct sim_node *node, uint32_t card);
uint64_t sim_proc_used(const struct sim_proc *proc, uint32_t card);
static inline uint64_t sim_card_capacity(const struct sim_card *card) { return card->model.memory - card->model.reserve; }

/* Registers the cost of kernels by fnmatch pattern; the newest registration of a pattern holds, the first pattern that
 * matches wins. -ENOSPC, -ENAMETOOLONG. Takes the lock. */
int sim_set_kernel_cost(struct sim_handle *handle, const char *pattern, uint64_t cost_ns);
/* Takes the lock. */
bool sim_kernel_cost(struct sim_handle *handle, const char *name, uint64_t *cost_ns);

/* What is wrong with this call, asked before (`after` false) and after its work: the result that a fault prescribes, or 0. A slow call waits in
 * here, and a process to be killed does not come back. */
int sim_fault_result(struct sim_handle *handle, const char *call, bool after);

#endif
