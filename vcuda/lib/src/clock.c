#include "clock.h"

#include <stddef.h>
#include <time.h>

static clock_now_fn served_now;
static clock_sleep_fn served_sleep;

void clock_use(clock_now_fn now, clock_sleep_fn sleep_until) {
    served_now = now && sleep_until ? now : NULL;
    served_sleep = now && sleep_until ? sleep_until : NULL;
}

uint64_t clock_now(void) {
    uint64_t ns;
    if (served_now && served_now(&ns) == 0)
        return ns;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void clock_sleep_until(uint64_t until_ns) {
    if (served_sleep && served_sleep(until_ns) == 0)
        return;
    struct timespec time = {
        .tv_sec = (time_t)(until_ns / UINT64_C(1000000000)),
        .tv_nsec = (long)(until_ns % UINT64_C(1000000000)),
    };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}
