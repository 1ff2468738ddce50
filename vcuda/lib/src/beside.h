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

/* One function of a hidden library. */
struct symbol {
    const char *name;
    size_t offset; /* of its pointer in the struct of functions */
    enum { REQUIRED, OPTIONAL } need;
    void *hook; /* NULL: only called */
};

/* Look all of them up in "<folder>/<name>"; those that it lacks become NULL. It may also serve the clock. False, and a line in the log, when it cannot
 * be opened or lacks what is required. */
bool beside_look_up(const char *name, const struct symbol *symbols, size_t count, void *functions);

#endif
