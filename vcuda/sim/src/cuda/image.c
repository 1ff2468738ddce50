#include "image.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ELF_MAX (1ull << 32)
#define FATBIN_WRAPPER 0x466243b1u
#define ENTRY_LZ4 0x2000u
#define ENTRY_ZSTD 0x8000u

static void *grow(void *array, size_t count, size_t each) {
  if (count & (count - 1)) return array; /* room is doubled at powers of two */
  return realloc(array, (count ? count * 2 : 1) * each);
}

static char *copy_name(const char *name, size_t length) {
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, name, length);
  copy[length] = '\0';
  return copy;
}

struct image_kernel *image_add_kernel(struct image *image, const char *name, size_t length) {
  struct image_kernel *grown = grow(image->kernels, image->kernel_count, sizeof *grown);
  char *copy = grown ? copy_name(name, length) : NULL;
  if (grown) image->kernels = grown;
  if (!copy) return NULL;
  image->kernels[image->kernel_count] = (struct image_kernel){.name = copy, .registers = 32};
  return &image->kernels[image->kernel_count++];
}

struct image_global *image_add_global(struct image *image, const char *name, size_t length, uint64_t size) {
  struct image_global *grown = grow(image->globals, image->global_count, sizeof *grown);
  char *copy = grown ? copy_name(name, length) : NULL;
  if (grown) image->globals = grown;
  if (!copy) return NULL;
  image->globals[image->global_count] = (struct image_global){.name = copy, .size = size};
  return &image->globals[image->global_count++];
}

void image_clear(struct image *image) {
  for (size_t i = 0; i < image->kernel_count; i++) free(image->kernels[i].name);
  for (size_t i = 0; i < image->global_count; i++) free(image->globals[i].name);
  free(image->kernels);
  free(image->globals);
  *image = (struct image){0};
}

/* LZ4 block format (public specification). Answers the bytes written, or -EINVAL. */
static int64_t lz4_unpack(const unsigned char *in, size_t in_size, unsigned char *out, size_t out_size) {
  size_t i = 0, o = 0;
  while (i < in_size) {
    unsigned token = in[i++];
    size_t literals = token >> 4, match = token & 15, distance;
    if (literals == 15) do { if (i >= in_size) return -EINVAL; literals += in[i]; } while (in[i++] == 255);
    if (literals > in_size - i || literals > out_size - o) return -EINVAL;
    memcpy(out + o, in + i, literals);
    i += literals;
    o += literals;
    if (i == in_size) break;
    if (in_size - i < 2) return -EINVAL;
    distance = (size_t)in[i] | (size_t)in[i + 1] << 8;
    i += 2;
    if (match == 15) do { if (i >= in_size) return -EINVAL; match += in[i]; } while (in[i++] == 255);
    match += 4;
    if (distance == 0 || distance > o || match > out_size - o) return -EINVAL;
    for (; match > 0; match--, o++) out[o] = out[o - distance];
  }
  return (int64_t)o;
}

/* By the system's libzstd, which is loaded when the first such image comes. Answers as lz4_unpack, or -ENOTSUP without it. */
static int64_t zstd_unpack(const unsigned char *in, size_t in_size, unsigned char *out, size_t out_size) {
  typedef size_t (*unpack_function)(void *, size_t, const void *, size_t);
  typedef unsigned (*error_function)(size_t);
  void *zstd = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL); /* stays: a second time it only counts */
  unpack_function unpack = zstd ? (unpack_function)dlsym(zstd, "ZSTD_decompress") : NULL;
  error_function is_error = zstd ? (error_function)dlsym(zstd, "ZSTD_isError") : NULL;
  size_t length;
  if (!unpack || !is_error) return -ENOTSUP;
  length = unpack(out, out_size, in, in_size);
  return is_error(length) ? -EINVAL : (int64_t)length;
}

static int parse_payload(const struct fatbin_entry *entry, const unsigned char *payload, struct image *image) {
  unsigned char *unpacked = NULL;
  size_t size = entry->size;
  int result;
  if (entry->flags & (ENTRY_LZ4 | ENTRY_ZSTD)) {
    int64_t length;
    if (entry->unpacked_size == 0 || entry->unpacked_size > ELF_MAX || entry->compressed_size > entry->size) return -EINVAL;
    unpacked = malloc(entry->unpacked_size);
    if (!unpacked) return -ENOMEM;
    length = (entry->flags & ENTRY_ZSTD ? zstd_unpack : lz4_unpack)(payload, entry->compressed_size, unpacked, entry->unpacked_size);
    if (length < 0) {
      free(unpacked);
      return (int)length;
    }
    payload = unpacked;
    size = (size_t)length;
  }
  result = entry->kind == FATBIN_ELF ? image_parse_elf(payload, size, image) : image_parse_ptx((const char *)payload, size, image);
  free(unpacked);
  return result;
}

/* All entries of a fat binary describe the same kernels: the first that can be read is enough. Those of our linker add up. */
static int parse_fatbin(const unsigned char *data, struct image *image) {
  struct fatbin_header header;
  uint64_t at;
  int result = -ENOTSUP;
  memcpy(&header, data, sizeof header);
  if (header.header_size < sizeof header || header.size > ELF_MAX) return -EINVAL;
  for (at = 0; at + sizeof(struct fatbin_entry) <= header.size && (result != 0 || header.version == FATBIN_LINKED);) {
    struct fatbin_entry entry;
    const unsigned char *start = data + header.header_size + at;
    memcpy(&entry, start, sizeof entry);
    if (entry.header_size < 64 || entry.size > header.size - at || entry.header_size > header.size - at - entry.size) return -EINVAL;
    if (entry.kind == FATBIN_PTX || entry.kind == FATBIN_ELF) result = parse_payload(&entry, start + entry.header_size, image);
    at += entry.header_size + entry.size;
  }
  return result;
}

int image_parse(const void *data, size_t size, struct image *image) {
  uint32_t magic;
  *image = (struct image){0};
  memcpy(&magic, data, sizeof magic);
  if (magic == FATBIN_WRAPPER) {
    const void *inner;
    memcpy(&inner, (const char *)data + 8, sizeof inner);
    return inner ? image_parse(inner, 0, image) : -EINVAL;
  }
  if (magic == FATBIN_MAGIC) return parse_fatbin(data, image);
  if (memcmp(data, "\177ELF", 4) == 0) return image_parse_elf(data, size ? size : ELF_MAX, image);
  return image_parse_ptx(data, size ? size : strlen(data), image);
}
