"""Whether a card can be trusted: errors that it counts, and errors that the driver reports as they happen (XID).

An XID that stands for a broken card makes it unhealthy until the agent starts again: such a card wants a reset, and a reset restarts
everything that uses it. Those that only say that a program did something wrong are not the card's fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import pynvml

# Robust-channel errors that a program can cause by itself (NVIDIA, "XID errors").
_PROGRAMS_FAULT: Final = frozenset({8, 13, 31, 32, 43, 45, 68, 69, 109})
_MANY: Final = 64  # events taken at one time; what is left comes a second later
log = logging.getLogger(__name__)


class Health:
    def __init__(self, handles: Iterable[Any]) -> None:
        self._broken: dict[str, str] = {}  # UUID -> reason
        self._events: Any = None
        for handle in handles:
            self._watch(handle)

    def of(self, uuid: str, handle: Any) -> str:
        """A reason code, or nothing for a card in health."""
        self._take_events()
        return self._broken.get(uuid) or ("ecc_uncorrected" if _uncorrected(handle) else "")

    def _watch(self, handle: Any) -> None:
        """Cards and drivers that report no events are judged by their counters alone."""
        try:
            if self._events is None:
                self._events = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        except pynvml.NVMLError as error:
            log.info("A card reports no XID events: %s.", error)

    def _take_events(self) -> None:
        for _ in range(_MANY if self._events is not None else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                uuid = pynvml.nvmlDeviceGetUUID(event.device)
            except pynvml.NVMLError:
                return  # NVML_ERROR_TIMEOUT: no more events
            log.warning("Card %s reports XID %d.", uuid, event.eventData)
            if event.eventData not in _PROGRAMS_FAULT:
                self._broken[uuid] = f"xid_{event.eventData}"


def _uncorrected(handle: Any) -> bool:
    """Since the driver was loaded; cards without error correction count none."""
    try:
        errors = pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    except pynvml.NVMLError:
        return False
    return int(errors) > 0
