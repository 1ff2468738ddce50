/* The hidden driver beside this library: its functions, typed by cuda.h, looked up once in its own handle. */
#ifndef VCUDA_DRIVER_H
#define VCUDA_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL 1 /* declares every version of every name, none hidden behind a macro */
#pragma GCC visibility push(default)
#include <cuda.h>
#include "newer.h"
#pragma GCC visibility pop

struct driver {
#define HOOK(name, class, need) __typeof__(&name) name;
#define CALL(name, need) __typeof__(&name) name;
#include "hooks.def"
#undef HOOK
#undef CALL
};

/* Looks the driver up at the first call. */
const struct driver *driver_look_up(void);
extern const struct driver *driver_ready; /* set once, by driver_look_up */

/* The driver's functions; those that this version lacks are NULL. NULL when the driver cannot be used at all. */
static inline const struct driver *driver_get(void) {
    const struct driver *ready = __atomic_load_n(&driver_ready, __ATOMIC_ACQUIRE); /* pairs with the store in look_up */
    return ready ? ready : driver_look_up();
}

/* The hook for a function of the driver, given by its address; NULL when it is not hooked. */
void *driver_hook_of(void *function);

/* Ask the driver, or answer "not found" like a driver that does not have the function. */
#define DRIVER(name, ...) (driver_get() && driver_get()->name ? driver_get()->name(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND)

#endif
