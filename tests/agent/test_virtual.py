"""Agent, library and driver together in the node's own time: minutes of a card's life pass while a test blinks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.agent.conftest import BOUND, Agent, Program, Site
from vcuda.bench import start

MS = 1_000_000  # ns of GPU time
SETTLED = 3  # seconds at the start that are not judged: the kernel's cost is not known yet
POINT = 10  # per mille


@pytest.fixture
def node_time() -> str:
    return "virtual"


@asynccontextmanager
async def recording(agent: Agent, claim: str) -> AsyncIterator[list[dict[str, Any]]]:
    """The claim's samples while the block runs."""
    seen: list[dict[str, Any]] = []

    async def record() -> None:
        async with agent.client.get("http://agent/samples") as response:
            async for line in response.content:
                seen.extend(s for s in json.loads(line) if s["subject"].startswith(f"run:{claim}:"))

    task = asyncio.create_task(record())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def busy_seconds(agent: Agent, claim: str, program: Program, *, gpu_seconds: int) -> list[dict[str, Any]]:
    """The samples of whole seconds in which the program had kernels of 1 ms in its queue, without the first ones."""
    async with recording(agent, claim) as seen:
        assert (await program.tell(f"launch {MS} {gpu_seconds * 1000}"))["ok"]
    busy = [sample for sample in seen if (sample["compute_used"] or 0) > 0]
    assert len(busy) > 2 * SETTLED, f"too few seconds were seen: {seen}"
    return busy[SETTLED:-1]


@pytest.mark.parametrize("limit", [100, 300, 600, 900])
async def test_the_driver_measures_what_the_limit_says(site: Site, limit: int) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", compute=limit, ceiling=limit))
    samples = await busy_seconds(agent, "a", program, gpu_seconds=max(3, limit * 20 // 1000))
    assert abs(fmean(s["compute_used"] for s in samples) - limit) <= 2 * POINT
    assert all(abs(s["compute_used"] - limit) <= 5 * POINT for s in samples)
    assert all(s["borrowed"] <= 5 * POINT for s in samples)


async def test_around_the_library_the_same_program_takes_the_card(site: Site) -> None:
    """The control of the test above: without the limiting library its check fails."""
    agent = await site.agent()
    claim = await site.claim(agent, "a", compute=300, ceiling=300)
    program = await site.program(claim, library=f"{claim['library_path']}/driver/libcuda.so.1")
    samples = await busy_seconds(agent, "a", program, gpu_seconds=15)
    assert fmean(s["compute_used"] for s in samples) > 900


async def test_a_claim_alone_borrows_up_to_its_ceiling_and_no_further(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", compute=200, ceiling=700))
    samples = await busy_seconds(agent, "a", program, gpu_seconds=14)
    assert {s["compute_limit"] for s in samples} == {700}
    assert abs(fmean(s["compute_used"] for s in samples) - 700) <= 2 * POINT
    assert all(s["borrowed"] == max(0, s["compute_used"] - 200) for s in samples)


STARTS = [((300, 600), 2 * MS, "async"), ((600, 300), 2 * MS, "sync"), ((300, 600), 10 * MS, "sync")]


@pytest.mark.parametrize(("limits", "kernel_ns", "how"), STARTS)
def test_who_starts_beside_a_busy_neighbour_has_its_share_from_the_second_second_on(
    libraries: Path, limits: tuple[int, int], kernel_ns: int, how: str
) -> None:
    got = start.seconds(libraries, limits, kernel_ns, how)
    assert start.most_above(limits, got) <= 5 * POINT
    assert all(abs(fmean(shares) - limit) <= 2 * POINT for limit, shares in zip(limits, got, strict=True))
    assert got[1][0] <= limits[1] + 7 * POINT, "the burst of the law and a few kernels of unknown cost"


def test_without_the_library_a_start_takes_what_it_can(libraries: Path) -> None:
    """The control of the test above."""
    got = start.seconds(libraries, (600, 300), 2 * MS, "async", limited=False)
    assert start.most_above((600, 300), got) > 15 * POINT


async def test_samples_are_seconds_of_the_nodes_time(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a"))
    async with asyncio.timeout(BOUND), recording(agent, "a") as seen:
        assert (await program.tell(f"launch {100 * MS} 100"))["ok"]
    moments = [datetime.fromisoformat(sample["at"]) for sample in seen]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    assert sum(gaps) >= 5, "ten seconds of GPU time have passed on the node"
    assert all(gap >= 1 and abs(gap - round(gap)) < 0.01 for gap in gaps)
