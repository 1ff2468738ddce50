#include "driver.h"

#include "beside.h"
#include "clock.h"
#include "log.h"

#include <pthread.h>
#include <stddef.h>

enum need { REQUIRED, OPTIONAL };

static const struct symbol {
    const char *name;
    size_t offset; /* of its pointer in struct driver */
    enum need need;
    void *hook; /* NULL: only called */
} symbols[] = {
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
    void *handle = beside_open("driver/libcuda.so.1");
    if (!handle) {
        log_trouble(TROUBLE_NO_DRIVER, "driver/libcuda.so.1 cannot be opened");
        return;
    }
    for (int i = 0; i < SYMBOLS; i++) {
        *pointer_of(&symbols[i]) = beside_symbol(handle, symbols[i].name);
        if (symbols[i].need == REQUIRED && !*pointer_of(&symbols[i])) {
            log_trouble(TROUBLE_NO_DRIVER, symbols[i].name);
            return;
        }
    }
    clock_use((clock_now_fn)beside_symbol(handle, "tesseraSimNow"), (clock_sleep_fn)beside_symbol(handle, "tesseraSimSleepUntil"));
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
