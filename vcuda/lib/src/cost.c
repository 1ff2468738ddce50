#include "cost.h"

#include <string.h>

enum {
    PROBES_PER_LOOKUP = 32,
    FIRST_SAMPLES = 4,    /* each launch is sampled so often at first */
    CLEAN_ENOUGH = 3,     /* samples taken alone, after which an estimate is trusted beside neighbours */
    CLEAN_MOST = 4,
    RUN_UP = 4,           /* samples in a row above the estimate that make a new level */
    RUN_DOWN = 32,        /* samples in a row below */
    SLOW_SAMPLES = 64,    /* interrupted samples before their mean is believed */
    HOT_LAUNCHES = 256,   /* after a surprise */
    DENSEST = 64,         /* at most one launch in so many is sampled */
    TICK_NS = 100000000,  /* 100 ms, the agent's */
};

#define SAMPLED_ALWAYS_NS 4e5 /* from here an event pair costs at most 0.5 % of the kernel */
#define SETTLE_MOST_NS 20e6   /* one surprise moves the books by no more than this, and, of a long kernel, ... */
#define SETTLE_TIMES 10       /* ... so many times what it was thought to take */
#define FAR 1.5               /* times the estimate: no jitter */
#define SLICE_NS 2e6          /* default time slice of the card */
#define ABSURD_NS 1e14        /* a day; no kernel takes so long */

/* Fields are shared with siblings and with nothing to order against: relaxed loads and stores of whole words. */
static double get(const double *word) {
    double value;
    __atomic_load(word, &value, __ATOMIC_RELAXED);
    return value >= 0 && value < ABSURD_NS ? value : 0; /* any program of the claim can write here: infinite, or not a number */
}

static void put(double *word, double value) {
    __atomic_store(word, &value, __ATOMIC_RELAXED);
}

static uint32_t count_of(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void set(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static double bounded(double value, double most) {
    return value > most ? most : value < -most ? -most : value;
}

static void wipe(struct vcuda_cost *cost) {
    memset((char *)cost + sizeof cost->key, 0, sizeof *cost - sizeof cost->key);
}

struct vcuda_cost *cost_find(const struct region *region, int device, uint64_t key) {
    uint32_t mask = region->cost_count - 1;
    struct vcuda_cost *victim = region_cost(region, device, (uint32_t)key & mask);
    for (uint32_t i = 0; i < PROBES_PER_LOOKUP; i++) {
        struct vcuda_cost *cost = region_cost(region, device, ((uint32_t)key + i) & mask);
        uint64_t found = __atomic_load_n(&cost->key, __ATOMIC_ACQUIRE); /* pairs with the exchange below, in any process */
        if (found == 0 && __atomic_compare_exchange_n(&cost->key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return cost;
        if (found == key)
            return cost;
    }
    wipe(victim);
    __atomic_store_n(&victim->key, key, __ATOMIC_RELEASE);
    return victim;
}

double cost_estimate(struct vcuda_cost *cost, const struct surroundings *around) {
    double est = get(&cost->est_ns);
    bool alone_before = count_of(&cost->others_seen) == 0;
    if (around->others != count_of(&cost->others_seen))
        set(&cost->others_seen, around->others);
    if (est > 0 && alone_before && around->others) {
        /* Samples of the last half second may have contained the newcomer's turns: forget them. */
        double before = get(&cost->history_ns[VCUDA_HISTORY_TICKS - 1]);
        if (before > 0) {
            est = before;
            put(&cost->est_ns, est);
        } else
            set(&cost->clean, 0); /* never seen before that time: what is known may all be neighbours' turns */
    }
    return est;
}

static void keep_history(struct vcuda_cost *cost, double est, uint64_t now) {
    uint64_t at = __atomic_load_n(&cost->history_at_ns, __ATOMIC_RELAXED);
    uint64_t ticks = now < at ? VCUDA_HISTORY_TICKS : at ? (now - at) / TICK_NS : 1; /* a new kernel has no past */
    if (ticks == 0)
        return;
    for (uint64_t i = 0; i < ticks && i < VCUDA_HISTORY_TICKS; i++) {
        for (int j = VCUDA_HISTORY_TICKS - 1; j > 0; j--)
            put(&cost->history_ns[j], get(&cost->history_ns[j - 1]));
        put(&cost->history_ns[0], est);
    }
    __atomic_store_n(&cost->history_at_ns, now, __ATOMIC_RELAXED);
}

static void end_run(struct vcuda_cost *cost) {
    set(&cost->up, 0);
    set(&cost->down, 0);
    put(&cost->run_ns, 0);
}

/* Alone and short: small steps, unless a run of samples agrees on another level. */
static double follow_alone(struct vcuda_cost *cost, double est, double wall) {
    uint32_t *run = wall > FAR * est ? &cost->up : wall < est / FAR ? &cost->down : NULL;
    uint32_t *other = run == &cost->up ? &cost->down : &cost->up, needed = run == &cost->up ? RUN_UP : RUN_DOWN;
    bool hot = count_of(&cost->hot) > 0;
    if (!run || count_of(other))
        end_run(cost);
    if (run) {
        set(&cost->hot, HOT_LAUNCHES);
        set(run, count_of(run) + 1);
        put(&cost->run_ns, get(&cost->run_ns) + wall);
        if (count_of(run) >= needed) {
            est = get(&cost->run_ns) / needed;
            end_run(cost);
            return est;
        }
    }
    return est + (wall - est) / (hot ? 64 : 8);
}

/* A sample alone is the truth, unless a newcomer was not noticed yet: the second in a row is believed. */
static double follow_long_alone(struct vcuda_cost *cost, double est, double wall) {
    bool far = wall > FAR * est, again = far && count_of(&cost->up);
    set(&cost->up, far && !again);
    return again ? wall : est + (wall - est) / 4;
}

/* Long ones are all sampled, and each settles what itself took: what was launched before a longer kernel was noticed is paid for too. */
static double sample_alone(struct vcuda_cost *cost, double *est, double wall, double charged, uint32_t weight) {
    uint32_t clean = count_of(&cost->clean);
    bool is_long = *est >= COST_LONG_NS;
    double most = SETTLE_MOST_NS + (is_long ? SETTLE_TIMES * *est : 0);
    *est = (is_long ? follow_long_alone : follow_alone)(cost, *est, wall);
    set(&cost->clean, clean < CLEAN_MOST ? clean + 1 : CLEAN_MOST);
    return bounded((wall - charged) * weight, most);
}

/* What a kernel of several turns takes, of which `wall` was measured beside others. Their turns stretch all of its own but the last, which is
 * followed by none: half a slice on average, and much for a kernel of 3 ms beside seven. */
static double without_turns(double wall, double stretched) {
    return wall / stretched + SLICE_NS / 2 * (1 - 1 / stretched);
}

/* What of a sample was our own time. What siblings got done meanwhile is known from the books; of other claims, what turns they may have had. */
static double own_part(const struct surroundings *around, double wall) {
    return around->siblings ? wall * around->own : without_turns(wall, around->phi);
}

/* A short kernel that took longer than it should beside neighbours was interrupted by a turn of theirs: not believed, until four agree. */
static void sample_interrupted(struct vcuda_cost *cost, const struct surroundings *around, double *est, double wall) {
    uint32_t up = count_of(&cost->up) + 1, slow = count_of(&cost->slow_samples) + 1;
    double least = up == 1 || wall < get(&cost->run_ns) ? wall : get(&cost->run_ns);
    double mean = get(&cost->slow_ns);
    mean = slow == 1 ? wall / around->phi : mean + (wall / around->phi - mean) / SLOW_SAMPLES;
    set(&cost->up, up);
    put(&cost->run_ns, least);
    put(&cost->slow_ns, mean);
    set(&cost->slow_samples, slow);
    if (up >= RUN_UP) {
        *est = least > SLICE_NS ? without_turns(least, around->phi) : least;
        end_run(cost);
    } else if (slow >= SLOW_SAMPLES && mean > 2 * *est) {
        *est = mean; /* a kernel with two costs under one key */
        set(&cost->slow_samples, 0);
    }
}

static double sample_long(struct vcuda_cost *cost, const struct surroundings *around, double *est, double wall, double charged) {
    double turns = 1 + around->others, explained = *est * turns + around->others * SLICE_NS;
    bool trusted = count_of(&cost->clean) >= CLEAN_ENOUGH, siblings = around->siblings > 0;
    double most = SETTLE_MOST_NS + (siblings ? 0 : SETTLE_TIMES * *est); /* among siblings a guess is often far off */
    /* Siblings' estimates are in ours, by what they get done: the more there are, the slower, or all of them swing. */
    double pace = siblings ? bounded(16 + count_of(&cost->samples), 40 * (1 + around->siblings)) : 16;
    bool far = wall > 1.1 * explained && (!siblings || own_part(around, wall) > 2 * *est); /* no neighbour explains this */
    bool sure = far && (!siblings || count_of(&cost->up)); /* among siblings it can be chance: the second in a row is believed */
    set(&cost->up, far && !sure);
    if (sure) {
        *est = without_turns(wall, turns);
        set(&cost->clean, 0);
        return bounded(*est - charged, most);
    }
    bool clear = trusted && wall <= 1.15 * *est;
    *est += clear ? (wall - *est) / 16 : (own_part(around, wall) - *est) / (trusted && !siblings ? 64 : pace);
    return !siblings && charged < *est / FAR ? *est - charged : 0; /* launched before that was known */
}

static double sample_contended(struct vcuda_cost *cost, const struct surroundings *around, double *est, double wall, double charged) {
    bool is_long = *est >= COST_LONG_NS;
    if (wall < 0.8 * *est) { /* a wall time is always an upper bound */
        *est += (wall - *est) / (!is_long && count_of(&cost->hot) ? 16 : 4);
        end_run(cost);
        return is_long ? bounded(wall - charged, SETTLE_MOST_NS) : 0;
    }
    if (is_long)
        return sample_long(cost, around, est, wall, charged);
    if (wall > 1.25 * *est) {
        sample_interrupted(cost, around, est, wall);
        return 0;
    }
    *est += (wall - *est) / 16;
    end_run(cost);
    return 0;
}

double cost_sample(struct vcuda_cost *cost, const struct surroundings *around, double wall_ns, double charged_ns, uint32_t weight,
                   uint64_t now_ns) {
    double est = get(&cost->est_ns), owed;
    double wall = wall_ns < 1 ? 1 : wall_ns;
    if (est <= 0) {
        double own = own_part(around, wall), least = wall / (1 + around->others);
        est = around->others && wall > COST_LONG_NS ? (own > least ? own : least) : wall;
        owed = est - charged_ns;
        put(&cost->est_ns, est);
    } else {
        owed = around->others ? sample_contended(cost, around, &est, wall, charged_ns)
                              : sample_alone(cost, &est, wall, charged_ns, weight);
        put(&cost->est_ns, est < 1 ? 1 : est);
    }
    set(&cost->samples, count_of(&cost->samples) + 1);
    keep_history(cost, est, now_ns);
    return owed;
}

bool cost_always(const struct vcuda_cost *cost, const struct surroundings *around) {
    bool doubted = around->others && count_of(&cost->up);
    return count_of(&cost->samples) < FIRST_SAMPLES || get(&cost->est_ns) >= SAMPLED_ALWAYS_NS || doubted;
}

uint32_t cost_interval(const struct vcuda_cost *cost, const struct surroundings *around) {
    double est = get(&cost->est_ns);
    if (cost_always(cost, around))
        return 1;
    double wanted = SAMPLED_ALWAYS_NS / (est < 1 ? 1 : est);
    uint32_t interval = wanted > DENSEST ? DENSEST : (uint32_t)wanted;
    interval = count_of(&cost->hot) ? interval / 4 : interval;
    return interval ? interval : 1;
}

void cost_launched(struct vcuda_cost *cost) {
    uint32_t hot = count_of(&cost->hot);
    if (hot)
        set(&cost->hot, hot - 1);
}
