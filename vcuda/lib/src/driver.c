#include "driver.h"

#include "beside.h"

#include <pthread.h>
#include <stddef.h>

static const struct symbol symbols[] = {
#define HOOK(name, class, need) {#name, offsetof(struct driver, name), need, (void *)name},
#define CALL(name, need) {#name, offsetof(struct driver, name), need, NULL},
#include "hooks.def"
#undef HOOK
#undef CALL
};

enum { SYMBOLS = sizeof symbols / sizeof *symbols };

const struct driver *driver_ready;
static struct driver functions;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void **pointer_of(const struct symbol *symbol) {
    return (void **)((char *)&functions + symbol->offset);
}

static void look_up(void) {
    if (beside_look_up("driver/libcuda.so.1", symbols, SYMBOLS, &functions))
        __atomic_store_n(&driver_ready, &functions, __ATOMIC_RELEASE); /* pairs with the load in driver_get */
}

const struct driver *driver_look_up(void) {
    pthread_once(&once, look_up);
    return __atomic_load_n(&driver_ready, __ATOMIC_ACQUIRE);
}

void *driver_hook_of(void *function) {
    if (!function || !driver_get())
        return NULL;
    for (int i = 0; i < SYMBOLS; i++)
        if (symbols[i].hook && *pointer_of(&symbols[i]) == function)
            return symbols[i].hook;
    return NULL;
}
