/* Memory limits of control groups (driver branch 615): they hold whatever library a program comes through, for all of a group together. */
#define _GNU_SOURCE
#include "nvml.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/nvml/memory_limits.h"
#include "check.h"

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t, nvmlSetMemoryLimits_v1_t *);
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t, nvmlGetMemoryLimits_v1_t *);

#define CONTEXT (240 * MIB) /* of an L40S */

static char group[PATH_MAX];
static nvmlDevice_t device;
static struct gate filled, go_on;

static void remove_group(void) { rmdir(group); }

/* A group of our own below one of the places where the hierarchy is mounted; SKIP where we may not make one. */
static void make_group(void) {
  static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
  char seen[PATH_MAX];
  for (size_t i = 0; i < sizeof places / sizeof places[0] && !group[0]; i++) {
    snprintf(seen, sizeof seen, "%s/cgroup.controllers", places[i]);
    if (access(seen, F_OK) < 0) continue;
    snprintf(group, sizeof group, "%s/tessera-walls-%d", places[i], (int)getpid());
    if (mkdir(group, 0755) < 0) group[0] = '\0';
  }
  if (!group[0] || geteuid() != 0) {
    fprintf(stderr, "skipped: no control group of version 2 can be made here\n");
    exit(77);
  }
}

static void join_group(void) {
  char path[PATH_MAX + 16], number[16];
  int fd, length = snprintf(number, sizeof number, "%d", (int)getpid());
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  fd = open(path, O_WRONLY | O_CLOEXEC);
  CHECK(fd >= 0 && write(fd, number, (size_t)length) == length);
  close(fd);
}

static void limit(uint64_t soft, uint64_t hard) {
  nvmlSetMemoryLimits_v1_t limits = {.nameSpace = group, .softLimit = soft, .hardLimit = hard};
  nvmlGetMemoryLimits_v1_t found = {.nameSpace = group};
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, &limits), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetMemoryLimits_v1(device, &found), NVML_SUCCESS);
  CHECK(found.softLimit == soft && found.hardLimit == hard);
}

static uint64_t used(void) {
  nvmlGetMemoryLimits_v1_t found = {.nameSpace = group};
  EQUAL(nvmlDeviceGetMemoryLimits_v1(device, &found), NVML_SUCCESS);
  return found.currentUsed;
}

static void take_two(int index) {
  CUdeviceptr pointer;
  size_t available, total;
  (void)index;
  join_group();
  use_device(0);
  OK(cuMemAlloc(&pointer, 2 * GIB));
  OK(cuMemGetInfo(&available, &total));
  EQUAL(total, 4 * GIB);
  EQUAL(available, 2 * GIB - CONTEXT);
  EQUAL(cuMemAlloc(&pointer, 2 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
  gate_open(&filled, 1);
  gate_pass(&go_on);
  EQUAL(cuMemAlloc(&pointer, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* the limit was lowered below what we hold */
  gate_open(&filled, 1);
  gate_pass(&go_on);
  OK(cuMemAlloc(&pointer, 20 * GIB)); /* and then taken away */
}

static void share_what_is_left(int index) {
  CUdeviceptr pointer;
  (void)index;
  join_group();
  use_device(0);
  EQUAL(cuMemAlloc(&pointer, 2 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&pointer, GIB));
}

static void be_outside(int index) {
  CUdeviceptr pointer;
  (void)index;
  use_device(0);
  OK(cuMemAlloc(&pointer, 10 * GIB));
}

static void a_group_shares_its_limit_and_nobody_else_has_it(void) {
  pid_t first;
  gate_make(&filled);
  gate_make(&go_on);
  limit(GIB, 4 * GIB);
  first = begin_child(take_two, 0);
  gate_pass(&filled);
  EQUAL(used(), 2 * GIB + CONTEXT);
  EQUAL(end_child(begin_child(share_what_is_left, 0)), 0);
  EQUAL(end_child(begin_child(be_outside, 0)), 0);
  EQUAL(used(), 2 * GIB + CONTEXT);
  limit(0, GIB);
  gate_open(&go_on, 1);
  gate_pass(&filled);
  limit(0, NVML_DEVICE_MEMORY_LIMIT_MAX);
  gate_open(&go_on, 1);
  EQUAL(end_child(first), 0);
  EQUAL(used(), 0);
}

static void what_makes_no_sense_is_refused(void) {
  nvmlSetMemoryLimits_v1_t limits = {.nameSpace = "/tmp", .softLimit = 0, .hardLimit = GIB};
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, &limits), NVML_ERROR_INVALID_ARGUMENT);
  limits.nameSpace = "/sys/fs/cgroup/there-is-no-such-group";
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, &limits), NVML_ERROR_NOT_FOUND);
  limits.nameSpace = group;
  limits.softLimit = 2 * GIB;
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, &limits), NVML_ERROR_INVALID_ARGUMENT);
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void read_only(int index) {
  nvmlSetMemoryLimits_v1_t limits = {.nameSpace = group, .hardLimit = GIB};
  (void)index;
  CHECK(setuid(65534) == 0);
  EQUAL(nvmlInit_v2(), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  EQUAL(nvmlDeviceSetMemoryLimits_v1(device, &limits), NVML_ERROR_NO_PERMISSION);
  EQUAL(used(), 0);
}

int main(int argc, char **argv) {
  (void)argv;
  make_group();
  atexit(remove_group);
  make_node(argc > 1 ? "--cards l40s --time virtual" : "--cards l40s --time virtual --driver 13.4");
  CHECK(chmod(node_path(), 0666) == 0);
  EQUAL(nvmlInit_v2(), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  if (argc > 1) { /* an older driver has no such thing */
    nvmlGetMemoryLimits_v1_t found = {.nameSpace = group};
    EQUAL(nvmlDeviceGetMemoryLimits_v1(device, &found), NVML_ERROR_FUNCTION_NOT_FOUND);
    return 0;
  }
  a_group_shares_its_limit_and_nobody_else_has_it();
  what_makes_no_sense_is_refused();
  EQUAL(end_child(begin_child(read_only, 0)), 0);
  return 0;
}
