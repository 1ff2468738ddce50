"""Node time: nanoseconds of CLOCK_MONOTONIC, or of a simulated node's own clock, which may run faster.

The library in the programs reads the same clock. Wall-clock time is for people only: it stamps samples.
"""

from __future__ import annotations

import ctypes
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from vcuda.node.errors import Unavailable

_SECOND: Final = 1_000_000_000


class Clock(Protocol):
    def now_ns(self) -> int: ...

    def enter(self) -> None:
        """Called once by the thread that will sleep."""

    def sleep_until(self, at_ns: int) -> None: ...

    def wall(self, at_ns: int) -> datetime:
        """The date and time, in UTC, that belongs to a moment of node time not long ago."""

    def driver_us(self, at_ns: int) -> int:
        """The same moment by the clock with which the driver stamps its windows, in microseconds."""


class MonotonicClock:
    def now_ns(self) -> int:
        return time.monotonic_ns()

    def enter(self) -> None:
        """Nothing to do: real time passes for everybody."""

    def sleep_until(self, at_ns: int) -> None:
        time.sleep(max(0, at_ns - time.monotonic_ns()) / _SECOND)

    def wall(self, at_ns: int) -> datetime:
        return datetime.now(UTC) - timedelta(microseconds=(self.now_ns() - at_ns) / 1000)

    def driver_us(self, at_ns: int) -> int:
        return (time.time_ns() - (self.now_ns() - at_ns)) // 1000


class SimClock:
    """The clock of a simulated node, served by its NVML library. In virtual time a sleeping thread takes part in it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        try:
            self._now = library.tesseraSimNow
            self._sleep_until = library.tesseraSimSleepUntil
            self._register = library.tesseraSimRegisterThread
        except AttributeError as missing:
            raise Unavailable(
                f"The simulated driver does not serve the node's time ({missing}).",
                hint="Build library, simulator and agent from one release: `make vcuda`.",
            ) from None
        self._now.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
        self._sleep_until.argtypes = [ctypes.c_uint64]
        self._start = (self.now_ns(), datetime.now(UTC))
        self._real = abs(self._start[0] - time.monotonic_ns()) < _SECOND

    def now_ns(self) -> int:
        value = ctypes.c_uint64()
        self._check(self._now(ctypes.byref(value)))
        return value.value

    def enter(self) -> None:
        self._check(self._register())

    def sleep_until(self, at_ns: int) -> None:
        self._check(self._sleep_until(at_ns))

    def wall(self, at_ns: int) -> datetime:
        if self._real:
            return MonotonicClock().wall(at_ns)
        start_ns, start = self._start
        return start + timedelta(microseconds=(at_ns - start_ns) / 1000)

    def driver_us(self, at_ns: int) -> int:
        return MonotonicClock().driver_us(at_ns) if self._real else at_ns // 1000

    def _check(self, code: int) -> None:
        if code != 0:
            raise Unavailable(
                f"The simulated node's clock answers {code}.",
                hint="Was the node destroyed? Make it again and restart the agent.",
            )
