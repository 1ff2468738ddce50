/* Memory of this process under names that others can open, and theirs opened here. */
#ifndef TESSERA_SIM_IPC_H
#define TESSERA_SIM_IPC_H

#include "driver.h"
#include "heap.h"

/* True for memory that cuIpcOpenMemHandle gave: it is closed, never freed. */
bool ipc_is_opened(uint64_t base);
/* The context ends, and with it what it had opened. */
void ipc_end(const struct CUctx_st *ctx);

/* Pointers of exported pools. */
CUresult ipc_export_pointer(CUmemPoolPtrExportData *out, CUdeviceptr pointer);
CUresult ipc_import_pointer(CUdeviceptr *out, const void *owner, uint32_t card, const CUmemPoolPtrExportData *data);

#endif
