/* Cards divided by MIG. Each part is a card of its own in the node, behind the whole ones: it has memory, multiprocessors and time to itself. */
#ifndef TESSERA_SIM_MIG_H
#define TESSERA_SIM_MIG_H

#include <stddef.h>

#include "state.h"

struct sim_part {
  uint32_t parent; /* SIM_NONE: a whole card */
  uint32_t slices; /* of the seven that compute */
};

/* Divides a card as `text` says, e.g. "0=1g.10gb+3g.40gb": adds its parts to models and parts. 0, or -1 with a sentence in `error`. */
int sim_mig_divide(const char *text, struct sim_card_model *models, struct sim_part *parts, uint32_t *count, char *error, size_t size);

static inline bool sim_is_part(const struct sim_card *card) { return card->parent != SIM_NONE; }

/* Whole cards come first: [0, n). */
static inline uint32_t sim_whole_cards(const struct sim_node *node) {
  uint32_t count = 0;
  while (count < node->card_count && !sim_is_part(&node->cards[count])) count++;
  return count;
}

/* Index of the part number `wanted` of a card; SIM_NONE when there are fewer. */
static inline uint32_t sim_part_of(const struct sim_node *node, uint32_t card, uint32_t wanted) {
  for (uint32_t i = 0; i < node->card_count; i++) {
    if (node->cards[i].parent == card && wanted-- == 0) return i;
  }
  return SIM_NONE;
}

static inline bool sim_is_divided(const struct sim_node *node, uint32_t card) { return sim_part_of(node, card, 0) != SIM_NONE; }

#endif
