/* The readers of PTX, cubins and fat binaries: what they find, and that rubbish does them no harm. */
#include <errno.h>
#include <string.h>

#include "../src/cuda/image.h"
#include "check.h"

static const char ptx[] =
    "//\n// .entry not_me()\n//\n.version 8.4\n.target sm_90, texmode_independent\n.address_size 64\n"
    ".global .align 4 .b8 table[64];\n.const .u32 answer = 42;\n/* .entry nor_me() */\n"
    ".visible .func (.param .b32 r) helper(.param .b32 a) { .reg .b32 %r<2>; { ret; } }\n"
    ".visible .entry _Z3addPfS_if(\n  .param .u64 .ptr .align 1 _Z3addPfS_if_param_0,\n  .param .u64 _Z3addPfS_if_param_1,\n"
    "  .param .u32 _Z3addPfS_if_param_2,\n  .param .align 8 .b8 _Z3addPfS_if_param_3[24]\n)\n.maxntid 256, 1, 1\n{\n  .reg .b32 %r<5>;\n  ret;\n}\n"
    ".entry empty() { ret; }\n";

static void ptx_is_understood(void) {
  struct image image;
  EQUAL(image_parse(ptx, 0, &image), 0);
  EQUAL(image.ptx_version, 84);
  EQUAL(image.sm, 90);
  EQUAL(image.kernel_count, 2);
  CHECK(strcmp(image.kernels[0].name, "_Z3addPfS_if") == 0);
  EQUAL(image.kernels[0].param_count, 4);
  EQUAL(image.kernels[0].offset[2], 16);
  EQUAL(image.kernels[0].size[2], 4);
  EQUAL(image.kernels[0].offset[3], 24);
  EQUAL(image.kernels[0].size[3], 24);
  EQUAL(image.kernels[1].param_count, 0);
  EQUAL(image.global_count, 2);
  EQUAL(image.globals[0].size, 64);
  EQUAL(image.globals[1].size, 4);
  image_clear(&image);
}

static void rubbish_is_refused(void) {
  struct image image;
  EQUAL(image_parse("this is no kernel", 0, &image), -EINVAL);
  image_clear(&image);
  EQUAL(image_parse("\177ELF but not a cubin at all, only long enough to look like one......................", 84, &image), -EINVAL);
  image_clear(&image);
}

/* A fat binary with one entry of each kind that a compiler writes, the first not readable here. */
static size_t make_fatbin(unsigned char *out) {
  struct fatbin_header header = {.magic = FATBIN_MAGIC, .version = 1, .header_size = sizeof header};
  struct fatbin_entry strange = {.kind = 9, .header_size = sizeof strange, .size = 16};
  struct fatbin_entry text = {.kind = FATBIN_PTX, .header_size = sizeof text, .size = sizeof ptx};
  size_t size = sizeof header;
  memcpy(out + size, &strange, sizeof strange);
  size += sizeof strange + 16;
  memcpy(out + size, &text, sizeof text);
  memcpy(out + size + sizeof text, ptx, sizeof ptx);
  size += sizeof text + sizeof ptx;
  header.size = size - sizeof header;
  memcpy(out, &header, sizeof header);
  return size;
}

_Static_assert(sizeof(struct fatbin_entry) == 64, "what compilers write before each payload");

static void fat_binaries_are_opened(void) {
  static unsigned char data[4096];
  struct image image;
  struct {
    uint32_t magic, version;
    const void *data;
  } wrapper = {0x466243b1, 1, data};
  make_fatbin(data);
  EQUAL(image_parse(data, 0, &image), 0);
  EQUAL(image.kernel_count, 2);
  image_clear(&image);
  EQUAL(image_parse(&wrapper, 0, &image), 0);
  EQUAL(image.kernel_count, 2);
  image_clear(&image);
}

/* As nvcc 12.8 and later write it, with the smallest frame that zstd can hold its payload in: one raw block, the last. */
static void zstd_is_unpacked(void) {
  static unsigned char data[4096];
  const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x60, (sizeof ptx - 256) & 255, (sizeof ptx - 256) >> 8,
                                 (unsigned char)(sizeof ptx << 3 | 1), (unsigned char)(sizeof ptx >> 5), (unsigned char)(sizeof ptx >> 13)};
  struct fatbin_entry entry = {.kind = FATBIN_PTX, .header_size = sizeof entry, .flags = 0x8000, .unpacked_size = sizeof ptx};
  struct fatbin_header header = {.magic = FATBIN_MAGIC, .version = 1, .header_size = sizeof header};
  struct image image;
  entry.size = entry.compressed_size = sizeof frame + sizeof ptx;
  header.size = sizeof entry + entry.size;
  memcpy(data, &header, sizeof header);
  memcpy(data + sizeof header, &entry, sizeof entry);
  memcpy(data + sizeof header + sizeof entry, frame, sizeof frame);
  memcpy(data + sizeof header + sizeof entry + sizeof frame, ptx, sizeof ptx);
  EQUAL(image_parse(data, 0, &image), 0);
  EQUAL(image.kernel_count, 2);
  image_clear(&image);
  data[sizeof header + sizeof entry] ^= 1;
  EQUAL(image_parse(data, 0, &image), -EINVAL);
  image_clear(&image);
}

/* Any byte may be any other; the sanitizers watch. */
static void no_change_of_bytes_does_harm(void) {
  static unsigned char data[8192], changed[8192];
  size_t size = make_fatbin(data);
  unsigned seed = 3;
  for (int round = 0; round < 20000; round++) {
    struct image image;
    memcpy(changed, data, size);
    for (int i = 0; i < 3; i++) changed[16 + (size_t)rand_r(&seed) % (size - 16)] = (unsigned char)rand_r(&seed);
    image_parse(changed, size, &image);
    image_clear(&image);
    image_parse_elf(changed, size, &image);
    image_clear(&image);
  }
}

int main(void) {
  ptx_is_understood();
  rubbish_is_refused();
  fat_binaries_are_opened();
  zstd_is_unpacked();
  no_change_of_bytes_does_harm();
  return 0;
}
