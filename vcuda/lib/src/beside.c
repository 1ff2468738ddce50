#include "beside.h"

#include "clock.h"
#include "log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool beside_path(char *path, size_t size, const char *name) {
    Dl_info self;
    if (!dladdr((void *)beside_path, &self) || !self.dli_fname)
        return false;
    const char *slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash - self.dli_fname) : 1;
    int length = snprintf(path, size, "%.*s/%s", folder, slash ? self.dli_fname : ".", name);
    return length >= 0 && (size_t)length < size;
}

void *beside_open(const char *name) {
    char path[4096];
    return beside_path(path, sizeof path, name) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

void *beside_symbol(void *handle, const char *name) {
    Dl_info self, other;
    void *found = dlsym(handle, name);
    if (!found || !dladdr((void *)beside_symbol, &self) || !dladdr(found, &other))
        return found;
    return self.dli_fbase == other.dli_fbase ? NULL : found;
}

bool beside_look_up(const char *name, const struct symbol *symbols, size_t count, void *functions) {
    void *handle = beside_open(name);
    const char *missing = handle ? NULL : name;
    for (size_t i = 0; i < count && !missing; i++) {
        void **pointer = (void **)((char *)functions + symbols[i].offset);
        *pointer = beside_symbol(handle, symbols[i].name);
        missing = symbols[i].need == REQUIRED && !*pointer ? symbols[i].name : NULL;
    }
    if (missing) {
        log_trouble(TROUBLE_NO_DRIVER, missing);
        return false;
    }
    clock_use((clock_now_fn)beside_symbol(handle, "tesseraSimNow"), (clock_sleep_fn)beside_symbol(handle, "tesseraSimSleepUntil"));
    return true;
}
