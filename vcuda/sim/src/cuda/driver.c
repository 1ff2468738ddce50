#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cards.h"
#include "impl.h"
#include "tessera_sim.h"

struct driver driver = {.node = {.fd = -1, .map_fd = -1, .proc = SIM_NONE}, .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};
_Thread_local bool per_thread_default;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static bool fork_handler_set;

static struct head *free_handles;
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;

void *handle_new(enum kind kind, size_t size) {
  struct head **link, *head = NULL;
  pthread_mutex_lock(&handle_lock);
  for (link = &free_handles; *link; link = &(*link)->next_free) {
    if ((*link)->class != (uint32_t)kind) continue;
    head = *link;
    *link = head->next_free;
    break;
  }
  pthread_mutex_unlock(&handle_lock);
  if (head) memset(head, 0, size);
  else head = calloc(1, size);
  if (head) head->kind = head->class = (uint32_t)kind;
  return head;
}

void handle_free(void *handle) {
  struct head *head = handle;
  pthread_mutex_lock(&handle_lock);
  head->kind = 0;
  head->next_free = free_handles;
  free_handles = head;
  pthread_mutex_unlock(&handle_lock);
}

/* Small integers are the special stream handles or a program's mistake, never a handle of ours. */
bool handle_is(const void *handle, enum kind kind) {
  return (uintptr_t)handle > 4096 && ((uintptr_t)handle & 7) == 0 && ((const struct head *)handle)->kind == (uint32_t)kind;
}

/* The child may not use what its parent initialised (as with the real driver), and must not keep the parent's record
 * lock alive through its copy of the descriptor. */
static void after_fork_in_child(void) {
  driver.forked = driver.initialised;
  sim_forget(&driver.node);
  sim_thread_forget();
  pthread_mutex_init(&driver.lock, NULL);
  pthread_mutex_init(&open_lock, NULL);
  pthread_mutex_init(&handle_lock, NULL);
  if (!driver.forked) {
    driver.opened = false;
    driver.node.proc = SIM_NONE;
  }
}

static void open_log(void) {
  const char *path = getenv("TESSERA_SIM_LOG");
  if (driver.log >= 0 || !path || !*path) return;
  driver.log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

void driver_open(void) {
  char path[PATH_MAX];
  if (__atomic_load_n(&driver.opened, __ATOMIC_ACQUIRE)) return; /* partner: the release store below */
  pthread_mutex_lock(&open_lock);
  if (!driver.opened) {
    if (!fork_handler_set) pthread_atfork(NULL, NULL, after_fork_in_child);
    fork_handler_set = true;
    open_log();
    if (sim_find_node(&driver, path, sizeof path) == 0) sim_open(&driver.node, path);
    __atomic_store_n(&driver.opened, true, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&open_lock);
}

int driver_version(void) {
  const char *named = getenv("TESSERA_SIM_CUDA");
  unsigned major, minor;
  if (named && sscanf(named, "%u.%u", &major, &minor) == 2 && major >= 11 && major <= 13 && minor <= 9) {
    return (int)(major * 1000 + minor * 10);
  }
  driver_open();
  return driver.node.node ? (int)driver.node.node->options.driver_version : 12090;
}

/* One entry of CUDA_VISIBLE_DEVICES: an index, or a UUID or its beginning. -1 when it names no card. */
static int visible_entry(const char *text) {
  const struct sim_node *node = driver.node.node;
  char uuid[41], *end;
  unsigned long index = strtoul(text, &end, 10);
  if (end != text && *end == '\0') return index < node->card_count ? (int)index : -1;
  for (uint32_t i = 0; i < node->card_count && strlen(text) > 4; i++) {
    sim_uuid_text(node->cards[i].uuid, uuid);
    if (strncmp(uuid, text, strlen(text)) == 0) return (int)i;
  }
  return -1;
}

static void find_visible(void) {
  const char *named = getenv("CUDA_VISIBLE_DEVICES");
  char list[1024], *rest = list;
  driver.count = 0;
  if (!named) {
    for (uint32_t i = 0; i < driver.node.node->card_count; i++) driver.visible[driver.count++] = i;
    return;
  }
  snprintf(list, sizeof list, "%s", named);
  for (char *entry; (entry = strsep(&rest, ",")) && driver.count < SIM_MAX_CARDS;) {
    int card = visible_entry(entry + strspn(entry, " "));
    if (card < 0) return; /* the first invalid entry ends the list */
    driver.visible[driver.count++] = (uint32_t)card;
  }
}

/* As a profiler asks for it: a library that is loaded into the program before its first call. */
static void inject(void) {
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*begin)(void) = NULL;
  if (library) *(void **)&begin = dlsym(library, "InitializeInjection");
  if (begin) begin();
}

CUresult impl_cuInit(unsigned flags) {
  bool first = false;
  CUresult result = CUDA_SUCCESS;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver.forked) return CUDA_ERROR_NOT_INITIALIZED;
  driver_open();
  pthread_mutex_lock(&driver.lock);
  if (!driver.initialised) {
    if (!driver.node.node) result = CUDA_ERROR_NO_DEVICE;
    else find_visible();
    if (result == CUDA_SUCCESS && driver.count == 0) result = CUDA_ERROR_NO_DEVICE;
    if (result == CUDA_SUCCESS && sim_attach(&driver.node) < 0) result = CUDA_ERROR_OPERATING_SYSTEM;
    first = result == CUDA_SUCCESS;
    if (first) __atomic_store_n(&driver.initialised, true, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&driver.lock);
  if (first) inject();
  return result;
}

CUresult impl_cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version();
  return CUDA_SUCCESS;
}

CUresult api_begin(const char *name, bool needs_init) {
  if (driver.forked) return CUDA_ERROR_NOT_INITIALIZED;
  driver_open();
  /* partner: the release store in cuInit, so that what it set up is seen */
  if (needs_init && !__atomic_load_n(&driver.initialised, __ATOMIC_ACQUIRE)) return CUDA_ERROR_NOT_INITIALIZED;
  return driver.node.node ? (CUresult)sim_fault_result(&driver.node, name) : CUDA_SUCCESS;
}

CUresult api_end(const char *name, CUresult result) {
  per_thread_default = false;
  if (driver.log >= 0) {
    char line[160];
    int length = snprintf(line, sizeof line, "%s %d\n", name, (int)result);
    if (write(driver.log, line, (size_t)length) < 0) return result; /* a full disk must not change what the call answers */
  }
  return result;
}

CUresult card_health(uint32_t card) {
  return driver.node.node->cards[card].health == SIM_LOST ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
}

CUresult need_device(CUdevice device, struct sim_card **card) {
  if (device < 0 || device >= driver.count) return CUDA_ERROR_INVALID_DEVICE;
  *card = &driver.node.node->cards[driver.visible[device]];
  return CUDA_SUCCESS;
}

SIM_EXPORT int tesseraSimNow(uint64_t *ns) {
  driver_open();
  if (!driver.node.node || !ns) return -1;
  *ns = sim_now(&driver.node);
  return 0;
}

SIM_EXPORT int tesseraSimSleepUntil(uint64_t ns) {
  driver_open();
  return driver.node.node && !driver.forked ? sim_sleep_until(&driver.node, ns) : -1;
}

SIM_EXPORT int tesseraSimRegisterThread(void) {
  driver_open();
  return driver.node.node && !driver.forked ? sim_thread_register(&driver.node) : -1;
}

SIM_EXPORT int tesseraSimUnregisterThread(void) {
  driver_open();
  if (!driver.node.node || driver.forked) return -1;
  sim_thread_unregister(&driver.node);
  return 0;
}

SIM_EXPORT int tesseraSimSetKernelCost(const char *name, uint64_t ns) {
  driver_open();
  return driver.node.node && name && !driver.forked ? sim_set_kernel_cost(&driver.node, name, ns) : -1;
}

static int busy_of(const struct sim_card *card, uint32_t pid, uint64_t *ns) {
  const struct sim_node *node = driver.node.node;
  if (pid == 0) {
    *ns = card->busy_ns;
    return 0;
  }
  for (uint32_t i = 0; i < node->proc_high; i++) {
    if (!node->procs[i].live || node->procs[i].pid != pid) continue;
    *ns = card->proc_busy_ns[i];
    return 0;
  }
  return -1;
}

SIM_EXPORT int tesseraSimBusy(uint32_t card, uint32_t pid, uint64_t *ns) {
  int result;
  driver_open();
  if (!driver.node.node || !ns || card >= driver.node.node->card_count) return -1;
  sim_lock(&driver.node);
  sim_advance_all(&driver.node);
  result = busy_of(&driver.node.node->cards[card], pid, ns);
  sim_unlock(&driver.node);
  return result;
}
