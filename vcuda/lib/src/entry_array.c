/* CUDA arrays. Their handles are no addresses, so each is charged whole pages of its own. */
#include "arrays.h"
#include "charge.h"

static CUresult begin(struct charge *charge, uint64_t bytes) {
    CUresult result = charge_begin(charge, VCUDA_CLASS_ARRAY, bytes);
    charge->shares_page = false;
    return result;
}

static uint64_t handle_of(CUresult result, const void *handle) {
    return result == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*(void *const *)handle : 0;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d) {
    struct charge charge;
    CUresult result = begin(&charge, d ? array_bytes(d->Format, d->NumChannels, d->Width, d->Height, 1) : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuArrayCreate_v2, array, d);
    return charge_end(&charge, result, handle_of(result, array));
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d) {
    struct charge charge;
    CUresult result = begin(&charge, d ? array_bytes(d->Format, d->NumChannels, d->Width, d->Height, 1) : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuArrayCreate, array, d);
    return charge_end(&charge, result, handle_of(result, array));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    struct charge charge;
    CUresult result = begin(&charge, d ? array_mipmapped_bytes(d, 1) : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuArray3DCreate_v2, array, d);
    return charge_end(&charge, result, handle_of(result, array));
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d) {
    struct charge charge;
    CUresult result = begin(&charge, d ? array_bytes(d->Format, d->NumChannels, d->Width, d->Height, d->Depth) : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuArray3DCreate, array, d);
    return charge_end(&charge, result, handle_of(result, array));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
    struct charge charge;
    CUresult result = begin(&charge, d ? array_mipmapped_bytes(d, levels) : 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = DRIVER(cuMipmappedArrayCreate, array, d, levels);
    return charge_end(&charge, result, handle_of(result, array));
}

CUresult cuArrayDestroy(CUarray array) {
    struct block block;
    bool known = charge_free_begin((uint64_t)(uintptr_t)array, &block);
    return charge_free_end(&block, known, DRIVER(cuArrayDestroy, array));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    struct block block;
    bool known = charge_free_begin((uint64_t)(uintptr_t)array, &block);
    return charge_free_end(&block, known, DRIVER(cuMipmappedArrayDestroy, array));
}
