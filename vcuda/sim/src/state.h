/*
 * The node state: one file, mapped by every process that uses the node, holding the cards and all that runs on them.
 *
 * Everything in here is guarded by node->lock (robust, shared between processes) unless a comment says otherwise.
 * Indexes, never pointers, so that the file may be mapped anywhere. Times are nanoseconds of the node's clock.
 */
#ifndef TESSERA_SIM_STATE_H
#define TESSERA_SIM_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "walls.h"

#define SIM_MAGIC 0x314d495353455354ull /* "TSESSIM1", little endian */
#define SIM_LAYOUT 3u
#define SIM_NEVER UINT64_MAX
#define SIM_NONE UINT32_MAX
#define SIM_WINDOW_NS 166666667ull /* one sixth of a second: the hardware's utilisation window */

enum {
  SIM_MAX_CARDS = 16,
  SIM_MAX_PROCS = 256,
  SIM_MAX_CTX = 1024,
  SIM_MAX_STREAMS = 4096,
  SIM_RING = 1024, /* operations in flight per stream, then a launch blocks */
  SIM_MAX_EVENTS = 65536,
  SIM_MAX_KERNEL_COSTS = 512,
  SIM_MAX_THREADS = 2048,
  SIM_WINDOWS = 32,
  SIM_MAX_FAULTS = 32,
  SIM_MAX_SHARES = 1024,
  SIM_NAME = 96
};

/* Classes of bytes, so that `show` can say who holds what. */
enum sim_class { SIM_LINEAR, SIM_MANAGED, SIM_ARRAY, SIM_POOL, SIM_VMM, SIM_CONTEXT, SIM_GRAPHICS, SIM_CLASSES };

enum sim_op_kind {
  SIM_OP_KERNEL, /* compute engine, time-sliced */
  SIM_OP_FILL,   /* memset and device-to-device copies: compute engine too */
  SIM_OP_H2D,    /* copy engine 0 */
  SIM_OP_D2H,    /* copy engine 1 */
  SIM_OP_RECORD, /* event record: no time of its own */
  SIM_OP_WAIT,   /* waits for an event record of another stream */
  SIM_OP_HOST    /* a function of the program; the process completes it */
};

struct sim_op {
  uint32_t kind;
  uint32_t event;    /* RECORD, WAIT: index into events[] */
  uint64_t order;    /* position among all operations of the node: FIFO between streams */
  uint64_t cost_ns;
  uint64_t cum_ns;   /* sum of the costs of this stream up to and including this one */
  uint64_t record;   /* RECORD, WAIT: number of the record */
  uint32_t needs_turn; /* RECORD: belongs to the compute queue, so its context must hold the card */
  uint32_t pad;
};

struct sim_stream {
  uint32_t ctx; /* SIM_NONE: free */
  uint32_t next; /* next stream of the same context */
  uint32_t flags;
  int32_t priority; /* lower runs first */
  uint64_t head;    /* operations completed so far */
  uint64_t tail;    /* operations ever put in */
  uint64_t cum_in_ns, cum_done_ns;
  uint64_t progress_ns;  /* time already given to the operation at head */
  uint32_t after_copy;   /* the last operation put in used a copy engine */
  uint32_t running;      /* head is on an engine now */
  struct sim_op ring[SIM_RING];
};

enum { SIM_STREAM_NON_BLOCKING = 1, SIM_STREAM_LEGACY = 2 };

struct sim_ctx {
  uint32_t proc; /* SIM_NONE: free */
  uint32_t card;
  uint32_t first_stream;
  uint32_t legacy; /* the default stream, first made on use */
  uint32_t pending; /* operations put in and not completed */
  uint32_t pad;
};

struct sim_event {
  uint32_t proc; /* SIM_NONE: free */
  uint32_t card;
  uint32_t refs;      /* operations in queues that name it */
  uint32_t destroyed; /* free it when refs reaches 0 */
  uint64_t recorded;  /* number of the newest record asked for */
  uint64_t done;      /* number of the newest record reached */
  uint64_t time_ns;   /* when `done` was reached */
  uint32_t stream;    /* where the newest record was put in, and as which operation */
  uint32_t next_free;
  uint64_t position;
  uint64_t serial; /* tells it from later events at the same index, for the processes that share it */
};

/* Memory that several processes may hold, see shares.h. */
struct sim_share {
  uint64_t serial; /* 0: free */
  uint64_t offset, bytes; /* in the node file */
  uint32_t card, class;
  uint32_t owner; /* process that is charged; SIM_NONE: only an exported descriptor holds it */
  uint32_t pad;
  uint32_t holds[SIM_MAX_PROCS];
};

struct sim_window {
  uint64_t id; /* window number since time 0 */
  uint64_t busy_ns, copy_ns;
  uint32_t proc_ns[SIM_MAX_PROCS];
};

struct sim_card_model {
  char name[64];
  char arch[16];
  uint32_t cc_major, cc_minor;
  uint32_t sms, threads_per_sm, blocks_per_sm, regs_per_sm;
  uint64_t shared_per_sm, shared_per_block, shared_optin;
  uint64_t memory, reserve, context; /* bytes: on the board, kept by the driver, per process with a context */
  uint64_t l2, bandwidth_bps;        /* device memory, bytes per second */
  uint32_t bus_width, mem_clock_mhz, sm_clock_mhz;
  uint32_t pcie_gen, pcie_width;
  uint32_t copy_engines, ecc, fan, brand;
  uint32_t power_limit_w, power_idle_w, temp_idle_c, temp_full_c;
  uint32_t device_id;
  uint32_t mig_slices; /* 0: the card has no MIG */
};

enum sim_health { SIM_HEALTHY, SIM_UNHEALTHY, SIM_LOST };

struct sim_engine {
  uint32_t stream; /* SIM_NONE: idle */
  uint32_t pad;
  uint64_t end_ns;
};

struct sim_card {
  struct sim_card_model model;
  unsigned char uuid[16];
  uint32_t index, health;
  uint32_t parent, slices; /* of a part made by MIG, see mig.h; a whole card: SIM_NONE, 0 */
  uint32_t xid, xid_count; /* newest critical event, and how many there have been */
  uint64_t rng;
  uint64_t front_ns; /* the card is simulated up to here */
  /* compute engine */
  uint32_t current;  /* context that holds the card, SIM_NONE at first */
  uint32_t switching;
  uint64_t switch_end_ns, slice_end_ns;
  struct sim_engine compute;
  struct sim_engine copy[2];
  /* contexts with pending work, in round-robin order */
  uint32_t active_count, pad2;
  uint32_t active[SIM_MAX_CTX];
  /* books */
  uint64_t busy_ns, switch_ns, switches;
  uint64_t peak_bytes;
  uint64_t proc_busy_ns[SIM_MAX_PROCS];
  struct sim_window windows[SIM_WINDOWS];
};

struct sim_proc {
  uint32_t live;
  uint32_t pid; /* in the process's own namespace; see sim_proc_pid. Never a test of liveness */
  uint32_t uid;
  uint32_t wake; /* futex: bumped when something other than time may let a waiter go on */
  uint32_t rank, pad;
  uint64_t token; /* the same for all libraries of one process, see sim_attach */
  uint64_t started_ns;
  char comm[16];
  uint64_t bytes[SIM_MAX_CARDS][SIM_CLASSES];
  uint32_t contexts[SIM_MAX_CARDS];
};

enum sim_thread_state { SIM_THREAD_FREE, SIM_THREAD_RUNNING, SIM_THREAD_BLOCKED, SIM_THREAD_ABSENT };

/* A thread that takes part in virtual time. */
struct sim_thread {
  uint32_t state;
  uint32_t proc;
  uint32_t rank;
  uint32_t serial; /* order of registration within its process */
  uint32_t wake;   /* futex: bumped when the thread gets the turn */
  uint32_t tid;    /* finds the entry again from another library of the same process */
  uint64_t wake_ns;
};

struct sim_clock {
  uint64_t now_ns;     /* virtual time; read without the lock (relaxed) by tesseraSimNow */
  uint32_t turn;       /* the one registered thread that runs, SIM_NONE: none */
  uint32_t hold;       /* time stands still until so many threads have registered */
  uint32_t registered; /* threads registered at this moment */
  uint32_t stalls;     /* turns taken from a thread that did not come back */
  uint64_t turn_since_real_ns;
};

struct sim_kernel_cost {
  char pattern[SIM_NAME]; /* fnmatch(3) pattern of the kernel's name */
  uint64_t cost_ns;
};

enum sim_fault_kind { SIM_FAULT_NONE, SIM_FAULT_FAIL, SIM_FAULT_SLOW, SIM_FAULT_KILL };

struct sim_fault {
  uint32_t kind;
  int32_t result;   /* code that the call answers with */
  uint32_t skip;    /* calls to let through first */
  uint32_t times;   /* calls to meet, then the fault is spent */
  uint32_t after;   /* SLOW, KILL: when the call has done its work, not before */
  uint32_t pad;
  uint64_t delay_ns; /* SLOW */
  char call[SIM_NAME];
};

struct sim_options {
  uint32_t virtual_time, driver_version; /* 12090, 13000 */
  uint64_t seed;
  uint64_t slice_ns, switch_ns, launch_ns, query_ns;
  uint32_t jitter_permille, stall_ms;
};

struct sim_node {
  uint64_t magic;
  uint32_t layout, card_count;
  uint64_t size;
  char boot_id[40];
  struct sim_options options;
  pthread_mutex_t lock;
  uint64_t order, started_ns;
  uint32_t proc_high, thread_high, ctx_high, stream_high, event_high, event_free;
  uint32_t repairs, reclaims;
  uint32_t kernel_cost_count;
  uint32_t kernel_cost_generation; /* read without the lock (acquire) by the launch path */
  uint32_t fault_count;            /* read without the lock (relaxed) by every call */
  uint32_t events_word;            /* futex: bumped with every xid_count */
  struct sim_clock clock;
  struct sim_fault faults[SIM_MAX_FAULTS];
  struct sim_kernel_cost kernel_costs[SIM_MAX_KERNEL_COSTS];
  struct sim_card cards[SIM_MAX_CARDS];
  struct sim_proc procs[SIM_MAX_PROCS];
  struct sim_thread threads[SIM_MAX_THREADS];
  struct sim_ctx ctxs[SIM_MAX_CTX];
  uint64_t share_serial, event_serial;
  uint32_t share_high, pad;
  struct sim_share shares[SIM_MAX_SHARES];
  struct sim_event events[SIM_MAX_EVENTS];
  struct sim_stream streams[SIM_MAX_STREAMS];
  struct sim_walls walls;
};

#endif
