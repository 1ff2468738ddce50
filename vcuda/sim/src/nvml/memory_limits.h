/* Memory limits of control groups: NVML of driver branch 615, which the headers that we build with do not have yet. Names and
 * fields are those of its public documentation. */
#ifndef TESSERA_SIM_NVML_MEMORY_LIMITS_H
#define TESSERA_SIM_NVML_MEMORY_LIMITS_H

#ifndef NVML_DEVICE_MEMORY_LIMIT_MAX
#define NVML_DEVICE_MEMORY_LIMIT_MAX 0xFFFFFFFFFFFFFFFFull

typedef struct {
  const char *nameSpace; /* full path of the control group's folder */
  unsigned long long softLimit, hardLimit;
} nvmlSetMemoryLimits_v1_t;

typedef struct {
  const char *nameSpace;
  unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;
#endif

#endif
