"""Keeps a copy of one kind of objects by listing once and watching on, through everything that an API server may do meanwhile.

What it never does: take silence for absence. `fresh` says whether the copy may be believed now; on any doubt everything is listed anew.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import aiohttp
import orjson
import structlog

from apps.cluster.drivers.kubernetes.api import Api, ApiError
from apps.cluster.drivers.kubernetes.kinds import Resource
from apps.cluster.drivers.kubernetes.objects import Key, Manifest, key_of, version_of
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1  # s after the first failure, doubled after each further one
LONGEST_PAUSE = 30.0
_SHORT = 1.0  # s; a watch that ends sooner without a word counts as a failure, else the two of us would spin
_BREAKS = (aiohttp.ClientError, OSError, TimeoutError, Unavailable)

Changed = Callable[[Manifest | None, Manifest | None], None]  # before, after; None is absent


class Doubt(Exception):
    """What we know may be wrong or incomplete: list again."""


@dataclass(slots=True)
class Counters:
    lists: int = 0
    watches: int = 0  # begun
    doubts: int = 0
    failures: int = 0
    events: int = 0


class Reflector:
    """`keep` makes of an object what is stored, or None to leave it out. `changed` is told of every difference, in order.

    `consistent`: the first list is read from the store, not from the server's cache, so that what was written before is in it.
    A kind that the server does not know is an empty list; it is asked for again, seldom.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        changed: Changed,
        *,
        params: Mapping[str, str] | None = None,
        namespace: str = "",
        keep: Callable[[Manifest], Manifest | None] = lambda thing: thing,
        consistent: bool = False,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.resource = resource
        self.objects: dict[Key, Manifest] = {}
        self.synced = asyncio.Event()
        self.counters = Counters()
        self.problem = ""  # what stands in the way now
        self.served = True  # False: the server has no such kind
        self._api, self._changed, self._keep = api, changed, keep
        self._path, self._params = resource.path(namespace), dict(params or {})
        self._timing = timing or Timing()
        self._clock, self._sleep, self._spread = clock, sleep, spread
        self._version = "" if consistent else "0"
        self._floor = "0"  # no list may be older than this: it would lack what we have made ourselves
        self._doubtful = True
        self._lost: float | None = clock()  # since when there is no watch; None while there is one
        self._failures = 0

    # --- What others ask -------------------------------------------------------------------------------------------------
    @property
    def fresh(self) -> bool:
        return self.synced.is_set() and (self.staleness <= self._timing.stale or not self.served)

    @property
    def staleness(self) -> float:
        """Seconds without a watch; 0 while one is open."""
        return 0.0 if self._lost is None else self._clock() - self._lost

    def absorb(self, thing: Manifest) -> None:
        """Take in what a write of our own has returned, before the watch tells of it. Never goes back to something older."""
        version, known = version_of(thing), self.objects.get(key_of(thing))
        if _later(version, self._floor):
            self._floor = version
        if known is None or _later(version, version_of(known)):
            self._store(thing)

    # --- Its life --------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.step()
                self._failures, self.problem = 0, ""
            except Exception as error:
                await self._sleep(self._after(error))

    async def step(self) -> None:
        """One list where there is doubt, then one watch until it ends in order."""
        if self._doubtful:
            await self._list()
        await self._watch()

    def _after(self, error: Exception) -> float:
        """Note a failure; the pause before the next attempt."""
        self._lose()
        self._failures += 1
        self.counters.failures += 1
        self.problem = str(error) or type(error).__name__
        busy = isinstance(error, ApiError) and error.status in (429, 500, 503)
        resumable = busy or isinstance(error, _BREAKS)  # the connection ended, not the history
        if not resumable:
            self._doubtful = True
            self.counters.doubts += 1
        expected = resumable or isinstance(error, Doubt | ApiError)
        log.warning(
            "watch_failed", kind=self.resource.plural, problem=self.problem, exc_info=None if expected else error
        )
        wanted = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
        pause = min(FIRST_PAUSE * 2.0 ** (self._failures - 1), LONGEST_PAUSE)
        if not self.served:
            pause = LONGEST_PAUSE
        return min(max(pause, wanted), LONGEST_PAUSE) * self._spread(0.5, 1.0)

    def _lose(self) -> None:
        if self._lost is None:
            self._lost = self._clock()

    # --- Listing ---------------------------------------------------------------------------------------------------------
    async def _list(self) -> None:
        self.counters.lists += 1
        params = dict(self._params)
        if self._version:  # at least as new as what we have seen: never back in time
            params["resourceVersion"] = self._floor if _later(self._floor, self._version) else self._version
            params["resourceVersionMatch"] = "NotOlderThan"
        try:
            answer = await self._api.request("GET", self._path, params=params)
        except ApiError as error:
            if error.status in (400, 410, 504):  # that version is unknown to this server: whatever it has now
                self._version = ""
            if error.status == 404:
                self._accept([], "0")
                self.served = False
            raise
        items, version = answer.get("items"), str((answer.get("metadata") or {}).get("resourceVersion") or "")
        if not version or not isinstance(items, list | None):
            raise Doubt("the list cannot be read")
        self.served = True
        self._accept(items or [], version)

    def _accept(self, items: list[Manifest], version: str) -> None:
        new: dict[Key, Manifest] = {}
        for item in items:
            if (kept := self._keep(item)) is not None:
                new[key_of(kept)] = kept
        for key in self.objects.keys() - new.keys():
            self._drop(key)
        for key, thing in new.items():
            known = self.objects.get(key)
            if known is None or version_of(known) != version_of(thing):
                self._put(key, thing)
        self._version, self._doubtful = version, False
        self._lost = self._clock()  # from here on it grows old, until the watch is open
        self.synced.set()

    # --- Watching --------------------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        self.counters.watches += 1
        began, heard = self._clock(), self.counters.events
        params = {
            **self._params,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._timing.watch * self._spread(0.75, 1.0))),
        }
        async with self._api.stream(self._path, params=params, silence=self._timing.silence) as content:
            self._lost = None
            async for line in _lines(content):
                self._take(line)
                self._failures = 0
        self._lose()  # for the moment until the next one is open
        if self._clock() - began < _SHORT and self.counters.events == heard:
            raise TimeoutError("the server ends every watch at once")

    def _take(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, thing = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as problem:
            raise Doubt(f"an event cannot be read: {line[:80]!r}") from problem
        self.counters.events += 1
        if kind == "ERROR":
            raise Doubt(f"the server says {thing.get('code')} {thing.get('reason')}: {thing.get('message')}")
        version = version_of(thing)
        if not version or kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise Doubt(f"an event of type {kind} without a version")
        known = self.objects.get(key_of(thing))
        outdated = known is not None and _later(version_of(known), version)  # we have written it since
        if kind == "DELETED" and not outdated:
            self._drop(key_of(thing))
        elif kind in ("ADDED", "MODIFIED") and not outdated:
            self._store(thing)
        self._version = version

    # --- The copy --------------------------------------------------------------------------------------------------------
    def _store(self, thing: Manifest) -> None:
        kept = self._keep(thing)
        if kept is None:
            self._drop(key_of(thing))
        else:
            self._put(key_of(kept), kept)

    def _put(self, key: Key, thing: Manifest) -> None:
        before = self.objects.get(key)
        self.objects[key] = thing
        self._changed(before, thing)

    def _drop(self, key: Key) -> None:
        before = self.objects.pop(key, None)
        if before is not None:
            self._changed(before, None)


def _later(one: str, other: str) -> bool:
    """Versions are numbers that grow, so the API promises since 1.35; anything else is not later."""
    return one.isdecimal() and other.isdecimal() and int(one) > int(other)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Objects may be longer than any reader's line buffer. What a cut connection leaves of a line is no event."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        raise Doubt("the stream was cut within an event")
