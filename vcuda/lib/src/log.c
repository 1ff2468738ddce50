#include "log.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LIMIT = 1 << 20 };

static const char *const what[TROUBLE_KINDS] = {
    [TROUBLE_NO_CLAIM] = "no usable claim folder: device memory and launches are refused",
    [TROUBLE_FOREIGN_LAYOUT] = "the claim's files have a layout that this library does not understand: device memory and launches are refused",
    [TROUBLE_NO_DRIVER] = "the driver beside this library cannot be used",
    [TROUBLE_NO_SLOT] = "all process slots of the claim are taken: this process gets no device memory",
    [TROUBLE_UNLISTED_CARD] = "a card that is not part of the claim was used: it gets no memory",
    [TROUBLE_TORN_RECORD] = "a config record stays half written: the last good limits are kept",
    [TROUBLE_LOST_LOCK] = "the program closed our lock file: a new process slot was taken",
};

static atomic_int log_fd = -1;
static atomic_uint told;

void log_open(const char *folder) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/log", folder);
    if (length < 0 || (size_t)length >= sizeof path)
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    int none = -1;
    if (fd >= 0 && !atomic_compare_exchange_strong(&log_fd, &none, fd))
        close(fd);
}

void log_trouble(enum trouble kind, const char *detail) {
    unsigned bit = 1u << kind;
    struct stat status;
    int fd = atomic_load(&log_fd);
    if (fd < 0 || (atomic_fetch_or(&told, bit) & bit) || fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > LOG_LIMIT)
        return;
    struct timespec now;
    struct tm utc;
    char stamp[32], line[1024];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    int length = snprintf(line, sizeof line, "%s pid %d: %s (%s)\n", stamp, (int)getpid(), what[kind], detail);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    if (write(fd, line, size) < 0)
        return; /* a full disk is no reason to disturb the program */
}
