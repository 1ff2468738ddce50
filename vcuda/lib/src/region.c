#include "region.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_path(char *path, size_t size, const char *folder, const char *name) {
    int length = snprintf(path, size, "%s/%s", folder, name);
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/* Map a whole file of at least `minimum` bytes; its length goes to *size. */
static int map_file(const char *folder, const char *name, int flags, size_t minimum, void **address, uint64_t *size) {
    char path[4096];
    struct stat status;
    int err = file_path(path, sizeof path, folder, name);
    if (err)
        return err;
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0) {
        err = -errno;
        goto out;
    }
    if (!S_ISREG(status.st_mode) || status.st_size < (off_t)minimum) {
        err = -EPROTO;
        goto out;
    }
    int protection = flags == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ;
    *address = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    *size = (uint64_t)status.st_size;
    if (*address == MAP_FAILED)
        err = -errno;
out:
    close(fd);
    return err;
}

static bool version_fits(uint32_t version, uint32_t min_reader) {
    return version >= VCUDA_LAYOUT_OLDEST && min_reader <= VCUDA_LAYOUT_VERSION;
}

static int check_config(struct region *region, uint64_t size) {
    const struct vcuda_config_header *header = region->config;
    if (header->magic != VCUDA_CONFIG_MAGIC || !version_fits(header->version, header->min_reader))
        return -EPROTO;
    region->config_header_size = header->header_size;
    region->record_size = header->record_size;
    region->record_count = header->record_count;
    bool sound = region->config_header_size >= sizeof *header && region->config_header_size % 8 == 0 &&
                 region->record_size >= sizeof(struct vcuda_config_device) && region->record_size % 8 == 0 &&
                 region->record_count <= VCUDA_MAX_DEVICES &&
                 region->config_header_size + (uint64_t)region->record_count * region->record_size <= size;
    return sound ? 0 : -EPROTO;
}

/* A table of `count` records of `record` bytes, each at least `known`, inside a file of `size` bytes. */
static bool table_fits(uint64_t offset, uint64_t record, uint64_t known, uint64_t count, uint64_t size) {
    return record >= known && record % 8 == 0 && offset % 8 == 0 && offset <= size && record <= size && count <= UINT32_MAX &&
           record * count <= size - offset;
}

static int check_ledger(struct region *region, uint64_t size) {
    const struct vcuda_ledger_header *header = region->ledger;
    if (header->magic != VCUDA_LEDGER_MAGIC || !version_fits(header->version, header->min_reader))
        return -EPROTO;
    region->device_size = header->device_size;
    region->slot_size = header->slot_size;
    region->slot_count = header->slot_count;
    region->cost_size = header->cost_size;
    region->cost_count = header->cost_count;
    region->devices_offset = header->devices_offset;
    region->slots_offset = header->slots_offset;
    region->costs_offset = header->costs_offset;
    bool sound = table_fits(region->devices_offset, region->device_size, sizeof(struct vcuda_ledger_device), VCUDA_MAX_DEVICES, size) &&
                 table_fits(region->slots_offset, region->slot_size, sizeof(struct vcuda_slot), region->slot_count, size) &&
                 table_fits(region->costs_offset, region->cost_size, sizeof(struct vcuda_cost),
                            (uint64_t)VCUDA_MAX_DEVICES * region->cost_count, size) &&
                 header->device_count >= VCUDA_MAX_DEVICES && region->slot_count > 0 && region->slot_count <= VCUDA_MAX_SLOTS &&
                 region->cost_count > 0 && (region->cost_count & (region->cost_count - 1)) == 0;
    return sound ? 0 : -EPROTO;
}

static int open_lock(struct region *region) {
    struct stat status;
    int fd = open(region->lock_path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) < 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    region->lock_fd = fd;
    region->lock_device = (uint64_t)status.st_dev;
    region->lock_inode = (uint64_t)status.st_ino;
    return 0;
}

int region_open(struct region *region, const char *folder) {
    void *config = NULL, *ledger = NULL;
    uint64_t config_size = 0, ledger_size = 0;
    *region = (struct region){.lock_fd = -1};
    atomic_init(&region->slot, -1);
    pthread_mutex_init(&region->joining, NULL);
    int err = file_path(region->lock_path, sizeof region->lock_path, folder, "lock");
    if (!err)
        err = map_file(folder, "ledger", O_RDWR, sizeof *region->ledger, &ledger, &ledger_size);
    if (err)
        return err;
    region->ledger = ledger;
    err = check_ledger(region, ledger_size);
    if (err)
        goto no_ledger;
    err = map_file(folder, "config", O_RDONLY, sizeof *region->config, &config, &config_size);
    if (err)
        goto refuse;
    region->config = config;
    err = check_config(region, config_size);
    if (!err)
        err = open_lock(region);
    if (!err)
        return 0;
    munmap(config, config_size);
    region->config = NULL;
refuse:
    __atomic_fetch_add(&region->ledger->refused_count, 1, __ATOMIC_RELAXED); /* read by the agent */
no_ledger:
    munmap(ledger, ledger_size);
    region->ledger = NULL;
    return err;
}

void region_forget_slot(struct region *region) {
    atomic_store(&region->slot, -1);
    pthread_mutex_init(&region->joining, NULL); /* its owner may have been a thread that the child does not have */
}

static struct flock byte_lock(short kind, int byte) {
    return (struct flock){.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

bool region_try_lock(const struct region *region, int byte) {
    struct flock lock = byte_lock(F_WRLCK, byte);
    return fcntl(region->lock_fd, F_SETLK, &lock) == 0;
}

void region_unlock(const struct region *region, int byte) {
    struct flock lock = byte_lock(F_UNLCK, byte);
    fcntl(region->lock_fd, F_SETLK, &lock);
}

bool region_slot_alive(int fd, int slot) {
    /* Asked as an open file description, so that locks of this very process count as another's. */
    struct flock lock = byte_lock(F_WRLCK, slot);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int region_slots_used(const struct region *region) {
    uint32_t used = __atomic_load_n(&region->ledger->slots_used, __ATOMIC_ACQUIRE); /* pairs with the raise in mark_used */
    return (int)(used < region->slot_count ? used : region->slot_count);
}

static void mark_used(struct region *region, int slot) {
    uint32_t used = __atomic_load_n(&region->ledger->slots_used, __ATOMIC_RELAXED), wanted = (uint32_t)slot + 1;
    while (used < wanted &&
           !__atomic_compare_exchange_n(&region->ledger->slots_used, &used, wanted, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* The caller holds the slot's byte. Bytes of a dead predecessor stay: ledger_reclaim gives them back, or we inherit them as surplus;
 * so only an empty slot is taken. */
static bool slot_is_empty(const struct vcuda_slot *slot) {
    if (__atomic_load_n(&slot->begun, __ATOMIC_ACQUIRE) != __atomic_load_n(&slot->ended, __ATOMIC_ACQUIRE))
        return false;
    for (int device = 0; device < VCUDA_MAX_DEVICES; device++)
        for (int kind = 0; kind < VCUDA_CLASSES; kind++)
            if (__atomic_load_n(&slot->device[device].bytes[kind], __ATOMIC_ACQUIRE))
                return false;
    return true;
}

static void settle_in(struct region *region, int index) {
    struct vcuda_slot *slot = region_slot(region, index);
    for (int device = 0; device < VCUDA_MAX_DEVICES; device++) {
        struct vcuda_slot_device *mine = &slot->device[device];
        memset(&mine->inflight_since_ns, 0, sizeof *mine - offsetof(struct vcuda_slot_device, inflight_since_ns));
    }
    memset(slot->overhead_pages, 0, sizeof slot->overhead_pages);
    slot->pid = (uint32_t)getpid();
    slot->started_ns = clock_now();
    uint64_t epoch = __atomic_add_fetch(&region->ledger->epoch, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->epoch, epoch, __ATOMIC_RELEASE); /* read by agents and siblings: now the fields above are ours */
    mark_used(region, index);
}

static int find_slot(struct region *region) {
    for (int i = 0; i < (int)region->slot_count; i++) {
        if (!region_try_lock(region, i)) {
            if (errno != EACCES && errno != EAGAIN)
                return -errno;
            continue;
        }
        if (slot_is_empty(region_slot(region, i))) {
            settle_in(region, i);
            return i;
        }
        region_unlock(region, i);
    }
    log_trouble(TROUBLE_NO_SLOT, region->lock_path);
    return -ENOSPC;
}

int region_take_slot(struct region *region) {
    pthread_mutex_lock(&region->joining);
    int slot = atomic_load_explicit(&region->slot, memory_order_relaxed);
    if (slot < 0) {
        slot = find_slot(region);
        if (slot >= 0)
            atomic_store_explicit(&region->slot, slot, memory_order_release);
    }
    pthread_mutex_unlock(&region->joining);
    return slot;
}

bool region_lock_lost(const struct region *region) {
    struct stat status;
    return fstat(region->lock_fd, &status) < 0 || (uint64_t)status.st_dev != region->lock_device ||
           (uint64_t)status.st_ino != region->lock_inode;
}

int region_reopen_lock(struct region *region) {
    pthread_mutex_lock(&region->joining);
    int err = 0;
    if (region_lock_lost(region)) {
        err = open_lock(region);
        atomic_store(&region->slot, -1);
        log_trouble(TROUBLE_LOST_LOCK, region->lock_path);
    }
    pthread_mutex_unlock(&region->joining);
    return err;
}
