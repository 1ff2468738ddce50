/* What private.c needs of others, and gives them. */
#ifndef TESSERA_SIM_PRIVATE_H
#define TESSERA_SIM_PRIVATE_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "driver.h"

/* The handle that the device's primary context has whenever it is active. Makes nothing active. */
CUresult primary_handle(CUcontext *out, CUdevice device);

/* The context ends, and with it what the runtime keeps with it. */
void private_end(CUcontext context);

/* The two kinds of record that the answer is made of, byte for byte. */
struct handshake_call {
  uint32_t driver, runtime, process, thread;
  uint64_t runtime_table, handshake_table, function, seconds;
};
struct handshake_device {
  CUuuid uuid;
  int domain, bus, device;
};

/* Of a call and of all visible devices. */
void handshake_answer(const struct handshake_call *call, const struct handshake_device *devices, size_t count, unsigned char answer[16]);

#endif
