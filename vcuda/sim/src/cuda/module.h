#ifndef TESSERA_SIM_MODULE_H
#define TESSERA_SIM_MODULE_H

#include "driver.h"
#include "image.h"

struct CUfunc_st {
  struct head head;
  struct CUctx_st *ctx;      /* NULL: a kernel of a library, bound to the context that launches it */
  struct CUmod_st *module;
  const struct image_kernel *kernel;
  CUfunc_cache cache;
  int shared_limit, carveout;
  uint32_t cost_generation;  /* registered costs as of this generation: */
  bool cost_known;
  uint64_t cost_ns;
  unsigned old_block[3], old_shared; /* see old.c */
  _Alignas(16) unsigned char old_params[4096];
};

struct CUmod_st {
  struct head head;
  struct CUctx_st *ctx;  /* NULL: a library's */
  struct CUmod_st *next;
  struct image image;
  struct CUfunc_st **functions; /* one for each kernel of the image */
  uint64_t code;                /* address of what the kernels take on the card; 0: none */
  CUdeviceptr *globals;         /* one for each global variable, 0 until asked for */
};

/* Parses the image. ctx NULL: belongs to a library. */
CUresult module_make(struct CUctx_st *ctx, const void *data, size_t size, struct CUmod_st **out);
void module_drop(struct CUmod_st *module);
CUresult module_function(struct CUmod_st *module, const char *name, struct CUfunc_st **out);

/* The whole file with a final zero, so that PTX text ends. The caller frees it. */
CUresult module_read_file(const char *path, char **data, size_t *length);

/* GPU time of one launch, nanoseconds; threads: of the whole grid. first_param: the kernel's first 8 bytes, or NULL. */
uint64_t launch_cost(struct CUfunc_st *function, const struct sim_card *card, uint64_t threads, const void *first_param);

#endif
