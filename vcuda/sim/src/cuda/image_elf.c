/* Reads a cubin: kernels are global function symbols marked as entries, parameters stand in .nv.info.<kernel>. */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "image.h"

#define STO_CUDA_ENTRY 0x10
#define EIFMT_SVAL 0x04
#define EIATTR_KPARAM_INFO 0x17

struct file {
  const unsigned char *data;
  size_t size;
  const unsigned char *sections;
  size_t section_count, section_size;
  const char *names;
  size_t names_size;
};

static bool inside(const struct file *file, uint64_t offset, uint64_t size) {
  return offset <= file->size && size <= file->size - offset;
}

static Elf64_Shdr section(const struct file *file, size_t index) {
  Elf64_Shdr header;
  memcpy(&header, file->sections + index * file->section_size, sizeof header);
  return header;
}

static const char *section_name(const struct file *file, const Elf64_Shdr *header) {
  if (header->sh_name >= file->names_size) return "";
  return memchr(file->names + header->sh_name, '\0', file->names_size - header->sh_name) ? file->names + header->sh_name : "";
}

/* The size of an image in memory is unknown to its loader; the section table stands at the end of what matters. */
static int open_file(const unsigned char *data, size_t size, struct file *file) {
  Elf64_Ehdr header;
  Elf64_Shdr names;
  if (size < sizeof header) return -EINVAL;
  memcpy(&header, data, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA) return -EINVAL;
  *file = (struct file){.data = data, .size = size, .section_count = header.e_shnum, .section_size = header.e_shentsize};
  if (header.e_shentsize < sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) return -EINVAL;
  if (!inside(file, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize)) return -EINVAL;
  file->sections = data + header.e_shoff;
  names = section(file, header.e_shstrndx);
  if (!inside(file, names.sh_offset, names.sh_size)) return -EINVAL;
  file->names = (const char *)data + names.sh_offset;
  file->names_size = names.sh_size;
  return 0;
}

/* .nv.info is a row of {format, attribute, size, payload}; KPARAM_INFO says ordinal, offset and size of one parameter. */
static void read_info(const struct file *file, const Elf64_Shdr *info, struct image_kernel *kernel) {
  const unsigned char *at = file->data + info->sh_offset, *end = at + info->sh_size;
  while (end - at >= 4) {
    uint16_t size, ordinal, offset;
    uint32_t packed;
    bool sized = at[0] == EIFMT_SVAL;
    memcpy(&size, at + 2, 2);
    if (sized && at[1] == EIATTR_KPARAM_INFO && size >= 12 && end - at >= 16) {
      memcpy(&ordinal, at + 8, 2);
      memcpy(&offset, at + 10, 2);
      memcpy(&packed, at + 12, 4);
      if (ordinal < IMAGE_MAX_PARAMS) {
        kernel->offset[ordinal] = offset;
        kernel->size[ordinal] = packed >> 18;
        if (kernel->param_count <= ordinal) kernel->param_count = (uint32_t)ordinal + 1;
      }
    }
    if (sized && size > end - at - 4) return;
    at += 4 + (sized ? size : 0);
  }
}

static void read_details(const struct file *file, struct image_kernel *kernel) {
  for (size_t i = 0; i < file->section_count; i++) {
    Elf64_Shdr header = section(file, i);
    const char *name = section_name(file, &header);
    bool stored = header.sh_type != SHT_NOBITS;
    if (stored && !inside(file, header.sh_offset, header.sh_size)) continue;
    if (strncmp(name, ".nv.info.", 9) == 0 && strcmp(name + 9, kernel->name) == 0 && stored) read_info(file, &header, kernel);
    if (strncmp(name, ".text.", 6) == 0 && strcmp(name + 6, kernel->name) == 0) kernel->registers = header.sh_info >> 24;
    if (strncmp(name, ".nv.shared.", 11) == 0 && strcmp(name + 11, kernel->name) == 0) kernel->shared = (uint32_t)header.sh_size;
  }
}

static int read_symbol(const struct file *file, const Elf64_Sym *symbol, const char *name, struct image *image) {
  struct image_kernel *kernel;
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (!*name || symbol->st_shndx == SHN_UNDEF) return 0;
  if (type == STT_OBJECT) return image_add_global(image, name, strlen(name), symbol->st_size) ? 0 : -ENOMEM;
  if (type != STT_FUNC || !(symbol->st_other & STO_CUDA_ENTRY)) return 0;
  kernel = image_add_kernel(image, name, strlen(name));
  if (!kernel) return -ENOMEM;
  read_details(file, kernel);
  return 0;
}

static int read_symbols(const struct file *file, const Elf64_Shdr *table, struct image *image) {
  Elf64_Shdr strings;
  if (table->sh_link >= file->section_count || !inside(file, table->sh_offset, table->sh_size)) return -EINVAL;
  strings = section(file, table->sh_link);
  if (!inside(file, strings.sh_offset, strings.sh_size)) return -EINVAL;
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
    const char *names = (const char *)file->data + strings.sh_offset;
    Elf64_Sym symbol;
    int result;
    memcpy(&symbol, file->data + table->sh_offset + at, sizeof symbol);
    if (symbol.st_name >= strings.sh_size || !memchr(names + symbol.st_name, '\0', strings.sh_size - symbol.st_name)) continue;
    result = read_symbol(file, &symbol, names + symbol.st_name, image);
    if (result < 0) return result;
  }
  return 0;
}

int image_parse_elf(const unsigned char *data, size_t size, struct image *image) {
  struct file file;
  int result = open_file(data, size, &file);
  for (size_t i = 0; result == 0 && i < file.section_count; i++) {
    Elf64_Shdr header = section(&file, i);
    if (header.sh_type == SHT_SYMTAB) result = read_symbols(&file, &header, image);
  }
  return result;
}
