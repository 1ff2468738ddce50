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

/* A call that makes an array: name, bytes of what is described, parameters, arguments. */
#define MAKES(name, bytes, parameters, ...)                                    \
    CUresult name parameters {                                                 \
        struct charge charge;                                                  \
        CUresult result = begin(&charge, d ? (bytes) : 0);                     \
        if (result != CUDA_SUCCESS)                                            \
            return result;                                                     \
        result = DRIVER(name, __VA_ARGS__);                                    \
        return charge_end(&charge, result, handle_of(result, array));          \
    }

#define BYTES(depth) array_bytes(d->Format, d->NumChannels, d->Width, d->Height, depth)

MAKES(cuArrayCreate_v2, BYTES(1), (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d), array, d)
MAKES(cuArrayCreate, BYTES(1), (CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d), array, d)
MAKES(cuArray3DCreate_v2, array_described_bytes(d, 1), (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d), array, d)
MAKES(cuArray3DCreate, BYTES(d->Depth), (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d), array, d)
MAKES(cuMipmappedArrayCreate, array_described_bytes(d, levels), (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels),
      array, d, levels)

FREES(cuArrayDestroy, (uintptr_t)array, (CUarray array), array)
FREES(cuMipmappedArrayDestroy, (uintptr_t)array, (CUmipmappedArray array), array)
