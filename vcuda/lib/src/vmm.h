/* Physical memory made by cuMemCreate, or imported from a graphics API: charged to the card that it lies on, until the last handle is released and the last range unmapped. */
#ifndef VCUDA_VMM_H
#define VCUDA_VMM_H

#include "charge.h"

/* The driver made `handle`, paid for by `charge`. Returns `result`. */
CUresult vmm_created(struct charge *charge, CUresult result, const CUmemGenericAllocationHandle *handle);

/* Other processes may import `handle` from now on. */
void vmm_exported(CUmemGenericAllocationHandle handle);

/* `handle` was imported: charged like charge_import. False when there is no room. */
bool vmm_imported(CUmemGenericAllocationHandle handle);

/* The driver did one of these successfully. */
void vmm_retained(CUmemGenericAllocationHandle handle);
void vmm_released(CUmemGenericAllocationHandle handle);
bool vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle); /* false: not ours */
void vmm_unmapped(CUdeviceptr address, uint64_t bytes);

void vmm_after_fork(void);

#endif
