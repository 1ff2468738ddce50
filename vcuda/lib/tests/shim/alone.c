/* A program without shared libraries of its own, which opens the driver at run time: alone BYTES prints what an allocation answers. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    unsigned long long pointer;
    if (!driver || argc < 2) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*alloc)(unsigned long long *, size_t);
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
    if (init(0) || retain(&context, 0) || set(context))
        return 2;
    printf("%d\n", alloc(&pointer, strtoull(argv[1], NULL, 10)));
    return 0;
}
