/* Small system helpers without knowledge of the node's meaning. */
#ifndef TESSERA_SIM_UTIL_H
#define TESSERA_SIM_UTIL_H

#include <stdbool.h>
#include <stdint.h>

struct sim_card;

uint64_t sim_monotonic_ns(void);
uint64_t sim_coarse_ns(void); /* the same clock, a few ms old, for almost nothing */

/* Waits until *word differs from seen, a wake-up, or the absolute monotonic time; NEVER waits one second at most. */
void sim_futex_wait(uint32_t *word, uint32_t seen, uint64_t until_monotonic_ns);
void sim_futex_wake(uint32_t *word, int count);

void sim_boot_id(char out[40]);
void sim_own_comm(char out[16]);

/* Differs between processes, the same for every library loaded into one. */
uint64_t sim_process_token(void);

/* splitmix64: the node's only source of chance. */
uint64_t sim_random(uint64_t *state);

#endif
