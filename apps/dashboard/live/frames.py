"""What goes over the wire: frames, and the cursors that say how far a reader got. Pure; texts in static/js/live.js match.

Parts of a page carry a tag, a hash of their text. A reader that has the tag needs no copy, so a page that subscribes right after
it was rendered is sent nothing, and one that was cut off for an hour is sent what differs.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SAID_TIME = re.compile(r"(<time [^>]*>)[^<]*")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader got in one topic; `seq` None is "nothing yet"."""

    seq: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Any) -> "Cursor":
        """What a browser sent. Nonsense counts as nothing: the answer is then a snapshot."""
        if not isinstance(raw, dict):
            return cls()
        seq, tags = raw.get("seq"), raw.get("tags")
        known = isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0
        clean = {str(k): str(v) for k, v in tags.items()} if isinstance(tags, dict) and len(tags) <= 32 else {}
        return cls(seq if known else None, clean if known else {})


@dataclass(frozen=True, slots=True)
class Frame:
    """`patch` holds only on top of the frame `before`; a `snapshot` holds by itself. `at` is when the rows were read, Unix seconds."""

    topic: str
    seq: int
    at: float
    snapshot: dict[str, Any] | None = None
    patch: dict[str, Any] | None = None
    before: int | None = None

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"topic": self.topic, "seq": self.seq, "at": self.at}
        if self.snapshot is not None:
            return plain | {"snapshot": self.snapshot}
        return plain | {"patch": self.patch, "from": self.before}


@dataclass(frozen=True, slots=True)
class Part:
    """A rendered piece of a page. `str` gives its text, for templates."""

    html: str
    tag: str


def part(html: str) -> Part:
    """The tag leaves out how long ago something was: the page itself keeps that current."""
    digest = hashlib.blake2b(_SAID_TIME.sub(r"\1", html).encode(), digest_size=6)
    return Part(html, digest.hexdigest())


def parts_frame(topic: str, parts: Mapping[str, Part], cursor: Cursor, at: float) -> tuple[Frame | None, Cursor]:
    """The frame that brings a reader at `cursor` to `parts`, and where it stands then; None where it is there already."""
    tags = {name: each.tag for name, each in parts.items()}
    if cursor.seq is None:
        sent = {name: {"html": each.html, "tag": each.tag} for name, each in parts.items()}
        return Frame(topic, 1, at, snapshot={"parts": sent}), Cursor(1, tags)
    wanted = {name: each for name, each in parts.items() if cursor.tags.get(name) != each.tag}
    if not wanted:
        return None, cursor
    sent = {name: {"html": each.html, "tag": each.tag} for name, each in wanted.items()}
    seq = cursor.seq + 1
    return Frame(topic, seq, at, patch={"parts": sent}, before=cursor.seq), Cursor(seq, {**cursor.tags, **tags})
