/* Virtual time: nobody waits for real, the dead and the absent hold nobody up. */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "tessera_sim.h"

static uint64_t now(void) {
  uint64_t ns;
  EQUAL(tesseraSimNow(&ns), 0);
  return ns;
}

static void an_hour_passes_at_once(void) {
  uint64_t begin = now();
  CUfunction kernel = busy_kernel();
  for (int i = 0; i < 36000; i++) launch_busy(kernel, 100 * MS, NULL);
  OK(cuCtxSynchronize());
  EQUAL((now() - begin) / (1000 * MS), 3600);
}

static pthread_barrier_t registered;

static void *sleeper(void *argument) {
  uint64_t *woke = argument;
  uint64_t until = *woke;
  EQUAL(tesseraSimRegisterThread(), 0);
  pthread_barrier_wait(&registered);
  EQUAL(tesseraSimSleepUntil(until), 0);
  *woke = now();
  EQUAL(tesseraSimUnregisterThread(), 0);
  return NULL;
}

static void sleepers_wake_in_order(void) {
  pthread_t threads[8];
  uint64_t begin = now(), woke[8];
  EQUAL(pthread_barrier_init(&registered, NULL, 9), 0);
  for (int i = 0; i < 8; i++) {
    woke[i] = begin + (unsigned)(8 - i) * 1000 * MS;
    EQUAL(pthread_create(&threads[i], NULL, sleeper, &woke[i]), 0);
  }
  pthread_barrier_wait(&registered); /* until here the clock is ours, and stands */
  EQUAL(tesseraSimUnregisterThread(), 0); /* we wait for threads, which is nothing that the node can see */
  for (int i = 0; i < 8; i++) EQUAL(pthread_join(threads[i], NULL), 0);
  for (int i = 1; i < 8; i++) CHECK(woke[i] < woke[i - 1]);
  EQUAL(woke[7], begin + 1000 * MS);
  EQUAL(woke[0], begin + 8000 * MS);
}

static void *forgets_to_come_back(void *gate) {
  EQUAL(tesseraSimSleepUntil(now() + 1), 0);
  gate_pass(gate); /* holds the turn, and waits for something that the node cannot see */
  return NULL;
}

static void an_absent_thread_loses_its_turn(void) {
  struct gate gate;
  pthread_t thread;
  gate_make(&gate);
  EQUAL(pthread_create(&thread, NULL, forgets_to_come_back, &gate), 0);
  EQUAL(tesseraSimSleepUntil(now() + 1000 * MS), 0);
  EQUAL(tesseraSimSleepUntil(now() + 1000 * MS), 0);
  gate_open(&gate, 1);
  EQUAL(tesseraSimUnregisterThread(), 0);
  EQUAL(pthread_join(thread, NULL), 0);
}

static struct gate holds;

static void die_with_the_turn(int index) {
  (void)index;
  use_device(0);
  EQUAL(tesseraSimSleepUntil(now() + 1), 0);
  gate_open(&holds, 1);
  pause();
}

int main(void) {
  pid_t child;
  make_node("--cards h100 --time virtual --stall-ms 300");
  gate_make(&holds);
  child = begin_child(die_with_the_turn, 0);
  gate_pass(&holds);
  kill(child, SIGKILL);
  EQUAL(end_child(child), 128 + SIGKILL);
  use_device(0);
  an_hour_passes_at_once();
  sleepers_wake_in_order();
  an_absent_thread_loses_its_turn();
  return 0;
}
