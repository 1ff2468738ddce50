/* The commands of tessera-sim. Each answers the exit status: 0 done, 1 failed, 2 wrong usage. */
#ifndef TESSERA_SIM_TOOL_H
#define TESSERA_SIM_TOOL_H

int sim_tool_create(int argc, char **argv);
int sim_tool_show(int argc, char **argv);
int sim_tool_destroy(int argc, char **argv);
int sim_tool_kernel(int argc, char **argv);
int sim_tool_fault(int argc, char **argv);

/* Prints one sentence to standard error and answers 1. */
int sim_tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int sim_tool_usage(void);

struct sim_handle;
/* Opens the node at path or says why not. 0 or 1. */
int sim_tool_open(struct sim_handle *handle, const char *path);

#endif
