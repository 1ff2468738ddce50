/* The books of memory between processes: charged once, as long as anybody of the claim holds it, whoever dies first. */
#include "check.h"
#include "ledger.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 1000 };

static struct region region;

static uint64_t reserved(void) {
    return region_device(&region, 0)->reserved_bytes;
}
static uint64_t orphaned(void) {
    return region_device(&region, 0)->orphaned_bytes;
}

/* A process of the claim that does one thing and stays until it is told to end. */
struct peer {
    pid_t process;
    int told;
};

static struct peer start(void (*body)(void)) {
    int ready[2], told[2];
    char byte;
    CHECK_EQ(pipe(ready), 0);
    CHECK_EQ(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        close(told[1]);
        ledger_after_fork(&region);
        body();
        _exit(write(ready[1], "x", 1) != 1 || read(told[0], &byte, 1) != 1);
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(told[0]);
    return (struct peer){child, told[1]};
}

static void end(struct peer peer) {
    kill(peer.process, SIGKILL);
    waitpid(peer.process, NULL, 0);
    close(peer.told);
    ledger_reclaim(&region);
}

static struct claim begin(void) {
    struct claim claim = check_claim(LIMIT, 300);
    CHECK_EQ(region_open(&region, claim.folder), 0);
    CHECK(region_own_slot(&region) >= 0);
    return claim;
}

static void finish(struct claim *claim) {
    CHECK_EQ(reserved(), 0);
    CHECK_EQ(orphaned(), 0);
    ledger_after_fork(&region);
    check_drop(claim);
}

static void export_400(void) {
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 500), 0);
    ledger_export(&region, 0, 400);
}

static void import(uint64_t bytes, bool paid) {
    ledger_importing(&region, 1);
    CHECK_EQ(ledger_import(&region, 0, bytes), paid);
    ledger_importing(&region, -1);
}

static void import_400(void) {
    import(400, true);
}

static void the_exporter_pays_and_the_importer_does_not(void) {
    struct claim claim = begin();
    export_400();
    struct peer importer = start(import_400);
    CHECK_EQ(reserved(), 500);
    end(importer);
    ledger_release_exported(&region, 0, VCUDA_CLASS_LINEAR, 400);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 100);
    finish(&claim);
}

static void what_is_freed_while_others_hold_it_stays_charged(void) {
    struct claim claim = begin();
    export_400();
    struct peer one = start(import_400), other = start(import_400);
    ledger_release_exported(&region, 0, VCUDA_CLASS_LINEAR, 400);
    CHECK_EQ(reserved(), 500);
    end(one);
    CHECK_EQ(reserved(), 500);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 501), -ENOMEM);
    end(other);
    CHECK_EQ(reserved(), 100);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 100);
    finish(&claim);
}

static void an_exporter_that_dies_leaves_what_others_hold(void) {
    struct claim claim = begin();
    struct peer exporter = start(export_400);
    import_400();
    CHECK_EQ(ledger_used(&region, 0), 500);
    end(exporter);
    CHECK_EQ(reserved(), 400);
    CHECK_EQ(ledger_used(&region, 0), 400);
    ledger_import_end(&region, 0, 400);
    finish(&claim);
}

static void orphans_are_no_more_than_what_is_imported(void) {
    struct claim claim = begin();
    struct peer exporter = start(export_400);
    import(150, true);
    end(exporter);
    CHECK_EQ(reserved(), 150);
    ledger_import_end(&region, 0, 150);
    finish(&claim);
}

static void while_somebody_is_opening_nothing_is_let_go(void) {
    struct claim claim = begin();
    struct peer exporter = start(export_400);
    ledger_importing(&region, 1);
    end(exporter);
    CHECK_EQ(reserved(), 400);
    CHECK(ledger_import(&region, 0, 200));
    ledger_importing(&region, -1);
    CHECK_EQ(reserved(), 200);
    ledger_import_end(&region, 0, 200);
    finish(&claim);
}

static void memory_that_the_claim_does_not_pay_for_is_told(void) {
    struct claim claim = begin();
    import(1, false);
    export_400();
    import(401, false);
    import(400, true);
    ledger_import_end(&region, 0, 400);
    ledger_release_exported(&region, 0, VCUDA_CLASS_LINEAR, 400);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 100);
    finish(&claim);
}

/* Killed at each step of letting go of 400 exported bytes that we hold open. */
static int point;
static void torn_release(void) {
    export_400();
    struct vcuda_slot *mine = region_slot(&region, region_own_slot(&region));
    mine->begun++;
    if (point > 0)
        region_device(&region, 0)->orphaned_bytes += 400;
    if (point > 1)
        mine->device[0].bytes[VCUDA_CLASS_LINEAR] -= 400;
    if (point > 2)
        mine->device[0].exported_bytes -= 400;
}

static void every_torn_release_is_repaired(void) {
    for (point = 0; point < 4; point++) {
        struct claim claim = begin();
        struct peer exporter = start(torn_release);
        import_400();
        end(exporter);
        CHECK_EQ(reserved(), 400);
        CHECK_EQ(orphaned(), 400);
        ledger_import_end(&region, 0, 400);
        finish(&claim);
    }
}

static void a_lost_lock_keeps_exports_and_imports(void) {
    struct claim claim = begin();
    export_400();
    import_400();
    close(region.lock_fd);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 100), 0);
    CHECK_EQ(ledger_reserve(&region, 0, VCUDA_CLASS_LINEAR, 1), -ENOMEM); /* the old slot's exports count as an orphan, too */
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 100);
    ledger_release_exported(&region, 0, VCUDA_CLASS_LINEAR, 400);
    ledger_import_end(&region, 0, 400);
    ledger_release(&region, 0, VCUDA_CLASS_LINEAR, 100);
    ledger_reclaim(&region);
    finish(&claim);
}

int main(void) {
    RUN(the_exporter_pays_and_the_importer_does_not);
    RUN(what_is_freed_while_others_hold_it_stays_charged);
    RUN(an_exporter_that_dies_leaves_what_others_hold);
    RUN(orphans_are_no_more_than_what_is_imported);
    RUN(while_somebody_is_opening_nothing_is_let_go);
    RUN(memory_that_the_claim_does_not_pay_for_is_told);
    RUN(every_torn_release_is_repaired);
    RUN(a_lost_lock_keeps_exports_and_imports);
    return check_failures != 0;
}
