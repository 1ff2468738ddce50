"""Geometry of the bars that show shares and quotas. Pure: numbers in, percentages of the bar's width out. No text, no colours.

Compute is in per mille of a card, memory in bytes. None is "no data": nothing is drawn, and the text says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WHOLE = 1000


def width(part: int, whole: int) -> str:
    """`part` of `whole` as an SVG percentage between 0 and 100."""
    if whole <= 0:
        return "0%"
    return f"{min(max(part / whole, 0.0), 1.0) * 100:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True, slots=True)
class ShareBar:
    """One share of one card: guaranteed, borrowed, ceiling and real use of compute; limit and real use of memory."""

    guaranteed: int
    ceiling: int
    memory: int  # bytes of the share
    card_memory: int  # bytes of the card; 0 where the card is not known yet, then the share is the whole bar
    limit: int | None = None  # guaranteed and what is lent now
    used: int | None = None
    memory_used: int | None = None
    throttled_ms: int | None = None  # of the last second, over all processes
    at: float | None = None  # Unix seconds of the figures
    card: str = ""  # model, for the text

    @property
    def has_figures(self) -> bool:
        return self.used is not None

    @property
    def borrowed(self) -> int:
        return max((self.limit or self.guaranteed) - self.guaranteed, 0)

    @property
    def over(self) -> int:
        """Bytes in use above a limit that was lowered; nothing new is given until they are freed."""
        return max((self.memory_used or 0) - self.memory, 0)

    @property
    def guaranteed_width(self) -> str:
        return width(self.guaranteed, WHOLE)

    @property
    def borrowed_width(self) -> str:
        return width(self.borrowed, WHOLE)

    @property
    def used_width(self) -> str:
        return width(self.used or 0, WHOLE)

    @property
    def ceiling_at(self) -> str:
        return width(self.ceiling, WHOLE)

    @property
    def throttled_width(self) -> str:
        """A second of waiting fills what the share may use."""
        edge = self.limit or self.guaranteed
        return width(min(self.throttled_ms or 0, 1000) * edge // 1000, WHOLE)

    @property
    def _memory_whole(self) -> int:
        return self.card_memory or self.memory

    @property
    def memory_width(self) -> str:
        return width(self.memory, self._memory_whole)

    @property
    def memory_used_width(self) -> str:
        return width(self.memory_used or 0, self._memory_whole)


@dataclass(frozen=True, slots=True)
class Segment:
    """One holder's part of a card's bar. `link` and `label` are empty where the reader may not know who it is."""

    held: int
    used: int | None
    mine: bool = False
    label: str = ""
    link: str = ""
    start: str = "0%"
    held_width: str = "0%"
    used_width: str = "0%"


def lay_out(segments: Iterable[Segment], whole: int) -> list[Segment]:
    """The segments side by side from the left, in proportion to `whole`. Use is drawn inside the segment that it belongs to."""
    placed = []
    start = 0
    for segment in segments:
        used = min(segment.used or 0, segment.held)
        placed.append(
            Segment(
                held=segment.held,
                used=segment.used,
                mine=segment.mine,
                label=segment.label,
                link=segment.link,
                start=width(start, whole),
                held_width=width(segment.held, whole),
                used_width=width(used, whole),
            )
        )
        start += segment.held
    return placed


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """What is used of a limit, and what a request would add. `limit` None is no limit: nothing to fill."""

    used: int
    limit: int | None
    added: int = 0

    @property
    def over(self) -> bool:
        return self.limit is not None and self.used + self.added > self.limit

    @property
    def used_width(self) -> str:
        return width(self.used, self.limit or 0)

    @property
    def added_width(self) -> str:
        """The change; what does not fit ends at the edge."""
        if not self.limit:
            return "0%"
        return width(min(self.added, max(self.limit - self.used, 0)), self.limit)


@dataclass(frozen=True, slots=True)
class CardBars:
    """Both bars of one card."""

    compute: Sequence[Segment] = field(default_factory=tuple)
    memory: Sequence[Segment] = field(default_factory=tuple)
