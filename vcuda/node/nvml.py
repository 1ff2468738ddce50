"""What the agent asks of a driver, in its own words. The adapter is `nvidia.py`; everything else sees only this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

MIB: Final = 1024**2
_HEADROOM: Final = 256 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What does not change while the driver is loaded. Bytes."""

    uuid: str
    index: int
    model: str
    physical_memory: int
    reserved_memory: int  # kept by the driver
    attributes: Mapping[str, Any]

    @property
    def allocatable(self) -> int:
        """Bytes that claims may hold together. Headroom is for what no claim is charged: rounding, first contexts."""
        headroom = max(_HEADROOM, self.physical_memory // 100)
        return max(0, self.physical_memory - self.reserved_memory - headroom) // MIB * MIB


@dataclass(frozen=True, slots=True)
class Process:
    """A process with a context on the card; `used` bytes, None where the driver does not tell."""

    pid: int
    used: int | None


@dataclass(frozen=True, slots=True)
class Busy:
    """Per cent of the card that a process used in the driver's window that ended at `at_us` (the driver's clock)."""

    pid: int
    percent: int
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A card at one moment. None: the driver does not tell; `fault` names why nothing is told at all."""

    percent: int | None = None
    processes: Sequence[Process] | None = None
    busy: Sequence[Busy] | None = None  # windows newer than asked for; empty: none, or nobody was busy
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The slow figures of a card: bytes without the driver's own reserve, °C, W."""

    memory_used: int | None = None
    temperature: int | None = None
    power: int | None = None
    illness: str = ""  # reason code of a card that answers but cannot be trusted


class Nvml(Protocol):
    """May block; only one thread uses it. Never raises for a single card: a fault is an answer."""

    def cards(self) -> Sequence[CardFacts]: ...

    def look(self, uuid: str, *, since_us: int) -> Look: ...

    def gauges(self, uuid: str) -> Gauges: ...

    def close(self) -> None: ...


class NoDriver:
    """A machine without cards. Its programs run without GPUs."""

    def cards(self) -> Sequence[CardFacts]:
        return ()

    def look(self, uuid: str, *, since_us: int) -> Look:  # noqa: ARG002
        return Look(fault="no_driver")

    def gauges(self, uuid: str) -> Gauges:  # noqa: ARG002
        return Gauges()

    def close(self) -> None:
        """Nothing was opened."""
