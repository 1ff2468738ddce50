/* Linear, pitched and managed memory. Each has a version of CUDA 2 with 32-bit addresses. */
#include "charge.h"

/* An allocation: name, class, parameters, arguments; the first argument says where the address goes. */
#define ALLOCATES(name, kind, parameters, ...)                   \
    CUresult name parameters {                                   \
        struct charge charge;                                    \
        CUresult result = charge_begin(&charge, kind, bytes);    \
        if (result != CUDA_SUCCESS)                              \
            return result;                                       \
        result = DRIVER(name, __VA_ARGS__);                      \
        return charge_end(&charge, result, dptr ? *dptr : 0);    \
    }

ALLOCATES(cuMemAlloc_v2, VCUDA_CLASS_LINEAR, (CUdeviceptr *dptr, size_t bytes), dptr, bytes)
ALLOCATES(cuMemAlloc, VCUDA_CLASS_LINEAR, (CUdeviceptr_v1 *dptr, unsigned int bytes), dptr, bytes)
ALLOCATES(cuMemAllocManaged, VCUDA_CLASS_MANAGED, (CUdeviceptr *dptr, size_t bytes, unsigned int flags), dptr, bytes, flags)

/* The pitch is the driver's choice; current ones align rows to 512 bytes, and charge_correct follows whatever it was. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height) {
    uint64_t bytes;
    return width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) / 512 * 512, height, &bytes) ? UINT64_MAX : bytes;
}

#define ALLOCATES_PITCH(name, free, address, size)                                                       \
    CUresult name(address *dptr, size *pitch, size width, size height, unsigned int element) {           \
        struct charge charge;                                                                            \
        CUresult result = charge_begin(&charge, VCUDA_CLASS_PITCHED, pitched_bytes(width, height));      \
        if (result != CUDA_SUCCESS)                                                                      \
            return result;                                                                               \
        result = DRIVER(name, dptr, pitch, width, height, element);                                      \
        if (result == CUDA_SUCCESS && !charge_correct(&charge, (uint64_t)*pitch * height)) {             \
            DRIVER(free, *dptr);                                                                         \
            result = CUDA_ERROR_OUT_OF_MEMORY;                                                           \
        }                                                                                                \
        return charge_end(&charge, result, result == CUDA_SUCCESS ? *dptr : 0);                          \
    }

ALLOCATES_PITCH(cuMemAllocPitch_v2, cuMemFree_v2, CUdeviceptr, size_t)
ALLOCATES_PITCH(cuMemAllocPitch, cuMemFree, CUdeviceptr_v1, unsigned int)

FREES(cuMemFree_v2, address, (CUdeviceptr address), address)
FREES(cuMemFree, address, (CUdeviceptr_v1 address), address)
