/* The implementation behind every exported name, declared from the one list. */
#ifndef TESSERA_SIM_IMPL_H
#define TESSERA_SIM_IMPL_H

#include "driver.h"

/* Descriptions of arrays with 32-bit sizes. */
struct old_array {
  unsigned width, height;
  CUarray_format format;
  unsigned channels;
};
struct old_box {
  unsigned width, height, depth;
  CUarray_format format;
  unsigned channels, flags;
};

#define API(symbol, name, since, params, args) CUresult impl_##symbol params;
#define API_PLAIN API
#define API_TS(symbol, name, since, suffix, ts_since, params, args) CUresult impl_##symbol params;
#define API_ALIAS(symbol, name, since)
#include "api.def"
#undef API_ALIAS
#undef API
#undef API_PLAIN
#undef API_TS

#endif
