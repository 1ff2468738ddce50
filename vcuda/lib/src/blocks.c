#include "blocks.h"

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

static struct stripe *stripe_of(uint64_t hash) {
    return &stripes[hash % STRIPES];
}

static struct node **chain_of(struct stripe *stripe, uint64_t hash) {
    return &stripe->chains[hash / STRIPES % CHAINS];
}

bool blocks_put(struct block block) {
    uint64_t hash = mix(block.address);
    struct stripe *stripe = stripe_of(hash);
    struct node *node = malloc(sizeof *node);
    if (!node)
        return false;
    pthread_mutex_lock(&stripe->lock);
    struct node **chain = chain_of(stripe, hash);
    *node = (struct node){.next = *chain, .block = block};
    *chain = node;
    pthread_mutex_unlock(&stripe->lock);
    return true;
}

bool blocks_take(uint64_t address, struct block *block) {
    uint64_t hash = mix(address);
    struct stripe *stripe = stripe_of(hash);
    pthread_mutex_lock(&stripe->lock);
    struct node **link = chain_of(stripe, hash), *found;
    while ((found = *link) && found->block.address != address)
        link = &found->next;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&stripe->lock);
    if (!found)
        return false;
    *block = found->block;
    free(found);
    return true;
}

bool blocks_export(uint64_t address, struct block *block) {
    uint64_t hash = mix(address);
    struct stripe *stripe = stripe_of(hash);
    bool fresh = false;
    pthread_mutex_lock(&stripe->lock);
    for (struct node *node = *chain_of(stripe, hash); node && !fresh; node = node->next)
        if (node->block.address == address && node->block.sharing == BLOCK_OWN) {
            node->block.sharing = BLOCK_EXPORTED;
            *block = node->block;
            fresh = true;
        }
    pthread_mutex_unlock(&stripe->lock);
    return fresh;
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
