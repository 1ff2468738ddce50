"""Reads several topics for one reader, so that one that fails does not take the others with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from apps.audit.context import Actor
from apps.core.errors import NotFound, PortalError
from apps.dashboard.live.frames import Cursor, Frame
from apps.dashboard.live.topics import Topic

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Read:
    """`gone` are topics that the reader may not see, or no longer."""

    frames: list[Frame] = field(default_factory=list)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)


def read_all(actor: Actor, wanted: Mapping[str, tuple[Topic, Cursor]]) -> Read:
    read = Read()
    for name, (topic, cursor) in wanted.items():
        try:
            frame, read.cursors[name] = topic.read(actor, cursor)
        except NotFound:
            read.gone.append(name)
            continue
        except PortalError:
            continue  # unavailable for now: what the page shows grows old, and says so
        except Exception:
            logger.exception("live topic failed", topic=name)
            continue
        if frame is not None:
            read.frames.append(frame)
    return read
