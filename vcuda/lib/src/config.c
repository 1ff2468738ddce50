#include "config.h"

#include "log.h"

#include <string.h>
#include <strings.h>

enum { READ_TRIES = 1000 };

static uint32_t load(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED); /* written by the agent; the sequence number tells whether to believe it */
}

static uint64_t load64(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static double bounded(uint32_t ppm, double low, double high) {
    double value = ppm / 1e6;
    return value < low ? low : value > high ? high : value;
}

static void copy_record(const struct vcuda_config_device *record, struct limits *limits) {
    uint32_t flags = load(&record->flags), share = load(&record->share);
    share = share < 1 ? 1 : share > 1000 ? 1000 : share;
    *limits = (struct limits){
        .memory_limited = flags & VCUDA_MEMORY_LIMITED,
        .compute_limited = flags & VCUDA_COMPUTE_LIMITED,
        .memory_limit = load64(&record->memory_limit),
        .overhead_bytes = load64(&record->overhead_bytes),
        .guarantee = load(&record->guarantee),
        .ceiling = load(&record->ceiling),
        .share = share,
        .stretch = 1000.0 / share,
        .others = load(&record->others),
        .phi = bounded(load(&record->phi_ppm), 1.0, 64.0),
        .m = bounded(load(&record->m_ppm), 0.1, 8.0),
        .busy = load(&record->busy),
    };
}

static bool read_record(const struct vcuda_config_device *record, struct limits *limits) {
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t before = __atomic_load_n(&record->seq, __ATOMIC_ACQUIRE); /* pairs with the agent's stores of seq */
        copy_record(record, limits);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before % 2 == 0 && load(&record->seq) == before)
            return true;
    }
    return false;
}

const struct limits *config_read(struct limits_cache *cache, const struct region *region, int device) {
    uint64_t generation = __atomic_load_n(&region->config->generation, __ATOMIC_ACQUIRE); /* raised after each write of a record */
    bool had = cache->generation && cache->region == region && cache->device == device;
    struct limits fresh;
    if (read_record(region_record(region, device), &fresh)) {
        fresh.beat_ns = load64(&region->config->agent_beat_ns);
        *cache = (struct limits_cache){.region = region, .device = device, .generation = generation, .limits = fresh};
        return &cache->limits;
    }
    log_trouble(TROUBLE_TORN_RECORD, had ? "kept" : "none yet");
    return had ? &cache->limits : NULL;
}

const struct limits *config_limits(const struct region *region, int device) {
    static __thread struct limits_cache caches[VCUDA_MAX_DEVICES];
    return config_cached(&caches[device], region, device);
}

static const char *without_kind(const char *uuid) {
    return strncasecmp(uuid, "GPU-", 4) == 0 || strncasecmp(uuid, "MIG-", 4) == 0 ? uuid + 4 : uuid;
}

int config_find(const struct region *region, const char *uuid) {
    for (int i = 0; i < (int)region->record_count; i++) {
        char listed[VCUDA_UUID_BYTES + 1] = "";
        memcpy(listed, region_record(region, i)->uuid, VCUDA_UUID_BYTES);
        if (strcasecmp(without_kind(listed), without_kind(uuid)) == 0)
            return i;
    }
    return -1;
}
