/* The hidden NVML beside this library, and which record of the claim a card has. */
#ifndef VCUDA_NVML_DRIVER_H
#define VCUDA_NVML_DRIVER_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS /* every version under its own name */
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

struct nvml {
#define HOOK(name, class, need) __typeof__(&name) name;
#define CALL(name, need) __typeof__(&name) name;
#define REFUSE(name, code)
#define PASS(name)
#include "nvml_hooks.def"
#undef HOOK
#undef CALL
#undef REFUSE
#undef PASS
};

/* NVML's functions; those that this version lacks are NULL. NULL when NVML cannot be used at all. */
const struct nvml *nvml_get(void);

#define NVML(name, ...) (nvml_get() && nvml_get()->name ? nvml_get()->name(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND)

/* The record's index in *index. NVML_ERROR_NO_PERMISSION for a card that is not part of the claim, or NVML's own error. */
nvmlReturn_t nvml_device_index(nvmlDevice_t device, int *index);

#endif
