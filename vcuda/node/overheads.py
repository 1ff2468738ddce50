"""What processes take of a card beside what their ledgers say: contexts, modules, heaps. Measured here, for processes that cannot see
themselves in the driver's list, and told to each of them, so that it counts within the claim. Pure: touches no file and no driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from vcuda.node.layout import CLASSES, OVERHEAD_PAGE, Slot, SlotDevice

_CONTEXT: Final = CLASSES.index("context")
_STEP: Final = 16 << 20  # bytes; told in such steps and one more, so that a small module changes nothing
_MOST: Final = (
    1 << 30
)  # bytes; more is no overhead but a program that goes around the library: it stays uncounted, and is seen
_SECONDS: Final = 10  # a ledger may be ahead of the driver for a moment: the largest figure of so many seconds counts


@dataclass(slots=True)
class Overheads:
    """Of one claim on one card."""

    context: int | None = None  # bytes of a context alone, the smallest that was seen
    _recent: dict[int, deque[int]] = field(default_factory=dict)  # by epoch of the process

    def measure(
        self, index: int, used: Mapping[int, int | None], before: Iterable[Slot], now: Iterable[Slot]
    ) -> Iterator[tuple[Slot, int]]:
        """Once a second. `used` is the driver's figure by process id; `before` and `now` are the slots around it.

        Yields slots and the pages that their process is to be told."""
        earlier = {slot.epoch: slot.devices[index] for slot in before}
        living = [slot for slot in now if slot.alive]
        self._recent = {slot.epoch: self._recent.get(slot.epoch, deque(maxlen=_SECONDS)) for slot in living}
        for slot in living:
            present, past = slot.devices[index], earlier.get(slot.epoch)
            shown = used.get(slot.pid)
            if shown is None or past is None or present.contexts == 0 or present.imported_bytes or past.imported_bytes:
                continue
            recent = self._recent[slot.epoch]
            asked = max(_asked(past), _asked(present))
            beside = max(0, shown - asked)
            if asked == 0 and recent and recent[-1] == beside > 0:  # twice the same: it is complete
                self.context = min(self.context or beside, beside)
            recent.append(beside)
            yield slot, pages_of(max(recent))


def pages_of(overhead: int) -> int:
    return (min(overhead, _MOST) // _STEP + 1) * _STEP // OVERHEAD_PAGE


def _asked(process: SlotDevice) -> int:
    return process.total_bytes - process.bytes_by_class[_CONTEXT]
