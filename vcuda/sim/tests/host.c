/* Functions of the program run in stream order, and copies behind them see what they did. */
#include <string.h>

#include "check.h"
#include "tessera_sim.h"

static CUfunction kernel;
static uint64_t ran_at;
static bool virtual_time;
static char buffer[64];

static void note(void *data) {
  EQUAL(tesseraSimNow(&ran_at), 0);
  strcpy(buffer, data);
}

static uint64_t now(void) {
  uint64_t ns;
  EQUAL(tesseraSimNow(&ns), 0);
  return ns;
}

static void a_function_runs_when_its_turn_comes(CUstream s) {
  uint64_t begin = now();
  CUdeviceptr device;
  char back[64];
  OK(cuMemAlloc(&device, sizeof buffer));
  launch_busy(kernel, 50 * MS, s);
  OK(cuLaunchHostFunc(s, note, "written by the function"));
  OK(cuMemcpyHtoDAsync(device, buffer, sizeof buffer, s));
  OK(cuMemcpyDtoHAsync(back, device, sizeof back, s));
  CHECK(buffer[0] == '\0');
  OK(cuStreamSynchronize(s));
  CHECK(ran_at - begin >= 50 * MS);
  if (virtual_time) CHECK(ran_at - begin < 51 * MS);
  CHECK(strcmp(back, "written by the function") == 0);
  OK(cuMemFree(device));
  buffer[0] = '\0';
}

static void callback(CUstream stream, CUresult status, void *data) {
  (void)stream;
  EQUAL(status, CUDA_SUCCESS);
  ++*(int *)data;
}

static void many_callbacks_in_many_streams(void) {
  CUstream streams[4];
  int counts[4] = {0};
  for (int i = 0; i < 4; i++) OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 4; i++) {
      launch_busy(kernel, 10 * US, streams[i]);
      OK(cuStreamAddCallback(streams[i], callback, &counts[i], 0));
    }
  }
  OK(cuCtxSynchronize());
  for (int i = 0; i < 4; i++) EQUAL(counts[i], 50);
  for (int i = 0; i < 4; i++) OK(cuStreamDestroy(streams[i]));
}

int main(int argc, char **argv) {
  CUstream s;
  (void)argv;
  virtual_time = argc == 1;
  make_node(argc > 1 ? "--cards h100 --time real" : "--cards h100 --time virtual");
  use_device(0);
  kernel = busy_kernel();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  a_function_runs_when_its_turn_comes(s);
  a_function_runs_when_its_turn_comes(s);
  many_callbacks_in_many_streams();
  return 0;
}
