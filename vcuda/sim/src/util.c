#define _GNU_SOURCE
#include "util.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t sim_monotonic_ns(void) { return read_clock(CLOCK_MONOTONIC); }
uint64_t sim_coarse_ns(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

/* The default timer slack of 50 us would make every short kernel look 50 us longer than it is, where hardware answers a
 * synchronisation within a few. The thread's own setting is put back. */
void sim_futex_wait(uint32_t *word, uint32_t seen, uint64_t until_monotonic_ns) {
  uint64_t second = sim_monotonic_ns() + NS_PER_S;
  uint64_t until = until_monotonic_ns < second ? until_monotonic_ns : second;
  struct timespec deadline = {.tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S)};
  int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);

  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
  if (slack > 0) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
}

void sim_futex_wake(uint32_t *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0); }

static void read_line(const char *path, char *out, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
  if (fd >= 0) close(fd);
  out[got > 0 ? got : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

void sim_boot_id(char out[40]) {
  memset(out, 0, 40);
  read_line("/proc/sys/kernel/random/boot_id", out, 40);
}

void sim_own_comm(char out[16]) {
  memset(out, 0, 16);
  read_line("/proc/self/comm", out, 16);
}

/* AT_RANDOM gives every exec 16 random bytes that all libraries of the process can find; the process id tells a forked
 * child from its parent, and its namespace two children that are both process 1. */
uint64_t sim_process_token(void) {
  const void *random = (const void *)getauxval(AT_RANDOM); // NOLINT: the kernel hands out a pointer as an integer
  struct stat namespace = {0};
  uint64_t token = 0;
  if (random) memcpy(&token, random, sizeof token);
  (void)!stat("/proc/self/ns/pid", &namespace);
  return token ^ ((uint64_t)getpid() << 32) ^ (uint64_t)namespace.st_ino;
}

uint64_t sim_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
