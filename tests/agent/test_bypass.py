"""Programs that go around the library on purpose are told within two seconds; honest ones, however they start and end, never are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.agent.conftest import BOUND, GIB, Agent, Program, Site

MS = 1_000_000  # ns


async def subject(agent: Agent, claim: str) -> str:
    return f"run:{claim}:{(await agent.card('H100'))['uuid']}"


async def rogue(site: Site, claim: dict[str, Any]) -> Program:
    """It opens the driver that lies hidden behind the library."""
    return await site.program(claim, library=f"{claim['library_path']}/driver/libcuda.so.1")


async def samples_while(agent: Agent, of: str, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """All samples of a subject from the beginning of `work` to a second after its end."""
    found: list[dict[str, Any]] = []
    done = asyncio.Event()

    async def follow() -> None:
        last = 0
        async with asyncio.timeout(BOUND), agent.client.get("http://agent/samples") as response:
            async for line in response.content:
                found.extend(sample for sample in json.loads(line) if sample["subject"] == of)
                last += done.is_set()
                if last > 2:
                    return

    following = asyncio.create_task(follow())
    await work()
    done.set()
    await following
    return found


async def test_who_allocates_past_the_library_is_named_with_what_it_holds(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=4 * GIB)
    await site.claim(agent, "outsider", memory=4 * GIB)
    program = await rogue(site, claim)
    assert (await program.tell(f"alloc {10 * GIB}"))["ok"], "the hidden driver knows no limit"
    seen = await agent.samples_until(await subject(agent, "a"), lambda s: s["bypass"] is not None)
    assert seen["bypass"]["uncounted_bytes"] >= 10 * GIB
    assert seen["bypass"]["processes"] == [f"python3 ({program.pid})"]
    other = await agent.samples_until(await subject(agent, "outsider"), lambda s: s["memory_used"] is not None)
    assert other["bypass"] is None
    metrics = await agent.ask("GET", "/metrics")
    assert 'claim="a"} 1.0' in next(line for line in metrics.splitlines() if line.startswith("tessera_claim_bypass{"))
    await program.end()
    await agent.samples_until(await subject(agent, "a"), lambda s: s["bypass"] is None)


async def test_who_computes_past_the_library_is_named_with_its_share(site: Site) -> None:
    agent = await site.agent()
    program = await rogue(site, await site.claim(agent, "a", compute=100, ceiling=100))
    await program.start(f"busy {2 * MS}")
    seen = await agent.samples_until(
        await subject(agent, "a"), lambda s: s["bypass"] is not None and s["bypass"]["busy_permille"] > 300
    )
    assert seen["bypass"]["processes"] == [f"python3 ({program.pid})"]
    await program.start("info")
    await program.answer()


async def test_beside_an_honest_program_the_rogue_alone_is_named(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=8 * GIB)
    honest = await site.program(claim)
    assert (await honest.tell(f"alloc {2 * GIB}"))["ok"]
    program = await rogue(site, claim)
    seen = await agent.samples_until(await subject(agent, "a"), lambda s: s["bypass"] is not None)
    assert seen["bypass"]["processes"] == [f"python3 ({program.pid})"]


async def test_programs_that_start_work_and_end_are_never_called_one(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=40 * GIB)

    async def one(number: int) -> None:
        program = await site.program(claim)
        assert (await program.tell(f"alloc {GIB}"))["ok"]
        assert (await program.tell(f"launch {5 * MS} 20"))["ok"]
        await (program.kill() if number % 2 else program.end())

    async def many() -> None:
        for begin in range(0, 12, 4):
            await asyncio.gather(*(one(number) for number in range(begin, begin + 4)))

    found = await samples_while(agent, await subject(agent, "a"), many)
    assert len(found) > 2
    assert [sample["bypass"] for sample in found] == [None] * len(found)


async def test_a_long_kernel_and_a_limited_program_are_never_called_one(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", compute=100, ceiling=100)
    program = await site.program(claim)

    async def work() -> None:
        assert (await program.tell(f"launch {1500 * MS} 1"))["ok"]
        await program.start(f"busy {5 * MS}")
        await agent.whole_second()
        await program.start("info")
        await program.answer()

    found = await samples_while(agent, await subject(agent, "a"), work)
    assert [sample["bypass"] for sample in found] == [None] * len(found)
