/* kill -9 at every instruction. Processes of a claim are single-stepped through operations on the books, one is killed somewhere, and
 * then the survivors must find exactly what the living hold. What each one holds it says itself, in memory of its own.
 *
 *   test_kills [SEEDS]
 *
 * Usual kills come at a moment of the clock and hardly ever meet the few instructions between two words of the books. Here the scheduler
 * is ours: a seed decides who steps for how long and after which instruction somebody dies, so every failure can be repeated. */
#include "check.h"
#include "ledger.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 1000, ACTORS = 3, OPERATIONS = 6, STEPS_MOST = 200000, NOT_ALLOWED = 77 };

/* What an actor knows to hold. During an operation it may hold `before` or `after`: it dies somewhere in between. */
struct diary {
    uint64_t held;
    uint32_t finished; /* operations */
    uint32_t denied;
};

struct actor {
    pid_t pid; /* 0: dead */
    struct diary *diary;
};

static struct region region;
static struct diary *diaries; /* shared with the actors */

static unsigned next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (unsigned)(*state >> 33);
}

static uint64_t seeded(uint64_t seed) {
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    next_random(&state);
    return state ? state : 1;
}

/* One actor's life: reserve, ask (the driver says no now and then: undo), commit, free. Each operation is stepped through. */
static void act(struct diary *diary, uint64_t seed) {
    uint64_t state = seeded(seed), held[4] = {0};
    ledger_after_fork(&region);
    for (int i = 0; i < OPERATIONS; i++) {
        raise(SIGUSR1); /* stops for the one who traces */
        unsigned at = next_random(&state) % 4, kind = at % VCUDA_CLASSES;
        uint64_t bytes = 1 + next_random(&state) % (LIMIT / 3);
        if (held[at]) {
            ledger_release(&region, 0, (enum vcuda_class)kind, held[at]);
            diary->held -= held[at];
            held[at] = 0;
        } else if (ledger_reserve(&region, 0, (enum vcuda_class)kind, bytes) == 0) {
            if (next_random(&state) % 4 == 0)
                ledger_release(&region, 0, (enum vcuda_class)kind, bytes); /* the driver refused */
            else {
                held[at] = bytes;
                diary->held += bytes;
            }
        } else
            diary->denied++;
        __atomic_store_n(&diary->finished, diary->finished + 1, __ATOMIC_SEQ_CST);
    }
}

static void start(struct actor *actor, unsigned index, uint64_t seed) {
    actor->diary = &diaries[index];
    *actor->diary = (struct diary){0};
    actor->pid = fork();
    if (actor->pid)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(NOT_ALLOWED);
    raise(SIGSTOP);
    act(actor->diary, seed);
    raise(SIGSTOP); /* holds its slot until it is killed */
    _exit(0);
}

static bool wait_stopped(struct actor *actor, int *why) {
    int status = 0;
    if (waitpid(actor->pid, &status, 0) != actor->pid || !WIFSTOPPED(status))
        return false;
    *why = WSTOPSIG(status);
    return true;
}

static void died_by_itself(void) {
    fprintf(stderr, "an actor died by itself\n");
    check_failures++;
}

/* Up to `steps` instructions; false when its operations are over. */
static bool step(struct actor *actor, unsigned steps) {
    for (unsigned i = 0; i < steps; i++) {
        int why = 0;
        if (ptrace(PTRACE_SINGLESTEP, actor->pid, NULL, NULL) || !wait_stopped(actor, &why)) {
            died_by_itself();
            return false;
        }
        if (why == SIGSTOP)
            return false;
    }
    return true;
}

/* At full speed to the beginning of its next operation; false when its operations are over. */
static bool next_operation(struct actor *actor) {
    int why = SIGSTOP;
    if (ptrace(PTRACE_CONT, actor->pid, NULL, NULL) || !wait_stopped(actor, &why))
        died_by_itself();
    return why != SIGSTOP;
}

static void finish(struct actor *actor) {
    while (actor->pid && actor->diary->finished < OPERATIONS && next_operation(actor)) {
    }
}

static void end_by_kill(struct actor *actor) {
    if (!actor->pid)
        return;
    kill(actor->pid, SIGKILL);
    while (waitpid(actor->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    actor->pid = 0;
}

static uint64_t reserved(void) {
    return __atomic_load_n(&region_device(&region, 0)->reserved_bytes, __ATOMIC_SEQ_CST);
}

static uint64_t living_hold(const struct actor *actors, unsigned count) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += actors[i].pid ? actors[i].diary->held : 0;
    return sum;
}

/* A claim that is used again for the next seed: books as new. */
static void clean_books(void) {
    memset(region_device(&region, 0), 0, sizeof(struct vcuda_ledger_device));
    for (int i = 0; i < 8; i++)
        memset(region_slot(&region, i), 0, sizeof(struct vcuda_slot));
    region.ledger->slots_used = 0;
    ledger_after_fork(&region);
}

/* With everybody stopped outside of operations the books must say exactly what the living hold, and give the rest. */
static bool books_are_exact(const struct actor *actors, unsigned count) {
    ledger_reclaim(&region);
    uint64_t hold = living_hold(actors, count), sum = reserved();
    bool exact = sum == hold && ledger_used(&region, 0) == hold;
    return exact && region_device(&region, 0)->peak_bytes <= LIMIT && ledger_reserve(&region, 0, VCUDA_CLASS_OTHER, LIMIT - hold + 1) == -ENOMEM &&
           ledger_reserve(&region, 0, VCUDA_CLASS_OTHER, LIMIT - hold) == 0 && reserved() == LIMIT;
}

static uint64_t sum_of_slots(void) {
    uint64_t sum = 0;
    for (int i = 0; i < region_slots_used(&region); i++)
        sum += ledger_slot_bytes(&region, i, 0);
    return sum;
}

/* What holds after every instruction of anybody. */
static bool bounds_hold(void) {
    uint64_t slots = sum_of_slots();
    return reserved() <= LIMIT && reserved() >= slots;
}

static bool inside_an_operation(const struct actor *actor) {
    for (int i = 0; i < region_slots_used(&region); i++) {
        const struct vcuda_slot *slot = region_slot(&region, i);
        if (slot->pid == (uint32_t)actor->pid && slot->begun != slot->ended)
            return true;
    }
    return false;
}

/* Walk on until it is between `begun` and `ended` of its slot, where the words of the books disagree, and a little further. */
static bool walk_into_operation(struct actor *actor, unsigned further) {
    bool sound = true;
    if (!next_operation(actor))
        return sound;
    for (unsigned i = 0; i < 600 && !inside_an_operation(actor); i++)
        if (!step(actor, 8)) /* an operation has some thirty instructions */
            return sound;
    for (unsigned i = 0; i < further && step(actor, 1); i++)
        sound &= bounds_hold();
    return sound;
}

/* The schedule of one seed: who steps, how far, who is killed where, and whether somebody looks for the dead meanwhile. */
static bool one_seed(uint64_t seed) {
    struct actor actors[ACTORS] = {0};
    uint64_t state = seeded(~seed);
    bool sound = true;
    clean_books();
    for (unsigned i = 0; i < ACTORS; i++) {
        int why;
        start(&actors[i], i, seed * ACTORS + i);
        if (!wait_stopped(&actors[i], &why))
            return false;
    }
    struct actor *victim = &actors[next_random(&state) % ACTORS], *busy = &actors[next_random(&state) % ACTORS];
    for (unsigned turns = next_random(&state) % 8; turns; turns--) {
        struct actor *chosen = &actors[next_random(&state) % ACTORS];
        if (chosen->diary->finished < OPERATIONS)
            (void)(next_random(&state) % 2 ? next_operation(chosen) : step(chosen, 1 + next_random(&state) % 100));
        sound &= bounds_hold();
    }
    if (victim->diary->finished < OPERATIONS)
        sound &= walk_into_operation(victim, next_random(&state) % 60);
    if (busy != victim && busy->diary->finished < OPERATIONS)
        sound &= walk_into_operation(busy, next_random(&state) % 60);
    end_by_kill(victim);
    ledger_reclaim(&region); /* cannot be exact while `busy` is half through, and must not be wrong */
    sound &= bounds_hold();
    for (unsigned i = 0; i < ACTORS; i++)
        finish(&actors[i]);
    sound &= books_are_exact(actors, ACTORS);
    for (unsigned i = 0; i < ACTORS; i++)
        end_by_kill(&actors[i]);
    ledger_reclaim(&region);
    return sound && reserved() == ledger_slot_bytes(&region, atomic_load(&region.slot), 0);
}

static unsigned seeds = 2000;

static void after_a_kill_at_any_instruction_the_books_are_exact(void) {
    for (uint64_t seed = 1; seed <= seeds && check_failures < 5; seed++)
        if (!one_seed(seed)) {
            fprintf(stderr, "seed %llu: reserved %llu, peak %llu\n", (unsigned long long)seed, (unsigned long long)reserved(),
                    (unsigned long long)region_device(&region, 0)->peak_bytes);
            check_failures++;
        }
}

/* One process walks through its life; after each instruction the books are copied to a claim in which nobody lives, as if it had been
 * killed there, and repaired: no instruction is left out. */
static void each_single_instruction_may_be_the_last(void) {
    struct claim grave = check_claim(LIMIT, 300);
    static struct region other;
    struct actor actor = {0};
    unsigned steps = 0;
    int why;
    bool more = true;
    size_t books = VCUDA_SLOTS_OFFSET + 4 * sizeof(struct vcuda_slot);
    CHECK_EQ(region_open(&other, grave.folder), 0);
    clean_books();
    start(&actor, 0, 7);
    CHECK(wait_stopped(&actor, &why));
    for (; more && steps < STEPS_MOST && check_failures < 5; steps++) {
        more = step(&actor, 1);
        memcpy(other.ledger, region.ledger, books);
        CHECK(bounds_hold());
        ledger_reclaim(&other);
        if (region_device(&other, 0)->reserved_bytes || region_device(&other, 0)->peak_bytes > LIMIT) {
            fprintf(stderr, "killed after %u instructions: %llu bytes stay\n", steps + 1,
                    (unsigned long long)region_device(&other, 0)->reserved_bytes);
            check_failures++;
        }
    }
    printf("         %u instructions\n", steps);
    CHECK(actor.diary->finished == OPERATIONS && steps > 500); /* else not a whole life was walked through */
    end_by_kill(&actor);
    check_drop(&grave);
}

/* The control: without the repair a kill leaves bytes that nobody holds, and these tests see it. */
static void without_reclaiming_the_dead_would_keep_their_bytes(void) {
    unsigned kept = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct actor actor = {0};
        int why;
        clean_books();
        start(&actor, 0, seed);
        CHECK(wait_stopped(&actor, &why));
        finish(&actor);
        kept += actor.diary->held > 0;
        uint64_t held = actor.diary->held;
        end_by_kill(&actor);
        CHECK_EQ(reserved(), held);
    }
    CHECK(kept > 10);
}

static bool tracing_is_allowed(void) {
    struct actor actor = {0};
    int why;
    start(&actor, 0, 1);
    bool allowed = wait_stopped(&actor, &why);
    if (allowed)
        end_by_kill(&actor);
    return allowed;
}

int main(int argc, char **argv) {
    struct claim claim = check_claim(LIMIT, 300);
    seeds = argc > 1 ? (unsigned)atoi(argv[1]) : seeds;
    diaries = mmap(NULL, ACTORS * sizeof *diaries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (diaries == MAP_FAILED || region_open(&region, claim.folder))
        return 2;
    if (!tracing_is_allowed()) {
        puts("skipped: this machine does not let a process trace its children");
        check_drop(&claim);
        return NOT_ALLOWED;
    }
    RUN(each_single_instruction_may_be_the_last);
    RUN(after_a_kill_at_any_instruction_the_books_are_exact);
    RUN(without_reclaiming_the_dead_would_keep_their_bytes);
    check_drop(&claim);
    return check_failures != 0;
}
