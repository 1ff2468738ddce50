/* The one seam through which the library reads time and sleeps, so that a simulated driver can serve both. */
#ifndef VCUDA_CLOCK_H
#define VCUDA_CLOCK_H

#include <stdint.h>

typedef int (*clock_now_fn)(uint64_t *ns);
typedef int (*clock_sleep_fn)(uint64_t until_ns);

/* Serve time from these two (0 = ok); called once, before the first use. */
void clock_use(clock_now_fn now, clock_sleep_fn sleep_until);

/* Node time in ns: CLOCK_MONOTONIC, or the simulated driver's clock. */
uint64_t clock_now(void);

/* Sleep until node time `until_ns`; may return early on a signal. */
void clock_sleep_until(uint64_t until_ns);

#endif
