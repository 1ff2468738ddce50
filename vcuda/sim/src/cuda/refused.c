/* Without cuda.h, which has other prototypes for these names: whatever a caller passes is not looked at. */
#include "refused.h"

#define EXPORTED(symbol)                                                                  \
  __attribute__((visibility("default"))) int symbol(void) { return refuse(#symbol); }

#define REFUSED(symbol, name, since) EXPORTED(symbol)
#define REFUSED_TS(symbol, name, since, suffix, ts_since) EXPORTED(symbol) EXPORTED(symbol##suffix)
#include "refused.def"
#undef REFUSED
#undef REFUSED_TS

#define REFUSED(symbol, name, since) {name, since, false, (void (*)(void))symbol},
#define REFUSED_TS(symbol, name, since, suffix, ts_since) \
  {name, since, false, (void (*)(void))symbol}, {name, ts_since, true, (void (*)(void))symbol##suffix},
const struct entry refused_entries[] = {
#include "refused.def"
};
const size_t refused_count = sizeof refused_entries / sizeof *refused_entries;
