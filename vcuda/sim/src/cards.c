#include "cards.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define MIB (1024ull * 1024ull)
#define FIELD32(key) {#key, offsetof(struct sim_card_model, key), 1, 4}

static const struct {
  const char *key;
  size_t offset;
  uint64_t unit;
  size_t width;
} numbers[] = {
    FIELD32(sms), FIELD32(threads_per_sm), FIELD32(blocks_per_sm), FIELD32(regs_per_sm), FIELD32(bus_width),
    FIELD32(mem_clock_mhz), FIELD32(sm_clock_mhz), FIELD32(pcie_gen), FIELD32(pcie_width), FIELD32(copy_engines),
    FIELD32(ecc), FIELD32(fan), FIELD32(brand), FIELD32(power_limit_w), FIELD32(power_idle_w), FIELD32(temp_idle_c),
    FIELD32(temp_full_c), FIELD32(device_id), FIELD32(mig_slices),
    {"shared_per_sm", offsetof(struct sim_card_model, shared_per_sm), 1, 8},
    {"shared_per_block", offsetof(struct sim_card_model, shared_per_block), 1, 8},
    {"shared_optin", offsetof(struct sim_card_model, shared_optin), 1, 8},
    {"memory_mib", offsetof(struct sim_card_model, memory), MIB, 8},
    {"reserve_mib", offsetof(struct sim_card_model, reserve), MIB, 8},
    {"context_mib", offsetof(struct sim_card_model, context), MIB, 8},
    {"l2_mib", offsetof(struct sim_card_model, l2), MIB, 8},
    {"bandwidth_gbps", offsetof(struct sim_card_model, bandwidth_bps), 1000000000ull, 8},
};

static char *trim(char *text) {
  char *end;
  while (isspace((unsigned char)*text)) text++;
  end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
  return text;
}

static int set_number(struct sim_card_model *model, const char *key, const char *value) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char *end;
    unsigned long long number;
    uint32_t narrow;
    uint64_t wide;
    if (strcmp(numbers[i].key, key) != 0) continue;
    errno = 0;
    number = strtoull(value, &end, 0);
    if (errno || end == value || *end || number > UINT64_MAX / numbers[i].unit) return -1;
    wide = number * numbers[i].unit;
    narrow = (uint32_t)wide;
    if (numbers[i].width == 4 && narrow != wide) return -1;
    if (numbers[i].width == 4) memcpy((char *)model + numbers[i].offset, &narrow, 4);
    else memcpy((char *)model + numbers[i].offset, &wide, 8);
    return 0;
  }
  return -1;
}

static int set(struct sim_card_model *model, const char *key, const char *value) {
  if (strcmp(key, "name") == 0) return snprintf(model->name, sizeof model->name, "%s", value) > 0 ? 0 : -1;
  if (strcmp(key, "arch") == 0) return snprintf(model->arch, sizeof model->arch, "%s", value) > 0 ? 0 : -1;
  if (strcmp(key, "cc") == 0) return sscanf(value, "%u.%u", &model->cc_major, &model->cc_minor) == 2 ? 0 : -1;
  return set_number(model, key, value);
}

static int complete(const struct sim_card_model *model) {
  return model->name[0] && model->sms && model->threads_per_sm && model->memory > model->reserve &&
         model->bandwidth_bps && model->pcie_gen && model->pcie_width;
}

int sim_card_load(const char *directory, const char *name, struct sim_card_model *model, char *error, size_t size) {
  char path[1024], line[256];
  int number = 0;
  FILE *file;

  memset(model, 0, sizeof *model);
  snprintf(path, sizeof path, "%s/%s.card", directory, name);
  file = fopen(path, "re");
  if (!file) {
    snprintf(error, size, "no card '%s': %s: %s", name, path, strerror(errno));
    return -1;
  }
  while (fgets(line, sizeof line, file)) {
    char *equals, *text = line;
    number++;
    text[strcspn(text, "#")] = '\0';
    text = trim(text);
    if (!*text) continue;
    equals = strchr(text, '=');
    if (equals) *equals = '\0';
    if (!equals || set(model, trim(text), trim(equals + 1)) < 0) {
      snprintf(error, size, "%s line %d: unknown key or value out of range", path, number);
      fclose(file);
      return -1;
    }
  }
  fclose(file);
  if (complete(model)) return 0;
  snprintf(error, size, "%s lacks one of name, sms, threads_per_sm, memory_mib, bandwidth_gbps, pcie_gen, pcie_width", path);
  return -1;
}

void sim_card_uuid(uint64_t seed, uint32_t index, unsigned char uuid[16]) {
  uint64_t state = seed * 0x100000001b3ull + index + 1;
  for (int half = 0; half < 2; half++) {
    uint64_t value = sim_random(&state);
    memcpy(uuid + half * 8, &value, 8);
  }
  uuid[6] = (unsigned char)((uuid[6] & 0x0f) | 0x40); /* RFC 9562: random UUID, version 4 */
  uuid[8] = (unsigned char)((uuid[8] & 0x3f) | 0x80);
}

void sim_uuid_text(const struct sim_card *card, char out[41]) {
  const unsigned char *u = card->uuid;
  snprintf(out, 41, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", card->parent == SIM_NONE ? "GPU" : "MIG", u[0], u[1], u[2], u[3],
           u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

uint64_t sim_link_bps(const struct sim_card_model *model) {
  uint64_t lane_bps = 984615385ull; /* generation 3: 8 GT/s, 128 of 130 bits; doubles with each generation */
  for (uint32_t generation = 3; generation < model->pcie_gen && generation < 7; generation++) lane_bps *= 2;
  return lane_bps * model->pcie_width / 10 * 8;
}
