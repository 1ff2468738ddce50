#include "claim.h"

#include "beside.h"
#include "ledger.h"
#include "log.h"

#include <errno.h>
#include <string.h>

#define FIXED_PLACE "/run/tessera/claim"

struct region *claim_ready;
static struct region region;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void) {
    if (claim_ready)
        ledger_after_fork(claim_ready);
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
    pthread_atfork(NULL, NULL, after_fork_in_child);
    if (err == 0)
        __atomic_store_n(&claim_ready, &region, __ATOMIC_RELEASE); /* pairs with the load in claim_region */
}

struct region *claim_open(void) {
    pthread_once(&once, open_claim);
    return __atomic_load_n(&claim_ready, __ATOMIC_ACQUIRE);
}

void claim_count_refusal(void) {
    struct region *open = claim_region();
    if (open)
        __atomic_fetch_add(&open->ledger->refused_count, 1, __ATOMIC_RELAXED); /* read by the agent */
}
