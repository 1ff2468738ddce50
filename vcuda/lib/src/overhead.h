/* How much memory the driver's NVML says this process holds on a card. Used once per claim, to learn what a context costs. */
#ifndef VCUDA_OVERHEAD_H
#define VCUDA_OVERHEAD_H

#include <stdint.h>

/* Bytes of this process on the card with that UUID; 0 when NVML does not know (other PID namespace, no permission, no NVML). */
uint64_t overhead_own_bytes(const char *uuid);

#endif
