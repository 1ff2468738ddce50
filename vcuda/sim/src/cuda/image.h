/* Reads kernel names and parameters out of PTX text, cubin (ELF) and fat binaries. Trusts no offset in them. */
#ifndef TESSERA_SIM_IMAGE_H
#define TESSERA_SIM_IMAGE_H

#include <stddef.h>
#include <stdint.h>

enum { IMAGE_MAX_PARAMS = 128 };

struct image_kernel {
  char *name;
  uint32_t param_count;
  uint32_t offset[IMAGE_MAX_PARAMS], size[IMAGE_MAX_PARAMS];
  uint32_t registers, shared;
};

struct image_global {
  char *name;
  uint64_t size;
};

struct image {
  struct image_kernel *kernels;
  struct image_global *globals;
  size_t kernel_count, global_count;
  int ptx_version, sm; /* 10 * major + minor, 0 when unknown */
};

#define FATBIN_MAGIC 0xba55ed50u
enum { FATBIN_LINKED = 0x5453, FATBIN_PTX = 1, FATBIN_ELF = 2 };

struct fatbin_header {
  uint32_t magic;
  uint16_t version; /* FATBIN_LINKED: made by our linker, every entry counts */
  uint16_t header_size;
  uint64_t size; /* of all entries after the header */
};

struct fatbin_entry {
  uint16_t kind; /* FATBIN_PTX, FATBIN_ELF */
  uint16_t version;
  uint32_t header_size;
  uint64_t size; /* of the payload as stored */
  uint32_t compressed_size, unknown;
  uint16_t minor, major;
  uint32_t sm;
  uint32_t name_offset, name_size;
  uint64_t flags, zero, unpacked_size;
};

/* 0, -EINVAL not an image that a driver accepts, -ENOTSUP no part of it is readable here, -ENOMEM. size 0: unknown, the
 * image says where it ends. */
int image_parse(const void *data, size_t size, struct image *image);
void image_clear(struct image *image);

/* For the parsers. Answer NULL when the host is out of memory. */
struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t length);
struct image_global *image_add_global(struct image *image, const char *name, size_t length, uint64_t size);
int image_parse_ptx(const char *text, size_t size, struct image *image);
int image_parse_elf(const unsigned char *data, size_t size, struct image *image);

#endif
