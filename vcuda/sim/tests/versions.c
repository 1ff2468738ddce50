/* cuGetProcAddress: the ABI that a program of a given CUDA version knows, with and without the per-thread stream. */
#include <dlfcn.h>
#include <string.h>

#include "check.h"

#undef cuGetProcAddress
typedef CUresult (*get_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult (*get_v1_fn)(const char *, void **, int, cuuint64_t);

static void *driver;
static get_fn get;

static void *exported(const char *symbol) {
  void *function = dlsym(driver, symbol);
  if (!function) fprintf(stderr, "%s is not exported\n", symbol);
  CHECK(function);
  return function;
}

static void *found(const char *name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult wanted) {
  CUdriverProcAddressQueryResult status;
  void *function = (void *)1;
  OK(get(name, &function, version, flags, &status));
  EQUAL(status, wanted);
  CHECK((function == NULL) == (wanted != CU_GET_PROC_ADDRESS_SUCCESS));
  return function;
}

static void expect(const char *name, int version, cuuint64_t flags, const char *symbol) {
  if (found(name, version, flags, CU_GET_PROC_ADDRESS_SUCCESS) == exported(symbol)) return;
  fprintf(stderr, "%s for %d flags %d is not %s\n", name, version, (int)flags, symbol);
  exit(1);
}

enum { LEGACY = CU_GET_PROC_ADDRESS_LEGACY_STREAM, THREAD = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

static void the_newest_abi_that_the_program_knows(void) {
  expect("cuMemAlloc", 12090, 0, "cuMemAlloc_v2");
  expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
  expect("cuCtxCreate", 11020, 0, "cuCtxCreate_v2");
  expect("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
  expect("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
  expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
  expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
  expect("cuGraphInstantiate", 11020, 0, "cuGraphInstantiate_v2");
  expect("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags");
  expect("cuDeviceGetUuid", 11020, 0, "cuDeviceGetUuid");
  expect("cuDeviceGetUuid", 11040, 0, "cuDeviceGetUuid_v2");
}

static void per_thread_variants_on_request(void) {
  expect("cuLaunchKernel", 12090, THREAD, "cuLaunchKernel_ptsz");
  expect("cuLaunchKernel", 12090, LEGACY, "cuLaunchKernel");
  expect("cuLaunchKernel", 12090, 0, "cuLaunchKernel");
  expect("cuLaunchKernel", 6050, THREAD, "cuLaunchKernel"); /* older than the variant */
  expect("cuMemcpyHtoD", 12090, THREAD, "cuMemcpyHtoD_v2_ptds");
  expect("cuMemAllocAsync", 11020, THREAD, "cuMemAllocAsync_ptsz");
  expect("cuMemAlloc", 12090, THREAD, "cuMemAlloc_v2"); /* has none */
}

static void what_is_not_there_is_said_to_be_so(void) {
  void *function;
  get_v1_fn get_v1 = (get_v1_fn)exported("cuGetProcAddress");
  found("cuNoSuchCall", 12090, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  found("cuMemAllocAsync", 11010, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  found("cuLaunchKernelEx", 11050, THREAD, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  found("cuMemAlloc_v2", 12090, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND); /* base names only */
  EQUAL(get_v1("cuNoSuchCall", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EQUAL(get(NULL, &function, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  EQUAL(get("cuInit", &function, 12000, LEGACY | THREAD, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_driver_has_the_version_it_is_told(const char *version, int number) {
  int answer;
  setenv("TESSERA_SIM_CUDA", version, 1);
  OK(cuDriverGetVersion(&answer));
  EQUAL(answer, number);
}

int main(void) {
  make_node("--cards h100 --driver 13.0");
  driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  CHECK(driver);
  get = (get_fn)exported("cuGetProcAddress_v2");
  OK(cuDriverGetVersion(&(int){0}));
  the_newest_abi_that_the_program_knows();
  per_thread_variants_on_request();
  what_is_not_there_is_said_to_be_so();
  the_driver_has_the_version_it_is_told("12.4", 12040);
  expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v3"); /* a driver knows nothing newer than itself */
  the_driver_has_the_version_it_is_told("13.0", 13000);
  the_driver_has_the_version_it_is_told("nonsense", 13000);
  CHECK(cuGetExportTable(&(const void *){0}, &(CUuuid){{0}}) == CUDA_ERROR_NOT_FOUND);
  return 0;
}
