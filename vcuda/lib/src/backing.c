#include "backing.h"

#include <pthread.h>
#include <stdlib.h>

enum { CHAINS = 1024 };

struct page {
    struct page *next;
    uint64_t number;
    uint64_t blocks;
    bool exported;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct page *chains[CHAINS];

static struct page **find(uint64_t number) {
    struct page **link = &chains[number % CHAINS];
    while (*link && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

bool backing_enter(uint64_t address) {
    uint64_t number = address / BACKING_PAGE;
    pthread_mutex_lock(&lock);
    struct page **link = find(number);
    bool first = !*link;
    if (first) {
        struct page *page = malloc(sizeof *page);
        if (page)
            *page = (struct page){.number = number};
        *link = page; /* without memory for the entry each block counts as a page of its own: too much, never too little */
    }
    if (*link)
        (*link)->blocks++;
    pthread_mutex_unlock(&lock);
    return first;
}

bool backing_leave(uint64_t address, bool *exported) {
    pthread_mutex_lock(&lock);
    struct page **link = find(address / BACKING_PAGE), *page = *link;
    bool last = !page || --page->blocks == 0;
    *exported = page && page->exported;
    if (page && last) {
        *link = page->next;
        free(page);
    }
    pthread_mutex_unlock(&lock);
    return last;
}

bool backing_export(uint64_t address) {
    pthread_mutex_lock(&lock);
    struct page *page = *find(address / BACKING_PAGE);
    bool fresh = page && !page->exported;
    if (page)
        page->exported = true;
    pthread_mutex_unlock(&lock);
    return fresh;
}

void backing_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < CHAINS; i++)
        chains[i] = NULL;
}
