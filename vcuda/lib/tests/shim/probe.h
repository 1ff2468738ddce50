/* What the parts of the probe share: its handles, and commands by name. */
#ifndef VCUDA_PROBE_H
#define VCUDA_PROBE_H

#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>

#include <stdbool.h>

enum { HANDLES = 4096 };

extern CUdeviceptr pointers[HANDLES];
extern CUmemGenericAllocationHandle physical[HANDLES];
extern CUmemoryPool pool;
extern CUarray arrays[HANDLES];

struct command {
    const char *name;
    int (*run)(char **words); /* the answer; -1: already printed */
};
extern const struct command share_commands[], memory_commands[];

unsigned long long number(const char *text);
int index_of(const char *text);

#endif
