"""What the agent measures, lends and takes back, seen from outside."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.conftest import BOUND, GIB, Agent, Site, sim_tool

MS = 1_000_000  # ns
MIB = 1024**2
NOT_SUPPORTED = "3"  # NVML_ERROR_NOT_SUPPORTED


async def subject(agent: Agent, claim: str) -> str:
    return f"run:{claim}:{(await agent.card('H100'))['uuid']}"


async def test_memory_of_a_claim_and_of_its_card(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=8 * GIB))
    await site.claim(agent, "outsider", memory=8 * GIB)
    assert (await program.tell(f"alloc {5 * GIB}"))["ok"]
    assert not (await program.tell(f"alloc {5 * GIB}"))["ok"]
    mine = await agent.samples_until(await subject(agent, "a"), lambda s: (s["memory_used"] or 0) >= 5 * GIB)
    assert mine["memory_used"] < 6 * GIB
    assert mine["memory_limit"] == 8 * GIB
    assert mine["denied_bytes"] >= 5 * GIB
    theirs = await agent.samples_until(await subject(agent, "outsider"), lambda s: s["memory_used"] is not None)
    assert (theirs["memory_used"], theirs["denied_bytes"]) == (0, 0)
    card = (await agent.card("H100"))["uuid"]
    whole = await agent.samples_until(f"card:{card}", lambda s: (s["memory_used"] or 0) >= 5 * GIB)
    assert whole["temperature"] > 0
    assert whole["power"] > 0


async def test_busy_share_and_throttling_of_a_program_at_its_ceiling(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", compute=300, ceiling=300)
    program = await site.program(claim)
    await program.start(f"busy {5 * MS}")
    found = await agent.samples_until(
        await subject(agent, "a"), lambda s: (s["compute_used"] or 0) > 100 and (s["throttled_ms"] or 0) > 0
    )
    assert found["compute_limit"] == 300
    card = (await agent.card("H100"))["uuid"]
    await agent.samples_until(f"card:{card}", lambda s: (s["compute_used"] or 0) > 100)
    await program.start("info")
    assert (await program.answer())["launches"] > 0


async def test_idle_time_is_lent_and_taken_back(site: Site) -> None:
    agent = await site.agent()
    worker = await site.program(await site.claim(agent, "worker", compute=300))
    owner = await site.program(await site.claim(agent, "owner", compute=600, ceiling=600))
    await worker.start(f"busy {2 * MS}")
    lent = await agent.samples_until(await subject(agent, "worker"), lambda s: s["compute_limit"] >= 900)
    assert lent["compute_limit"] == 980  # all but the margin that is kept for the owner
    await agent.samples_until(await subject(agent, "worker"), lambda s: (s["borrowed"] or 0) > 0)
    await owner.start(f"busy {2 * MS}")
    back = await agent.samples_until(await subject(agent, "worker"), lambda s: s["compute_limit"] <= 400)
    assert back["compute_limit"] >= 300
    await owner.start("info")
    await owner.answer()
    await agent.samples_until(await subject(agent, "worker"), lambda s: s["compute_limit"] >= 900)


async def test_a_program_around_the_library_shows_as_uncounted_bytes(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=4 * GIB)
    await site.claim(agent, "outsider", memory=4 * GIB)
    honest = await site.program(claim)
    assert (await honest.tell(f"alloc {2 * GIB}"))["ok"]
    clean = await agent.samples_until(await subject(agent, "a"), lambda s: (s["memory_used"] or 0) >= 2 * GIB)
    assert clean["uncounted_bytes"] < 64 * MIB
    rogue = await site.program(claim, library=f"{claim['library_path']}/driver/libcuda.so.1")
    assert (await rogue.tell(f"alloc {10 * GIB}"))["ok"], "the hidden driver knows no limit"
    seen = await agent.samples_until(await subject(agent, "a"), lambda s: (s["uncounted_bytes"] or 0) >= 10 * GIB)
    assert seen["memory_used"] < 3 * GIB
    other = await agent.samples_until(await subject(agent, "outsider"), lambda s: s["uncounted_bytes"] is not None)
    assert other["uncounted_bytes"] == 0
    card = (await agent.card("H100"))["uuid"]
    await agent.samples_until(f"card:{card}", lambda s: (s["uncounted_bytes"] or 0) >= 10 * GIB)
    refusal = await agent.ask("DELETE", "/claims/a", expect=409)
    seen_by = {user["pid"]: user["seen_by"] for user in refusal["evidence"]["processes"]}
    assert seen_by == {honest.pid: "library", rogue.pid: "driver"}
    await rogue.kill()
    await agent.samples_until(await subject(agent, "a"), lambda s: s["uncounted_bytes"] < 64 * MIB)


async def test_what_a_process_takes_beside_its_requests_counts_within_its_claim(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=4 * GIB))
    overhead = 272 * MIB  # context and module, 258 MiB, in the agent's steps
    for _ in range(3):
        await agent.whole_second()  # the agent has looked and told
        assert (await program.tell(f"alloc {2 * MIB}"))["ok"]  # the library looks at what it was told
    wanted = overhead + 3 * 2 * MIB
    sample = await agent.samples_until(await subject(agent, "a"), lambda s: s["memory_used"] == wanted)
    assert sample["uncounted_bytes"] == 0


async def test_metrics_and_health(site: Site) -> None:
    agent = await site.agent()
    await site.claim(agent, "a")
    await agent.samples_until(await subject(agent, "a"), lambda s: True)
    text = await agent.ask("GET", "/metrics")
    card = (await agent.card("H100"))["uuid"]
    assert f'tessera_claim_memory_limit_bytes{{card="{card}",claim="a"}}' in text
    health = await agent.ask("GET", "/healthz")
    assert (health["status"], health["cards"], health["claims"]) == ("ok", 2, 1)


async def test_two_readers_get_the_same_seconds(site: Site) -> None:
    agent = await site.agent()

    async def read(count: int) -> list[Any]:
        async with agent.client.get("http://agent/samples") as response:
            return [await response.content.readline() for _ in range(count)]

    async with asyncio.timeout(BOUND):
        one, two = await asyncio.gather(read(3), read(3))
    assert one == two
    assert len(set(one)) == 3


async def test_where_the_driver_has_no_figure_per_process_the_charged_time_is_shown(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", compute=300, ceiling=300)
    sim_tool("fault", site.sim_node, "fail", "nvmlDeviceGetProcessUtilization", NOT_SUPPORTED, "--times", "1000000")
    program = await site.program(claim)
    await program.start(f"busy {5 * MS}")
    found = await agent.samples_until(await subject(agent, "a"), lambda s: (s["compute_used"] or 0) > 100)
    assert found["compute_used"] <= 1000
    (device,) = (await agent.ask("GET", "/claims/a"))["devices"]
    assert device["multiplier"] == 1.0, "nothing was measured, so nothing is corrected"
    assert (await agent.card("H100"))["healthy"], "a driver that tells less is not a broken card"
    metrics = await agent.ask("GET", "/metrics")
    assert 'tessera_claim_compute_charged_seconds_total{card="' in metrics
