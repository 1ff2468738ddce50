/* Linear, pitched and managed memory. */
#include "charge.h"

#include "backing.h"

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    struct charge charge;
    CUresult result = charge_begin(&charge, VCUDA_CLASS_LINEAR, bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAlloc_v2, dptr, bytesize);
    return charge_end(&charge, result, dptr ? *dptr : 0);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize) {
    struct charge charge;
    CUresult result = charge_begin(&charge, VCUDA_CLASS_LINEAR, bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAlloc, dptr, bytesize);
    return charge_end(&charge, result, dptr ? *dptr : 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    struct charge charge;
    CUresult result = charge_begin(&charge, VCUDA_CLASS_MANAGED, bytesize);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocManaged, dptr, bytesize, flags);
    return charge_end(&charge, result, dptr ? *dptr : 0);
}

/* The pitch is the driver's choice; current ones align rows to 512 bytes, and charge_correct follows whatever it was. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height) {
    uint64_t bytes;
    return width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) / 512 * 512, height, &bytes) ? UINT64_MAX : bytes;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element) {
    struct charge charge;
    CUresult result = charge_begin(&charge, VCUDA_CLASS_PITCHED, pitched_bytes(width, height));
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocPitch_v2, dptr, pitch, width, height, element);
    if (result == CUDA_SUCCESS && !charge_correct(&charge, *pitch * height)) {
        DRIVER(cuMemFree_v2, *dptr);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return charge_end(&charge, result, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element) {
    struct charge charge;
    CUresult result = charge_begin(&charge, VCUDA_CLASS_PITCHED, pitched_bytes(width, height));
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMemAllocPitch, dptr, pitch, width, height, element);
    if (result == CUDA_SUCCESS && !charge_correct(&charge, (uint64_t)*pitch * height)) {
        DRIVER(cuMemFree, *dptr);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return charge_end(&charge, result, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    struct block block;
    bool known = charge_free_begin(dptr, &block);
    return charge_free_end(&block, known, DRIVER(cuMemFree_v2, dptr));
}

CUresult cuMemFree(CUdeviceptr_v1 dptr) {
    struct block block;
    bool known = charge_free_begin(dptr, &block);
    return charge_free_end(&block, known, DRIVER(cuMemFree, dptr));
}
