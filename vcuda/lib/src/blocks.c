#include "blocks.h"

#include "backing.h"

#include <pthread.h>
#include <stdlib.h>

enum { STRIPES = 64, CHAINS = 64 };

struct node {
    struct node *next;
    struct block block;
};

struct stripe {
    pthread_mutex_t lock;
    struct node *chains[CHAINS];
};

static struct stripe stripes[STRIPES] = {[0 ... STRIPES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static uint64_t mix(uint64_t address) {
    address ^= address >> 29;
    address *= UINT64_C(0x9e3779b97f4a7c15);
    return address ^ address >> 32;
}

/* Locks the stripe; the link to the entry, or to the end of its chain. */
static struct node **lock_entry(uint64_t address, struct stripe **stripe) {
    uint64_t hash = mix(address);
    *stripe = &stripes[hash % STRIPES];
    pthread_mutex_lock(&(*stripe)->lock);
    struct node **link = &(*stripe)->chains[hash / STRIPES % CHAINS];
    while (*link && (*link)->block.address != address)
        link = &(*link)->next;
    return link;
}

bool blocks_put(struct block block) {
    struct stripe *stripe;
    struct node *node = malloc(sizeof *node);
    if (!node)
        return false;
    struct node **link = lock_entry(block.address, &stripe);
    *node = (struct node){.next = *link, .block = block}; /* several of one address: opened several times */
    *link = node;
    pthread_mutex_unlock(&stripe->lock);
    return true;
}

bool blocks_take(uint64_t address, struct block *block) {
    struct stripe *stripe;
    struct node **link = lock_entry(address, &stripe), *found = *link;
    if (found) {
        *block = found->block;
        *link = found->next;
    }
    pthread_mutex_unlock(&stripe->lock);
    free(found);
    return found != NULL;
}

bool blocks_export(uint64_t address, struct block *block) {
    struct stripe *stripe;
    struct node *found = *lock_entry(address, &stripe);
    bool fresh = found && found->block.sharing == BLOCK_OWN;
    if (fresh) {
        found->block.sharing = BLOCK_EXPORTED;
        *block = found->block;
    }
    pthread_mutex_unlock(&stripe->lock);
    return fresh;
}

/* Pages are entries, too: under their number, which is no address, with the count of their blocks as bytes. */
bool backing_enter(uint64_t address) {
    struct stripe *stripe;
    struct node **link = lock_entry(address / BACKING_PAGE, &stripe);
    bool first = !*link;
    if (first && (*link = malloc(sizeof **link))) /* without memory for it each block counts as a page: too much, never too little */
        **link = (struct node){.block = {.address = address / BACKING_PAGE}};
    if (*link)
        (*link)->block.bytes++;
    pthread_mutex_unlock(&stripe->lock);
    return first;
}

bool backing_leave(uint64_t address, bool *exported) {
    struct stripe *stripe;
    struct node **link = lock_entry(address / BACKING_PAGE, &stripe), *page = *link;
    bool last = !page || --page->block.bytes == 0;
    *exported = page && page->block.sharing == BLOCK_EXPORTED;
    if (page && last) {
        *link = page->next;
        free(page);
    }
    pthread_mutex_unlock(&stripe->lock);
    return last;
}

bool backing_export(uint64_t address) {
    struct block page;
    return blocks_export(address / BACKING_PAGE, &page);
}

static struct node *unlink_owned(struct node **link, uint64_t owner) {
    struct node *out = NULL, *node;
    while ((node = *link)) {
        if (node->block.owner != owner) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        node->next = out;
        out = node;
    }
    return out;
}

void blocks_take_owned(uint64_t owner, void (*each)(const struct block *block)) {
    for (int i = 0; i < STRIPES * CHAINS; i++) {
        struct stripe *stripe = &stripes[i / CHAINS];
        pthread_mutex_lock(&stripe->lock);
        struct node *out = unlink_owned(&stripe->chains[i % CHAINS], owner);
        pthread_mutex_unlock(&stripe->lock);
        while (out) {
            struct node *next = out->next;
            each(&out->block);
            free(out);
            out = next;
        }
    }
}

void blocks_after_fork(void) {
    for (int i = 0; i < STRIPES; i++) {
        pthread_mutex_init(&stripes[i].lock, NULL);
        for (int j = 0; j < CHAINS; j++)
            stripes[i].chains[j] = NULL; /* the nodes are lost: their allocator may be locked by a thread that the child has not */
    }
}
