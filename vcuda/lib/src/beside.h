/* What lies beside this library's own file: the hidden driver and the claim. No CUDA types. */
#ifndef VCUDA_BESIDE_H
#define VCUDA_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* "<folder of this library, as the loader names it>/<name>" into path; false when it does not fit or is not known. */
bool beside_path(char *path, size_t size, const char *name);

/* A handle of the object at "<folder>/<name>"; NULL when it cannot be opened. */
void *beside_open(const char *name);

/* A function of that object; NULL when it has none, or when the answer would be this library itself. */
void *beside_symbol(void *handle, const char *name);

#endif
