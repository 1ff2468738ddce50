#include "mig.h"

#include <stdio.h>
#include <string.h>

enum { MEMORY_SLICES = 8 };

/* A part's model: eighths of the memory, of its rate and of the multiprocessors go with the slices. */
static int make_part(const struct sim_card_model *whole, const char *profile, struct sim_card_model *model, uint32_t *slices, uint32_t *memory) {
  unsigned gigabytes, end = 0;
  uint64_t slice = (whole->memory + (1ull << 30) - 1) / (1ull << 30) / MEMORY_SLICES; /* GB in the profiles' names, as a rule of thumb */
  if (sscanf(profile, "%ug.%ugb%n", slices, &gigabytes, (int *)&end) != 2 || profile[end] || *slices == 0) return -1;
  *memory = (uint32_t)((gigabytes + slice / 2) / (slice ? slice : 1));
  if (*slices > whole->mig_slices || *memory == 0 || *memory > MEMORY_SLICES) return -1;
  *model = *whole;
  model->memory = whole->memory / MEMORY_SLICES * *memory;
  model->reserve = whole->reserve / MEMORY_SLICES * *memory;
  model->bandwidth_bps = whole->bandwidth_bps / MEMORY_SLICES * *memory;
  model->sms = *slices == whole->mig_slices ? whole->sms : whole->sms / MEMORY_SLICES * *slices;
  model->mig_slices = 0;
  snprintf(model->name, sizeof model->name, "%.40s MIG %.16s", whole->name, profile);
  return 0;
}

int sim_mig_divide(const char *text, struct sim_card_model *models, struct sim_part *parts, uint32_t *count, char *error, size_t size) {
  char list[256], *rest = list, *profile;
  unsigned card;
  int end = 0;
  uint32_t compute = 0, memory = 0;
  struct sim_card_model whole;
  if (sscanf(text, "%u=%n", &card, &end) != 1 || end == 0 || card >= *count || parts[card].parent != SIM_NONE || strlen(text) >= sizeof list) {
    return snprintf(error, size, "--mig wants INDEX=PROFILE+PROFILE of a whole card, not '%s'", text), -1;
  }
  snprintf(list, sizeof list, "%s", text + end);
  whole = models[card];
  while ((profile = strsep(&rest, "+")) != NULL) {
    uint32_t of_compute, of_memory;
    if (*count == SIM_MAX_CARDS) return snprintf(error, size, "a node holds %d cards and parts at most", SIM_MAX_CARDS), -1;
    if (make_part(&whole, profile, &models[*count], &of_compute, &of_memory) < 0) {
      return snprintf(error, size, "card %u (%s) has no MIG profile '%s'", card, whole.name, profile), -1;
    }
    parts[(*count)++] = (struct sim_part){.parent = card, .slices = of_compute};
    compute += of_compute;
    memory += of_memory;
    if (compute > whole.mig_slices || memory > MEMORY_SLICES) {
      return snprintf(error, size, "card %u has no room for '%s' beside the others", card, profile), -1;
    }
  }
  return 0;
}
