/* The smallest test harness: named tests, checks that say what they saw, a claim made by hand. No CUDA types. */
#ifndef VCUDA_CHECK_H
#define VCUDA_CHECK_H

#include "region.h"

#include <stdio.h>
#include <stdlib.h>

extern int check_failures;

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);   \
            check_failures++;                                                           \
        }                                                                               \
    } while (0)

#define CHECK_EQ(got, wanted)                                                                                     \
    do {                                                                                                          \
        long long check_got = (long long)(got), check_wanted = (long long)(wanted);                               \
        if (check_got != check_wanted) {                                                                          \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, check_got, check_wanted);  \
            check_failures++;                                                                                     \
        }                                                                                                         \
    } while (0)

#define CHECK_NEAR(got, wanted, most)                                                                         \
    do {                                                                                                      \
        double check_got = (double)(got), check_wanted = (double)(wanted);                                    \
        if (check_got - check_wanted > (most) || check_wanted - check_got > (most)) {                         \
            fprintf(stderr, "%s:%d: %s is %g, not %g\n", __FILE__, __LINE__, #got, check_got, check_wanted);  \
            check_failures++;                                                                                 \
        }                                                                                                     \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        int check_before = check_failures;                                                         \
        test();                                                                                    \
        printf("%s %s\n", check_failures == check_before ? "ok      " : "FAILED  ", #test);        \
    } while (0)

/* A claim folder with one card: memory limit in bytes, share in per mille. Freed by check_drop. */
struct claim {
    char folder[64];
    struct vcuda_config_header *config; /* writable */
    struct vcuda_config_device *record;
};

struct claim check_claim(uint64_t memory_limit, uint32_t share);
void check_drop(struct claim *claim);

/* Write one of the claim's files over from `offset`. */
void check_scribble(const struct claim *claim, const char *name, long offset, const void *data, size_t size);

/* Time that the test moves by hand. */
extern uint64_t check_now_ns;
void check_use_clock(void);

#endif
