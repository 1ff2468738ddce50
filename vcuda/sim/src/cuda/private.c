/*
 * The tables behind cuGetExportTable without which the CUDA runtime (libcudart, shared or linked in) does not start. They are not
 * documented: ids, places and meanings are those that other stand-ins for the driver have published, and every function here was seen
 * to be called by an unmodified runtime (tests/runtime; docs/adr/0009). A place that nobody was seen to call refuses.
 */
#include <stdlib.h>
#include <string.h>

#include "impl.h"
#include "private.h"

#define BYTES(places) ((const void *)((places) * sizeof(void *))) /* a table begins with its size */

static CUresult refuse_place(void) { return CUDA_ERROR_NOT_SUPPORTED; }
#define REFUSED (const void *)refuse_place

/* --- What is kept with a context ------------------------------------------------------------------------------------------ */
typedef void (*end_of_value)(CUcontext, void *key, void *value);

struct kept {
  struct kept *next;
  CUcontext context;
  void *key, *value;
  end_of_value end;
};
static struct kept *all_kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static struct kept **find_kept(CUcontext context, const void *key) {
  struct kept **link = &all_kept;
  while (*link && ((*link)->context != context || (key && (*link)->key != key))) link = &(*link)->next;
  return link;
}

static CUresult given_or_present(CUcontext *context) {
  return *context ? CUDA_SUCCESS : need_context(context);
}

static CUresult keep(CUcontext context, void *key, void *value, end_of_value end) {
  CUresult result = given_or_present(&context);
  struct kept *kept, **link;
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&kept_lock);
  link = find_kept(context, key);
  kept = *link ? *link : calloc(1, sizeof *kept);
  if (kept) {
    if (!*link) {
      kept->next = all_kept;
      all_kept = kept;
    }
    kept->context = context;
    kept->key = key;
    kept->value = value;
    kept->end = end;
  }
  pthread_mutex_unlock(&kept_lock);
  return kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult forget(CUcontext context, void *key) {
  CUresult result = given_or_present(&context);
  struct kept *kept, **link;
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&kept_lock);
  link = find_kept(context, key);
  kept = *link;
  if (kept) *link = kept->next;
  pthread_mutex_unlock(&kept_lock);
  free(kept);
  return kept ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult recall(void **value, CUcontext context, void *key) {
  CUresult result = given_or_present(&context);
  struct kept *kept;
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&kept_lock);
  kept = *find_kept(context, key);
  *value = kept ? kept->value : NULL;
  pthread_mutex_unlock(&kept_lock);
  return kept ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void private_end(CUcontext context) {
  for (;;) {
    struct kept *kept, **link;
    pthread_mutex_lock(&kept_lock);
    link = find_kept(context, NULL);
    kept = *link;
    if (kept) *link = kept->next;
    pthread_mutex_unlock(&kept_lock);
    if (!kept) return;
    if (kept->end) kept->end(kept->context, kept->key, kept->value);
    free(kept);
  }
}

static const void *const context_storage[] = {(const void *)keep, (const void *)forget, (const void *)recall, NULL};

/* --- The runtime's own ---------------------------------------------------------------------------------------------------- */
static CUresult load_compilers(void) { return CUDA_SUCCESS; } /* there is nothing to load: PTX is read, not compiled */

static const void *const runtime[13] = {
  BYTES(13), REFUSED, (const void *)primary_handle, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
  (const void *)load_compilers,
};

/* --- For tools: which of the runtime's calls a profiler wants to be told of. None is. ---------------------------------------- */
static char wanted_calls[1 << 14], wanted_domains[14]; /* a runtime reads 4 bytes for each of its calls, some 500 and growing */

static void calls(void **flags, size_t *bytes) {
  *flags = wanted_calls;
  *bytes = sizeof wanted_calls;
}

static void domains(void **flags, size_t *bytes) {
  *flags = wanted_domains;
  *bytes = sizeof wanted_domains;
}

static const void *const hooks[7] = {BYTES(7), REFUSED, (const void *)calls, REFUSED, REFUSED, REFUSED, (const void *)domains};
static CUresult present_context(CUcontext *out) { return impl_cuCtxGetCurrent(out); }

static const void *const tools[4] = {BYTES(4), REFUSED, (const void *)present_context, REFUSED};

/* cuBLAS asks for the number of a context here. */
static CUresult context_number(CUcontext context, unsigned long long *number) { return impl_cuCtxGetId(context, number); }

static const void *const contexts[5] = {BYTES(5), REFUSED, REFUSED, REFUSED, (const void *)context_number};

/* --- Whether a context is of a kind that the runtime cannot use: never. ------------------------------------------------------ */
static CUresult check_context(CUcontext context, unsigned *kind, const void **detail) {
  (void)context;
  if (kind) *kind = 0;
  if (detail) *detail = NULL;
  return CUDA_SUCCESS;
}

static unsigned check_all(void) { return 0; }

static const void *const checks[4] = {BYTES(4), REFUSED, (const void *)check_context, (const void *)check_all};

/* --- The handshake: an answer that depends on process, devices and these very tables. ----------------------------------------- */
static CUresult shake(unsigned version, uint64_t seconds, unsigned char answer[16]);
static const void *const handshake[3] = {BYTES(3), (const void *)shake, NULL};

static CUresult shake(unsigned version, uint64_t seconds, unsigned char answer[16]) {
  const struct handshake_call call = {
    .driver = (uint32_t)driver_version(),
    .runtime = version,
    .process = (uint32_t)getpid(),
    .thread = (uint32_t)(uintptr_t)pthread_self(),
    .runtime_table = (uintptr_t)runtime,
    .handshake_table = (uintptr_t)handshake,
    .function = (uintptr_t)shake,
    .seconds = seconds,
  };
  struct handshake_device devices[SIM_MAX_CARDS] = {0};
  for (int i = 0; i < driver.count; i++) {
    impl_cuDeviceGetUuid_v2(&devices[i].uuid, i);
    impl_cuDeviceGetAttribute(&devices[i].domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i);
    impl_cuDeviceGetAttribute(&devices[i].bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i);
    impl_cuDeviceGetAttribute(&devices[i].device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i);
  }
  handshake_answer(&call, devices, (size_t)driver.count, answer);
  return CUDA_SUCCESS;
}

/* --- cuBLAS asks for something here for half-precision products, and goes another way where it is refused. --------------------- */
static const void *const hints[9] = {BYTES(9), REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED};

/* --- Which there are ---------------------------------------------------------------------------------------------------------- */
static const struct {
  unsigned char id[16];
  const void *const *table;
} tables[] = {
  {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, runtime},
  {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}, hooks},
  {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}, tools},
  {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca}, hints},
  {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}, contexts},
  {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93}, context_storage},
  {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e}, checks},
  {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2}, handshake},
};

CUresult impl_cuGetExportTable(const void **table, const CUuuid *id) {
  if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
  *table = NULL;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    if (memcmp(tables[i].id, id->bytes, sizeof tables[i].id) == 0) *table = (const void *)tables[i].table;
  }
  return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
