"""An API server in the test's own process: kmock for what goes wrong, and beneath it a store that keeps the promises that the driver
builds on (versions, watches with history, server-side apply, selectors, finalizers, graceful deletion, Status bodies).

A fault is one line and goes first: `server["get /api/v1/pods"] << 504`. What kmock leaves out of a refusal, its Status, is added here.
"""

import asyncio
import copy
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp.web
import attrs
from kmock import KubernetesError, KubernetesScaffold
from kmock._internal import parsing

from tests.kubernetes.objects import merged, selected

Manifest = dict[str, Any]
Key = tuple[str, str]

_PATH = re.compile(
    r"/(api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)"
    r"(/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(/(?P<name>[^/]+))?(/(?P<sub>[^/]+))?"
)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


_parse_path = parsing.parse_path


def _parse_more(path: str) -> parsing.ParsedPath:
    """kmock 0.8 does not know the list of namespaces."""
    plain = path.strip("/") == "api/v1/namespaces"
    return parsing.ParsedPath(group="", version="v1", plural="namespaces") if plain else _parse_path(path)


parsing.parse_path = _parse_more


class Refused(KubernetesError):
    """With the Status that a real server sends."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(status=status, reason=reason or _REASONS[status], message=message)


@dataclass
class Event:
    version: int
    kind: str
    thing: Manifest


@dataclass
class Fault:
    times: int  # in all; 0 is its end


@dataclass
class Shelf:
    """All objects of one kind, and what has happened to them."""

    plural: str
    things: dict[Key, Manifest] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    forgotten: int = 0  # events up to this version are no longer known: a watch from before is told 410
    ends: int = 0  # rises when every watch is to end in order
    silent: bool = False  # watches stay open and say nothing more, as on a half-open connection
    cut: bool = False  # the next event is cut within


@attrs.define(kw_only=True)
class ApiServer(KubernetesScaffold):
    """`on_change` is called after each change with kind, before, after: the place for controllers of a test."""

    served: set[str] = attrs.field(
        factory=lambda: {
            *("pods", "secrets", "services", "persistentvolumeclaims", "events", "nodes", "namespaces"),
            *("serviceaccounts", "resourcequotas", "limitranges", "networkpolicies", "rolebindings"),
            *("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"),
        }
    )
    shelves: dict[str, Shelf] = attrs.field(factory=dict)
    logs: dict[str, Callable[[dict[str, str]], bytes]] = attrs.field(factory=dict)  # by pod's name
    token: str = ""  # where set, only requests with it are answered
    away: bool = False  # connections are cut without an answer
    on_change: list[Callable[[str, Manifest | None, Manifest | None], None]] = attrs.field(factory=list)
    calls: list[str] = attrs.field(factory=list)  # "POST /path", of everything that changes something
    _versions: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    _version: int = 0
    _ids: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        self.fallback << self._serve

    # --- For tests -------------------------------------------------------------------------------------------------------
    def shelf(self, plural: str) -> Shelf:
        return self.shelves.setdefault(plural, Shelf(plural))

    def all(self, plural: str) -> list[Manifest]:
        return list(self.shelf(plural).things.values())

    def one(self, plural: str, name: str) -> Manifest:
        (found,) = [thing for thing in self.all(plural) if thing["metadata"]["name"] == name]
        return found

    def put(self, plural: str, thing: Manifest) -> Manifest:  # type: ignore[override]
        """As a controller of the cluster would."""
        thing = copy.deepcopy(thing)
        self._complete(thing)
        key = self._key(thing)
        before = self.shelf(plural).things.get(key)
        if before is not None:
            thing["metadata"]["uid"] = before["metadata"]["uid"]
        self._store(plural, "MODIFIED" if before else "ADDED", thing)
        return thing

    def patch(self, plural: str, name: str, change: Manifest) -> Manifest:  # type: ignore[override]
        return self.put(plural, merged(self.one(plural, name), change))

    def drop(self, plural: str, name: str) -> None:
        """Gone at once, whatever its finalizers say."""
        for key, thing in list(self.shelf(plural).things.items()):
            if key[1] == name:
                self._remove(plural, thing)

    async def end_watches(self, plural: str) -> None:
        self.shelf(plural).ends += 1
        await self._ring(plural)

    async def _ring(self, plural: str) -> None:
        shelf = self.shelf(plural)
        async with shelf.changed:
            shelf.changed.notify_all()

    def forget(self, plural: str) -> None:
        """As after a compaction: no watch can go on from before now."""
        self.shelf(plural).forgotten = self._version

    async def bookmark(self, plural: str) -> None:
        """To every watch: all is well up to now."""
        shelf = self.shelf(plural)
        mark = {"kind": "Bookmark", "metadata": {"resourceVersion": str(self._version)}}
        shelf.history.append(Event(self._version, "BOOKMARK", mark))
        await self._ring(plural)

    def fail(
        self,
        status: int,
        plural: str,
        *,
        method: str = "GET",
        watch: bool | None = None,
        times: int = 1,
        after: int = 0,
    ) -> Fault:
        """Of the next requests of this kind, skipping `after`, so many are answered with `status`."""
        first, skipped, chosen, fault = len(self._requests), set[int](), set[int](), Fault(times)

        def is_next(request: Any) -> bool:
            found = _PATH.fullmatch(request.url.path)
            wanted = found is not None and found["plural"] == plural and str(request.method.value) == method
            if watch is not None:
                wanted = wanted and (request.params.get("watch") == "true") == watch
            if request.id < first or not wanted or request.id in skipped:
                return False
            if len(skipped) < after and request.id not in chosen:
                skipped.add(request.id)
                return False
            if len(chosen) < fault.times:
                chosen.add(request.id)
            return request.id in chosen

        self[is_next] << status
        return fault

    # --- Serving ---------------------------------------------------------------------------------------------------------
    async def _handle(self, request: Any) -> aiohttp.web.StreamResponse:
        if self.away:
            transport = request._raw_request.transport
            if transport is not None:
                transport.abort()
            raise ConnectionResetError
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _refusal(401, "Unauthorized")
        answer = await super()._handle(request)
        if answer.status >= 400 and not answer.prepared and not getattr(answer, "body", None):
            return _refusal(answer.status, f"said by the test: {answer.status}", dict(answer.headers))
        return answer

    async def _serve(self, request: Any) -> Any:
        found = _PATH.fullmatch(request.url.path)
        if found is None or found["plural"] not in self.served:
            raise Refused(404, "the server could not find the requested resource")
        plural, namespace, name = found["plural"], found["namespace"] or "", found["name"] or ""
        method = str(request.method.value)
        if method != "GET":
            self.calls.append(f"{method} {request.url.path}")
        if found["sub"] == "log":
            return self._log(namespace, name, dict(request.params))
        if method == "GET" and request.params.get("watch") == "true":
            return self._watch(plural, namespace, dict(request.params))
        if method == "GET":
            return self._get(plural, namespace, name, dict(request.params))
        await asyncio.sleep(0)
        if method == "POST":
            return self._create(plural, namespace, copy.deepcopy(request.data))
        if method == "PATCH":
            applied = "apply-patch" in request.headers.get("Content-Type", "")
            return self._patch(plural, namespace, name, copy.deepcopy(request.data), applied=applied)
        if method == "DELETE":
            return self._delete(plural, namespace, name, request.data or {}, dict(request.params))
        raise Refused(400, f"{method} is not served")

    def _get(self, plural: str, namespace: str, name: str, params: dict[str, str]) -> Any:
        shelf = self.shelf(plural)
        if name:
            if (namespace, name) not in shelf.things:
                raise Refused(404, f'{plural} "{name}" not found')
            return shelf.things[namespace, name]
        items = [thing for thing in shelf.things.values() if selected(thing, namespace, params)]
        return {"kind": "List", "metadata": {"resourceVersion": str(max(self._version, 1))}, "items": items}

    async def _watch(self, plural: str, namespace: str, params: dict[str, str]) -> AsyncIterator[Any]:
        shelf = self.shelf(plural)
        since, ends = int(params.get("resourceVersion") or 0), shelf.ends
        yield b""  # the headers
        if since < shelf.forgotten:
            yield _error_event(410, f"too old resource version: {since}")
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + int(params.get("timeoutSeconds") or 3600)
        while shelf.ends == ends and loop.time() < until:
            for event in [event for event in shelf.history if event.version > since]:
                since = event.version
                kind = event.kind
                if kind != "BOOKMARK" and not selected(event.thing, namespace, params):
                    continue
                if shelf.silent:
                    continue
                line = json.dumps({"type": kind, "object": event.thing}).encode() + b"\n"
                if shelf.cut:
                    shelf.cut = False
                    yield line[: len(line) // 2]
                    return
                yield line
            async with shelf.changed:
                if shelf.ends == ends and not any(event.version > since for event in shelf.history):
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(until):
                            await shelf.changed.wait()

    def _create(self, plural: str, namespace: str, thing: Manifest) -> Manifest:
        thing["metadata"].setdefault("namespace", namespace)
        if namespace and plural != "namespaces":
            self._must_have_namespace(namespace)
        key = self._key(thing)
        if key in self.shelf(plural).things:
            raise Refused(409, f'{plural} "{key[1]}" already exists', "AlreadyExists")
        self._complete(thing)
        self._default(plural, thing)
        self._store(plural, "ADDED", thing)
        return thing

    def _must_have_namespace(self, namespace: str) -> None:
        if ("", namespace) not in self.shelf("namespaces").things:
            raise Refused(404, f'namespaces "{namespace}" not found')

    def _patch(self, plural: str, namespace: str, name: str, change: Manifest, *, applied: bool) -> Manifest:
        known = self.shelf(plural).things.get((namespace, name))
        if known is None and not applied:
            raise Refused(404, f'{plural} "{name}" not found')
        if known is None:
            return self._create(plural, namespace, change)
        thing = merged(known, change)
        if thing == known:
            return known
        if plural == "pods" and thing.get("spec") != known.get("spec"):
            raise Refused(422, f'Pod "{name}" is invalid: spec: Forbidden: pod updates may not change fields')
        self._store(plural, "MODIFIED", thing)
        return self._let_go(plural, thing)

    def _delete(self, plural: str, namespace: str, name: str, options: Manifest, params: dict[str, str]) -> Manifest:
        thing = self.shelf(plural).things.get((namespace, name))
        if thing is None:
            raise Refused(404, f'{plural} "{name}" not found')
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != thing["metadata"]["uid"]:
            raise Refused(409, f"the UID in the precondition ({wanted}) does not match")
        grace = options.get("gracePeriodSeconds")
        if plural == "pods" and grace != 0 and (thing.get("spec") or {}).get("nodeName"):
            return self._begin_to_end(thing, 30 if grace is None else grace)
        if thing["metadata"].get("finalizers"):
            changed = copy.deepcopy(thing)
            changed["metadata"].setdefault("deletionTimestamp", _now())
            self._store(plural, "MODIFIED", changed)
            return changed
        self._remove(plural, thing)
        return thing

    def _begin_to_end(self, pod: Manifest, grace: int) -> Manifest:
        known = pod["metadata"].get("deletionGracePeriodSeconds")
        if known is not None and known <= grace:
            return pod
        changed = copy.deepcopy(pod)
        changed["metadata"]["deletionTimestamp"] = _now(grace)
        changed["metadata"]["deletionGracePeriodSeconds"] = grace
        self._store("pods", "MODIFIED", changed)
        return changed

    def _let_go(self, plural: str, thing: Manifest) -> Manifest:
        """What was only kept by its finalizers."""
        meta = thing["metadata"]
        if plural != "pods" and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self._remove(plural, thing)
        return thing

    def _log(self, namespace: str, name: str, params: dict[str, str]) -> Any:
        if (namespace, name) not in self.shelf("pods").things:
            raise Refused(404, f'pods "{name}" not found')
        if name not in self.logs:
            raise Refused(400, f'container "main" in pod "{name}" is waiting to start: ContainerCreating')
        return self.logs[name](params)

    # --- The store -------------------------------------------------------------------------------------------------------
    @staticmethod
    def _key(thing: Manifest) -> Key:
        return thing["metadata"].get("namespace") or "", thing["metadata"]["name"]

    def _complete(self, thing: Manifest) -> None:
        meta = thing["metadata"]
        meta.setdefault("uid", f"00000000-0000-0000-0000-{next(self._ids):012d}")
        meta.setdefault("creationTimestamp", _now())
        if not meta.get("namespace"):
            meta.pop("namespace", None)

    @staticmethod
    def _default(plural: str, thing: Manifest) -> None:
        if plural == "pods":
            thing.setdefault("status", {"phase": "Pending"})
        if plural == "persistentvolumeclaims":
            thing.setdefault("status", {"phase": "Pending"})

    def _store(self, plural: str, kind: str, thing: Manifest) -> None:
        before = self.shelf(plural).things.get(self._key(thing))
        self._version = next(self._versions)
        thing["metadata"]["resourceVersion"] = str(self._version)
        self.shelf(plural).things[self._key(thing)] = thing
        self._happened(plural, kind, before, thing)

    def _remove(self, plural: str, thing: Manifest) -> None:
        self.shelf(plural).things.pop(self._key(thing), None)
        self._version = next(self._versions)
        last = copy.deepcopy(thing)
        last["metadata"]["resourceVersion"] = str(self._version)
        self._happened(plural, "DELETED", thing, None, last)

    def _happened(
        self, plural: str, kind: str, before: Manifest | None, after: Manifest | None, told: Manifest | None = None
    ) -> None:
        self.shelf(plural).history.append(Event(self._version, kind, copy.deepcopy(told or after or {})))
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: asyncio.ensure_future(self._ring(plural)))
        for listener in self.on_change:
            loop.call_soon(listener, plural, copy.deepcopy(before), copy.deepcopy(after))


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> aiohttp.web.Response:
    body = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": status,
        "reason": _REASONS.get(status, "Unknown"),
        "message": message,
    }
    kept = {name: value for name, value in (headers or {}).items() if name.lower() == "retry-after"}
    return aiohttp.web.json_response(body, status=status, headers=kept)


def _error_event(code: int, message: str) -> Manifest:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": _REASONS[code], "message": message}
    return {"type": "ERROR", "object": status}


def _now(later: int = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")
