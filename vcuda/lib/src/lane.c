#include "lane.h"

#include "claim.h"
#include "clock.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LANES = 256,
    PAIRS = 32, /* event pairs per lane */
    TRIES = 16, /* lanes looked at for one stream */
    BIAS_SAMPLES = 4,
};

#define SHORT_NS 4e5                     /* shorter kernels feel the few us of our own calls */
#define HOST_MOST_NS 1e4                 /* a launch call takes 2 to 5 us */
#define MARKER_NS UINT64_C(3000000)      /* 3 ms of work without a marker */
#define POLL_AGAIN_NS UINT64_C(50000)    /* 50 us: an event query is a call of the driver */

/* How far a lane is filled: estimated GPU time in units of ONE_NS, modulo 2^64; below that, in `filled` alone, how many threads are between
 * enter and leave. More than fit there only carry over until they have left. */
#define ONE_NS (UINT64_C(1) << 10)

struct lane {
    pthread_mutex_t lock; /* guards pairs, ring and the polling */
    /* Whose it is; compared without a lock. `changes` is odd while these are being written. */
    atomic_uint changes;
    atomic_bool used;
    _Atomic(CUcontext) context;
    _Atomic(CUstream) stream;
    atomic_uint_fast64_t thread; /* of the per-thread default stream, else 0 */
    atomic_int device;
    atomic_uint_fast64_t filled, completed, marked, poll_at_ns;
    atomic_uint pending; /* probes in the ring */
    uint32_t first;
    struct probe ring[PAIRS];
    CUevent idle_start[PAIRS], idle_end[PAIRS];
    uint32_t idle;
};

static struct lane lanes[LANES] = {[0 ... LANES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static bool is_entered(const struct lane *lane) {
    return atomic_load(&lane->filled) % ONE_NS != 0;
}

/* Estimated GPU time between two marks, ns; 0 when `from` is not before `to`. */
static uint64_t between(uint64_t from, uint64_t to) {
    return (int64_t)(to - from) > 0 ? (to - from) / ONE_NS : 0;
}

uint64_t lane_mark(const struct lane *lane) {
    return atomic_load(&lane->filled) / ONE_NS * ONE_NS;
}

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
/* What an empty pair measures on a busy stream: the least of the first few, ns. */
static _Atomic double bias_ns;
static atomic_uint bias_samples;

static uint64_t thread_key(CUstream stream) {
    static __thread char here;
    return stream == CU_STREAM_PER_THREAD ? (uint64_t)(uintptr_t)&here : 0;
}

#define READ(field) atomic_load_explicit(&(field), memory_order_relaxed)

static bool fits(const struct lane *lane, CUstream stream, CUcontext context, uint64_t thread, int *device) {
    unsigned before = atomic_load_explicit(&lane->changes, memory_order_acquire); /* pairs with the stores in set_up */
    bool same = READ(lane->used) && READ(lane->stream) == stream && READ(lane->context) == context && READ(lane->thread) == thread;
    *device = READ(lane->device);
    atomic_thread_fence(memory_order_acquire);
    return same && before % 2 == 0 && READ(lane->changes) == before;
}

static void destroy_pairs(struct lane *lane) {
    for (uint32_t i = 0; i < lane->idle; i++) {
        DRIVER(cuEventDestroy_v2, lane->idle_start[i]);
        DRIVER(cuEventDestroy_v2, lane->idle_end[i]);
    }
    lane->idle = 0;
}

static uint64_t unfinished(const struct lane *lane) {
    return between(atomic_load(&lane->completed), lane_mark(lane));
}

/* A lane without anything in flight may be given to another stream of the same or another context. */
static bool can_be_taken(const struct lane *lane) {
    return !atomic_load(&lane->used) || (atomic_load(&lane->pending) == 0 && !is_entered(lane) && !unfinished(lane));
}

static void set_up(struct lane *lane, CUstream stream, CUcontext context, uint64_t thread, int device) {
    atomic_fetch_add(&lane->changes, 1);
    pthread_mutex_lock(&lane->lock);
    if (lane->context == context)
        destroy_pairs(lane);
    lane->idle = 0; /* events of another context are that context's to free */
    lane->context = context;
    lane->stream = stream;
    lane->thread = thread;
    lane->device = device;
    lane->first = 0;
    atomic_store(&lane->completed, lane_mark(lane));
    atomic_store(&lane->marked, lane_mark(lane));
    atomic_store(&lane->poll_at_ns, 0);
    pthread_mutex_unlock(&lane->lock);
    atomic_store(&lane->used, true);
    atomic_fetch_add_explicit(&lane->changes, 1, memory_order_release);
}

static uint64_t hash_of(CUstream stream, CUcontext context, uint64_t thread) {
    return ((uint64_t)(uintptr_t)stream ^ (uint64_t)(uintptr_t)context >> 4 ^ thread) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static struct lane *take_lane(CUstream stream, CUcontext context, uint64_t thread, int device) {
    uint64_t hash = hash_of(stream, context, thread);
    pthread_mutex_lock(&table_lock);
    struct lane *found = lane_find(stream, context, &device);
    for (uint64_t i = 0; i < TRIES && !found; i++) {
        struct lane *lane = &lanes[(hash + i) % LANES];
        if (can_be_taken(lane)) {
            set_up(lane, stream, context, thread, device);
            found = lane;
        }
    }
    pthread_mutex_unlock(&table_lock);
    return found;
}

struct lane *lane_find(CUstream stream, CUcontext context, int *device) {
    uint64_t thread = thread_key(stream), hash = hash_of(stream, context, thread);
    int found;
    for (uint64_t i = 0; i < TRIES; i++)
        if (fits(&lanes[(hash + i) % LANES], stream, context, thread, &found)) {
            *device = found;
            return &lanes[(hash + i) % LANES];
        }
    return NULL;
}

struct lane *lane_of(CUstream stream, CUcontext context, int device) {
    struct lane *found = lane_find(stream, context, &device);
    return found ? found : take_lane(stream, context, thread_key(stream), device);
}

bool lane_wants_marker(const struct lane *lane) {
    return between(atomic_load_explicit(&lane->marked, memory_order_relaxed), lane_mark(lane)) > MARKER_NS;
}

/* ---- event pairs ---- */

static bool take_pair(struct lane *lane, struct probe *probe) {
    bool room = false;
    pthread_mutex_lock(&lane->lock);
    room = atomic_load(&lane->pending) < PAIRS;
    if (room && lane->idle) {
        lane->idle--;
        probe->start = lane->idle_start[lane->idle];
        probe->end = lane->idle_end[lane->idle];
    }
    pthread_mutex_unlock(&lane->lock);
    if (!room || probe->start)
        return room;
    if (DRIVER(cuEventCreate, &probe->start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (DRIVER(cuEventCreate, &probe->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return true;
    DRIVER(cuEventDestroy_v2, probe->start);
    return false;
}

static void give_pair(struct lane *lane, const struct probe *probe) {
    if (lane->idle < PAIRS) {
        lane->idle_start[lane->idle] = probe->start;
        lane->idle_end[lane->idle] = probe->end;
        lane->idle++;
        return;
    }
    DRIVER(cuEventDestroy_v2, probe->start);
    DRIVER(cuEventDestroy_v2, probe->end);
}

static void give_pair_locked(struct lane *lane, const struct probe *probe) {
    pthread_mutex_lock(&lane->lock);
    give_pair(lane, probe);
    pthread_mutex_unlock(&lane->lock);
}

static void record_before(struct lane *lane, struct probe *probe) {
    if (!unfinished(lane) || atomic_load(&bias_samples) >= BIAS_SAMPLES || DRIVER(cuEventCreate, &probe->before, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return;
    if (DRIVER(cuEventRecord, probe->before, lane->stream) == CUDA_SUCCESS)
        return;
    DRIVER(cuEventDestroy_v2, probe->before);
    probe->before = NULL;
}

/* Before a short kernel: an idle stream reaches `start` at once, and then waits for our own call to bring the kernel. */
static void look_whether_idle(struct probe *probe, const struct ticket *ticket) {
    probe->host_ns = clock_now();
    probe->idle = ticket->est_ns < SHORT_NS && DRIVER(cuEventQuery, probe->start) == CUDA_SUCCESS;
}

void lane_enter(struct lane *lane, bool sample, const struct ticket *ticket, struct probe *probe) {
    uint64_t filled = atomic_fetch_add(&lane->filled, 1);
    probe->start = probe->before = NULL;
    if (!sample || !take_pair(lane, probe))
        return;
    probe->upto = filled + (uint64_t)ticket->est_ns * ONE_NS;
    record_before(lane, probe);
    if (DRIVER(cuEventRecord, probe->start, lane->stream) != CUDA_SUCCESS) {
        give_pair_locked(lane, probe);
        probe->start = NULL;
        return;
    }
    look_whether_idle(probe, ticket);
    probe->timed = filled % ONE_NS == 0; /* no other thread is launching into this stream */
}

/* Put a recorded pair into the ring; false when the end could not be recorded or the ring is full. */
static bool push(struct lane *lane, const struct probe *probe, const struct ticket *ticket) {
    bool pushed = false;
    uint64_t upto = lane_mark(lane); /* that much lies before the end event */
    bool recorded = DRIVER(cuEventRecord, probe->end, lane->stream) == CUDA_SUCCESS;
    bool timed = probe->timed && atomic_load(&lane->filled) == probe->upto + 1; /* nor has one since */
    pthread_mutex_lock(&lane->lock);
    uint32_t pending = atomic_load(&lane->pending);
    if (recorded && pending < PAIRS) {
        struct probe *place = &lane->ring[(lane->first + pending) % PAIRS];
        *place = *probe;
        place->ticket = *ticket;
        place->upto = upto;
        place->timed = timed;
        atomic_store(&lane->pending, pending + 1);
        atomic_store(&lane->marked, upto);
        pushed = true;
    } else
        give_pair(lane, probe);
    pthread_mutex_unlock(&lane->lock);
    return pushed;
}

/* After a launch with an event before it. */
static void leave_sampled(struct lane *lane, int slot, struct probe *probe, const struct ticket *ticket, uint64_t now) {
    probe->host_ns = now - probe->host_ns;
    if (!push(lane, probe, ticket))
        meter_unmeasured(claim_region(), slot, lane->device, ticket);
    else if (atomic_load(&lane->pending) == 1)
        atomic_store(&lane->poll_at_ns, now + (uint64_t)ticket->est_ns);
}

void lane_leave(struct lane *lane, int slot, struct probe *probe, const struct ticket *ticket, bool launched) {
    uint64_t est = launched ? (uint64_t)ticket->est_ns : 0, now = probe->start ? clock_now() : ticket->at_ns;
    if (launched && ticket->cost)
        flight_add(claim_region(), slot, lane->device, est, now);
    if (probe->start && launched) {
        atomic_fetch_add(&lane->filled, est * ONE_NS);
        leave_sampled(lane, slot, probe, ticket, now);
        atomic_fetch_sub(&lane->filled, 1);
        return;
    }
    if (probe->start)
        give_pair_locked(lane, probe);
    atomic_fetch_add(&lane->filled, est * ONE_NS - 1);
    if (launched && ticket->placed)
        meter_unmeasured(claim_region(), slot, lane->device, ticket);
}

/* ---- what has finished ---- */

static void complete(struct lane *lane, uint64_t upto) {
    struct region *region = claim_region();
    uint64_t done = atomic_load(&lane->completed);
    while (between(done, upto) && !atomic_compare_exchange_weak(&lane->completed, &done, upto)) {
    }
    if (between(done, upto))
        flight_done(region, region_own_slot(region), lane->device, between(done, upto), clock_now());
}

static void learn_bias(const struct probe *probe) {
    float ms = 0;
    if (!probe->before)
        return;
    if (probe->timed && DRIVER(cuEventElapsedTime, &ms, probe->before, probe->start) == CUDA_SUCCESS) {
        double ns = (double)ms * 1e6;
        if (atomic_fetch_add(&bias_samples, 1) == 0 || ns < atomic_load(&bias_ns))
            atomic_store(&bias_ns, ns);
    }
    DRIVER(cuEventDestroy_v2, probe->before);
}

/* What of the wall time was not the kernel. A call of ours that took longer than usual was interrupted, and nobody knows whether the card
 * waited for it: -1, unless that could not matter. */
static double not_the_kernel(const struct probe *probe, double wall_ns) {
    double host = probe->idle ? (double)probe->host_ns : 0;
    if (host > HOST_MOST_NS)
        return host < wall_ns / 50 ? atomic_load(&bias_ns) : -1;
    return atomic_load(&bias_ns) + host;
}

static void evaluate(struct lane *lane, const struct probe *probe) {
    struct region *region = claim_region();
    int slot = region_own_slot(region);
    float ms = 0;
    learn_bias(probe);
    bool measured = probe->timed && DRIVER(cuEventElapsedTime, &ms, probe->start, probe->end) == CUDA_SUCCESS;
    double wall = (double)ms * 1e6, other = not_the_kernel(probe, wall);
    if (probe->counter)
        __atomic_fetch_add(probe->counter, (uint64_t)wall, __ATOMIC_RELAXED); /* read by the agent */
    else if (measured && other >= 0)
        meter_measured(region, slot, lane->device, &probe->ticket, wall - other);
    else
        meter_unmeasured(region, slot, lane->device, &probe->ticket);
}

/* The oldest pair, if it has finished. Guarded by the lane's lock. */
static bool pop_finished(struct lane *lane, struct probe *probe) {
    if (atomic_load(&lane->pending) == 0)
        return false;
    *probe = lane->ring[lane->first];
    CUresult result = DRIVER(cuEventQuery, probe->end);
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    probe->timed &= result == CUDA_SUCCESS;
    lane->first = (lane->first + 1) % PAIRS;
    atomic_fetch_sub(&lane->pending, 1);
    return true;
}

static void poll_now(struct lane *lane) {
    struct probe probe;
    if (pthread_mutex_trylock(&lane->lock))
        return; /* another thread looks already */
    while (pop_finished(lane, &probe)) {
        evaluate(lane, &probe);
        complete(lane, probe.upto);
        give_pair(lane, &probe);
    }
    atomic_store(&lane->poll_at_ns, clock_now() + POLL_AGAIN_NS);
    pthread_mutex_unlock(&lane->lock);
}

void lane_poll(struct lane *lane, uint64_t now_ns) {
    if (atomic_load_explicit(&lane->pending, memory_order_relaxed) &&
        now_ns >= atomic_load_explicit(&lane->poll_at_ns, memory_order_relaxed))
        poll_now(lane);
}

void lane_poll_all(void) {
    for (int i = 0; i < LANES; i++)
        if (atomic_load_explicit(&lanes[i].pending, memory_order_relaxed))
            poll_now(&lanes[i]);
}

void lane_finished(struct lane *lane, uint64_t mark) {
    poll_now(lane);
    complete(lane, mark);
}

void lane_finished_context(CUcontext context) {
    for (int i = 0; i < LANES; i++)
        if (atomic_load_explicit(&lanes[i].used, memory_order_acquire) && lanes[i].context == context &&
            unfinished(&lanes[i]) && !is_entered(&lanes[i]))
            lane_finished(&lanes[i], lane_mark(&lanes[i]));
}

void lane_drop_context(CUcontext context) {
    struct region *region = claim_region();
    pthread_mutex_lock(&table_lock);
    for (int i = 0; i < LANES; i++) {
        struct lane *lane = &lanes[i];
        if (!atomic_load(&lane->used) || lane->context != context)
            continue;
        pthread_mutex_lock(&lane->lock);
        for (uint32_t j = 0; j < atomic_load(&lane->pending); j++)
            meter_unmeasured(region, region_own_slot(region), lane->device, &lane->ring[(lane->first + j) % PAIRS].ticket);
        atomic_store(&lane->pending, 0);
        lane->idle = 0; /* its events went with the context */
        pthread_mutex_unlock(&lane->lock);
        complete(lane, lane_mark(lane));
        atomic_store(&lane->used, false);
    }
    pthread_mutex_unlock(&table_lock);
}

void lane_after_fork(void) {
    pthread_mutex_init(&table_lock, NULL);
    for (int i = 0; i < LANES; i++) {
        atomic_store(&lanes[i].changes, 0);
        atomic_store(&lanes[i].used, false);
        atomic_store(&lanes[i].pending, 0);
        atomic_store(&lanes[i].filled, 0);
        lanes[i].idle = 0;
        pthread_mutex_init(&lanes[i].lock, NULL);
    }
}
