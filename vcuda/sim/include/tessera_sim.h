/*
 * The time seam, and what else no driver has. Both libraries export these; look them up in the driver's own handle, a real driver has none of them.
 * All answer 0, or -1 when the library has found no node.
 */
#ifndef TESSERA_SIM_H
#define TESSERA_SIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The node's present, nanoseconds: CLOCK_MONOTONIC in real time, the shared clock in virtual time. */
int tesseraSimNow(uint64_t *ns);

/* Returns once the node's clock has reached ns. In virtual time the calling thread takes part from here on. */
int tesseraSimSleepUntil(uint64_t ns);

/* Virtual time: the calling thread takes part although it has not waited yet, so the clock does not run away before it has
 * begun. It does not block. Nothing to do in real time. */
int tesseraSimRegisterThread(void);

/* Virtual time: the calling thread takes part no longer. Needed before it waits for something that the node cannot see
 * (a thread to join, a pipe); a thread that ends does it by itself. */
int tesseraSimUnregisterThread(void);

/* Only in libcuda.so.1: kernels whose name matches the shell pattern take ns nanoseconds from now on, on the whole node. */
int tesseraSimSetKernelCost(const char *pattern, uint64_t ns);

/* Only in libcuda.so.1, after cuInit: what a graphics API does that allocates `bytes` on the CUDA device and exports them for
 * cuImportExternalMemory. The memory lives until the descriptor is closed and nothing has it imported or mapped. */
int tesseraSimGraphicsMemory(int device, uint64_t bytes, int *fd);

/* Only in libcuda.so.1: GPU time that the living process with that number, as it sees itself, has had of the card so far, nanoseconds; with pid 0
 * all processes. For those who measure from outside; -1 for a card or process that is not there. */
int tesseraSimBusy(uint32_t card, uint32_t pid, uint64_t *ns);

#ifdef __cplusplus
}
#endif

#endif
