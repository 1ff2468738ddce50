/* The files of a claim, byte for byte: `config` and `ledger`. Described in vcuda/ABI.md and mirrored by vcuda/node/layout.py;
 * both sides are tested against the same golden bytes. Plain little-endian integers and IEEE-754 doubles, no types of CUDA.
 * Fields shared between processes are read and written with the __atomic builtins where they are used, never by plain access. */
#ifndef VCUDA_LAYOUT_H
#define VCUDA_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define VCUDA_CONFIG_MAGIC UINT64_C(0x464e4f4353534554) /* "TESSCONF" */
#define VCUDA_LEDGER_MAGIC UINT64_C(0x4744454c53534554) /* "TESSLEDG" */
#define VCUDA_LAYOUT_VERSION 1u                          /* what this library writes and knows best */
#define VCUDA_LAYOUT_OLDEST 1u                           /* the oldest file that it still understands */

enum {
    VCUDA_MAX_DEVICES = 16,
    VCUDA_MAX_SLOTS = 512,      /* processes of one claim at a time */
    VCUDA_COST_ENTRIES = 4096,  /* kernels known per device; a power of two */
    VCUDA_UUID_BYTES = 48,      /* ASCII, padded with zeros: "GPU-8-4-4-4-12" */
    VCUDA_TAG_BYTES = 16,
    VCUDA_HISTORY_TICKS = 5,    /* agent ticks of 100 ms kept per cost */
    VCUDA_RECLAIM_BYTE = VCUDA_MAX_SLOTS, /* byte of `lock` that serialises the reclaiming of dead slots */
};

enum vcuda_flag {
    VCUDA_MEMORY_LIMITED = 1u << 0,
    VCUDA_COMPUTE_LIMITED = 1u << 1,
    VCUDA_EXCLUSIVE = 1u << 2,
};

/* Why the bytes are held; index into vcuda_slot_device.bytes. */
enum vcuda_class {
    VCUDA_CLASS_LINEAR = 0,
    VCUDA_CLASS_PITCHED = 1,
    VCUDA_CLASS_MANAGED = 2,
    VCUDA_CLASS_POOL = 3, /* stream-ordered and pools */
    VCUDA_CLASS_ARRAY = 4,
    VCUDA_CLASS_VMM = 5,
    VCUDA_CLASS_CONTEXT = 6, /* overhead of contexts and modules */
    VCUDA_CLASS_OTHER = 7,
    VCUDA_CLASSES = 8,
};

/* ---- config: written by the agent alone, mapped read-only ---- */

struct vcuda_config_header {
    uint64_t magic;
    uint32_t version;
    uint32_t min_reader; /* the oldest reader that may interpret this file */
    uint32_t header_size;
    uint32_t record_size;
    uint32_t record_count;
    uint32_t pad0;
    uint64_t file_size;
    uint64_t generation; /* +1 after every change of any record */
    uint8_t tag[VCUDA_TAG_BYTES];
    uint64_t agent_beat_ns; /* node time of the agent's last tick */
    uint8_t reserved[184];
};

struct vcuda_config_device {
    uint32_t seq;   /* odd while the agent writes */
    uint32_t flags; /* enum vcuda_flag */
    char uuid[VCUDA_UUID_BYTES];
    uint64_t memory_limit;      /* bytes */
    uint64_t overhead_bytes;    /* per process and context, learned by the agent; 0: not known, the library measures */
    uint64_t observed_bytes;    /* what NVML shows for the claim's processes */
    uint64_t observed_at_ns;    /* node time of the observation; 0: never */
    uint32_t guarantee;         /* per mille of the card's time */
    uint32_t ceiling;           /* per mille */
    uint32_t share;             /* per mille: guarantee + what is lent now */
    uint32_t others;            /* active processes of other claims on this card */
    uint32_t phi_ppm;           /* (1 + sum of their activity) * 1e6 */
    uint32_t m_ppm;             /* slow multiplier * 1e6 */
    int32_t priority;
    uint32_t busy;              /* per mille: the claim's own busy share as NVML measured it last */
    uint8_t reserved[136];
};

/* ---- ledger: shared and writable by all processes of the claim ---- */

struct vcuda_ledger_header {
    uint64_t magic;
    uint32_t version;
    uint32_t min_reader;
    uint32_t header_size;
    uint32_t device_size;
    uint32_t device_count;
    uint32_t slot_size;
    uint32_t slot_count;
    uint32_t cost_size;
    uint32_t cost_count; /* entries per device */
    uint32_t pad0;
    uint64_t devices_offset;
    uint64_t slots_offset;
    uint64_t costs_offset;
    uint64_t file_size;
    uint8_t tag[VCUDA_TAG_BYTES];
    uint64_t refused_count;   /* calls answered closed because the claim's files could not be used */
    uint64_t reclaimed_slots; /* dead processes whose bytes were given back */
    uint64_t epoch;           /* last epoch handed to a slot */
    uint32_t slots_used;      /* highest slot ever taken + 1: bounds the scans */
    uint32_t pad1;
    uint8_t reserved[3968];
};

struct vcuda_ledger_device {
    /* memory */
    uint64_t reserved_bytes; /* sum over all slots and classes, plus what is being asked for at this instant */
    uint64_t peak_bytes;
    uint64_t denied_bytes;
    uint64_t denied_count;
    uint64_t overhead_bytes; /* measured by a library: largest cost of one context, 0: not yet */
    uint64_t orphaned_bytes; /* exported by processes that have let go; no more than what others import. Part of reserved_bytes */
    uint64_t pad0[2];
    /* the meter's word, alone on its cache line */
    uint64_t tat_ns; /* theoretical arrival time, node time */
    uint32_t share_seen; /* per mille: the share that tat_ns is expressed in */
    uint32_t pad1;
    uint64_t pad2[6];
    /* counters */
    uint64_t charged_ns;   /* GPU time charged, all shares */
    uint64_t throttled_ns; /* time that launches waited for the share, summed over threads */
    uint64_t borrowed_ns;  /* part of charged_ns above the guarantee */
    uint64_t launches;
    uint64_t probes; /* event pairs that were evaluated */
    uint32_t waiting; /* launches waiting now; a killed process may leave it too high, see slots */
    uint32_t pad3;
    uint64_t launches_unknown; /* launches of a kernel without an estimate */
    uint64_t largest_est_ns; /* largest estimate charged since the agent last set this to 0 */
    /* copies, bytes */
    uint64_t copy_to_device;
    uint64_t copy_to_host;
    uint64_t copy_on_device;
    /* of copies from 1 MiB on, ns */
    uint64_t copy_to_device_ns;
    uint64_t copy_to_host_ns;
    uint64_t copy_on_device_ns;
    uint64_t pad4[2];
    uint64_t reserved[32];
};

struct vcuda_slot_device {
    uint64_t bytes[VCUDA_CLASSES];
    uint64_t inflight_since_ns; /* node time; 0: nothing in flight */
    uint64_t inflight_ns;       /* sum of the finished busy periods */
    uint64_t last_launch_ns;
    uint64_t outstanding_ns;    /* estimated GPU time in flight */
    uint32_t unmeasured;        /* launches of unknown kernels in flight */
    uint32_t waiting;           /* launches of this process that wait now */
    uint32_t contexts;
    uint32_t pad0;
    uint64_t exported_bytes;    /* part of `bytes` that other processes may have opened */
    uint64_t imported_bytes;    /* opened here, charged to whoever exported it */
};

struct vcuda_slot {
    uint64_t epoch;       /* new for every owner; 0: never used */
    uint32_t pid;         /* for the eye only: says nothing about life */
    uint32_t pad0;
    uint64_t begun;       /* memory operations begun; begun != ended in a dead slot: `reserved_bytes` needs a repair */
    uint64_t ended;
    uint64_t started_ns;  /* node time at which the owner took the slot */
    uint32_t overhead_pages[VCUDA_MAX_DEVICES]; /* of 2 MiB, by the agent: contexts, modules, heaps as measured; 0: not yet */
    uint8_t reserved[24];
    struct vcuda_slot_device device[VCUDA_MAX_DEVICES];
};

/* What one launch of a kernel costs; vcuda/README.md, "Estimating". A lost update is harmless. */
struct vcuda_cost {
    uint64_t key;     /* hash of function, module, grid, block, shared bytes; 0: free */
    double est_ns;    /* 0: not known */
    double slow_ns;   /* mean of interrupted samples / phi */
    double run_ns;    /* sum or minimum of the run that is being watched */
    double history_ns[VCUDA_HISTORY_TICKS];
    uint64_t history_at_ns; /* node time of history_ns[0], the newest */
    uint64_t unmeasured_since_ns; /* oldest unmeasured launch in flight; 0: none */
    uint32_t samples;
    uint32_t slow_samples;
    uint32_t clean;
    uint32_t up;   /* samples in a row above the estimate */
    uint32_t down; /* samples in a row below */
    uint32_t hot;  /* launches for which sampling stays denser */
    uint32_t others_seen;
    uint32_t pad0;
    uint64_t pad1;
};

#define VCUDA_CONFIG_SIZE (sizeof(struct vcuda_config_header) + VCUDA_MAX_DEVICES * sizeof(struct vcuda_config_device))
#define VCUDA_DEVICES_OFFSET sizeof(struct vcuda_ledger_header)
#define VCUDA_SLOTS_OFFSET (VCUDA_DEVICES_OFFSET + VCUDA_MAX_DEVICES * sizeof(struct vcuda_ledger_device))
#define VCUDA_COSTS_OFFSET (VCUDA_SLOTS_OFFSET + VCUDA_MAX_SLOTS * sizeof(struct vcuda_slot))
#define VCUDA_LEDGER_SIZE (VCUDA_COSTS_OFFSET + VCUDA_MAX_DEVICES * VCUDA_COST_ENTRIES * sizeof(struct vcuda_cost))
#define VCUDA_LOCK_SIZE (VCUDA_MAX_SLOTS + 1)

#define VCUDA_AT(type, field, offset) static_assert(offsetof(struct type, field) == (offset), #type "." #field)

static_assert(sizeof(struct vcuda_config_header) == 256, "config header");
VCUDA_AT(vcuda_config_header, version, 8);
VCUDA_AT(vcuda_config_header, header_size, 16);
VCUDA_AT(vcuda_config_header, file_size, 32);
VCUDA_AT(vcuda_config_header, generation, 40);
VCUDA_AT(vcuda_config_header, tag, 48);
VCUDA_AT(vcuda_config_header, agent_beat_ns, 64);

static_assert(sizeof(struct vcuda_config_device) == 256, "config device");
VCUDA_AT(vcuda_config_device, uuid, 8);
VCUDA_AT(vcuda_config_device, memory_limit, 56);
VCUDA_AT(vcuda_config_device, observed_at_ns, 80);
VCUDA_AT(vcuda_config_device, guarantee, 88);
VCUDA_AT(vcuda_config_device, share, 96);
VCUDA_AT(vcuda_config_device, phi_ppm, 104);
VCUDA_AT(vcuda_config_device, m_ppm, 108);
VCUDA_AT(vcuda_config_device, busy, 116);

static_assert(sizeof(struct vcuda_ledger_header) == 4096, "ledger header");
VCUDA_AT(vcuda_ledger_header, devices_offset, 48);
VCUDA_AT(vcuda_ledger_header, tag, 80);
VCUDA_AT(vcuda_ledger_header, refused_count, 96);
VCUDA_AT(vcuda_ledger_header, slots_used, 120);

static_assert(sizeof(struct vcuda_ledger_device) == 512, "ledger device");
VCUDA_AT(vcuda_ledger_device, orphaned_bytes, 40);
VCUDA_AT(vcuda_ledger_device, tat_ns, 64);
VCUDA_AT(vcuda_ledger_device, share_seen, 72);
VCUDA_AT(vcuda_ledger_device, charged_ns, 128);
VCUDA_AT(vcuda_ledger_device, waiting, 168);
VCUDA_AT(vcuda_ledger_device, largest_est_ns, 184);
VCUDA_AT(vcuda_ledger_device, copy_to_device, 192);
VCUDA_AT(vcuda_ledger_device, copy_to_device_ns, 216);

static_assert(sizeof(struct vcuda_slot_device) == 128, "slot device");
VCUDA_AT(vcuda_slot_device, inflight_since_ns, 64);
VCUDA_AT(vcuda_slot_device, unmeasured, 96);
VCUDA_AT(vcuda_slot_device, exported_bytes, 112);
static_assert(sizeof(struct vcuda_slot) == 128 + 16 * 128, "slot");
VCUDA_AT(vcuda_slot, begun, 16);
VCUDA_AT(vcuda_slot, overhead_pages, 40);
VCUDA_AT(vcuda_slot, device, 128);

static_assert(sizeof(struct vcuda_cost) == 128, "cost");
VCUDA_AT(vcuda_cost, history_ns, 32);
VCUDA_AT(vcuda_cost, unmeasured_since_ns, 80);
VCUDA_AT(vcuda_cost, samples, 88);

#undef VCUDA_AT
#endif
