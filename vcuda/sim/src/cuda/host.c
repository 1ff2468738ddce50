/* Functions of the program that run in stream order: cuLaunchHostFunc, callbacks, and copies behind them. */
#include <signal.h>
#include <stdlib.h>

#include "impl.h"
#include "work.h"

struct item {
  struct item *next;
  struct CUstream_st *stream;
  uint64_t position;
  CUhostFn function;
  void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *items, **last = &items; /* guarded by the node's lock */
static unsigned pending;                    /* items not yet done, the running one included */
static bool running;
static pthread_cond_t started = PTHREAD_COND_INITIALIZER;
static bool start_done;

bool host_pending(void) { return __atomic_load_n(&pending, __ATOMIC_ACQUIRE) != 0; }

static bool at_head(const struct sim_node *node, const struct item *item) {
  return node->streams[item->stream->sim].head + 1 == item->position;
}

/* The first item whose turn in its stream has come. */
static struct item **ready_item(struct sim_node *node) {
  for (struct item **link = &items; *link; link = &(*link)->next) {
    if (at_head(node, *link) && sim_head_ready(node, (*link)->stream->sim)) return link;
  }
  return NULL;
}

static bool any_ready(struct sim_handle *handle, const void *what) {
  (void)what;
  return ready_item(handle->node) != NULL;
}

static uint64_t ready_earliest(struct sim_handle *handle, const void *what) {
  uint64_t first = SIM_NEVER;
  (void)what;
  for (struct item *item = items; item; item = item->next) {
    uint64_t time;
    if (at_head(handle->node, item)) continue;
    time = sim_earliest(handle->node, item->stream->sim, item->position - 1);
    if (time < first) first = time;
  }
  return first;
}

static void *work(void *unused) {
  (void)unused;
  sim_thread_register(&driver.node);
  pthread_mutex_lock(&lock);
  start_done = true;
  pthread_cond_signal(&started);
  pthread_mutex_unlock(&lock);
  for (;;) {
    struct item *item, **link;
    sim_wait_locked(&driver.node, any_ready, ready_earliest, NULL);
    link = ready_item(driver.node.node);
    item = *link;
    *link = item->next;
    if (last == &item->next) last = link;
    sim_unlock(&driver.node);
    item->function(item->data);
    sim_lock(&driver.node);
    sim_advance_all(&driver.node);
    sim_pop(driver.node.node, item->stream->sim);
    __atomic_sub_fetch(&pending, 1, __ATOMIC_RELEASE); /* partner: host_pending, whose caller may then move bytes itself */
    sim_notify(&driver.node, driver.node.proc);
    sim_unlock(&driver.node);
    free(item);
  }
  return NULL;
}

/* The thread takes none of the program's signals. */
static CUresult start_thread(void) {
  pthread_t thread;
  sigset_t all, before;
  int error = 0;
  pthread_mutex_lock(&lock);
  if (!running) {
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
      pthread_detach(thread);
      running = true;
    }
  }
  while (error == 0 && !start_done) pthread_cond_wait(&started, &lock);
  pthread_mutex_unlock(&lock);
  return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult host_enqueue(struct CUstream_st *stream, CUhostFn function, void *data, uint64_t *position) {
  struct item *item = calloc(1, sizeof *item);
  CUresult result = item ? start_thread() : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) result = begin_enqueue(stream);
  if (result != CUDA_SUCCESS) {
    free(item);
    return result;
  }
  item->stream = stream;
  item->function = function;
  item->data = data;
  item->position = sim_push(driver.node.node, stream->sim, SIM_OP_HOST, 0);
  *last = item;
  last = &item->next;
  __atomic_add_fetch(&pending, 1, __ATOMIC_RELEASE); /* partner: host_pending */
  if (position) *position = item->position;
  sim_notify(&driver.node, driver.node.proc);
  sim_unlock(&driver.node);
  return CUDA_SUCCESS;
}

CUresult impl_cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  struct CUstream_st *stream;
  struct work host = {.kind = WORK_HOST, .function = function, .data = data};
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  return function ? work_submit(stream, &host, NULL) : CUDA_ERROR_INVALID_VALUE;
}

struct callback {
  CUstreamCallback function;
  CUstream stream;
  void *data;
};

static void run_callback(void *data) {
  struct callback callback = *(struct callback *)data;
  free(data);
  callback.function(callback.stream, CUDA_SUCCESS, callback.data);
}

CUresult impl_cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *data, unsigned flags) {
  struct CUstream_st *stream;
  struct callback *callback;
  CUresult result = need_stream(handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  callback = malloc(sizeof *callback);
  if (!callback) return CUDA_ERROR_OUT_OF_MEMORY;
  *callback = (struct callback){.function = function, .stream = handle, .data = data};
  result = host_enqueue(stream, run_callback, callback, NULL);
  if (result != CUDA_SUCCESS) free(callback);
  return result;
}
