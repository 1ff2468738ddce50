/* Checkpoints of this very process: the states and their order, as documented for 12.8. What the process holds stays where it is. */
#define _GNU_SOURCE
#include <unistd.h>

#include "impl.h"

static CUprocessState state = CU_PROCESS_STATE_RUNNING;

static CUresult change(int pid, CUprocessState from, CUprocessState to) {
  CUresult result = CUDA_ERROR_ILLEGAL_STATE;
  if (pid != getpid()) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&driver.lock);
  if (state == from) {
    state = to;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&driver.lock);
  return result;
}

CUresult impl_cuCheckpointProcessGetState(int pid, CUprocessState *out) {
  if (pid != getpid() || !out) return CUDA_ERROR_INVALID_VALUE;
  *out = state;
  return CUDA_SUCCESS;
}

CUresult impl_cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
  if (pid != getpid() || !thread) return CUDA_ERROR_INVALID_VALUE;
  *thread = (int)gettid();
  return CUDA_SUCCESS;
}

CUresult impl_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
  (void)args; /* nothing takes so long that a time limit would matter */
  return change(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
}

CUresult impl_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
  (void)args;
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CUresult impl_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
  (void)args;
  return change(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult impl_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
  (void)args;
  return change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}
