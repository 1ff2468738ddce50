/* Enough of PTX to know what a module holds: version, target, entries with their parameters, global variables. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

struct cursor {
  const char *at, *end;
};

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%'; }

static void skip_space(struct cursor *c) {
  while (c->at < c->end) {
    if (isspace((unsigned char)*c->at)) {
      c->at++;
    } else if (c->end - c->at > 1 && c->at[0] == '/' && c->at[1] == '/') {
      while (c->at < c->end && *c->at != '\n') c->at++;
    } else if (c->end - c->at > 1 && c->at[0] == '/' && c->at[1] == '*') {
      c->at += 2;
      while (c->end - c->at > 1 && !(c->at[0] == '*' && c->at[1] == '/')) c->at++;
      c->at += c->end - c->at > 1 ? 2 : 1;
    } else {
      return;
    }
  }
}

/* The next word or single character; false at the end. */
static bool next(struct cursor *c, const char **word, size_t *length) {
  skip_space(c);
  if (c->at >= c->end || *c->at == '\0') return false;
  *word = c->at;
  if (is_name(*c->at)) {
    while (c->at < c->end && is_name(*c->at)) c->at++;
  } else if (*c->at == '"') {
    do c->at++;
    while (c->at < c->end && *c->at != '"');
    if (c->at < c->end) c->at++;
  } else {
    c->at++;
  }
  *length = (size_t)(c->at - *word);
  return true;
}

static bool is(const char *word, size_t length, const char *text) {
  return length == strlen(text) && memcmp(word, text, length) == 0;
}

static uint32_t type_bytes(const char *word, size_t length) {
  unsigned bits = 0;
  if (length < 3 || word[0] != '.' || !strchr("busf", word[1])) return 0;
  for (size_t i = 2; i < length && isdigit((unsigned char)word[i]); i++) bits = bits * 10 + (unsigned)(word[i] - '0');
  return bits >= 8 && bits <= 128 ? bits / 8 : 0;
}

struct declaration {
  const char *name;
  size_t name_length;
  uint64_t size;
  uint32_t align;
  char end; /* the character that ended it */
};

static uint64_t number(const char *word, size_t length) {
  char text[24];
  snprintf(text, sizeof text, "%.*s", (int)(length < 23 ? length : 23), word);
  return strtoull(text, NULL, 0);
}

/* Reads "[.align N] [.ptr ...] .type name[count]" up to a comma, bracket, semicolon or equals sign. */
static bool read_declaration(struct cursor *c, struct declaration *out) {
  const char *word;
  size_t length;
  uint64_t count = 1, element = 0;
  bool any = false;
  *out = (struct declaration){0};
  while (next(c, &word, &length)) {
    if (length == 1 && strchr(",);={", *word)) {
      out->end = *word;
      out->size = element * count;
      if (!out->align) out->align = (uint32_t)(element ? element : 1);
      return any;
    }
    if (is(word, length, ".align") && next(c, &word, &length)) {
      out->align = (uint32_t)number(word, length);
    } else if (is(word, length, "[")) {
      if (!next(c, &word, &length)) return false;
      count *= is(word, length, "]") ? 0 : number(word, length);
    } else if (type_bytes(word, length)) {
      element = type_bytes(word, length);
    } else if (*word != '.' && *word != ']' && is_name(*word) && !isdigit((unsigned char)*word)) {
      out->name = word;
      out->name_length = length;
      any = true;
    }
  }
  return false;
}

static int read_entry(struct cursor *c, struct image *image) {
  const char *word;
  size_t length;
  struct image_kernel *kernel;
  uint32_t offset = 0;
  if (!next(c, &word, &length) || !is_name(*word)) return -EINVAL;
  kernel = image_add_kernel(image, word, length);
  if (!kernel) return -ENOMEM;
  skip_space(c);
  if (c->at >= c->end || *c->at != '(') return 0;
  c->at++;
  for (;;) {
    struct declaration param;
    bool named = read_declaration(c, &param);
    if (named && kernel->param_count < IMAGE_MAX_PARAMS && param.size < 65536 && param.align && param.align <= 4096) {
      offset = (offset + param.align - 1) / param.align * param.align;
      kernel->offset[kernel->param_count] = offset;
      kernel->size[kernel->param_count++] = (uint32_t)param.size;
      offset += (uint32_t)param.size;
    }
    if (param.end == ')') return 0;
    if (param.end != ',') return -EINVAL;
  }
}

static int read_global(struct cursor *c, struct image *image) {
  struct declaration variable;
  if (!read_declaration(c, &variable) || variable.size == 0) return 0;
  return image_add_global(image, variable.name, variable.name_length, variable.size) ? 0 : -ENOMEM;
}

static int version_number(const char *word, size_t length) {
  int major = 0, minor = 0;
  char text[16];
  snprintf(text, sizeof text, "%.*s", (int)(length < 15 ? length : 15), word);
  return sscanf(text, "%d.%d", &major, &minor) == 2 ? major * 10 + minor : 0;
}

/* A module may be checked only as far as this: a missing .version or an entry that does not parse is refused. */
int image_parse_ptx(const char *text, size_t size, struct image *image) {
  struct cursor c = {.at = text, .end = text + size};
  const char *word;
  size_t length;
  int depth = 0, result = 0;

  if (memchr(text, '\0', size)) c.end = memchr(text, '\0', size);
  while (result == 0 && next(&c, &word, &length)) {
    if (*word == '{') depth++;
    if (*word == '}') depth--;
    if (depth != 0) continue;
    if (is(word, length, ".version") && next(&c, &word, &length)) {
      image->ptx_version = version_number(word, length);
    } else if (is(word, length, ".target") && next(&c, &word, &length)) {
      image->sm = length > 3 && memcmp(word, "sm_", 3) == 0 ? atoi(word + 3) : 0;
    } else if (is(word, length, ".entry")) {
      result = read_entry(&c, image);
    } else if (is(word, length, ".global") || is(word, length, ".const")) {
      result = read_global(&c, image);
    }
  }
  return result == 0 && !image->ptx_version ? -EINVAL : result;
}
