/* Copies are not limited, only counted: bytes, and for copies from 1 MiB on the time that they took, by event pairs. */
#ifndef VCUDA_COPY_H
#define VCUDA_COPY_H

#include "gate.h"

enum direction { TO_DEVICE, TO_HOST, ON_DEVICE };

struct copy {
    struct gate gate;
    enum direction direction;
    uint64_t bytes;
};

/* Which way a copy goes; memory types as in the structs of the driver, or 0 where only the pointer tells. */
enum direction copy_direction(CUmemorytype to_type, CUdeviceptr to, CUmemorytype from_type, CUdeviceptr from);

/* Around one copy. A copy into a capture is none. */
void copy_begin(struct copy *copy, CUstream stream, enum direction direction, uint64_t bytes);
CUresult copy_end(struct copy *copy, CUresult result);

/* The same after a call that returns when its work is done. */
CUresult copy_end_waited(struct copy *copy, CUresult result);

#endif
