/* Card files: text, one `key = value` a line, `#` begins a comment. */
#ifndef TESSERA_SIM_CARDS_H
#define TESSERA_SIM_CARDS_H

#include <stddef.h>

#include "state.h"

/* Reads DIR/NAME.card. 0, or -1 with a sentence in `error`. */
int sim_card_load(const char *directory, const char *name, struct sim_card_model *model, char *error, size_t size);

/* The identity of card `index` on a node with this seed: the same every time. */
void sim_card_uuid(uint64_t seed, uint32_t index, unsigned char uuid[16]);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or MIG- for a part; 41 bytes with the final zero. */
void sim_uuid_text(const struct sim_card *card, char out[41]);

/* Useful rate of the host link, bytes per second: the lanes' raw rate, of which protocol leaves about 80 %. */
uint64_t sim_link_bps(const struct sim_card_model *model);

#endif
