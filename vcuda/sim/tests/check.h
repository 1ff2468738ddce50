/* The little that the tests share: checks that end the program, nodes of their own, children that die when asked. */
#ifndef TESSERA_SIM_CHECK_H
#define TESSERA_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "cuda.h"

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);    \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

#define EQUAL(a, b)                                                                                       \
  do {                                                                                                    \
    long long left_ = (long long)(a), right_ = (long long)(b);                                            \
    if (left_ != right_) {                                                                                \
      fprintf(stderr, "%s:%d: %s is %lld, not %s = %lld\n", __FILE__, __LINE__, #a, left_, #b, right_);   \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

#define OK(call) EQUAL(call, CUDA_SUCCESS)

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
#define MODULE (2 * MIB) /* the page that the busy kernel begins */
#define US 1000ull
#define MS 1000000ull

/* Runs `tessera-sim ARGUMENTS`; the exit status. */
int tool(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes a node with these options and lets the libraries find it. Removed when the program ends. */
void make_node(const char *options);
const char *node_path(void);
const char *cards_path(void);

/* cuInit and the primary context of device 0 bound to this thread. */
CUcontext use_device(int device);

/* A kernel that takes as many nanoseconds as its first parameter says. */
CUfunction busy_kernel(void);
void launch_busy(CUfunction kernel, uint64_t ns, CUstream stream);

/* Begins a child that runs `body`; it is killed with the test. */
pid_t begin_child(void (*body)(int index), int index);
/* Waits for it; its exit status, or 128 + the signal that ended it. */
int end_child(pid_t child);

/* One-shot signals between processes: made before the children. */
struct gate {
  int pipe[2];
};
void gate_make(struct gate *gate);
void gate_open(struct gate *gate, int times);
/* Waits at most 60 s, then fails the test. */
void gate_pass(struct gate *gate);

/* What the node itself says: the third party in every dispute. */
uint64_t node_used(int card);
uint64_t node_peak(int card);
uint64_t node_busy(int card, pid_t process);
uint64_t node_now(void);

#endif
