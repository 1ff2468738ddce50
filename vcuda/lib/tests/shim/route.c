/* Where the names lead: route VERSION FLAGS NAME... prints, for cuGetProcAddress_v2, "NAME RESULT STATUS WHERE", WHERE being the real name of the
 * function and the library that it lies in: "shim:cuMemAlloc_v2", "driver:cuInit", "-". With VERSION 0 names are looked up by dlsym. */
#include <cuda.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *where(void *function, char *text, size_t size) {
    Dl_info info;
    if (!function || !dladdr(function, &info) || !info.dli_sname || info.dli_saddr != function)
        return "-";
    int driver = strstr(info.dli_fname, "/driver/") != NULL;
    snprintf(text, size, "%s:%s", driver ? "driver" : "shim", info.dli_sname);
    return text;
}

int main(int argc, char **argv) {
    int version = argc > 1 ? atoi(argv[1]) : 0;
    unsigned long long flags = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    char text[256];
    if (!handle || cuInit(0))
        return 1;
    for (int i = 3; i < argc; i++) {
        void *function = NULL;
        CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
        int result = 0;
        if (version)
            result = (int)cuGetProcAddress(argv[i], &function, version, flags, &status);
        else
            function = dlsym(handle, argv[i]);
        printf("%s %d %d %s\n", argv[i], result, (int)status, where(function, text, sizeof text));
    }
    return 0;
}
