/* Functions that the driver has and this one answers with "not supported", so that its tables are complete. No CUDA type. */
#ifndef TESSERA_SIM_REFUSED_H
#define TESSERA_SIM_REFUSED_H

#include <stdbool.h>
#include <stddef.h>

/* As in the table of api.c. */
struct entry {
  const char *name; /* as a program asks for it */
  int since;        /* CUDA version from which this ABI answers to the name */
  bool threaded;    /* the per-thread default stream variant */
  void (*function)(void);
};

extern const struct entry refused_entries[];
extern const size_t refused_count;

/* The result of the call of that name. */
int refuse(const char *symbol);

#endif
