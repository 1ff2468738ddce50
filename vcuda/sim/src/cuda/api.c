/* The exported names and cuGetProcAddress, both generated from api.def. */
#include <stddef.h>
#include <string.h>

#include "impl.h"
#include "refused.h"

/* The names in `args` as a list of struct argument, each with a comma behind it. */
#define EACH1(a) {&a, sizeof a},
#define EACH2(a, ...) EACH1(a) EACH1(__VA_ARGS__)
#define EACH3(a, ...) EACH1(a) EACH2(__VA_ARGS__)
#define EACH4(a, ...) EACH1(a) EACH3(__VA_ARGS__)
#define EACH5(a, ...) EACH1(a) EACH4(__VA_ARGS__)
#define EACH6(a, ...) EACH1(a) EACH5(__VA_ARGS__)
#define EACH7(a, ...) EACH1(a) EACH6(__VA_ARGS__)
#define EACH8(a, ...) EACH1(a) EACH7(__VA_ARGS__)
#define EACH9(a, ...) EACH1(a) EACH8(__VA_ARGS__)
#define EACH10(a, ...) EACH1(a) EACH9(__VA_ARGS__)
#define EACH11(a, ...) EACH1(a) EACH10(__VA_ARGS__)
#define PICK(a, b, c, d, e, f, g, h, i, j, k, each, ...) each
#define ARGUMENTS(...) \
  __VA_OPT__(PICK(__VA_ARGS__, EACH11, EACH10, EACH9, EACH8, EACH7, EACH6, EACH5, EACH4, EACH3, EACH2, EACH1)(__VA_ARGS__))

#define ENTRY(exported, symbol, init, threaded, params, args)                  \
  SIM_EXPORT CUresult exported params {                                        \
    CUresult result = api_begin(#exported, init);                              \
    per_thread_default = threaded;                                             \
    if (result == CUDA_SUCCESS) result = impl_##symbol args;                   \
    {                                                                          \
      const struct argument arguments[] = {ARGUMENTS args{NULL, 0}};           \
      return api_end(#exported, result, arguments, sizeof arguments / sizeof *arguments - 1); \
    }                                                                          \
  }

#define API(symbol, name, since, params, args) ENTRY(symbol, symbol, true, false, params, args)
#define API_PLAIN(symbol, name, since, params, args) ENTRY(symbol, symbol, false, false, params, args)
#define API_TS(symbol, name, since, suffix, ts_since, params, args) \
  ENTRY(symbol, symbol, true, false, params, args)                  \
  ENTRY(symbol##suffix, symbol, true, true, params, args)
#define API_ALIAS(symbol, name, since)
#include "api.def"
#undef API_ALIAS
#undef API
#undef API_PLAIN
#undef API_TS

#define API(symbol, name, since, params, args) {name, since, false, (void (*)(void))symbol},
#define API_PLAIN API
#define API_TS(symbol, name, since, suffix, ts_since, params, args) \
  {name, since, false, (void (*)(void))symbol}, {name, ts_since, true, (void (*)(void))symbol##suffix},
#define API_ALIAS(symbol, name, since) {name, since, false, (void (*)(void))symbol},
static const struct entry entries[] = {
#include "api.def"
};
#undef API_ALIAS
#undef API
#undef API_PLAIN
#undef API_TS

int refuse(const char *symbol) {
  CUresult result = api_begin(symbol, true);
  return (int)api_end(symbol, result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result, NULL, 0);
}

/* The newest ABI of the name that a program built for `version` knows. A name without a per-thread variant has only one. */
static const struct entry *best_entry(const char *name, int version, bool threaded, bool *known) {
  const struct entry *best = NULL;
  const size_t own = sizeof entries / sizeof *entries;
  *known = false;
  for (size_t i = 0; i < own + refused_count; i++) {
    const struct entry *entry = i < own ? &entries[i] : &refused_entries[i - own];
    if (strcmp(entry->name, name) != 0 || (entry->threaded && !threaded)) continue;
    *known = true;
    if (entry->since > version) continue;
    if (!best || entry->since > best->since || (entry->since == best->since && entry->threaded)) best = entry;
  }
  return best;
}

static CUresult find_function(const char *name, void **function, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status) {
  const cuuint64_t both = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const struct entry *entry;
  bool known;

  if (!name || !function || (flags & ~both) != 0 || flags == both || version < 0) return CUDA_ERROR_INVALID_VALUE;
  *function = NULL;
  if (version > driver_version()) version = driver_version();
  entry = best_entry(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &known);
  if (status) {
    *status = entry   ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  if (!entry) return status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND; /* documented for 12.x: success and no function */
  memcpy(function, &entry->function, sizeof *function);
  return CUDA_SUCCESS;
}

CUresult impl_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  return find_function(name, function, version, flags, NULL);
}

CUresult impl_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
  return find_function(name, function, version, flags, status);
}
