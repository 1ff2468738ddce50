#ifndef TESSERA_SIM_ARRAY_H
#define TESSERA_SIM_ARRAY_H

#include "driver.h"

/* CUDA arrays are laid out linearly here: rows of pitch bytes, `rows` rows a slice. */
struct CUarray_st {
  struct head head;
  CUDA_ARRAY3D_DESCRIPTOR description;
  uint64_t base, pitch, rows, slices;
  bool owned; /* false: a level of a mipmapped array */
};

struct CUmipmappedArray_st {
  struct head head;
  uint64_t base;
  unsigned levels;
  CUarray level[64];
};

/* Levels with their places one behind the other, and how many bytes they take; NULL when the description makes no sense. */
CUmipmappedArray mipmap_describe(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, uint64_t *bytes);
void mipmap_place(CUmipmappedArray mipmap, uint64_t base);
void mipmap_drop(CUmipmappedArray mipmap);

#endif
