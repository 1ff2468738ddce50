#include "claim.h"

#include "beside.h"
#include "ledger.h"
#include "log.h"

#include <errno.h>
#include <string.h>

#define FIXED_PLACE "/run/tessera/claim"

static struct region region;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void) {
    if (usable)
        ledger_after_fork(&region);
    claim_forget_in_child();
}

static int open_at(const char *folder) {
    log_open(folder);
    int err = region_open(&region, folder);
    if (err && err != -ENOENT)
        log_trouble(err == -EPROTO ? TROUBLE_FOREIGN_LAYOUT : TROUBLE_NO_CLAIM, strerror(-err));
    return err;
}

static void open_claim(void) {
    char folder[4096];
    int err = beside_path(folder, sizeof folder, "claim") ? open_at(folder) : -ENOENT;
    if (err == -ENOENT)
        err = open_at(FIXED_PLACE);
    usable = err == 0;
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

struct region *claim_region(void) {
    pthread_once(&once, open_claim);
    return usable ? &region : NULL;
}

void claim_count_refusal(void) {
    struct region *open = claim_region();
    if (open)
        __atomic_fetch_add(&open->ledger->refused_count, 1, __ATOMIC_RELAXED); /* read by the agent */
}
