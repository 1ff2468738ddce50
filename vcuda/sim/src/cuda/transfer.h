/* Moving bytes: what a copy or fill costs, and the way into a stream. */
#ifndef TESSERA_SIM_TRANSFER_H
#define TESSERA_SIM_TRANSFER_H

#include "../cards.h"
#include "driver.h"
#include "work.h"

#define COPY_LATENCY_NS 2000ull /* set-up of any copy or fill on its engine */

CUresult memory_error(int error);
uint64_t device_copy_ns(const struct sim_card_model *model, uint64_t bytes);
uint64_t fill_ns(const struct sim_card_model *model, uint64_t bytes);

/* True when the fill lies wholly in device memory and is aligned. */
bool fill_is_valid(const struct move *move);
/* The box that the parameters of a copy describe. */
CUresult box_of(const CUDA_MEMCPY3D *p, struct move *move);
/* Chooses the engine and cost of a copy by where its two sides lie. */
void copy_classify(const struct sim_card *card, struct work *work);

/* Copies a box, choosing the engine by where the two sides lie. wait: returns when the copy is done. */
CUresult copy_box(CUstream stream, const struct move *move, bool wait);

#endif
