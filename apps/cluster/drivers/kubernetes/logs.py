"""A run's output by offset, from an API server that knows lines and times only.

What was read is remembered by its length and the time of its last line, so that following a long output costs what is new.
Offsets count from the first byte that the kubelet still had when this process began to read.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, replace

from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.kinds import PODS
from apps.cluster.drivers.kubernetes.manifests import CONTAINER
from apps.cluster.drivers.kubernetes.objects import Manifest, container, id_of, is_terminal, name_of, namespace_of
from apps.cluster.specs import LogChunk
from apps.core.errors import NotFound, Unavailable

Line = tuple[str, bytes]  # when it was written, and what, with its end

_MOST = 1024**2  # bytes of one answer
_KEPT = 256 * 1024  # of one output's end, so that those who follow it are answered from here
_OUTPUTS = 128
_TIME = re.compile(r"(?P<second>[^.Z+]+)(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d)")
_NOT_YET = (400, 404)  # what the server says while the container is not there yet, or no more


@dataclass(frozen=True, slots=True)
class Known:
    """Of one output: `total` bytes in whole lines, the last of them in `tail`; `recent` are the lines of the last second."""

    total: int = 0
    tail: bytes = b""
    recent: tuple[Line, ...] = ()


class Logs:
    """Plain data only: any event loop of the process may ask."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    async def read(self, api: Api, pod: Manifest, *, offset: int, limit: int) -> LogChunk:
        ended = is_terminal(pod)
        known, open_line = await self._advanced(api, pod)
        size = known.total + len(open_line)
        start = size + offset if offset < 0 else offset
        start = min(max(start, 0), size)
        limit = max(0, min(limit, _MOST))
        first_kept = known.total - len(known.tail)
        if start < first_kept:
            data = await _from_the_beginning(api, pod, start, limit)
        else:
            data = (known.tail + open_line)[start - first_kept :][:limit]
        at_end = start + len(data) >= size
        whole = data if ended and at_end else without_broken_end(data)
        after = start + len(whole)
        return LogChunk(whole.decode(errors="replace"), start, after, eof=ended and after >= size)

    async def _advanced(self, api: Api, pod: Manifest) -> tuple[Known, bytes]:
        """What is known with all that is new, and what there is of the line that has no end yet."""
        id_ = id_of(pod)
        known = self._known.get(id_, Known())
        fetched = await _fetch(api, pod, since=known.recent[-1][0] if known.recent else "")
        new = _beyond(known, fetched)
        complete = [(at, line) for at, line in new if line.endswith(b"\n")]
        open_line = b"".join(line for _, line in new if not line.endswith(b"\n"))
        known = _with(known, complete)
        self._known[id_] = known
        self._known.move_to_end(id_)
        while len(self._known) > _OUTPUTS:
            self._known.popitem(last=False)
        return known, open_line


def _with(known: Known, lines: list[Line]) -> Known:
    if not lines:
        return known
    added = b"".join(line for _, line in lines)
    last = _second(lines[-1][0])
    return replace(
        known,
        total=known.total + len(added),
        tail=(known.tail + added)[-_KEPT:],
        recent=tuple(line for line in (*known.recent, *lines) if _second(line[0]) == last),
    )


def _beyond(known: Known, lines: list[Line]) -> list[Line]:
    """Less the lines of the last second that were read before: the server filters by whole seconds.

    Before them may stand the rest of a line so long that the runtime has cut it, which began in an earlier second.
    """
    old = list(known.recent)
    for first in (0, 1):
        if lines[first : first + len(old)] == old:
            return lines[first + len(old) :]
    newest = max((_moment(at) for at, _ in old), default=None)  # the kubelet has begun a new file meanwhile
    return [(at, line) for at, line in lines if newest is None or _moment(at) > newest]


def _second(at: str) -> str:
    return at[:19]


def _moment(at: str) -> tuple[str, str]:
    """To compare with others of the same kubelet, which all have the same zone."""
    found = _TIME.fullmatch(at)
    return (found["second"], (found["fraction"] or ".").ljust(10, "0")) if found else (at, "")


def _since(at: str) -> str:
    """Without the fraction, which the server does not understand."""
    found = _TIME.fullmatch(at)
    return found["second"] + found["zone"] if found else at


def _lines(raw: bytes) -> list[bytes]:
    """With their ends. A carriage return is no end: progress bars live by it."""
    *whole, rest = raw.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


async def _fetch(api: Api, pod: Manifest, *, since: str) -> list[Line]:
    params: dict[str, str | int | bool] = {"container": CONTAINER, "timestamps": True}
    if since:
        params["sinceTime"] = _since(since)
    return [_split(line) for line in _lines(await _get(api, pod, params))]


async def _from_the_beginning(api: Api, pod: Manifest, start: int, limit: int) -> bytes:
    raw = await _get(api, pod, {"container": CONTAINER, "limitBytes": max(start + limit, 1)})
    return raw[start : start + limit]


async def _get(api: Api, pod: Manifest, params: dict[str, str | int | bool]) -> bytes:
    path = PODS.path(namespace_of(pod), name_of(pod), "log")
    try:
        return await api.read("GET", path, params=params)
    except ApiError as error:
        if error.status == 404 and error.reason == "NotFound" and "pods" in error.message:
            raise NotFound("This run is no more, and its output went with it.") from error
        if error.status in _NOT_YET and not container(pod).get("containerID"):
            return b""
        if error.status in _NOT_YET:
            raise NotFound("The machine no longer has the output of this run.") from error
        raise Unavailable(f"The output cannot be read: {error.message}", evidence={"problem": error.message}) from error


def _split(line: bytes) -> tuple[str, bytes]:
    at, _, content = line.partition(b" ")
    return at.decode(errors="replace"), content


def without_broken_end(data: bytes) -> bytes:
    """Less the first bytes of a UTF-8 character whose rest is not there yet."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if length > back and len(data) > back else data
    return data
