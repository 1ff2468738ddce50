"""The driver's memory limits through NVML. Calls run in a thread of their own and are not waited for without end: a driver may hang."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from typing import Any, Final

import pynvml

from vcuda.node.errors import Unavailable

NO_LIMIT: Final = 2**64 - 1  # NVML_DEVICE_MEMORY_LIMIT_MAX
_ANSWER: Final = 5.0  # s


class NvmlMemoryLimits:
    """`MemoryLimits` of the driver that `nvidia.NvidiaMl` has opened."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory limits")

    def refusal(self, uuid: str, root: Path) -> str:
        """Why this driver has no such limits; empty where it has. `root` is the hierarchy's own folder."""
        try:
            self.get(uuid, root)
        except Unavailable as error:
            return error.code
        return ""

    def set(self, uuid: str, group: Path, hard: int | None) -> None:
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t()
        limits.nameSpace, limits.softLimit, limits.hardLimit = bytes(group), 0, NO_LIMIT if hard is None else hard
        self._ask(pynvml.nvmlDeviceSetMemoryLimits_v1, uuid, limits)

    def get(self, uuid: str, group: Path) -> int | None:
        limits = pynvml.c_nvmlGetMemoryLimits_v1_t()
        limits.nameSpace = bytes(group)
        self._ask(pynvml.nvmlDeviceGetMemoryLimits_v1, uuid, limits)
        return None if limits.hardLimit == NO_LIMIT else int(limits.hardLimit)

    def _ask(self, question: Callable[..., Any], uuid: str, limits: Any) -> None:
        def asked() -> None:
            question(pynvml.nvmlDeviceGetHandleByUUID(uuid), limits)

        try:
            self._thread.submit(asked).result(_ANSWER)
        except Late:
            raise Unavailable("The driver does not answer about memory limits.", code="driver_silent") from None
        except pynvml.NVMLError as error:
            code = "no_such_limits" if error.value in _NONE else "limits_refused"
            raise Unavailable(f"The driver refuses memory limits of a control group: {error}.", code=code) from None


_NONE: Final = (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED)
