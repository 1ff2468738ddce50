#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cards.h"
#include "mig.h"
#include "node.h"
#include "tool.h"
#include "util.h"

#ifndef SIM_CARDS_DIR
#define SIM_CARDS_DIR "cards"
#endif

struct plan {
  struct sim_options options;
  uint32_t hold;
  const char *cards, *directory;
  const char *mig[SIM_MAX_CARDS];
  uint32_t mig_count, card_count;
  struct sim_part parts[SIM_MAX_CARDS];
  struct sim_card_model models[SIM_MAX_CARDS];
};

static int parse_number(const char *text, uint64_t unit, uint64_t max, uint64_t *out) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || value < 0 || value * (double)unit > (double)max) return -1;
  *out = (uint64_t)(value * (double)unit + 0.5);
  return 0;
}

static int parse_driver(const char *text, uint32_t *out) {
  unsigned major, minor;
  if (sscanf(text, "%u.%u", &major, &minor) != 2 || major < 11 || major > 13 || minor > 9) return -1;
  *out = major * 1000 + minor * 10;
  return 0;
}

static int apply(struct plan *plan, int option, const char *value) {
  struct sim_options *options = &plan->options;
  uint64_t number = 0;
  int result = 0;
  switch (option) {
    case 'c': plan->cards = value; break;
    case 'd': plan->directory = value; break;
    case 'g':
      if (plan->mig_count == SIM_MAX_CARDS) return -1;
      plan->mig[plan->mig_count++] = value;
      break;
    case 't':
      options->virtual_time = strcmp(value, "virtual") == 0;
      result = options->virtual_time || strcmp(value, "real") == 0 ? 0 : -1;
      break;
    case 's': result = parse_number(value, 1, UINT64_MAX / 2, &options->seed); break;
    case 'v': result = parse_driver(value, &options->driver_version); break;
    case 'l': result = parse_number(value, 1000000, 1000000000, &options->slice_ns); break;
    case 'w': result = parse_number(value, 1000, 1000000000, &options->switch_ns); break;
    case 'u': result = parse_number(value, 1000, 1000000000, &options->launch_ns); break;
    case 'j':
      result = parse_number(value, 1, 500, &number);
      options->jitter_permille = (uint32_t)number;
      break;
    case 'h':
      result = parse_number(value, 1, SIM_MAX_THREADS, &number);
      plan->hold = (uint32_t)number;
      break;
    case 'm':
      result = parse_number(value, 1, 3600000, &number);
      options->stall_ms = (uint32_t)number;
      break;
    default: return -1;
  }
  return result;
}

static int parse(int argc, char **argv, struct plan *plan) {
  static const struct option names[] = {
      {"cards", 1, NULL, 'c'},     {"cards-dir", 1, NULL, 'd'}, {"mig", 1, NULL, 'g'}, {"time", 1, NULL, 't'},     {"seed", 1, NULL, 's'},
      {"driver", 1, NULL, 'v'},    {"slice-ms", 1, NULL, 'l'},  {"switch-us", 1, NULL, 'w'}, {"launch-us", 1, NULL, 'u'},
      {"jitter-permille", 1, NULL, 'j'}, {"hold", 1, NULL, 'h'}, {"stall-ms", 1, NULL, 'm'}, {NULL, 0, NULL, 0}};
  int option, index = 0;
  optind = 0;
  while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
    if (option == '?') return -1;
    if (apply(plan, option, optarg) < 0) {
      sim_tool_fail("--%s cannot be '%s'", names[index].name, optarg);
      return -1;
    }
  }
  return 0;
}

/* Where card files lie: --cards-dir, TESSERA_SIM_CARDS_DIR, `cards` beside the tool, the place they were built from. */
static const char *cards_directory(const struct plan *plan, char *buffer, size_t size) {
  const char *named = getenv("TESSERA_SIM_CARDS_DIR");
  ssize_t length = readlink("/proc/self/exe", buffer, size - 1);
  if (plan->directory) return plan->directory;
  if (named && *named) return named;
  if (length > 0) {
    buffer[length] = '\0';
    if (strlen(dirname(buffer)) + sizeof "/cards" < size && strcat(buffer, "/cards") && access(buffer, R_OK) == 0) return buffer;
  }
  return SIM_CARDS_DIR;
}

static int load_cards(struct plan *plan) {
  char buffer[1024], list[1024], error[1400], *rest = list;
  const char *directory = cards_directory(plan, buffer, sizeof buffer);
  if (!plan->cards || strlen(plan->cards) >= sizeof list) return sim_tool_fail("--cards is missing, e.g. --cards h100,l40s,t4");
  snprintf(list, sizeof list, "%s", plan->cards);
  for (char *name; (name = strsep(&rest, ",")) != NULL;) {
    if (plan->card_count == SIM_MAX_CARDS) return sim_tool_fail("a node holds %d cards at most", SIM_MAX_CARDS);
    if (strchr(name, '/')) return sim_tool_fail("'%s' is no card name", name);
    if (sim_card_load(directory, name, &plan->models[plan->card_count++], error, sizeof error) < 0) {
      return sim_tool_fail("%s", error);
    }
  }
  for (uint32_t i = 0; i < SIM_MAX_CARDS; i++) plan->parts[i] = (struct sim_part){.parent = SIM_NONE};
  for (uint32_t i = 0; i < plan->mig_count; i++) {
    if (sim_mig_divide(plan->mig[i], plan->models, plan->parts, &plan->card_count, error, sizeof error) < 0) return sim_tool_fail("%s", error);
  }
  return 0;
}

static void init_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static void fill(struct sim_node *node, const struct plan *plan) {
  uint64_t start = plan->options.virtual_time ? 1000000000ull : sim_monotonic_ns();
  node->layout = SIM_LAYOUT;
  node->card_count = plan->card_count;
  node->size = sizeof *node;
  node->options = plan->options;
  node->event_free = SIM_NONE;
  node->started_ns = start;
  node->clock = (struct sim_clock){.now_ns = start, .turn = SIM_NONE, .hold = plan->hold};
  sim_boot_id(node->boot_id);
  init_lock(&node->lock);
  for (uint32_t i = 0; i < plan->card_count; i++) {
    struct sim_card *card = &node->cards[i];
    card->model = plan->models[i];
    card->index = i;
    card->parent = plan->parts[i].parent;
    card->slices = plan->parts[i].slices;
    card->front_ns = start;
    card->rng = plan->options.seed + i;
    card->current = card->compute.stream = card->copy[0].stream = card->copy[1].stream = SIM_NONE;
    sim_card_uuid(plan->options.seed, i, card->uuid);
  }
  node->magic = SIM_MAGIC;
}

static int make(const char *path, const struct plan *plan) {
  char temporary[1100];
  struct sim_node *node;
  int fd, failed;

  snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
  fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return sim_tool_fail("cannot create %s: %s", temporary, strerror(errno));
  failed = fchmod(fd, 0666) < 0 || ftruncate(fd, (off_t)sizeof *node) < 0; /* like a device node: any account may use it */
  node = failed ? MAP_FAILED : mmap(NULL, sizeof *node, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (node != MAP_FAILED) {
    fill(node, plan);
    munmap(node, sizeof *node);
  }
  failed = node == MAP_FAILED || rename(temporary, path) < 0;
  if (failed) {
    sim_tool_fail("cannot make %s: %s", path, strerror(errno));
    unlink(temporary);
  }
  close(fd);
  return failed ? 1 : 0;
}

static bool same(const struct sim_node *node, const struct plan *plan) {
  if (node->card_count != plan->card_count || memcmp(&node->options, &plan->options, sizeof node->options) != 0) return false;
  for (uint32_t i = 0; i < plan->card_count; i++) {
    if (memcmp(&node->cards[i].model, &plan->models[i], sizeof plan->models[i]) != 0 || node->cards[i].parent != plan->parts[i].parent) return false;
  }
  return true;
}

/* 0: exists and is what is wanted, 1: must be made, 2: in the way */
static int existing(const char *path, const struct plan *plan) {
  struct sim_handle handle;
  int result = sim_open(&handle, path);
  bool wanted;
  if (result == -ENOENT || result == -ESTALE) return 1;
  if (result < 0) return sim_tool_open(&handle, path), 2;
  wanted = same(handle.node, plan);
  sim_close(&handle);
  if (wanted) return 0;
  sim_tool_fail("%s is a node with other cards or options. Run `tessera-sim destroy %s` first.", path, path);
  return 2;
}

int sim_tool_create(int argc, char **argv) {
  static struct plan plan = {.options = {.driver_version = 12090,
                                         .slice_ns = 2000000,
                                         .switch_ns = 50000,
                                         .launch_ns = 3000,
                                         .query_ns = 1000,
                                         .stall_ms = 2000}};
  int state;
  if (argc < 1 || argv[0][0] == '-') return sim_tool_usage();
  if (strlen(argv[0]) > 1000) return sim_tool_fail("the path is too long");
  if (parse(argc, argv, &plan) < 0) return sim_tool_usage();
  if (load_cards(&plan)) return 1;
  state = existing(argv[0], &plan);
  if (state == 2 || (state == 1 && make(argv[0], &plan))) return 1;
  printf("%s %s with %u card%s, %s time\n", argv[0], state ? "made" : "is there already", plan.card_count,
         plan.card_count == 1 ? "" : "s", plan.options.virtual_time ? "virtual" : "real");
  return 0;
}
