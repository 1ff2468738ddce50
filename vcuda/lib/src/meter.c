#include "meter.h"

#include "clock.h"
#include "ledger.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define BURST_NS 25e6               /* GPU time; 2.5 points of a 1 s window at any share */
#define FLIGHT_NS (20 * MS)         /* work in flight per claim: longer than a wake-up, so that the card never runs dry; ten times as long if kernels become so */
#define FLIGHT_LEAST_NS (12 * MS)   /* and per process: two kernels of 5 ms, also where they are thought to take 8 */
#define UNKNOWN_NS 1e5              /* charged for a kernel that was never measured */
#define PATIENCE_NS (2000 * MS)     /* for unknown kernels and for own work in flight */
#define DEBT_MOST_NS (30000 * MS)   /* longer stalls look like hangs */
#define SLEEP_LEAST_NS (100 * US)   /* per process that may wait: shorter sleeps wake all of them for each short kernel, and the burst absorbs it */
#define BOOK_NS MS                  /* counters are that old at most while a thread launches */
enum {
    UNKNOWN_MOST = 2, /* unmeasured launches in flight per claim */
    COUNTDOWNS = 64,
    REUSES = 15, /* launches after a reading of the clock */
};
#define REUSE_NS (100 * US)         /* and the waiting that they may be charged */

/* What a thread remembers between its launches; in one place, as each thread-local variable costs a call of the loader. */
static __thread struct memory {
    struct limits_cache limits;
    uint64_t clock_ns;                 /* the last reading of the clock; how many launches and how much waiting it may still serve */
    uint64_t reuses, reuse_ns;
    struct vcuda_ledger_device *books; /* to which these counters go */
    uint64_t charged_ns, launches, booked_at_ns;
    uint64_t random;
    struct {
        const struct vcuda_cost *cost;
        uint32_t left; /* launches until the next sample */
    } countdowns[COUNTDOWNS];
} memory;

struct turn {
    struct memory *memory;
    struct region *region;
    struct vcuda_ledger_device *books;
    struct vcuda_slot_device *mine;
    const struct limits *limits;
    int slot, device;
    bool fresh; /* the clock was read for this launch */
    uint64_t started_ns, now_ns;
};

static void add(uint64_t *counter, uint64_t value) {
    __atomic_fetch_add(counter, value, __ATOMIC_RELAXED); /* read by the agent, ordered against nothing */
}

/* Move the arrival time by `ns` of waiting, never into the past of 0 nor past the debt cap. */
static void shift_tat(struct vcuda_ledger_device *books, double ns, uint64_t now) {
    uint64_t tat = region_load(&books->tat_ns), wanted;
    do {
        double moved = (double)tat - (double)now + ns;
        moved = moved > (double)DEBT_MOST_NS ? (double)DEBT_MOST_NS : moved;
        wanted = moved < -(double)now ? 0 : (uint64_t)((double)now + moved);
    } while (!__atomic_compare_exchange_n(&books->tat_ns, &tat, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* The first process that sees a new share expresses the debt in it; else a debt at 10 % would outlive a rise to 90 %. */
static void rescale(const struct turn *turn) {
    struct vcuda_ledger_device *books = turn->books;
    uint32_t seen = __atomic_load_n(&books->share_seen, __ATOMIC_RELAXED), share = turn->limits->share;
    if (seen == share || !__atomic_compare_exchange_n(&books->share_seen, &seen, share, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t tat = region_load(&books->tat_ns);
    if (seen && tat > turn->now_ns) {
        double debt = (double)(tat - turn->now_ns);
        shift_tat(books, debt * seen / share - debt, turn->now_ns);
    }
}

static uint64_t unmeasured_in_flight(const struct region *region, int device) {
    uint64_t sum = 0;
    for (int i = 0; i < region_slots_used(region); i++)
        sum += __atomic_load_n(&region_slot(region, i)->device[device].unmeasured, __ATOMIC_RELAXED);
    return sum;
}

enum reason { READY, UNKNOWN_KERNEL, SHARE_USED, CARD_FULL };

/* The place of a key's unmeasured launch, taken at `since`. What nobody gave back for 2 s is free, and so is what lies as far ahead. */
static bool place_is_held(uint64_t since, uint64_t now) {
    return since && (since < now ? now - since : since - now) < PATIENCE_NS;
}

static bool must_wait_for_unknown(const struct turn *turn, const struct ticket *ticket, uint64_t *wait) {
    uint64_t since = region_load(&ticket->cost->unmeasured_since_ns), waited = turn->now_ns - turn->started_ns;
    if (ticket->est_ns > 0)
        return false;
    if (!place_is_held(since, turn->now_ns) && (waited > PATIENCE_NS || unmeasured_in_flight(turn->region, turn->device) < UNKNOWN_MOST))
        return false;
    *wait = waited > 10 * MS ? 2 * MS : 200 * US;
    return true;
}

static bool must_wait_for_share(const struct turn *turn, const struct ticket *ticket, uint64_t *wait) {
    uint64_t tat = region_load(&turn->books->tat_ns), allowed = (uint64_t)(BURST_NS * turn->limits->stretch);
    if (tat <= turn->now_ns + allowed)
        return false;
    if (tat > turn->now_ns + 2 * DEBT_MOST_NS) { /* no launch owes so much: the clock of another boot, or nonsense */
        __atomic_compare_exchange_n(&turn->books->tat_ns, &tat, turn->now_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return false;
    }
    uint64_t most = region_load(&turn->mine->outstanding_ns) ? 5 * MS : 20 * MS, least = SLEEP_LEAST_NS * (1 + ticket->around.siblings);
    *wait = tat - turn->now_ns - allowed;
    *wait = *wait < least ? least : *wait < most ? *wait : most;
    return true;
}

static bool must_wait_for_card(const struct turn *turn, const struct ticket *ticket, uint64_t *wait) {
    uint64_t outstanding = region_load(&turn->mine->outstanding_ns), half = (uint64_t)(ticket->est_ns / 2);
    uint64_t each = FLIGHT_NS / (1 + ticket->around.siblings), most = each < FLIGHT_LEAST_NS ? FLIGHT_LEAST_NS : each;
    double part = turn->limits->stretch > 2 ? 2 / turn->limits->stretch : 1; /* of what is in flight at half of the card and more */
    if ((double)outstanding <= part * (double)most || turn->now_ns - turn->started_ns > PATIENCE_NS)
        return false;
    *wait = half < 500 * US ? 500 * US : half > 5 * MS ? 5 * MS : half;
    return true;
}

static enum reason why_wait(const struct turn *turn, const struct ticket *ticket, uint64_t *wait) {
    if (must_wait_for_unknown(turn, ticket, wait))
        return UNKNOWN_KERNEL;
    if (must_wait_for_share(turn, ticket, wait))
        return SHARE_USED;
    return must_wait_for_card(turn, ticket, wait) ? CARD_FULL : READY;
}

/* An unknown kernel needs its key's one place for an unmeasured launch. The charge is
 * a small one, or the age of the launch that has held the place. */
static bool take_place(const struct turn *turn, struct ticket *ticket) {
    uint64_t since = region_load(&ticket->cost->unmeasured_since_ns), age = since && since < turn->now_ns ? turn->now_ns - since : 0;
    if (place_is_held(since, turn->now_ns))
        return false;
    if (!__atomic_compare_exchange_n(&ticket->cost->unmeasured_since_ns, &since, turn->now_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    ticket->placed = true;
    ticket->est_ns = (double)age > UNKNOWN_NS ? (double)age : UNKNOWN_NS;
    __atomic_fetch_add(&turn->mine->unmeasured, 1, __ATOMIC_RELAXED); /* read by siblings and the agent */
    return true;
}

static uint64_t waiting_for(const struct turn *turn, const struct ticket *ticket) {
    return (uint64_t)(ticket->est_ns * turn->limits->m * turn->limits->stretch);
}

/* The only shared write of a launch: one compare-and-swap on the arrival time. Partner: every launch of the claim on this device. */
static bool charge(const struct turn *turn, uint64_t waiting) {
    uint64_t tat = region_load(&turn->books->tat_ns);
    uint64_t from = tat > turn->now_ns ? tat : turn->now_ns, cap = turn->now_ns + DEBT_MOST_NS;
    uint64_t wanted = from + waiting;
    wanted = wanted < cap ? wanted : cap > tat ? cap : tat;
    turn->memory->reuse_ns -= waiting < turn->memory->reuse_ns ? waiting : turn->memory->reuse_ns;
    return __atomic_compare_exchange_n(&turn->books->tat_ns, &tat, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Counters on which nothing waits are added up per thread first: one line of memory less that all processes of the claim write
 * to. What a thread has not booked when it ends, less than 1 ms, is lost. */
static void book(struct memory *mine) {
    if (!mine->launches)
        return;
    add(&mine->books->charged_ns, mine->charged_ns);
    add(&mine->books->launches, mine->launches);
    mine->charged_ns = mine->launches = 0;
}

void meter_book(void) {
    book(&memory);
}

void meter_after_fork(void) {
    memory.charged_ns = memory.launches = 0;
}

static void count(const struct turn *turn, const struct ticket *ticket) {
    const struct limits *limits = turn->limits;
    struct memory *mine = turn->memory;
    uint64_t ns = (uint64_t)(ticket->est_ns * limits->m), est = (uint64_t)ticket->est_ns;
    if (mine->books != turn->books) {
        book(mine);
        mine->books = turn->books;
    }
    mine->charged_ns += ns;
    mine->launches++;
    if (turn->now_ns - mine->booked_at_ns > BOOK_NS) {
        book(mine);
        mine->booked_at_ns = turn->now_ns;
    }
    if (ticket->placed)
        add(&turn->books->launches_unknown, 1);
    if (limits->share > limits->guarantee && region_load(&turn->books->tat_ns) > turn->now_ns)
        add(&turn->books->borrowed_ns, ns * (limits->share - limits->guarantee) / limits->share);
    if (!ticket->placed && region_load(&turn->books->largest_est_ns) < est)
        __atomic_store_n(&turn->books->largest_est_ns, est, __ATOMIC_RELAXED);
}

/* Fixed spacing would lock onto periodic programs: 1 to 2k-1 launches, k on average. */
static uint32_t next_spacing(uint64_t *state, uint32_t interval) {
    *state = *state ? *state : UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)state;
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return 1 + (uint32_t)((*state >> 32) % (2 * interval - 1));
}

static void decide_sampling(struct memory *mine, struct ticket *ticket) {
    size_t at = (uintptr_t)ticket->cost / sizeof(struct vcuda_cost) % COUNTDOWNS;
    const struct vcuda_cost *cost = ticket->cost;
    cost_launched(ticket->cost);
    ticket->sample = mine->countdowns[at].cost != cost || --mine->countdowns[at].left == 0 || cost_always(cost, &ticket->around);
    if (ticket->sample) {
        ticket->weight = cost_interval(cost, &ticket->around);
        mine->countdowns[at].cost = cost;
        mine->countdowns[at].left = next_spacing(&mine->random, ticket->weight);
    }
}

static void wait_counted(const struct turn *turn, enum reason reason, uint64_t wait, bool *waiting) {
    if (!*waiting && reason == SHARE_USED) {
        __atomic_fetch_add(&turn->mine->waiting, 1, __ATOMIC_RELAXED); /* read by the agent: this claim is hungry */
        __atomic_fetch_add(&turn->books->waiting, 1, __ATOMIC_RELAXED);
        *waiting = true;
    }
    clock_sleep_until(turn->now_ns + wait);
    if (reason == SHARE_USED)
        add(&turn->books->throttled_ns, clock_now() - turn->now_ns);
}

static void stop_waiting(const struct turn *turn, bool waiting) {
    if (waiting) {
        __atomic_fetch_sub(&turn->mine->waiting, 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&turn->books->waiting, 1, __ATOMIC_RELAXED);
    }
}

/* Reading the clock costs as much as a third of all the rest. While work is in flight an older reading does for some short launches: where
 * it lets one go, the true time would, and of the idle time that has passed since it forgets too little by what these launches cost at most. */
static void read_clock(struct turn *turn) {
    struct memory *mine = turn->memory;
    if (!turn->now_ns && mine->reuses && region_load(&turn->mine->inflight_since_ns)) {
        mine->reuses--;
        turn->now_ns = turn->started_ns = mine->clock_ns;
        return;
    }
    turn->now_ns = mine->clock_ns = clock_now();
    turn->started_ns = turn->fresh ? turn->started_ns : turn->now_ns;
    turn->fresh = true;
    mine->reuses = REUSES;
    mine->reuse_ns = REUSE_NS;
}

/* Everything may have changed while we slept. False: the limits cannot be read. */
static bool refresh(struct turn *turn) {
    read_clock(turn);
    turn->limits = config_cached(&turn->memory->limits, turn->region, turn->device);
    return turn->limits;
}

static void look(const struct turn *turn, struct ticket *ticket, uint64_t key) {
    if (!ticket->cost)
        ticket->cost = cost_find(turn->region, turn->device, key);
    ticket->around = flight_surroundings(turn->region, turn->slot, turn->device, turn->limits, turn->now_ns);
    if (!ticket->placed)
        ticket->est_ns = cost_estimate(ticket->cost, &ticket->around);
    rescale(turn);
}

static bool try_now(struct turn *turn, struct ticket *ticket, meter_poll poll, void *context, bool *waiting) {
    uint64_t wait = 0;
    enum reason reason = ticket->placed ? READY : why_wait(turn, ticket, &wait);
    if (!turn->fresh && (reason != READY || ticket->est_ns <= 0 || waiting_for(turn, ticket) > turn->memory->reuse_ns))
        return false; /* comes again with the true time */
    if (reason != READY) {
        poll(context);
        wait_counted(turn, reason, wait, waiting);
        poll(context);
        return false;
    }
    return (ticket->est_ns > 0 || take_place(turn, ticket)) && charge(turn, waiting_for(turn, ticket));
}

static void leave_place(struct vcuda_slot_device *mine, const struct ticket *ticket) {
    if (!ticket->placed)
        return;
    __atomic_store_n(&ticket->cost->unmeasured_since_ns, 0, __ATOMIC_RELAXED);
    if (__atomic_load_n(&mine->unmeasured, __ATOMIC_RELAXED))
        __atomic_fetch_sub(&mine->unmeasured, 1, __ATOMIC_RELAXED);
}

bool meter_admit(struct region *region, int slot, int device, uint64_t key, struct ticket *ticket, meter_poll poll, void *context) {
    struct turn turn = {
        .memory = &memory, .region = region, .books = region_device(region, device), .mine = &region_slot(region, slot)->device[device],
        .slot = slot, .device = device,
    };
    bool waiting = false, admitted = false, readable = true;
    ticket->cost = NULL;
    ticket->est_ns = 0;
    ticket->placed = false;
    while (!admitted && (readable = refresh(&turn)) && turn.limits->compute_limited) {
        look(&turn, ticket, key);
        admitted = try_now(&turn, ticket, poll, context, &waiting);
    }
    stop_waiting(&turn, waiting);
    if (admitted) {
        ticket->at_ns = turn.now_ns;
        count(&turn, ticket);
        decide_sampling(turn.memory, ticket);
        if (ticket->sample) {
            meter_book(); /* before anything of it can be settled */
            ticket->at_ns = turn.fresh ? turn.now_ns : clock_now();
            ticket->watch = flight_watch(region, slot, device, turn.limits, ticket->at_ns);
        }
        return true;
    }
    leave_place(turn.mine, ticket);
    ticket->cost = NULL; /* the limit was lifted meanwhile, or cannot be read: then the launch is refused */
    return readable;
}

static void settle(struct region *region, int device, double gpu_ns) {
    const struct limits *limits = config_limits(region, device);
    if (!limits || gpu_ns == 0)
        return;
    struct vcuda_ledger_device *books = region_device(region, device);
    shift_tat(books, gpu_ns * limits->m * limits->stretch, clock_now());
    add(&books->charged_ns, (uint64_t)(int64_t)(gpu_ns * limits->m));
}

static struct vcuda_slot_device *own(struct region *region, int slot, int device) {
    return &region_slot(region, slot)->device[device];
}

void meter_measured(struct region *region, int slot, int device, const struct ticket *ticket, double wall_ns) {
    const struct limits *limits = config_limits(region, device);
    if (!ticket->cost || !limits)
        return;
    uint64_t now = clock_now();
    struct watch ended = flight_watch(region, slot, device, limits, now);
    struct surroundings around = ticket->sample ? flight_watched(&ticket->watch, &ended, limits) : ticket->around;
    uint32_t weight = ticket->sample ? ticket->weight : cost_interval(ticket->cost, &around);
    settle(region, device, cost_sample(ticket->cost, &around, wall_ns, ticket->est_ns, weight, now));
    leave_place(own(region, slot, device), ticket);
    add(&region_device(region, device)->probes, 1);
}

void meter_unmeasured(struct region *region, int slot, int device, const struct ticket *ticket) {
    if (ticket->cost)
        leave_place(own(region, slot, device), ticket);
}

void meter_refund(struct region *region, int slot, int device, const struct ticket *ticket) {
    if (!ticket->cost)
        return;
    meter_book();
    settle(region, device, -ticket->est_ns);
    leave_place(own(region, slot, device), ticket);
}
