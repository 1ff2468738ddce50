/* Without nvml.h, which has other prototypes for these names: whatever a caller passes is not looked at. */
enum { NOT_SUPPORTED = 3 }; /* of nvmlReturn_t */

#define REFUSED(symbol)                                        \
  __attribute__((visibility("default"))) int symbol(void);     \
  int symbol(void) { return NOT_SUPPORTED; }
#include "refused.def"
