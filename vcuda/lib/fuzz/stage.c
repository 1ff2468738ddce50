#include "stage.h"

#include "clock.h"
#include "ledger.h"
#include "meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Twice the debt cap of 30 s, 2 s for unknown kernels and 2 s for own work in flight, with room. */
#define LONGEST_WAIT_NS UINT64_C(70000000000)

uint64_t stage_now_ns = STAGE_START_NS;
static char folder[64];

static int served_now(uint64_t *ns) {
    *ns = stage_now_ns;
    return 0;
}

static int served_sleep(uint64_t until_ns) {
    stage_now_ns = until_ns > stage_now_ns ? until_ns : stage_now_ns;
    return 0;
}

static void must(int holds, const char *what) {
    if (holds)
        return;
    perror(what);
    abort();
}

static void write_file(const char *name, const void *data, size_t size, size_t length) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)length) == 0, path);
    close(fd);
}

static void remove_folder(void) {
    static const char *const names[] = {"config", "ledger", "lock"};
    char path[96];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void) {
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "/dev/shm/tessera-fuzz-XXXXXX");
    must(mkdtemp(folder) != NULL, folder);
    write_file("lock", "", 0, VCUDA_LOCK_SIZE);
    atexit(remove_folder);
    clock_use(served_now, served_sleep);
}

void stage_config(const void *data, size_t size, size_t length) {
    make_folder();
    write_file("config", data, size, length);
}

void stage_ledger(const void *data, size_t size, size_t length) {
    make_folder();
    write_file("ledger", data, size, length);
}

void stage_sound_config(unsigned char *file) {
    struct vcuda_config_header header = {
        .magic = VCUDA_CONFIG_MAGIC, .version = 1, .min_reader = 1, .header_size = sizeof header,
        .record_size = sizeof(struct vcuda_config_device), .record_count = 1, .file_size = VCUDA_CONFIG_SIZE, .generation = 1,
    };
    struct vcuda_config_device record = {
        .flags = VCUDA_MEMORY_LIMITED | VCUDA_COMPUTE_LIMITED, .uuid = "GPU-00000000-0000-0000-0000-000000000001",
        .memory_limit = UINT64_C(1) << 30, .guarantee = 300, .ceiling = 300, .share = 300, .phi_ppm = 1000000, .m_ppm = 1000000,
    };
    memset(file, 0, VCUDA_CONFIG_SIZE);
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, &record, sizeof record);
}

struct vcuda_ledger_header stage_sound_ledger(void) {
    return (struct vcuda_ledger_header){
        .magic = VCUDA_LEDGER_MAGIC, .version = 1, .min_reader = 1, .header_size = sizeof(struct vcuda_ledger_header),
        .device_size = sizeof(struct vcuda_ledger_device), .device_count = VCUDA_MAX_DEVICES,
        .slot_size = sizeof(struct vcuda_slot), .slot_count = VCUDA_MAX_SLOTS,
        .cost_size = sizeof(struct vcuda_cost), .cost_count = VCUDA_COST_ENTRIES,
        .devices_offset = VCUDA_DEVICES_OFFSET, .slots_offset = VCUDA_SLOTS_OFFSET,
        .costs_offset = VCUDA_COSTS_OFFSET, .file_size = VCUDA_LEDGER_SIZE,
    };
}

struct run {
    void (*body)(struct region *region, void *input);
    void *input;
};

static size_t length_of(const char *name) {
    char path[96];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(stat(path, &status) == 0, path);
    return (size_t)status.st_size;
}

static void *run(void *argument) {
    const struct run *what = argument;
    struct region region;
    stage_now_ns = STAGE_START_NS;
    bool open = region_open(&region, folder) == 0;
    what->body(open ? &region : NULL, what->input);
    if (open) { /* a program keeps these for life */
        ledger_after_fork(&region);
        close(region.lock_fd);
        munmap((void *)(uintptr_t)region.config, length_of("config"));
        munmap(region.ledger, length_of("ledger"));
    }
    flight_after_fork();
    return NULL;
}

void stage_run(void (*body)(struct region *region, void *input), void *input) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, run, &(struct run){body, input}) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void nothing_finished(void *context) {
    (void)context;
}

void stage_launch(struct region *region, int device, uint64_t key, double wall_ns) {
    struct ticket ticket;
    uint64_t begun = stage_now_ns;
    int slot = region_own_slot(region);
    if (slot < 0)
        return;
    bool admitted = meter_admit(region, slot, device, key, &ticket, nothing_finished, NULL);
    if (stage_now_ns - begun > LONGEST_WAIT_NS) {
        fprintf(stderr, "a launch waited %g s\n", (double)(stage_now_ns - begun) / 1e9);
        abort();
    }
    if (!admitted || !ticket.cost)
        return;
    flight_add(region, slot, device, (uint64_t)ticket.est_ns, stage_now_ns);
    stage_now_ns += (uint64_t)wall_ns;
    flight_done(region, slot, device, (uint64_t)ticket.est_ns, stage_now_ns);
    meter_measured(region, slot, device, &ticket, wall_ns);
}
