#include "check.h"

#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int check_failures;
uint64_t check_now_ns = 1000000000;

static int make_file(const struct claim *claim, const char *name, uint64_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", claim->folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size)) {
        perror(path);
        exit(2);
    }
    return fd;
}

static void make_ledger(const struct claim *claim) {
    struct vcuda_ledger_header header = {
        .magic = VCUDA_LEDGER_MAGIC, .version = 1, .min_reader = 1, .header_size = sizeof header,
        .device_size = sizeof(struct vcuda_ledger_device), .device_count = VCUDA_MAX_DEVICES,
        .slot_size = sizeof(struct vcuda_slot), .slot_count = VCUDA_MAX_SLOTS,
        .cost_size = sizeof(struct vcuda_cost), .cost_count = VCUDA_COST_ENTRIES,
        .devices_offset = VCUDA_DEVICES_OFFSET, .slots_offset = VCUDA_SLOTS_OFFSET,
        .costs_offset = VCUDA_COSTS_OFFSET, .file_size = VCUDA_LEDGER_SIZE,
    };
    close(make_file(claim, "ledger", VCUDA_LEDGER_SIZE));
    check_scribble(claim, "ledger", 0, &header, sizeof header);
}

struct claim check_claim(uint64_t memory_limit, uint32_t share) {
    static uint64_t generation; /* a thread keeps limits by region and generation, and tests use one region for many claims */
    struct claim claim = {.folder = "/tmp/tessera-unit-XXXXXX"};
    if (!mkdtemp(claim.folder))
        exit(2);
    int fd = make_file(&claim, "config", VCUDA_CONFIG_SIZE);
    claim.config = mmap(NULL, VCUDA_CONFIG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *claim.config = (struct vcuda_config_header){
        .magic = VCUDA_CONFIG_MAGIC, .version = 1, .min_reader = 1, .header_size = sizeof *claim.config,
        .record_size = sizeof(struct vcuda_config_device), .record_count = 1, .file_size = VCUDA_CONFIG_SIZE, .generation = ++generation * 1000,
    };
    claim.record = (void *)(claim.config + 1);
    *claim.record = (struct vcuda_config_device){
        .flags = VCUDA_MEMORY_LIMITED | VCUDA_COMPUTE_LIMITED, .uuid = "GPU-00000000-0000-0000-0000-000000000001",
        .memory_limit = memory_limit, .guarantee = share, .ceiling = share, .share = share, .phi_ppm = 1000000, .m_ppm = 1000000,
    };
    make_ledger(&claim);
    close(make_file(&claim, "lock", VCUDA_LOCK_SIZE));
    close(make_file(&claim, "log", 0));
    return claim;
}

void check_drop(struct claim *claim) {
    static const char *const names[] = {"config", "ledger", "lock", "log"};
    char path[128];
    munmap(claim->config, VCUDA_CONFIG_SIZE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", claim->folder, names[i]);
        unlink(path);
    }
    rmdir(claim->folder);
}

void check_scribble(const struct claim *claim, const char *name, long offset, const void *data, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", claim->folder, name);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || pwrite(fd, data, size, offset) != (ssize_t)size)
        exit(2);
    close(fd);
}

static int now(uint64_t *ns) {
    *ns = check_now_ns;
    return 0;
}

static int sleep_until(uint64_t ns) {
    check_now_ns = ns > check_now_ns ? ns : check_now_ns;
    return 0;
}

void check_use_clock(void) {
    clock_use(now, sleep_until);
}
