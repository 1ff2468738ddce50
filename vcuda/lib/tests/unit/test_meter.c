/* The compute law: arrival time, debts, share changes, estimates. Time is moved by hand. */
#include "check.h"
#include "clock.h"
#include "cost.h"
#include "meter.h"

#include <math.h>

#define MS UINT64_C(1000000)

static struct region region;
static const struct surroundings alone = {.phi = 1}, beside_one = {.others = 1, .phi = 2};

static struct vcuda_ledger_device *books(void) {
    return region_device(&region, 0);
}

static struct claim open_claim(uint32_t share) {
    struct claim claim = check_claim(1000, share);
    check_use_clock();
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    return claim;
}

static void nothing(void *context) {
    (void)context;
}

/* One launch that really takes `wall_ns`, measured at once. */
static struct ticket launch(uint64_t key, double wall_ns) {
    struct ticket ticket;
    CHECK(meter_admit(&region, 0, 0, key, &ticket, nothing, NULL));
    if (ticket.sample)
        meter_measured(&region, 0, 0, &ticket, wall_ns);
    return ticket;
}

static void a_known_kernel_is_charged_its_time_over_the_share(void) {
    struct claim claim = open_claim(250);
    launch(1, 1e6);
    uint64_t tat = books()->tat_ns, charged = books()->charged_ns;
    struct ticket ticket = launch(1, 1e6);
    CHECK_NEAR(ticket.est_ns, 1e6, 1);
    CHECK_NEAR(books()->tat_ns - tat, 4e6, 10);
    CHECK_NEAR(books()->charged_ns - charged, 1e6, 10);
    check_drop(&claim);
}

static void launches_wait_beyond_the_burst_and_keep_the_share(void) {
    struct claim claim = open_claim(100);
    uint64_t start = check_now_ns;
    for (int i = 0; i < 1000; i++)
        launch(1, 1e6);
    double seconds = (double)(check_now_ns - start) / 1e9;
    CHECK_NEAR(seconds, 10 - 0.25, 0.02); /* 1 s of GPU time at 10 %, less the burst of 25 ms / 10 % */
    CHECK(books()->throttled_ns > 9000 * MS);
    CHECK_EQ(books()->waiting, 0);
    check_drop(&claim);
}

/* A thread that has work in flight does not read the clock for every launch. Time that has really passed must not become credit. */
static void an_old_reading_of_the_clock_forgives_little(void) {
    enum { LAUNCHES = 40 };
    struct claim claim = open_claim(500);
    for (int i = 0; i < 10; i++)
        launch(1, 10e3);
    flight_add(&region, 0, 0, 10000, check_now_ns);
    check_now_ns += 3600 * UINT64_C(1000000000);
    uint64_t owed = 0;
    for (int i = 0; i < LAUNCHES; i++)
        owed += (uint64_t)(launch(1, 10e3).est_ns * 2);
    meter_book();
    CHECK(books()->tat_ns + 100000 + 20000 >= check_now_ns + owed);
    CHECK_EQ(books()->launches, 10 + LAUNCHES);
    flight_idle(&region, 0, 0, check_now_ns);
    uint64_t before = check_now_ns += 1000 * MS;
    launch(1, 10e3);
    CHECK(books()->tat_ns >= before); /* nothing in flight: the clock is read */
    check_drop(&claim);
}

/* Sixteen processes that wake for each kernel of 10 us would keep a processor busy with waking. */
static void short_kernels_wait_in_long_sleeps_and_keep_the_share(void) {
    struct claim claim = open_claim(500);
    unsigned waits = 0;
    uint64_t start = check_now_ns;
    for (int i = 0; i < 10000; i++) {
        uint64_t before = check_now_ns;
        launch(1, 1e4);
        if (check_now_ns == before)
            continue;
        waits++;
        CHECK(check_now_ns - before >= 100000);
    }
    CHECK_NEAR((double)(check_now_ns - start) / 1e9, 0.2 - 0.05, 0.005);
    CHECK(waits < 1600); /* a kernel has 20 us of the share: one sleep serves five */
    check_drop(&claim);
}

static void a_huge_kernel_passes_and_then_owes(void) {
    struct claim claim = open_claim(100);
    launch(1, 500e6);
    uint64_t before = check_now_ns;
    launch(1, 500e6);
    CHECK_NEAR(check_now_ns - before, 4750e6, 30e6);
    check_drop(&claim);
}

/* What is in flight when kernels turn out to be longer is taken before anybody knows: at a small share, all of it for seconds. */
static void a_small_share_has_less_in_flight(void) {
    static const struct {
        uint32_t share;
        uint64_t in_flight; /* ms */
        bool waits;
    } cases[] = {{100, 3, false}, {100, 5, true}, {300, 11, false}, {300, 13, true}, {500, 19, false}, {500, 21, true}, {900, 19, false}, {900, 21, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct claim claim = open_claim(cases[i].share);
        launch(1, 1e6);
        flight_add(&region, 0, 0, cases[i].in_flight * MS, check_now_ns);
        uint64_t before = check_now_ns;
        launch(1, 1e6);
        CHECK_EQ(check_now_ns > before, cases[i].waits);
        check_drop(&claim);
    }
}

static void debts_have_an_end(void) {
    struct claim claim = open_claim(10);
    launch(1, 60e9);
    uint64_t before = check_now_ns;
    launch(1, 1e6);
    CHECK(check_now_ns - before <= 30000 * MS);
    check_drop(&claim);
}

static void a_new_share_rescales_the_debt(void) {
    struct claim claim = open_claim(100);
    launch(1, 500e6);
    claim.record->seq += 2;
    claim.record->share = 900;
    claim.config->generation++;
    uint64_t before = check_now_ns;
    launch(1, 500e6);
    CHECK_NEAR(check_now_ns - before, 4.99e9 / 9 - 25e6 / 0.9, 30e6);
    CHECK_EQ(books()->share_seen, 900);
    check_drop(&claim);
}

static void the_multiplier_scales_the_charge(void) {
    struct claim claim = open_claim(500);
    claim.record->m_ppm = 2000000;
    launch(1, 1e6);
    uint64_t tat = books()->tat_ns;
    launch(1, 1e6);
    CHECK_NEAR(books()->tat_ns - tat, 4e6, 10);
    check_drop(&claim);
}

static void an_unlimited_claim_is_not_charged(void) {
    struct claim claim = open_claim(500);
    struct ticket ticket;
    claim.record->flags = VCUDA_MEMORY_LIMITED;
    claim.config->generation++;
    CHECK(meter_admit(&region, 0, 0, 1, &ticket, nothing, NULL));
    CHECK(!ticket.cost);
    CHECK_EQ(books()->tat_ns, 0);
    CHECK_EQ(books()->charged_ns, 0);
    check_drop(&claim);
}

static void an_unknown_kernel_flies_alone_but_not_for_ever(void) {
    struct claim claim = open_claim(1000);
    struct ticket first, second;
    CHECK(meter_admit(&region, 0, 0, 7, &first, nothing, NULL));
    CHECK(first.placed && first.sample);
    CHECK_EQ(region_slot(&region, 0)->device[0].unmeasured, 1);
    uint64_t before = check_now_ns;
    CHECK(meter_admit(&region, 0, 0, 7, &second, nothing, NULL)); /* its measurement never comes: 2 s, then it goes */
    CHECK(check_now_ns - before >= 2000 * MS && check_now_ns - before < 2100 * MS);
    CHECK_NEAR(second.est_ns, 2e9, 0.1e9); /* charged by the age of the one that is in flight */
    meter_measured(&region, 0, 0, &first, 5e6);
    CHECK_NEAR(cost_estimate(first.cost, &alone), 5e6, 1);
    check_drop(&claim);
}

static void two_unknown_kernels_at_most_fly_at_once(void) {
    struct claim claim = open_claim(1000);
    struct ticket tickets[3];
    CHECK(meter_admit(&region, 0, 0, 1, &tickets[0], nothing, NULL));
    CHECK(meter_admit(&region, 0, 0, 2, &tickets[1], nothing, NULL));
    uint64_t before = check_now_ns;
    CHECK(meter_admit(&region, 0, 0, 3, &tickets[2], nothing, NULL));
    CHECK(check_now_ns > before);
    for (int i = 0; i < 2; i++)
        meter_measured(&region, 0, 0, &tickets[i], 1e6);
    CHECK_EQ(region_slot(&region, 0)->device[0].unmeasured, 1);
    check_drop(&claim);
}

static void a_refused_launch_costs_nothing(void) {
    struct claim claim = open_claim(100);
    launch(1, 1e6);
    uint64_t tat = books()->tat_ns, charged = books()->charged_ns;
    struct ticket ticket;
    CHECK(meter_admit(&region, 0, 0, 1, &ticket, nothing, NULL));
    meter_refund(&region, 0, 0, &ticket);
    CHECK_NEAR(books()->tat_ns, tat, 10);
    CHECK_NEAR(books()->charged_ns, charged, 10);
    check_drop(&claim);
}

static void too_much_work_in_flight_waits(void) {
    struct claim claim = open_claim(1000);
    launch(1, 1e6);
    flight_add(&region, 0, 0, 60 * MS, check_now_ns);
    uint64_t before = check_now_ns;
    launch(1, 1e6);
    CHECK(check_now_ns - before >= 2000 * MS); /* nothing says that the work has finished: bounded, then on */
    flight_done(&region, 0, 0, 60 * MS, check_now_ns);
    before = check_now_ns;
    launch(1, 1e6);
    CHECK(check_now_ns - before < MS);
    CHECK(region_slot(&region, 0)->device[0].inflight_ns > 0);
    CHECK_EQ(region_slot(&region, 0)->device[0].inflight_since_ns, 0);
    check_drop(&claim);
}

/* ---- estimates ---- */

static double sample(struct vcuda_cost *cost, const struct surroundings *around, double wall, int times) {
    double owed = 0;
    for (int i = 0; i < times; i++)
        owed = cost_sample(cost, around, wall, cost->est_ns, 1, check_now_ns += MS);
    return owed;
}

static void the_first_sample_is_the_estimate_and_is_paid_in_full(void) {
    struct vcuda_cost cost = {.key = 1};
    CHECK_NEAR(cost_sample(&cost, &alone, 500e6, 1e5, 1, check_now_ns), 500e6 - 1e5, 1);
    CHECK_NEAR(cost_estimate(&cost, &alone), 500e6, 1);
    struct vcuda_cost contended = {.key = 1};
    sample(&contended, &beside_one, 9e6, 1); /* 2 + 2 + 1 ms of its own and two turns of the neighbour between them */
    CHECK_NEAR(cost_estimate(&contended, &beside_one), 5e6, 1);
}

/* Turns of others come between its own turns, not behind the last. */
static void the_last_turn_of_a_kernel_is_not_stretched(void) {
    static const struct surroundings beside_seven = {.others = 7, .phi = 8};
    static const struct {
        double ms, turns; /* of others, between its own */
    } kernels[] = {{3, 1}, {5, 2}, {9, 4}, {51, 25}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct vcuda_cost cost = {.key = 1};
        sample(&cost, &beside_seven, (kernels[i].ms + kernels[i].turns * 7 * 2) * 1e6, 1);
        CHECK_NEAR(cost.est_ns, kernels[i].ms * 1e6, 0.1e6);
    }
}

static void alone_the_estimate_follows_and_the_difference_is_owed(void) {
    struct vcuda_cost cost = {.key = 1};
    sample(&cost, &alone, 2e6, 4);
    CHECK_NEAR(sample(&cost, &alone, 4e6, 1), 2e6, 1);
    sample(&cost, &alone, 4e6, 40);
    CHECK_NEAR(cost.est_ns, 4e6, 1e4);
    CHECK_NEAR(sample(&cost, &alone, 400e6, 1), 60e6, 1e5); /* one surprise moves the books by 20 ms and ten times what was known at most */
    CHECK(cost.est_ns < 110e6);
    sample(&cost, &alone, 400e6, 1); /* the second in a row is believed */
    CHECK_NEAR(cost.est_ns, 400e6, 1);
}

static void four_samples_in_a_row_make_a_new_level(void) {
    struct vcuda_cost cost = {.key = 1};
    sample(&cost, &alone, 10e3, 20);
    sample(&cost, &alone, 100e3, 1);
    CHECK(cost.est_ns < 25e3 && cost.hot);
    sample(&cost, &alone, 10e3, 300);
    CHECK_NEAR(cost.est_ns, 10e3, 500);
    sample(&cost, &alone, 100e3, 4);
    CHECK_NEAR(cost.est_ns, 100e3, 1);
}

static void beside_neighbours_an_interrupted_kernel_is_not_believed(void) {
    struct vcuda_cost cost = {.key = 1};
    sample(&cost, &alone, 100e3, 10);
    sample(&cost, &beside_one, 2100e3, 1);
    CHECK_NEAR(cost.est_ns, 100e3, 1e3);
    CHECK_EQ(cost_interval(&cost, &beside_one), 1); /* but looked at more closely */
    sample(&cost, &beside_one, 100e3, 1);
    sample(&cost, &beside_one, 300e3, 3);
    CHECK_NEAR(cost.est_ns, 100e3, 1e3);
    sample(&cost, &beside_one, 300e3, 1); /* the fourth in a row is no accident */
    CHECK_NEAR(cost.est_ns, 300e3, 1e3);
}

static void a_shorter_wall_time_is_always_believed(void) {
    struct vcuda_cost cost = {.key = 1};
    sample(&cost, &beside_one, 40e6, 1); /* 20 ms after division */
    sample(&cost, &beside_one, 5e6, 10);
    CHECK(cost.est_ns < 6.3e6);
}

static void a_long_kernel_beside_neighbours_stays_what_it_was_alone(void) {
    struct vcuda_cost cost = {.key = 1};
    sample(&cost, &alone, 5e6, 10);
    sample(&cost, &beside_one, 9.1e6, 50); /* its own 5 ms, two turns of the neighbour and the changes */
    CHECK_NEAR(cost.est_ns, 5e6, 0.5e6);
    double owed = sample(&cost, &beside_one, 100e6, 1); /* no neighbour explains that */
    CHECK_NEAR(cost.est_ns, 50.5e6, 1);
    CHECK_NEAR(owed, 45.5e6, 0.5e6);
    owed = cost_sample(&cost, &beside_one, 100e6, 5e6, 1, check_now_ns += MS); /* launched before that was known */
    CHECK_NEAR(owed, 45.5e6, 0.5e6);
    CHECK_NEAR(cost_sample(&cost, &beside_one, 100e6, 50e6, 1, check_now_ns += MS), 0, 1);
}

static void what_was_learned_while_a_neighbour_came_is_forgotten(void) {
    struct vcuda_cost cost = {.key = 1};
    for (int i = 0; i < 10; i++, check_now_ns += 100 * MS)
        cost_sample(&cost, &alone, 5e6, 5e6, 1, check_now_ns);
    for (int i = 0; i < 3; i++)
        sample(&cost, &alone, 10e6, 1); /* the neighbour is there, the agent has not seen it */
    CHECK(cost.est_ns > 7e6);
    CHECK_NEAR(cost_estimate(&cost, &beside_one), 5e6, 1e5);
}

/* Both start at once: all that is known of the kernel when the agent sees the neighbour was measured beside it. */
static void what_was_only_seen_beside_an_unnoticed_neighbour_is_not_trusted(void) {
    struct vcuda_cost cost = {.key = 1};
    for (int i = 0; i < 8; i++, check_now_ns += 10 * MS)
        sample(&cost, &alone, 9e6, 1);
    cost_estimate(&cost, &beside_one);
    for (int i = 0; i < 60; i++, check_now_ns += 10 * MS) {
        sample(&cost, &beside_one, 9e6, 1);
        cost_estimate(&cost, &beside_one);
    }
    CHECK_NEAR(cost.est_ns, 5e6, 0.3e6);
}

static void sampling_gets_rarer_the_shorter_the_kernel(void) {
    struct vcuda_cost cost = {.key = 1};
    CHECK_EQ(cost_interval(&cost, &alone), 1);
    sample(&cost, &alone, 100e3, 10);
    CHECK_NEAR(cost_interval(&cost, &alone), 4, 1);
    struct vcuda_cost tiny = {.key = 2}, large = {.key = 3};
    sample(&tiny, &alone, 2e3, 10);
    CHECK_EQ(cost_interval(&tiny, &alone), 64);
    sample(&large, &alone, 400e3, 10);
    CHECK_EQ(cost_interval(&large, &alone), 1);
}

static void the_table_keeps_keys_apart_and_survives_being_full(void) {
    struct claim claim = open_claim(300);
    for (uint64_t key = 1; key <= 10000; key++) {
        struct vcuda_cost *cost = cost_find(&region, 0, key * UINT64_C(0x9e3779b97f4a7c15));
        CHECK(cost && cost->key == key * UINT64_C(0x9e3779b97f4a7c15));
    }
    struct vcuda_cost *one = cost_find(&region, 0, 12345), *same = cost_find(&region, 0, 12345), *other = cost_find(&region, 1, 12345);
    CHECK(one == same);
    CHECK(one != other);
    check_drop(&claim);
}

static void siblings_count_as_far_as_they_were_busy_meanwhile(void) {
    struct claim claim = open_claim(300);
    struct limits limits = {.phi = 1, .m = 1};
    struct vcuda_slot *sibling = region_slot(&region, 1);
    region.ledger->slots_used = 2;
    sibling->epoch = 9;
    struct watch begun = flight_watch(&region, 0, 0, &limits, check_now_ns);
    sibling->device[0].inflight_ns = 5 * MS;
    check_now_ns += 10 * MS;
    struct watch ended = flight_watch(&region, 0, 0, &limits, check_now_ns);
    struct surroundings around = flight_watched(&begun, &ended, &limits);
    CHECK_EQ(around.siblings, 1);
    CHECK_NEAR(around.phi, 1.5, 0.01);
    around = flight_watched(&ended, &ended, &limits);
    CHECK_EQ(around.others, 0);
    check_drop(&claim);
}

/* Time is kept: beside siblings alone, what of a sample was not theirs was our own. */
static void what_siblings_got_done_is_not_our_own(void) {
    struct claim claim = open_claim(300);
    struct limits limits = {.phi = 1, .m = 1.25};
    struct vcuda_slot *sibling = region_slot(&region, 1);
    struct surroundings around;
    region.ledger->slots_used = 2;
    sibling->epoch = 9;
    region_device(&region, 0)->charged_ns = 1000 * MS;
    sibling->device[0].outstanding_ns = 10 * MS;
    struct watch begun = flight_watch(&region, 0, 0, &limits, check_now_ns);
    region_device(&region, 0)->charged_ns += 50 * MS; /* 40 ms of work; */
    sibling->device[0].outstanding_ns = 20 * MS;      /* 10 more are in flight: 30 are done */
    flight_done(&region, 0, 0, 5 * MS, check_now_ns); /* 5 of them by us */
    sibling->device[0].inflight_ns = 50 * MS;
    check_now_ns += 50 * MS;
    struct watch ended = flight_watch(&region, 0, 0, &limits, check_now_ns);
    around = flight_watched(&begun, &ended, &limits);
    CHECK_EQ(around.siblings, 1);
    CHECK_NEAR(around.own, 0.5, 0.001);

    struct vcuda_cost *cost = cost_find(&region, 0, 7);
    cost_sample(cost, &around, 40e6, 1e5, 1, check_now_ns);
    CHECK_NEAR(cost->est_ns, 20e6, 1e4);
    around.own = -1; /* they had more done than fits: one such sample does not turn the estimate around */
    cost_sample(cost, &around, 40e6, 20e6, 1, check_now_ns);
    CHECK(cost->est_ns > 15e6);
    around.own = -1;
    cost_sample(cost_find(&region, 0, 8), &around, 40e6, 1e5, 1, check_now_ns);
    CHECK_NEAR(cost_find(&region, 0, 8)->est_ns, 20e6, 1e4);
    check_drop(&claim);
}

/* Any program of the claim can write into the ledger, and one that outlived a boot has the old clock's times in it. */
static void nonsense_in_the_ledger_holds_nobody_up(void) {
    struct claim claim = open_claim(300);
    launch(1, 1e6);
    uint64_t before = check_now_ns;
    books()->tat_ns = UINT64_MAX;
    launch(1, 1e6);
    CHECK(check_now_ns - before < 100 * MS);
    CHECK(books()->tat_ns < check_now_ns + 100 * MS);
    struct vcuda_cost *unknown = cost_find(&region, 0, 2);
    unknown->unmeasured_since_ns = UINT64_MAX / 2;
    launch(2, 1e6);
    CHECK(check_now_ns - before < 100 * MS);
    CHECK_NEAR(unknown->est_ns, 1e6, 1);
    check_drop(&claim);
}

static void an_estimate_that_is_no_number_is_learned_anew(void) {
    static const double nonsense[] = {NAN, INFINITY, -1, 1e300};
    struct claim claim = open_claim(300);
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        launch(1, 1e6);
        cost_find(&region, 0, 1)->est_ns = nonsense[i];
        launch(1, 1e6);
        CHECK_NEAR(cost_find(&region, 0, 1)->est_ns, 1e6, 1);
    }
    check_drop(&claim);
}

int main(void) {
    RUN(a_known_kernel_is_charged_its_time_over_the_share);
    RUN(launches_wait_beyond_the_burst_and_keep_the_share);
    RUN(an_old_reading_of_the_clock_forgives_little);
    RUN(short_kernels_wait_in_long_sleeps_and_keep_the_share);
    RUN(a_huge_kernel_passes_and_then_owes);
    RUN(a_small_share_has_less_in_flight);
    RUN(debts_have_an_end);
    RUN(a_new_share_rescales_the_debt);
    RUN(the_multiplier_scales_the_charge);
    RUN(an_unlimited_claim_is_not_charged);
    RUN(an_unknown_kernel_flies_alone_but_not_for_ever);
    RUN(two_unknown_kernels_at_most_fly_at_once);
    RUN(a_refused_launch_costs_nothing);
    RUN(too_much_work_in_flight_waits);
    RUN(the_first_sample_is_the_estimate_and_is_paid_in_full);
    RUN(alone_the_estimate_follows_and_the_difference_is_owed);
    RUN(four_samples_in_a_row_make_a_new_level);
    RUN(beside_neighbours_an_interrupted_kernel_is_not_believed);
    RUN(the_last_turn_of_a_kernel_is_not_stretched);
    RUN(a_shorter_wall_time_is_always_believed);
    RUN(a_long_kernel_beside_neighbours_stays_what_it_was_alone);
    RUN(what_was_learned_while_a_neighbour_came_is_forgotten);
    RUN(what_was_only_seen_beside_an_unnoticed_neighbour_is_not_trusted);
    RUN(sampling_gets_rarer_the_shorter_the_kernel);
    RUN(the_table_keeps_keys_apart_and_survives_being_full);
    RUN(nonsense_in_the_ledger_holds_nobody_up);
    RUN(an_estimate_that_is_no_number_is_learned_anew);
    RUN(siblings_count_as_far_as_they_were_busy_meanwhile);
    RUN(what_siblings_got_done_is_not_our_own);
    return check_failures != 0;
}
