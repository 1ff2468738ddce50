/* tessera-sim: makes, shows, changes and removes simulated nodes. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "books.h"
#include "node.h"

int sim_tool_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("tessera-sim: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return 1;
}

int sim_tool_usage(void) {
  fputs("usage: tessera-sim create PATH --cards NAME[,NAME...] [--time real|virtual] [--seed N] [--driver 11.2...13.5]\n"
        "                          [--slice-ms MS] [--switch-us US] [--launch-us US] [--jitter-permille N]\n"
        "                          [--hold THREADS] [--stall-ms MS] [--cards-dir DIR] [--mig INDEX=PROFILE+PROFILE]\n"
        "       tessera-sim show PATH [--json]\n"
        "       tessera-sim kernel PATH PATTERN NS          cost of kernels whose name matches the shell pattern\n"
        "       tessera-sim fault PATH fail CALL RESULT [--skip N] [--times N]\n"
        "       tessera-sim fault PATH slow CALL MS | kill CALL [--skip N] [--times N] [--after 1]\n"
        "       tessera-sim fault PATH card INDEX healthy|unhealthy|lost [--xid N]\n"
        "       tessera-sim fault PATH clear\n"
        "       tessera-sim destroy PATH\n",
        stderr);
  return 2;
}

int sim_tool_open(struct sim_handle *handle, const char *path) {
  int result = sim_open(handle, path);
  if (result == 0) return 0;
  if (result == -EPROTO) return sim_tool_fail("%s is not a node of this version. Choose another path, or remove the file.", path);
  if (result == -ESTALE) return sim_tool_fail("%s was made before the last boot. Run `tessera-sim create` again.", path);
  return sim_tool_fail("cannot open the node %s: %s", path, strerror(-result));
}

int sim_tool_destroy(int argc, char **argv) {
  struct sim_handle handle;
  int result;
  if (argc != 1) return sim_tool_usage();
  result = sim_open(&handle, argv[0]);
  if (result == -ENOENT) {
    printf("%s does not exist: nothing to do\n", argv[0]);
    return 0;
  }
  if (result < 0 && result != -ESTALE && result != -EPROTO) return sim_tool_open(&handle, argv[0]);
  if (result == -EPROTO) return sim_tool_fail("%s is not a node of this version: not removed", argv[0]);
  sim_close(&handle);
  if (unlink(argv[0]) < 0) return sim_tool_fail("cannot remove %s: %s", argv[0], strerror(errno));
  printf("removed %s\n", argv[0]);
  return 0;
}

int sim_tool_kernel(int argc, char **argv) {
  struct sim_handle handle;
  char *end;
  unsigned long long cost;
  int result;

  if (argc != 3) return sim_tool_usage();
  errno = 0;
  cost = strtoull(argv[2], &end, 10);
  if (errno || *end || end == argv[2]) return sim_tool_fail("'%s' is no number of nanoseconds", argv[2]);
  if (sim_tool_open(&handle, argv[0])) return 1;
  result = sim_set_kernel_cost(&handle, argv[1], cost);
  sim_close(&handle);
  if (result < 0) return sim_tool_fail("cannot register '%s': %s", argv[1], strerror(-result));
  printf("kernels named %s now take %llu ns\n", argv[1], cost);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
  } commands[] = {{"create", sim_tool_create}, {"show", sim_tool_show},     {"kernel", sim_tool_kernel},
                  {"fault", sim_tool_fault},   {"destroy", sim_tool_destroy}};
  for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
  }
  return sim_tool_usage();
}
