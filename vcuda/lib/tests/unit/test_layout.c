/* The C side of the golden bytes: fills the structs and prints the same text that tests/unit/node/test_layout.py expects.
 * Usage: test_layout GOLDEN_FOLDER compares; test_layout GOLDEN_FOLDER write makes the files anew. */
#include "vcuda/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_config(unsigned char *file) {
    struct vcuda_config_header *header = (void *)file;
    *header = (struct vcuda_config_header){
        .magic = VCUDA_CONFIG_MAGIC, .version = 1, .min_reader = 1,
        .header_size = sizeof *header, .record_size = sizeof(struct vcuda_config_device), .record_count = 2,
        .file_size = VCUDA_CONFIG_SIZE, .generation = 1,
    };
    for (unsigned i = 0; i < VCUDA_TAG_BYTES; i++)
        header->tag[i] = (uint8_t)(i + 1);
    struct vcuda_config_device *record = (void *)(file + sizeof *header);
    record[0] = (struct vcuda_config_device){
        .flags = VCUDA_COMPUTE_LIMITED, .uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff",
        .memory_limit = 0x0102030405060708, .overhead_bytes = 0x1112131415161718,
        .observed_bytes = 0x2122232425262728, .observed_at_ns = 0x3132333435363738,
        .guarantee = 301, .ceiling = 602, .share = 403, .others = 5,
        .phi_ppm = 1250000, .m_ppm = 875000, .priority = -7, .busy = 299,
    };
    record[1] = (struct vcuda_config_device){
        .flags = VCUDA_MEMORY_LIMITED | VCUDA_COMPUTE_LIMITED, .uuid = "GPU-2", .memory_limit = UINT64_C(8) << 30,
        .guarantee = 100, .ceiling = 1000, .share = 100, .phi_ppm = 1000000, .m_ppm = 1000000,
    };
}

static void fill_header(unsigned char *file) {
    struct vcuda_ledger_header *header = (void *)file;
    *header = (struct vcuda_ledger_header){
        .magic = VCUDA_LEDGER_MAGIC, .version = 1, .min_reader = 1, .header_size = sizeof *header,
        .device_size = sizeof(struct vcuda_ledger_device), .device_count = VCUDA_MAX_DEVICES,
        .slot_size = sizeof(struct vcuda_slot), .slot_count = VCUDA_MAX_SLOTS,
        .cost_size = sizeof(struct vcuda_cost), .cost_count = VCUDA_COST_ENTRIES,
        .devices_offset = VCUDA_DEVICES_OFFSET, .slots_offset = VCUDA_SLOTS_OFFSET,
        .costs_offset = VCUDA_COSTS_OFFSET, .file_size = VCUDA_LEDGER_SIZE,
    };
    for (unsigned i = 0; i < VCUDA_TAG_BYTES; i++)
        header->tag[i] = (uint8_t)(i + 1);
}

static void fill_books(unsigned char *file) {
    struct vcuda_ledger_header *header = (void *)file;
    header->refused_count = 1001, header->reclaimed_slots = 1002, header->epoch = 1003, header->slots_used = 4;
    struct vcuda_ledger_device *device = (void *)(file + VCUDA_DEVICES_OFFSET);
    device[1] = (struct vcuda_ledger_device){
        .reserved_bytes = 2001, .peak_bytes = 2002, .denied_bytes = 2003, .denied_count = 2004, .overhead_bytes = 2005,
        .tat_ns = 2006, .share_seen = 2007, .charged_ns = 2008, .throttled_ns = 2009, .borrowed_ns = 2010,
        .launches = 2011, .probes = 2012, .waiting = 2013, .launches_unknown = 2014, .largest_est_ns = 2015,
        .copy_to_device = 2016, .copy_to_host = 2017, .copy_on_device = 2018, .orphaned_bytes = 2022,
        .copy_to_device_ns = 2019, .copy_to_host_ns = 2020, .copy_on_device_ns = 2021,
    };
    struct vcuda_slot *slot = (void *)(file + VCUDA_SLOTS_OFFSET);
    slot[3] = (struct vcuda_slot){.epoch = 3001, .pid = 3002, .begun = 3003, .ended = 3004, .started_ns = 3005};
    slot[3].device[2] = (struct vcuda_slot_device){
        .bytes = {4001, 4002, 4003, 4004, 4005, 4006, 4007, 4008}, .inflight_since_ns = 4009, .inflight_ns = 4010,
        .last_launch_ns = 4011, .outstanding_ns = 4012, .unmeasured = 4013, .waiting = 4014, .contexts = 4015,
        .exported_bytes = 4016, .imported_bytes = 4017,
    };
    struct vcuda_cost *cost = (void *)(file + VCUDA_COSTS_OFFSET);
    cost[2 * VCUDA_COST_ENTRIES + 5] = (struct vcuda_cost){
        .key = 5001, .est_ns = 1.5, .slow_ns = 2.5, .run_ns = 3.5, .history_ns = {4.5, 5.5, 6.5, 7.5, 8.5},
        .history_at_ns = 5002, .unmeasured_since_ns = 5003, .samples = 5004, .slow_samples = 5005, .clean = 5006,
        .up = 5007, .down = 5008, .hot = 5009, .others_seen = 5010,
    };
}

static void print(FILE *out, const unsigned char *file, size_t size) {
    for (size_t at = 0; at < size; at += 16) {
        static const unsigned char zero[16];
        if (memcmp(file + at, zero, 16) == 0)
            continue;
        fprintf(out, "%08zx ", at);
        for (size_t i = 0; i < 16; i++)
            fprintf(out, "%02x", file[at + i]);
        fputc('\n', out);
    }
}

static int compare(const char *path, const unsigned char *file, size_t size, int write) {
    if (write) {
        FILE *out = fopen(path, "w");
        if (!out)
            return 1;
        print(out, file, size);
        return fclose(out) != 0;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return 1;
    print(memory, file, size);
    fclose(memory);
    char *golden = calloc(1, length + 2);
    FILE *in = fopen(path, "r");
    size_t got = in && golden ? fread(golden, 1, length + 1, in) : 0;
    int differs = got != length || memcmp(golden, text, length) != 0;
    if (differs)
        fprintf(stderr, "%s differs from the structs of layout.h\n", path);
    if (in)
        fclose(in);
    free(golden);
    free(text);
    return differs;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    int write = argc > 2, failures = 0;
    unsigned char *file = calloc(1, VCUDA_LEDGER_SIZE);
    char path[4096];
    if (!file)
        return 2;
    fill_config(file);
    snprintf(path, sizeof path, "%s/config.txt", argv[1]);
    failures += compare(path, file, VCUDA_CONFIG_SIZE, write);
    memset(file, 0, VCUDA_CONFIG_SIZE);
    fill_header(file);
    snprintf(path, sizeof path, "%s/ledger-empty.txt", argv[1]);
    failures += compare(path, file, VCUDA_LEDGER_SIZE, write);
    fill_books(file);
    snprintf(path, sizeof path, "%s/ledger-filled.txt", argv[1]);
    failures += compare(path, file, VCUDA_LEDGER_SIZE, write);
    free(file);
    return failures;
}
