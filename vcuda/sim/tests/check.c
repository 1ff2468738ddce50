#define _GNU_SOURCE
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/books.h"
#include "../src/clock.h"
#include "../src/engine.h"

static char path[256];
static pid_t owner;

int tool(const char *format, ...) {
  char command[1024], arguments[768];
  int status;
  va_list list;
  va_start(list, format);
  vsnprintf(arguments, sizeof arguments, format, list);
  va_end(list);
  snprintf(command, sizeof command, "exec %s %s >/dev/null", SIM_TOOL, arguments);
  status = system(command);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void remove_node(void) {
  if (getpid() == owner) unlink(path);
}

void make_node(const char *options) {
  snprintf(path, sizeof path, "/dev/shm/tessera-sim-test.%ld", (long)getpid());
  unlink(path);
  owner = getpid();
  atexit(remove_node);
  EQUAL(tool("create %s --cards-dir %s %s", path, SIM_CARDS, options), 0);
  setenv("TESSERA_SIM_NODE", path, 1);
}

const char *node_path(void) { return path; }
const char *cards_path(void) { return SIM_CARDS; }

CUcontext use_device(int device) {
  CUcontext ctx;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&ctx, device));
  OK(cuCtxSetCurrent(ctx));
  return ctx;
}

CUfunction busy_kernel(void) {
  static const char ptx[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry tessera_busy(.param .u64 tessera_busy_param_0)\n{\n  ret;\n}\n";
  CUmodule module;
  CUfunction kernel;
  OK(cuModuleLoadData(&module, ptx));
  OK(cuModuleGetFunction(&kernel, module, "tessera_busy"));
  return kernel;
}

void launch_busy(CUfunction kernel, uint64_t ns, CUstream stream) {
  void *params[] = {&ns};
  OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

pid_t begin_child(void (*body)(int index), int index) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body(index);
  exit(0);
}

int end_child(pid_t child) {
  int status;
  EQUAL(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void gate_make(struct gate *gate) { CHECK(pipe(gate->pipe) == 0); }

void gate_open(struct gate *gate, int times) {
  for (int i = 0; i < times; i++) EQUAL(write(gate->pipe[1], "x", 1), 1);
}

void gate_pass(struct gate *gate) {
  struct pollfd wait = {.fd = gate->pipe[0], .events = POLLIN};
  char byte;
  EQUAL(poll(&wait, 1, 60000), 1);
  EQUAL(read(gate->pipe[0], &byte, 1), 1);
}

/* Looks as another program would: reclaims the dead, brings the cards to the present. */
static struct sim_node *look(struct sim_handle *handle) {
  EQUAL(sim_open(handle, path), 0);
  sim_lock(handle);
  sim_reclaim(handle);
  sim_advance_all(handle);
  return handle->node;
}

static void looked(struct sim_handle *handle) {
  sim_unlock(handle);
  sim_close(handle);
}

uint64_t node_used(int card) {
  struct sim_handle handle;
  uint64_t used = sim_card_used(look(&handle), (uint32_t)card);
  looked(&handle);
  return used;
}

uint64_t node_peak(int card) {
  struct sim_handle handle;
  uint64_t peak = look(&handle)->cards[card].peak_bytes;
  looked(&handle);
  return peak;
}

uint64_t node_busy(int card, pid_t process) {
  struct sim_handle handle;
  struct sim_node *node = look(&handle);
  uint64_t busy = 0;
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (node->procs[i].live && node->procs[i].pid == (uint32_t)process) busy = node->cards[card].proc_busy_ns[i];
  }
  looked(&handle);
  return busy;
}

uint64_t node_now(void) {
  struct sim_handle handle;
  uint64_t now;
  look(&handle);
  now = sim_now(&handle);
  looked(&handle);
  return now;
}
