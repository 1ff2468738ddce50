/* cuGetProcAddress, the main door: the driver chooses the version, we only exchange what it answered for our hook of exactly that function. */
#include "driver.h"

#include <stdbool.h>

static CUresult exchange(CUresult result, void **function) {
    void *hook = result == CUDA_SUCCESS && function ? driver_hook_of(*function) : NULL;
    if (hook)
        *function = hook;
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    return exchange(DRIVER(cuGetProcAddress_v2, symbol, function, version, flags, status), function);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    return exchange(DRIVER(cuGetProcAddress, symbol, function, version, flags), function);
}
