/* Divided cards: what CUDA and NVML show of them, and that each part has memory and time to itself. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <string.h>

#include "check.h"
#include "tessera_sim.h"

static char uuids[3][96]; /* of the parts */

static void nvml_shows_parts_behind_their_card(void) {
  nvmlDevice_t whole, part, back;
  nvmlDeviceAttributes_t attributes;
  nvmlMemory_t memory, of_part;
  nvmlUtilization_t rates;
  unsigned count, is, current, pending, id;
  char name[96];
  OK(nvmlInit_v2());
  OK(nvmlDeviceGetCount_v2(&count));
  EQUAL(count, 2);
  OK(nvmlDeviceGetHandleByIndex_v2(1, &whole));
  OK(nvmlDeviceGetMigMode(whole, &current, &pending));
  EQUAL(current, NVML_DEVICE_MIG_ENABLE);
  OK(nvmlDeviceGetMaxMigDeviceCount(whole, &count));
  EQUAL(count, 7);
  EQUAL(nvmlDeviceGetGpuInstanceId(whole, &id), NVML_ERROR_NOT_SUPPORTED);
  EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(whole, 3, &part), NVML_ERROR_NOT_FOUND);
  OK(nvmlDeviceGetMemoryInfo(whole, &memory));
  for (unsigned i = 0; i < 3; i++) {
    OK(nvmlDeviceGetMigDeviceHandleByIndex(whole, i, &part));
    OK(nvmlDeviceIsMigDeviceHandle(part, &is));
    EQUAL(is, 1);
    OK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part, &back));
    CHECK(back == whole);
    OK(nvmlDeviceGetUUID(part, uuids[i], sizeof uuids[i]));
    CHECK(strncmp(uuids[i], "MIG-", 4) == 0);
    OK(nvmlDeviceGetHandleByUUID(uuids[i], &back));
    CHECK(back == part);
    OK(nvmlDeviceGetGpuInstanceId(part, &id));
    EQUAL(id, i + 1);
    OK(nvmlDeviceGetMemoryInfo(part, &of_part));
    EQUAL(of_part.total, memory.total / 8 * (i == 2 ? 4 : 1));
    EQUAL(nvmlDeviceGetUtilizationRates(part, &rates), NVML_ERROR_NOT_SUPPORTED);
  }
  OK(nvmlDeviceGetName(part, name, sizeof name));
  CHECK(strstr(name, " MIG 3g.40gb"));
  OK(nvmlDeviceGetAttributes_v2(part, &attributes));
  EQUAL(attributes.gpuInstanceSliceCount, 3);
  EQUAL(attributes.multiprocessorCount, 132 / 8 * 3);
  OK(nvmlDeviceGetHandleByIndex_v2(0, &whole));
  OK(nvmlDeviceGetMigMode(whole, &current, &pending));
  EQUAL(current, NVML_DEVICE_MIG_DISABLE);
}

static void cuda_shows_one_part_when_it_is_named(int index) {
  char text[96] = "MIG-";
  CUuuid uuid;
  CUdevice device;
  int count;
  nvml_shows_parts_behind_their_card();
  setenv("CUDA_VISIBLE_DEVICES", uuids[index], 1);
  use_device(0);
  OK(cuDeviceGetCount(&count));
  EQUAL(count, 1);
  OK(cuDeviceGet(&device, 0));
  OK(cuDeviceGetUuid_v2(&uuid, device));
  for (int i = 0; i < 16; i++) snprintf(text + strlen(text), 6, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
  CHECK(strcmp(text, uuids[index]) == 0);
  CUdeviceptr pointer;
  EQUAL(cuMemAlloc(&pointer, 12 * GIB), index == 2 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static void by_default_whole_cards_are_seen(int unused) {
  int count;
  (void)unused;
  OK(cuInit(0));
  OK(cuDeviceGetCount(&count));
  EQUAL(count, 1);
}

/* Each has its own turn: neither waits for the other. */
static void work(int index) {
  uint64_t begin, end;
  nvml_shows_parts_behind_their_card();
  setenv("CUDA_VISIBLE_DEVICES", uuids[index], 1);
  use_device(0);
  CUfunction kernel = busy_kernel();
  EQUAL(tesseraSimRegisterThread(), 0);
  EQUAL(tesseraSimNow(&begin), 0);
  for (int i = 0; i < 10; i++) launch_busy(kernel, 10 * MS, NULL);
  OK(cuCtxSynchronize());
  EQUAL(tesseraSimNow(&end), 0);
  CHECK(end - begin < 105 * MS);
}

int main(void) {
  pid_t children[2];
  make_node("--cards h100,h100 --mig 1=1g.10gb+1g.10gb+3g.40gb --time virtual");
  nvml_shows_parts_behind_their_card();
  for (int i = 0; i < 3; i++) EQUAL(end_child(begin_child(cuda_shows_one_part_when_it_is_named, i)), 0);
  EQUAL(end_child(begin_child(by_default_whole_cards_are_seen, 0)), 0);
  for (int i = 0; i < 2; i++) children[i] = begin_child(work, i);
  for (int i = 0; i < 2; i++) EQUAL(end_child(children[i]), 0);
  CHECK(tool("create %s-bad --cards t4 --mig 0=1g.10gb", node_path()) != 0);
  CHECK(tool("create %s-bad --cards h100 --mig 0=7g.80gb+1g.10gb", node_path()) != 0);
  return 0;
}
