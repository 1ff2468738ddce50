/* A tenant's program that takes BYTES of device memory when told so: holder BYTES. Prints "ready", waits for a line, prints the result. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr pointer;
    char line[16];
    if (argc < 2 || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%d\n", (int)cuMemAlloc(&pointer, strtoull(argv[1], NULL, 10)));
        fflush(stdout);
    }
    return 0;
}
