/* How long the limiting library holds its locks: preloaded before a program, it times every mutex that the library named by TESSERA_HELD takes and
 * the reclaim byte of its lock file. At the end it appends a line to the file TESSERA_HELD_OUT: "sections longest_ns interrupted longest_interrupted_ns".
 * A section during which the kernel gave the processor to somebody else is told apart: its length is the machine's. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { DEEP = 8, RECLAIM_BYTE = 512 };

struct section {
    const void *lock;
    uint64_t since;
    long switches;
};

static uintptr_t first, last;
static uint64_t sections, longest, interrupted, longest_interrupted;
static __thread struct section stack[DEEP];
static __thread int depth;
static int (*real_lock)(pthread_mutex_t *), (*real_try)(pthread_mutex_t *), (*real_unlock)(pthread_mutex_t *);

static int look(struct dl_phdr_info *info, size_t size, void *wanted) {
    (void)size;
    if (!info->dlpi_name || strcmp(info->dlpi_name, (const char *)wanted) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            last = first + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static int theirs(const void *caller) {
    const char *wanted = getenv("TESSERA_HELD");
    if (!first && wanted)
        dl_iterate_phdr(look, (void *)(uintptr_t)wanted);
    return (uintptr_t)caller >= first && (uintptr_t)caller < last;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Times that the kernel took the processor away, and not waits of the section's own. */
static long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static void enter(const void *lock) {
    if (depth < DEEP)
        stack[depth] = (struct section){lock, now(), switches()};
    depth++;
}

static void raise_to(uint64_t *most, uint64_t value) {
    uint64_t old = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(most, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void leave(const void *lock) {
    uint64_t end = now();
    if (depth == 0)
        return;
    depth--;
    if (depth >= DEEP || stack[depth].lock != lock)
        return;
    int taken_away = switches() != stack[depth].switches;
    __atomic_fetch_add(taken_away ? &interrupted : &sections, 1, __ATOMIC_RELAXED);
    raise_to(taken_away ? &longest_interrupted : &longest, end - stack[depth].since);
}

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!real_lock)
        *(void **)&real_lock = real("pthread_mutex_lock");
    int result = real_lock(mutex);
    if (theirs(__builtin_return_address(0)))
        enter(mutex);
    return result;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    if (!real_try)
        *(void **)&real_try = real("pthread_mutex_trylock");
    int result = real_try(mutex);
    if (result == 0 && theirs(__builtin_return_address(0)))
        enter(mutex);
    return result;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    if (!real_unlock)
        *(void **)&real_unlock = real("pthread_mutex_unlock");
    if (theirs(__builtin_return_address(0)))
        leave(mutex);
    return real_unlock(mutex);
}

/* The library asks for locks by F_SETLK only, so a success is an entry. */
EXPORT int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    const struct flock *lock = argument;
    int ours = command == F_SETLK && theirs(__builtin_return_address(0)) && lock->l_start == RECLAIM_BYTE;
    if (ours && lock->l_type == F_UNLCK)
        leave("reclaim");
    int result = (int)syscall(SYS_fcntl, fd, command, argument);
    if (ours && result == 0 && lock->l_type != F_UNLCK)
        enter("reclaim");
    return result;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("TESSERA_HELD_OUT");
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out)
        return;
    fprintf(out, "%llu %llu %llu %llu\n", (unsigned long long)sections, (unsigned long long)longest, (unsigned long long)interrupted,
            (unsigned long long)longest_interrupted);
    fclose(out);
}
