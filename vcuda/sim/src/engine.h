/*
 * The card: who runs when. Advanced lazily, by whoever holds the lock, up to the node's present time.
 *
 * Compute: one kernel at a time. The context that holds the card keeps it while it has work, for one slice when others wait;
 * a context without work gives it up at once. Every change of context costs switch_ns. Two copy engines work beside it,
 * first come first served, not sliced.
 */
#ifndef TESSERA_SIM_ENGINE_H
#define TESSERA_SIM_ENGINE_H

#include "node.h"

/* Brings every card to the present. Needs the lock. */
void sim_advance_all(struct sim_handle *handle);

/* The earliest time at which the stream may reach `position`; SIM_NEVER when only the program can let it go on.
 * Never later than the truth as long as no process dies. Needs the lock, cards advanced. */
uint64_t sim_earliest(struct sim_node *node, uint32_t stream, uint64_t position);

/* Busy share of the newest complete window before now, percent: the whole card, or one process (SIM_NONE: card). */
uint32_t sim_utilisation(const struct sim_card *card, uint64_t now_ns, uint32_t proc);

/* A process slot gets a new owner: its busy time starts at zero. */
void sim_forget_busy(struct sim_card *card, uint32_t proc);

#endif
