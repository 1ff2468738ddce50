/* Mapping, checking and slots: what is refused, who lives, what a fork hands on. */
#include "check.h"
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct region region;

static void a_sound_claim_opens(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    CHECK_EQ(region_slots_used(&region), 1);
    CHECK(region_slot_alive(region.lock_fd, 0));
    CHECK(!region_slot_alive(region.lock_fd, 1));
    check_drop(&claim);
}

static void a_missing_folder_is_told_apart(void) {
    CHECK_EQ(region_open(&region, "/tmp/tessera-no-such-claim"), -ENOENT);
}

static void read_everywhere(void) {
    const struct limits *limits = region.record_count ? config_limits(&region, 0) : NULL;
    CHECK(!limits || limits->share <= 1000);
    CHECK_EQ(region_device(&region, VCUDA_MAX_DEVICES - 1)->reserved_bytes, 0);
    (void)__atomic_load_n(&region_cost(&region, VCUDA_MAX_DEVICES - 1, region.cost_count - 1)->key, __ATOMIC_RELAXED);
    (void)__atomic_load_n(&region_slot(&region, (int)region.slot_count - 1)->epoch, __ATOMIC_RELAXED);
}

/* Every 4-byte word of both headers, set to hostile values: refused or harmless, never outside the mapping. */
static void hostile_headers_are_refused_or_harmless(void) {
    static const uint32_t values[] = {0, 1, 7, 0x7fffffff, 0xffffffff};
    struct claim claim = check_claim(1000, 300);
    unsigned char header[2][128];
    int refused = 0;
    memcpy(header[0], claim.config, sizeof header[0]);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    memcpy(header[1], region.ledger, sizeof header[1]);
    for (int name = 0; name < 2; name++)
        for (long at = 0; at < 128; at += 4)
            for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
                check_scribble(&claim, name ? "ledger" : "config", at, &values[i], sizeof values[i]);
                int err = region_open(&region, claim.folder);
                refused += err == -EPROTO;
                CHECK(err == 0 || err == -EPROTO);
                if (err == 0)
                    read_everywhere();
                check_scribble(&claim, name ? "ledger" : "config", at, header[name] + at, sizeof values[i]);
            }
    CHECK(refused > 80);
    check_drop(&claim);
}

static void a_foreign_config_is_counted_in_the_ledger(void) {
    struct claim claim = check_claim(1000, 300);
    claim.config->min_reader = 99;
    CHECK_EQ(region_open(&region, claim.folder), -EPROTO);
    claim.config->min_reader = 1;
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(region.ledger->refused_count, 1);
    check_drop(&claim);
}

static void a_newer_file_with_larger_records_is_read(void) {
    struct claim claim = check_claim(4242, 300);
    claim.config->version = 2;
    claim.config->record_size = 512;
    CHECK_EQ(region_open(&region, claim.folder), 0);
    const struct limits *limits = config_limits(&region, 0);
    CHECK(limits && limits->memory_limit == 4242);
    check_drop(&claim);
}

static void a_torn_record_keeps_the_last_good_limits(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    const struct limits *limits = config_limits(&region, 0);
    CHECK(limits && limits->memory_limit == 1000);
    claim.record->seq = 3;
    claim.record->memory_limit = 5;
    claim.config->generation++;
    limits = config_limits(&region, 0);
    CHECK(limits && limits->memory_limit == 1000);
    claim.record->seq = 4;
    claim.config->generation++;
    limits = config_limits(&region, 0);
    CHECK(limits && limits->memory_limit == 5);
    check_drop(&claim);
}

static void a_record_that_was_never_whole_is_closed(void) {
    struct claim claim = check_claim(1000, 300);
    claim.record->seq = 1;
    static struct region fresh; /* at another address, so that no earlier copy counts */
    CHECK_EQ(region_open(&fresh, claim.folder), 0);
    CHECK(config_limits(&fresh, 0) == NULL);
    check_drop(&claim);
}

static void cards_are_found_by_uuid_whatever_its_kind_and_case(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(config_find(&region, "GPU-00000000-0000-0000-0000-000000000001"), 0);
    CHECK_EQ(config_find(&region, "mig-00000000-0000-0000-0000-000000000001"), 0);
    CHECK_EQ(config_find(&region, "GPU-00000000-0000-0000-0000-000000000002"), -1);
    CHECK_EQ(config_find(&region, ""), -1);
    check_drop(&claim);
}

static void a_child_takes_a_slot_of_its_own_and_its_death_frees_only_that(void) {
    struct claim claim = check_claim(1000, 300);
    int ready[2], go[2];
    char byte;
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        region_forget_slot(&region);
        int slot = region_own_slot(&region);
        _exit(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1 ? slot : 99);
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    CHECK(region_slot_alive(region.lock_fd, 0));
    CHECK(region_slot_alive(region.lock_fd, 1));
    CHECK_EQ(write(go[1], "x", 1), 1);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQ(WEXITSTATUS(status), 1);
    CHECK(region_slot_alive(region.lock_fd, 0));
    CHECK(!region_slot_alive(region.lock_fd, 1));
    check_drop(&claim);
}

static void a_closed_lock_is_noticed_and_taken_up_again(void) {
    struct claim claim = check_claim(1000, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    CHECK(!region_lock_lost(&region));
    close(region.lock_fd);
    CHECK(region_lock_lost(&region));
    CHECK_EQ(region_reopen_lock(&region), 0);
    CHECK_EQ(region_own_slot(&region), 0);
    CHECK(region_slot_alive(region.lock_fd, 0));
    check_drop(&claim);
}

int main(void) {
    RUN(a_sound_claim_opens);
    RUN(a_missing_folder_is_told_apart);
    RUN(hostile_headers_are_refused_or_harmless);
    RUN(a_foreign_config_is_counted_in_the_ledger);
    RUN(a_newer_file_with_larger_records_is_read);
    RUN(a_torn_record_keeps_the_last_good_limits);
    RUN(a_record_that_was_never_whole_is_closed);
    RUN(cards_are_found_by_uuid_whatever_its_kind_and_case);
    RUN(a_child_takes_a_slot_of_its_own_and_its_death_frees_only_that);
    RUN(a_closed_lock_is_noticed_and_taken_up_again);
    return check_failures != 0;
}
