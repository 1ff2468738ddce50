#include "pool.h"

#include "backing.h"
#include "charge.h"
#include "claim.h"
#include "context.h"
#include "ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pool {
    struct pool *next;
    CUmemoryPool handle;
    int device;
    uint64_t charged; /* bytes */
    bool exported;
    pthread_mutex_t lock;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools; /* entries live as long as the process; a destroyed pool's entry is used for the next one */
static atomic_bool something_freed;

static struct pool *find(CUmemoryPool handle) {
    struct pool *pool = pools;
    while (pool && pool->handle != handle)
        pool = pool->next;
    return pool;
}

static struct pool *look_up(CUmemoryPool handle) {
    pthread_mutex_lock(&list_lock);
    struct pool *pool = handle ? find(handle) : NULL;
    pthread_mutex_unlock(&list_lock);
    return pool;
}

static struct pool *find_or_add(CUmemoryPool handle, int device) {
    pthread_mutex_lock(&list_lock);
    struct pool *pool = find(handle);
    if (!pool)
        pool = find(NULL);
    if (!pool && (pool = calloc(1, sizeof *pool))) {
        pthread_mutex_init(&pool->lock, NULL);
        pool->next = pools;
        pools = pool;
    }
    if (pool && !pool->handle) {
        pool->handle = handle;
        pool->device = device;
    }
    pthread_mutex_unlock(&list_lock);
    return pool;
}

CUmemoryPool pool_of_graphs(CUdevice device) {
    return (CUmemoryPool)(uintptr_t)(device + 1); /* no address of the driver's */
}

static int graphs_of(CUmemoryPool handle) {
    return (uintptr_t)handle <= 4096 ? (int)(uintptr_t)handle - 1 : -1;
}

CUmemoryPool pool_current(int *device) {
    CUdevice current;
    CUmemoryPool handle = NULL;
    *device = DEVICE_UNKNOWN;
    if (DRIVER(cuCtxGetDevice, &current) != CUDA_SUCCESS)
        return NULL;
    *device = device_index(current);
    if (*device >= 0 && DRIVER(cuDeviceGetMemPool, &handle, current) != CUDA_SUCCESS)
        *device = DEVICE_UNKNOWN;
    return handle;
}

/* Bytes that the pool holds on the card; what it was charged when the driver does not say. */
static uint64_t holds(const struct pool *pool) {
    cuuint64_t bytes = 0;
    int graphs = graphs_of(pool->handle);
    CUresult result = graphs < 0 ? DRIVER(cuMemPoolGetAttribute, pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes)
                                 : DRIVER(cuDeviceGetGraphMemAttribute, graphs, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : pool->charged;
}

/* Bytes of it that nobody uses. The allocator of graphs may not have them in the right places: there they count as none. */
static uint64_t idle(const struct pool *pool) {
    cuuint64_t used = 0;
    if (graphs_of(pool->handle) >= 0 || DRIVER(cuMemPoolGetAttribute, pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return 0;
    return used < pool->charged ? pool->charged - used : 0;
}

static void let_go(struct pool *pool, uint64_t bytes) {
    struct block block = {.bytes = bytes, .device = pool->device, .kind = VCUDA_CLASS_POOL};
    block.sharing = pool->exported ? BLOCK_EXPORTED : BLOCK_OWN;
    pool->charged -= bytes;
    charge_settle(&block);
}

static void give_back_surplus(struct pool *pool) {
    uint64_t now = holds(pool);
    if (now < pool->charged)
        let_go(pool, pool->charged - now);
}

CUresult pool_begin(struct pool_charge *charge, CUmemoryPool handle, int device, uint64_t bytes) {
    struct region *region = claim_region();
    *charge = (struct pool_charge){0};
    if (device == DEVICE_UNKNOWN)
        return CUDA_SUCCESS;
    struct pool *pool = region && device >= 0 ? find_or_add(handle, device) : NULL;
    if (!pool)
        return claim_count_refusal(), CUDA_ERROR_OUT_OF_MEMORY;
    context_told(device);
    pthread_mutex_lock(&pool->lock);
    give_back_surplus(pool);
    uint64_t wanted = backing_bytes(bytes);
    if (ledger_reserve(region, device, VCUDA_CLASS_POOL, wanted) == 0)
        charge->reserved = wanted;
    else if (idle(pool) < bytes) { /* else the pool can serve it from what it holds */
        pthread_mutex_unlock(&pool->lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    charge->pool = pool;
    return CUDA_SUCCESS;
}

bool pool_end(struct pool_charge *charge) {
    struct pool *pool = charge->pool;
    bool fits = true;
    if (!pool)
        return true;
    uint64_t now = holds(pool), before = pool->charged, paid = before + charge->reserved;
    if (now > paid && graphs_of(pool->handle) >= 0)
        ledger_force(claim_region(), pool->device, VCUDA_CLASS_POOL, now - paid); /* launched: no way back */
    else if (now > paid)
        fits = ledger_reserve(claim_region(), pool->device, VCUDA_CLASS_POOL, now - paid) == 0;
    else
        ledger_release(claim_region(), pool->device, VCUDA_CLASS_POOL, paid - now);
    pool->charged = fits ? now : paid;
    if (pool->exported)
        ledger_export(claim_region(), pool->device, (int64_t)(pool->charged - before));
    pthread_mutex_unlock(&pool->lock);
    return fits;
}

void pool_freed(void) {
    atomic_store_explicit(&something_freed, true, memory_order_release);
}

void pool_refresh(bool synchronised) {
    if (!atomic_load_explicit(&something_freed, memory_order_relaxed))
        return;
    if (synchronised)
        atomic_store(&something_freed, false);
    pthread_mutex_lock(&list_lock);
    struct pool *pool = pools;
    pthread_mutex_unlock(&list_lock);
    for (; pool; pool = pool->next) {
        pthread_mutex_lock(&pool->lock);
        if (pool->handle)
            give_back_surplus(pool);
        pthread_mutex_unlock(&pool->lock);
    }
}

void pool_exported(CUmemoryPool handle) {
    struct pool *pool = look_up(handle);
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    if (!pool->exported)
        ledger_export(claim_region(), pool->device, (int64_t)pool->charged);
    pool->exported = true;
    pthread_mutex_unlock(&pool->lock);
}

void pool_made(CUmemoryPool handle, int device) {
    if (claim_region())
        find_or_add(handle, device);
}

void pool_gone(CUmemoryPool handle) {
    struct pool *pool = look_up(handle);
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    let_go(pool, pool->charged);
    pool->handle = NULL;
    pool->exported = false;
    pthread_mutex_unlock(&pool->lock);
}

int pool_device(CUmemoryPool handle) {
    struct pool *pool = look_up(handle);
    return pool ? pool->device : device_current();
}

void pool_after_fork(void) {
    pthread_mutex_init(&list_lock, NULL);
    pools = NULL;
}
