#include "arrays.h"

#include <stdbool.h>

/* Block-compressed formats store 4 x 4 texels together. */
static bool is_compressed(CUarray_format format) {
    return format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB;
}

static unsigned int texel_bits(CUarray_format format, unsigned int channels) {
    channels = channels ? channels : 1;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16 * channels;
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 8;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return 64;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
        return 32;
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
        return 4;
    default:
        return is_compressed(format) ? 8 : 32 * channels; /* the widest element; for the formats of video an upper bound */
    }
}

#define ALIGNMENT 512u /* bytes; of textures on every current card: each level begins at a multiple of it */

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t at_least_one(uint64_t extent) {
    return extent ? extent : 1;
}

uint64_t array_bytes(CUarray_format format, unsigned int channels, uint64_t width, uint64_t height, uint64_t depth) {
    uint64_t unit = is_compressed(format) ? 4 : 1, bits = texel_bits(format, channels);
    width = width / unit + (width % unit != 0);
    height = height / unit + (height % unit != 0);
    uint64_t row = times(width, bits * unit * unit / 8);
    return times(times(row, at_least_one(height)), at_least_one(depth));
}

uint64_t array_described_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels) {
    uint64_t width = descriptor->Width, height = descriptor->Height, depth = descriptor->Depth, sum = 0;
    bool fixed_depth = (descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    if (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0; /* memory of cuMemCreate is mapped to it later */
    do {
        uint64_t bytes = array_bytes(descriptor->Format, descriptor->NumChannels, at_least_one(width), height, depth);
        if (__builtin_add_overflow(sum, bytes, &sum) || __builtin_add_overflow(sum, ALIGNMENT - 1, &sum))
            return UINT64_MAX;
        sum -= sum % ALIGNMENT;
        width /= 2;
        height /= 2;
        depth = fixed_depth ? depth : depth / 2;
    } while (--levels > 0 && levels < UINT32_MAX && (width || height || (!fixed_depth && depth))); /* the driver clamps the levels to that */
    return sum;
}
