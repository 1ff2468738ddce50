"""nvidia-ml-py: prints what it says about card 0."""

import json
import sys

import pynvml

pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(card)
json.dump(
    {
        "uuid": pynvml.nvmlDeviceGetUUID(card),
        "total": memory.total,
        "used": memory.used,
        "processes": [[p.pid, p.usedGpuMemory] for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)],
        "samples": [[s.pid, s.smUtil] for s in pynvml.nvmlDeviceGetProcessUtilization(card, 0)],
    },
    sys.stdout,
)
pynvml.nvmlShutdown()
