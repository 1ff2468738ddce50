/* The memory books under threads, processes and kill -9: the sum never passes the limit, and is exact at every quiet point. */
#include "backing.h"
#include "blocks.h"
#include "check.h"
#include "ledger.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct region region;

static uint64_t reserved(void) {
    return __atomic_load_n(&region_device(&region, 0)->reserved_bytes, __ATOMIC_SEQ_CST);
}

static uint64_t sum_of_slots(void) {
    uint64_t sum = 0;
    for (int i = 0; i < region_slots_used(&region); i++)
        sum += ledger_slot_bytes(&region, i, 0);
    return sum;
}

static void a_reservation_is_exact_at_the_limit(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 1001), -ENOMEM);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 999), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_MANAGED, 2), -ENOMEM);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_MANAGED, 1), 0);
    CHECK_EQ(reserved(), 1000);
    CHECK_EQ(region_device(&region, 0)->peak_bytes, 1000);
    CHECK_EQ(region_device(&region, 0)->denied_count, 2);
    CHECK_EQ(region_device(&region, 0)->denied_bytes, 1003);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 999);
    CHECK_EQ(reserved(), 1);
    CHECK_EQ(sum_of_slots(), 1);
    ledger_after_fork(&region);
    check_drop(&claim);
}

static void huge_requests_never_wrap(void) {
    struct claim claim = check_claim(UINT64_MAX, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 1 << 20), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, UINT64_MAX), -ENOMEM);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, UINT64_MAX - (1 << 20) + 1), -ENOMEM);
    CHECK_EQ(reserved(), 1 << 20);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, UINT64_MAX);
    CHECK_EQ(reserved(), 0);
    ledger_after_fork(&region);
    check_drop(&claim);
}

static void pages_are_charged_from_their_first_small_block_to_their_last(void) {
    CHECK_EQ(backing_bytes(1), BACKING_PAGE);
    CHECK_EQ(backing_bytes(BACKING_PAGE + 1), 2 * BACKING_PAGE);
    CHECK_EQ(backing_bytes(UINT64_MAX), -1);
    CHECK(backing_shares_page(BACKING_PAGE / 2 - 1) && !backing_shares_page(BACKING_PAGE / 2));
    CHECK(backing_enter(10 * BACKING_PAGE));
    CHECK(!backing_enter(10 * BACKING_PAGE + 512));
    CHECK(backing_enter(11 * BACKING_PAGE));
    CHECK(backing_export(10 * BACKING_PAGE + 512));
    CHECK(!backing_export(10 * BACKING_PAGE));
    CHECK(!backing_export(12 * BACKING_PAGE));
    bool exported;
    CHECK(!backing_leave(10 * BACKING_PAGE, &exported));
    CHECK(backing_leave(10 * BACKING_PAGE + 512, &exported) && exported);
    CHECK(backing_leave(11 * BACKING_PAGE, &exported) && !exported);
}

static uint64_t dropped;
static void drop(const struct block *block) {
    dropped += block->bytes;
}

static void blocks_are_found_once_and_by_their_owner(void) {
    struct block found;
    for (uint64_t i = 1; i <= 1000; i++)
        CHECK(blocks_put((struct block){.address = i << 21, .bytes = i, .owner = i % 2}));
    CHECK(blocks_take(UINT64_C(500) << 21, &found) && found.bytes == 500);
    CHECK(!blocks_take(UINT64_C(500) << 21, &found));
    CHECK(!blocks_take(12345, &found));
    blocks_take_owned(0, drop);
    CHECK_EQ(dropped, 250500 - 500);
    blocks_take_owned(1, drop);
    CHECK_EQ(dropped, 500500 - 500);
}

/* ---- processes and kills ---- */

enum { PROCESSES = 6, THREADS = 4, LIMIT = 1000000 };

static uint64_t *worst; /* shared: the largest sum that any process ever saw */

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *churn(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    uint64_t held[8] = {0};
    for (;;) {
        unsigned at = next_random(&state) % 8;
        ledger_release(&region, 0, VCUDA_CLASS_LINEAR, held[at]);
        held[at] = next_random(&state) % (LIMIT / 8);
        if (ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, held[at]))
            held[at] = 0;
        uint64_t now = reserved(), most = __atomic_load_n(worst, __ATOMIC_RELAXED);
        while (most < now && !__atomic_compare_exchange_n(worst, &most, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
    }
    return NULL;
}

static pid_t start_churning(unsigned seed, int ready) {
    pid_t child = fork();
    if (child)
        return child;
    pthread_t thread;
    ledger_after_fork(&region);
    for (unsigned i = 1; i < THREADS; i++)
        pthread_create(&thread, NULL, churn, (void *)(size_t)(seed * 100 + i));
    if (write(ready, "x", 1) == 1)
        churn((void *)(size_t)(seed * 100));
    _exit(1);
}

/* Let the others go on for so many operations of theirs: no sleeping for a fixed time. */
static void let_work(uint64_t operations) {
    uint64_t begun = 0, now = 0;
    for (int i = 0; i < region_slots_used(&region); i++)
        begun += __atomic_load_n(&region_slot(&region, i)->begun, __ATOMIC_RELAXED);
    do {
        usleep(200);
        now = 0;
        for (int i = 0; i < region_slots_used(&region); i++)
            now += __atomic_load_n(&region_slot(&region, i)->begun, __ATOMIC_RELAXED);
    } while (now < begun + operations);
}

static void random_kills_leave_the_books_exact(void) {
    struct claim claim = check_claim(LIMIT, 300);
    pid_t children[PROCESSES];
    unsigned state = 42;
    int ready[2];
    char byte;
    worst = mmap(NULL, sizeof *worst, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(pipe(ready), 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        children[i] = start_churning(i + 1, ready[1]);
    for (unsigned i = 0; i < PROCESSES; i++)
        CHECK_EQ(read(ready[0], &byte, 1), 1);
    for (unsigned round = 0; round < 60; round++) {
        unsigned victim = next_random(&state) % PROCESSES;
        let_work(next_random(&state) % 300);
        kill(children[victim], SIGKILL);
        waitpid(children[victim], NULL, 0);
        children[victim] = start_churning(1000 + round, ready[1]);
        CHECK_EQ(read(ready[0], &byte, 1), 1);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    CHECK(*worst > LIMIT / 2);
    CHECK(*worst <= LIMIT);
    ledger_reclaim(&region);
    CHECK_EQ(reserved(), 0);
    CHECK_EQ(sum_of_slots(), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, LIMIT), 0);
    ledger_after_fork(&region);
    check_drop(&claim);
}

/* What a kill leaves behind at each point of reserving, releasing and reclaiming. */
static void every_torn_state_is_repaired(void) {
    for (int point = 0; point < 4; point++) {
        struct claim claim = check_claim(1000, 300);
        CHECK_EQ(region_open(&region, claim.folder), 0);
        pid_t child = fork();
        if (child == 0) {
            ledger_after_fork(&region);
            int slot = region_own_slot(&region);
            struct vcuda_slot *mine = region_slot(&region, slot);
            CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 100), 0);
            mine->begun++;
            if (point == 1)
                region_device(&region, 0)->reserved_bytes += 300; /* killed while reserving, before the slot was told */
            if (point == 2)
                mine->device[0].bytes[VCUDA_CLASS_LINEAR] -= 60; /* killed while releasing, before the sum was told */
            if (point == 3)
                mine->device[0].bytes[VCUDA_CLASS_LINEAR] = 0; /* killed while reclaiming */
            _exit(0);
        }
        waitpid(child, NULL, 0);
        CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 950), 0);
        CHECK_EQ(reserved(), 950);
        CHECK_EQ(sum_of_slots(), 950);
        ledger_after_fork(&region);
        check_drop(&claim);
    }
}

static void used_leaves_out_the_dead_without_touching_the_books(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 100), 0);
    pid_t child = fork();
    if (child == 0) {
        ledger_after_fork(&region);
        _exit(ledger_reserve(&region, 0, VCUDA_CLASS_POOL, 500));
    }
    waitpid(child, NULL, 0);
    CHECK_EQ(reserved(), 600);
    CHECK_EQ(ledger_used(&region, 0), 100);
    CHECK_EQ(reserved(), 600);
    ledger_after_fork(&region);
    check_drop(&claim);
}

static void all_512_slots_taken_is_refused_and_freed_by_the_dead(void) {
    struct claim claim = check_claim(1000, 300);
    int go[2];
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(pipe(go), 0);
    pid_t holder = fork();
    if (holder == 0) { /* one process may hold many bytes: enough to stand for 512 */
        char byte;
        for (int i = 0; i < VCUDA_MAX_SLOTS; i++)
            if (!region_try_lock(&region, i))
                _exit(1);
        _exit(write(go[1], "x", 1) == 1 && read(go[0], &byte, 0) == 0 && pause());
    }
    char byte;
    CHECK_EQ(read(go[0], &byte, 1), 1);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 1), -ENOSPC);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 1), 0);
    ledger_after_fork(&region);
    check_drop(&claim);
}

int main(void) {
    RUN(a_reservation_is_exact_at_the_limit);
    RUN(huge_requests_never_wrap);
    RUN(pages_are_charged_from_their_first_small_block_to_their_last);
    RUN(blocks_are_found_once_and_by_their_owner);
    RUN(every_torn_state_is_repaired);
    RUN(used_leaves_out_the_dead_without_touching_the_books);
    RUN(all_512_slots_taken_is_refused_and_freed_by_the_dead);
    RUN(random_kills_leave_the_books_exact);
    return check_failures != 0;
}
