/* A claim for one fuzzed input: files in memory, node time that only moves when somebody sleeps. No CUDA types. */
#ifndef VCUDA_STAGE_H
#define VCUDA_STAGE_H

#include "region.h"

#include <stddef.h>

#define STAGE_START_NS UINT64_C(1000000000000) /* 1,000 s after boot */

extern uint64_t stage_now_ns;

/* Write config or ledger anew: `size` bytes of `data`, then zeros up to the file's length. */
void stage_config(const void *data, size_t size, size_t length);
void stage_ledger(const void *data, size_t size, size_t length);

/* Sound contents: one card, 1 GiB, 300 per mille. The config needs VCUDA_CONFIG_SIZE bytes of room. */
void stage_sound_config(unsigned char *file);
struct vcuda_ledger_header stage_sound_ledger(void);

/* Run `body` on the staged claim as the first thing that a new thread does, so that nothing is left over from the input before.
 * `region` is NULL when the files were refused. */
void stage_run(void (*body)(struct region *region, void *input), void *input);

/* One launch of kernel `key`, admitted and measured. Ends the fuzzer when it waited longer than the law allows. */
void stage_launch(struct region *region, int device, uint64_t key, double wall_ns);

#endif
