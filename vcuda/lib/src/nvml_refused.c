/* What a tenant may not ask or do. Without nvml.h, which has the prototypes: nothing that a caller passes is looked at. */
enum { NOT_SUPPORTED = 3, NO_PERMISSION = 4 }; /* of nvmlReturn_t */

#define HOOK(name, class, need)
#define CALL(name, need)
#define PASS(name)
#define REFUSE(name, code)                          \
    __attribute__((visibility("default"))) int name(void); \
    int name(void) {                                \
        return code;                                \
    }
#include "nvml_hooks.def"
