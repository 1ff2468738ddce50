/* A forked child may not use what its parent initialised, and does not keep its parent's memory alive. */
#include <signal.h>
#include <unistd.h>

#include "check.h"

static struct gate ready, never;

static void parent_with_a_child(int index) {
  CUdeviceptr p;
  int count;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&p, GIB));
  if (fork() == 0) { /* outlives its parent */
    EQUAL(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EQUAL(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    gate_open(&ready, 1);
    gate_pass(&never);
    _exit(0);
  }
  gate_pass(&never);
}

static void the_child_lives_on_without_the_bytes(void) {
  pid_t parent = begin_child(parent_with_a_child, 0);
  gate_pass(&ready);
  EQUAL(node_used(0), GIB + 256 * MIB);
  kill(parent, SIGKILL);
  end_child(parent);
  EQUAL(node_used(0), 0);
  gate_open(&never, 1);
}

static void use_it_in_the_child(int index) {
  CUdeviceptr p;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&p, GIB));
}

/* Looking at the version opens the node but takes no part in it: the child is free to begin. */
static void an_uninitialised_parent_is_no_hindrance(void) {
  int version;
  OK(cuDriverGetVersion(&version));
  EQUAL(end_child(begin_child(use_it_in_the_child, 0)), 0);
  EQUAL(node_used(0), 0);
}

int main(void) {
  make_node("--cards h100");
  gate_make(&ready);
  gate_make(&never);
  the_child_lives_on_without_the_bytes();
  an_uninitialised_parent_is_no_hindrance();
  return 0;
}
