/* Which devices a program sees, and nodes as the tool makes them. */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "nvml.h"

static const char *visible;
static int wanted;

static void count_devices(int index) {
  int count = 0;
  (void)index;
  setenv("CUDA_VISIBLE_DEVICES", visible, 1);
  EQUAL(cuInit(0), wanted ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
  if (wanted) OK(cuDeviceGetCount(&count));
  EQUAL(count, wanted);
}

static void sees(const char *devices, int count) {
  visible = devices;
  wanted = count;
  EQUAL(end_child(begin_child(count_devices, 0)), 0);
}

static void the_second_card_comes_first(int index) {
  char name[64];
  (void)index;
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  OK(cuInit(0));
  OK(cuDeviceGetName(name, sizeof name, 0));
  CHECK(strcmp(name, "Tesla T4") == 0);
  OK(cuDeviceGetName(name, sizeof name, 1));
  CHECK(strcmp(name, "NVIDIA H100 80GB HBM3") == 0);
}

static void without_a_node(int index) {
  (void)index;
  setenv("TESSERA_SIM_NODE", "/nonexistent", 1);
  EQUAL(cuInit(0), CUDA_ERROR_NO_DEVICE);
  EQUAL(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
}

static void the_attributes_are_those_of_the_card(int index) {
  int value;
  (void)index;
  OK(cuInit(0));
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EQUAL(value, 132);
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1));
  EQUAL(value, 8);
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2));
  EQUAL(value, 1024);
  EQUAL(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 3), CUDA_ERROR_INVALID_DEVICE);
  EQUAL(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

static void uuid_of_second(char out[41]) {
  nvmlDevice_t device;
  EQUAL(nvmlInit(), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetHandleByIndex(1, &device), NVML_SUCCESS);
  EQUAL(nvmlDeviceGetUUID(device, out, 41), NVML_SUCCESS);
}

static void the_tool_is_careful(void) {
  EQUAL(tool("create %s --cards h100,l40s,t4 --seed 5 --cards-dir %s", node_path(), cards_path()), 0); /* again: the same */
  EQUAL(tool("create %s --cards t4 --cards-dir %s 2>/dev/null", node_path(), cards_path()), 1); /* another one is in the way */
  EQUAL(tool("create %s.new --cards voodoo2 2>/dev/null", node_path()), 1);
  EQUAL(tool("create 2>/dev/null"), 2);
  EQUAL(tool("show /etc/hostname 2>/dev/null"), 1);
  EQUAL(tool("destroy /etc/hostname 2>/dev/null"), 1);
  EQUAL(access("/etc/hostname", F_OK), 0);
  EQUAL(tool("show %s --json", node_path()), 0);
}

int main(void) {
  char uuid[41];
  make_node("--cards h100,l40s,t4 --seed 5");
  sees("0,1,2", 3);
  sees("1", 1);
  sees("0,7,1", 1); /* what stands behind an invalid one is not seen */
  sees("", 0);
  sees("-1", 0);
  uuid_of_second(uuid);
  sees(uuid, 1);
  uuid[12] = '\0';
  sees(uuid, 1);
  EQUAL(end_child(begin_child(the_second_card_comes_first, 0)), 0);
  EQUAL(end_child(begin_child(without_a_node, 0)), 0);
  EQUAL(end_child(begin_child(the_attributes_are_those_of_the_card, 0)), 0);
  the_tool_is_careful();
  return 0;
}
