/* Private state of the simulated NVML in one process, and the implementation behind every exported name. */
#ifndef TESSERA_SIM_NVML_INTERNAL_H
#define TESSERA_SIM_NVML_INTERNAL_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "../books.h"
#include "../cards.h"
#include "../clock.h"
#include "../engine.h"
#include "../mig.h"
#include "../node.h"
#include "nvml.h"
#include "memory_limits.h"

struct nvml {
  struct sim_handle node;
  unsigned references;
};
extern struct nvml nvml;

/* The card behind a handle: INVALID_ARGUMENT for a foreign one, GPU_IS_LOST for a lost card. */
nvmlReturn_t need_card(nvmlDevice_t device, struct sim_card **card);
nvmlReturn_t known_card(nvmlDevice_t device, struct sim_card **card); /* the same for what a lost card still answers */
void nvml_device_at(uint32_t index, nvmlDevice_t *device);
/* The GPU instance of a part: 1, 2, … among those of its card. */
unsigned part_number(const struct sim_card *card);
nvmlReturn_t give_text(char *out, unsigned size, const char *text);

/* The node's lock with the cards brought to the present and the dead buried; answers the present, nanoseconds. */
uint64_t look(void);
void looked(void);

/* A window's end as NVML's time stamp: microseconds since 1970 in real time, of the node's clock in virtual time. */
unsigned long long stamp_us(uint64_t ns, uint64_t now_ns);

#define API(symbol, params, args) nvmlReturn_t impl_##symbol params;
#define API_PLAIN API
#include "api.def"
#undef API
#undef API_PLAIN

#endif
