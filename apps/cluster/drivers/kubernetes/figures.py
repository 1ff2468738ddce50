"""The figures of all cards and claims, from every agent's stream, in about one batch a second: every second of each of them.

An agent speaks of claims, which it knows by their ids in the cluster; here they get the names of their workloads.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import orjson
import structlog

from apps.cluster.drivers.kubernetes.api import ClusterUnavailable
from apps.cluster.drivers.kubernetes.objects import Manifest, id_of, is_deleting, name_of, node_of, status
from apps.cluster.specs import Sample
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

PORT = 9400
PATH = "/samples"
_EACH = 1.0  # s between batches
_AGAIN = (0.5, 1.0, 2.0, 5.0, 10.0)  # s between attempts while an agent does not answer; the last one from then on
_ANSWER = aiohttp.ClientTimeout(total=10)  # s
_SILENCE = 15.0  # s without a line, of which there is one each second
_MOST = 200_000  # samples kept while nobody reads: half a minute of a thousand nodes
_LINE = 2**24  # bytes

Address = Callable[[Manifest, int], Awaitable[tuple[str, int]]]  # of a pod's port
Owner = Callable[[str], str]  # workload of a claim; empty where it is none of ours
_BREAKS = (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError, Unavailable)


class Figures:
    """Follows the agents that it is told of. Between two batches nothing is made up: who is silent is not in them."""

    def __init__(
        self,
        address: Address,
        owner: Owner,
        token: Callable[[], Awaitable[str]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._address, self._owner, self._token, self._sleep = address, owner, token, sleep
        self._following: dict[str, asyncio.Task[None]] = {}  # by pod's id
        self._agents: dict[str, Manifest] = {}  # pods by node
        self._new: dict[tuple[str, datetime], Sample] = {}
        self._arrived = asyncio.Event()
        self.silent: dict[str, str] = {}  # agents' pods that do not answer, with the problem

    def agent_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        if before is not None and (after is None or not _speaks(after)):
            self._forget(id_of(before))
            if id_of(self._agents.get(node_of(before), {})) == id_of(before):
                del self._agents[node_of(before)]
        if after is not None and _speaks(after):
            self._agents[node_of(after)] = after
        if after is not None and _speaks(after) and id_of(after) not in self._following:
            task = asyncio.get_running_loop().create_task(self._follow(after), name=f"agent {name_of(after)}")
            self._following[id_of(after)] = task

    def _forget(self, pod_id: str) -> None:
        task = self._following.pop(pod_id, None)
        if task is not None:
            task.cancel()
        self.silent.pop(pod_id, None)

    async def close(self) -> None:
        tasks = list(self._following.values())
        for pod_id in list(self._following):
            self._forget(pod_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def refresh(self, node: str, claim: str) -> Sequence[Mapping[str, Any]]:
        """Ask the agent of a node to read a claim again; its cards with the limits that are in force. Raises ClusterUnavailable."""
        pod = self._agents.get(node)
        if pod is None:
            raise ClusterUnavailable(f"The node agent of {node} does not answer now.", evidence={"node": node})
        try:
            host, port = await self._address(pod, PORT)
            headers = {"Authorization": f"Bearer {await self._token()}"}
            async with (
                aiohttp.ClientSession(timeout=_ANSWER, headers=headers) as session,
                session.post(f"http://{host}:{port}/claims/{claim}/refresh") as answer,
            ):
                answer.raise_for_status()
                found: Sequence[Mapping[str, Any]] = (await answer.json())["devices"]
                return found
        except _BREAKS as problem:
            raise ClusterUnavailable(
                f"The node agent of {node} does not answer: {problem}", evidence={"node": node, "problem": str(problem)}
            ) from problem

    async def batches(self) -> AsyncIterator[Sequence[Sample]]:
        while True:
            await self._arrived.wait()
            await self._sleep(_EACH)
            self._arrived.clear()
            batch, self._new = list(self._new.values()), {}
            if batch:
                yield batch

    async def _follow(self, pod: Manifest) -> None:
        failures = 0
        while True:
            try:
                async for line in self._lines(pod):
                    self._take(line)
                    failures = 0
                    self.silent.pop(id_of(pod), None)
            except _BREAKS as problem:
                if failures == 0:
                    log.warning("agent_unavailable", pod=name_of(pod), problem=str(problem))
                self.silent[id_of(pod)] = str(problem) or type(problem).__name__
            await self._sleep(_AGAIN[min(failures, len(_AGAIN) - 1)])
            failures += 1

    async def _lines(self, pod: Manifest) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        host, port = await self._address(pod, PORT)
        headers = {"Authorization": f"Bearer {await self._token()}"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=_SILENCE)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, read_bufsize=_LINE) as session,
            session.get(f"http://{host}:{port}{PATH}") as answer,
        ):
            answer.raise_for_status()
            async for line in answer.content:
                yield orjson.loads(line)

    def _take(self, batch: Sequence[Mapping[str, Any]]) -> None:
        for fields in batch:
            subject = self._subject(str(fields["subject"]))
            if subject:
                sample = Sample(**{**fields, "subject": subject, "at": datetime.fromisoformat(fields["at"])})
                self._new[subject, sample.at] = sample
        for old in list(self._new)[: max(len(self._new) - _MOST, 0)]:
            del self._new[old]
        self._arrived.set()

    def _subject(self, subject: str) -> str:
        """Empty for a claim that is none of ours."""
        kind, _, rest = subject.partition(":")
        if kind != "run":
            return subject
        claim, _, card = rest.partition(":")
        owner = self._owner(claim)
        return f"run:{owner}:{card}" if owner else ""


def _speaks(pod: Manifest) -> bool:
    return bool(status(pod).get("podIP")) and status(pod).get("phase") == "Running" and not is_deleting(pod)
