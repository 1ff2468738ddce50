#include "array.h"

#include "heap.h"
#include "impl.h"
#include "transfer.h"

/* How many texels side by side, in each direction, are stored together. */
static uint64_t unit_of(const CUDA_ARRAY3D_DESCRIPTOR *d) {
  return d->Format >= CU_AD_FORMAT_BC1_UNORM && d->Format <= CU_AD_FORMAT_BC7_UNORM_SRGB ? 4 : 1;
}

/* Bytes of such a unit in the formats that fix their channels. */
static uint64_t fixed_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1: return 1;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1: return 2;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2: return 4;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM: return 8;
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB: return 16;
    default: return 0; /* formats of video are not known here */
  }
}

static uint64_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d) {
  uint64_t bytes;
  switch (d->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: bytes = 1; break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: bytes = 2; break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: bytes = 4; break;
    default: return fixed_bytes(d->Format);
  }
  return d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4 ? bytes * d->NumChannels : 0;
}

static uint64_t at_least_one(uint64_t value) { return value ? value : 1; }

/* Six faces of a square, or six for each layer; memory that is mapped later is not modelled. */
static bool shape_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d) {
  bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;
  if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) return false;
  if (layered && d->Depth == 0) return false;
  if (!(d->Flags & CUDA_ARRAY3D_CUBEMAP)) return layered || d->Depth == 0 || d->Height > 0;
  return d->Width == d->Height && (layered ? d->Depth % 6 == 0 : d->Depth == 6);
}

/* Fills the layout of an array of this description; answers its bytes, 0 when the description is invalid. */
static uint64_t lay_out(struct CUarray_st *array, const CUDA_ARRAY3D_DESCRIPTOR *d) {
  uint64_t element = element_bytes(d), unit = unit_of(d), bytes;
  if (element == 0 || d->Width == 0 || d->Width > (1ull << 28) || !shape_is_valid(d)) return 0;
  array->description = *d;
  array->pitch = (d->Width + unit - 1) / unit * element;
  array->rows = (at_least_one(d->Height) + unit - 1) / unit;
  array->slices = at_least_one(d->Depth);
  if (__builtin_mul_overflow(array->pitch * array->rows, array->slices, &bytes) || array->rows > (1ull << 28)) return 0;
  return bytes;
}

static CUresult make_array(const CUDA_ARRAY3D_DESCRIPTOR *d, CUarray *out) {
  struct CUctx_st *ctx;
  struct CUarray_st layout = {0}, *array;
  uint64_t bytes;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || !d || (bytes = lay_out(&layout, d)) == 0) return CUDA_ERROR_INVALID_VALUE;
  array = handle_new(KIND_ARRAY, sizeof *array);
  if (!array) return CUDA_ERROR_OUT_OF_MEMORY;
  layout.head = array->head;
  layout.owned = true;
  result = memory_error(heap_alloc(&driver.node, ctx, ctx->card, SIM_ARRAY, bytes, &layout.base));
  if (result != CUDA_SUCCESS) {
    handle_free(array);
    return result;
  }
  *array = layout;
  *out = array;
  return CUDA_SUCCESS;
}

CUresult impl_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) { return make_array(d, out); }

CUresult impl_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
  CUDA_ARRAY3D_DESCRIPTOR box;
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  box = (CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
  return make_array(&box, out);
}

CUresult impl_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(array, KIND_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  *d = array->description;
  return CUDA_SUCCESS;
}

CUresult impl_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray array) {
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(array, KIND_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
  *d = (CUDA_ARRAY_DESCRIPTOR){.Width = array->description.Width, .Height = array->description.Height,
                               .Format = array->description.Format, .NumChannels = array->description.NumChannels};
  return CUDA_SUCCESS;
}

CUresult impl_cuArrayDestroy(CUarray array) {
  struct CUctx_st *ctx;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!handle_is(array, KIND_ARRAY) || !array->owned) return CUDA_ERROR_INVALID_HANDLE;
  result = wait_context(ctx);
  heap_free(&driver.node, array->base);
  handle_free(array);
  return result;
}

static void half(CUDA_ARRAY3D_DESCRIPTOR *d) {
  d->Width = at_least_one(d->Width / 2);
  if (d->Height) d->Height = at_least_one(d->Height / 2);
  if (d->Depth && !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP))) d->Depth = at_least_one(d->Depth / 2);
}

/* 1 + floor(log2(the largest extent)). */
static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d) {
  bool fixed_depth = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  uint64_t extent = d->Width > d->Height ? d->Width : d->Height;
  unsigned levels = 0;
  if (!fixed_depth && d->Depth > extent) extent = d->Depth;
  for (; extent; extent /= 2) levels++;
  return levels;
}

static uint64_t make_levels(CUmipmappedArray mipmap, CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels) {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < levels; i++, half(&d)) {
    CUarray level = handle_new(KIND_ARRAY, sizeof *level);
    if (!level) return 0;
    mipmap->level[mipmap->levels++] = level;
    level->base = bytes; /* an offset until the memory is there */
    bytes += lay_out(level, &d);
    bytes = (bytes + 511) / 512 * 512;
  }
  return bytes;
}

void mipmap_drop(CUmipmappedArray mipmap) {
  for (unsigned i = 0; i < mipmap->levels; i++) handle_free(mipmap->level[i]);
  handle_free(mipmap);
}

CUmipmappedArray mipmap_describe(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, uint64_t *bytes) {
  CUmipmappedArray mipmap;
  if (d->Width > (1ull << 28) || !shape_is_valid(d) || element_bytes(d) == 0) return NULL;
  mipmap = handle_new(KIND_MIPMAP, sizeof *mipmap);
  if (!mipmap) return NULL;
  levels = levels < 1 ? 1 : levels > most_levels(d) ? most_levels(d) : levels; /* clamped, as documented */
  *bytes = make_levels(mipmap, *d, levels);
  if (*bytes) return mipmap;
  mipmap_drop(mipmap);
  return NULL;
}

void mipmap_place(CUmipmappedArray mipmap, uint64_t base) {
  mipmap->base = base;
  for (unsigned i = 0; i < mipmap->levels; i++) mipmap->level[i]->base += base;
}

CUresult impl_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
  struct CUctx_st *ctx;
  CUmipmappedArray mipmap;
  uint64_t bytes, base;
  CUresult result = need_context(&ctx);
  if (result != CUDA_SUCCESS) return result;
  if (!out || !d || !(mipmap = mipmap_describe(d, levels, &bytes))) return CUDA_ERROR_INVALID_VALUE;
  result = memory_error(heap_alloc(&driver.node, ctx, ctx->card, SIM_ARRAY, bytes, &base));
  if (result != CUDA_SUCCESS) {
    mipmap_drop(mipmap);
    return result;
  }
  mipmap_place(mipmap, base);
  *out = mipmap;
  return CUDA_SUCCESS;
}

CUresult impl_cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray mipmap, unsigned level) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(mipmap, KIND_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= mipmap->levels) return CUDA_ERROR_INVALID_VALUE;
  *out = mipmap->level[level];
  return CUDA_SUCCESS;
}

CUresult impl_cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  if (!handle_is(mipmap, KIND_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
  heap_free(&driver.node, mipmap->base);
  mipmap_drop(mipmap);
  return CUDA_SUCCESS;
}
