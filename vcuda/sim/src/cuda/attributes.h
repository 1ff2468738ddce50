/* What cuDeviceGetAttribute answers for a card. */
#ifndef TESSERA_SIM_ATTRIBUTES_H
#define TESSERA_SIM_ATTRIBUTES_H

#include "../state.h"
#include "cuda.h"

/* 0 for an attribute of a feature that the card, or the simulation, has not. */
int device_attribute(const struct sim_card *card, CUdevice_attribute attribute);

/* Cards sit on buses 0x17, 0x18, ... of PCI domain 0, one each. */
static inline unsigned sim_pci_bus(const struct sim_card *card) { return 0x17u + (card->parent == SIM_NONE ? card->index : card->parent); }

#endif
