"""A claim's limits changed while real programs run in it: what they hold stays theirs, what they ask for next obeys."""

from __future__ import annotations

from typing import Any

from tests.agent.conftest import GIB, Agent, Site

MS = 1_000_000  # ns


async def limit(agent: Agent, claim: str, *, expect: int = 200, **numbers: int) -> Any:
    card = (await agent.card("H100"))["uuid"]
    return await agent.ask("PATCH", f"/claims/{claim}", {"devices": [{"uuid": card, **numbers}]}, expect=expect)


async def subject(agent: Agent, claim: str) -> str:
    return f"run:{claim}:{(await agent.card('H100'))['uuid']}"


async def test_below_what_is_in_use_nothing_is_taken_and_nothing_new_is_given_until_enough_is_freed(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=10 * GIB))
    assert (await program.tell(f"alloc {6 * GIB}"))["ok"]
    await limit(agent, "a", memory=4 * GIB)
    assert await program.tell(f"alloc {16 * 1024**2}") == {"ok": False, "code": 2}  # CUDA_ERROR_OUT_OF_MEMORY
    assert await program.tell("info") == {"ok": True, "free": 0, "total": 4 * GIB}
    assert (await program.tell(f"launch {MS} 3"))["ok"], "what it holds is still its own to work on"
    told = await agent.samples_until(await subject(agent, "a"), lambda s: s["memory_limit"] == 4 * GIB)
    assert told["memory_used"] >= 6 * GIB, "by so much it is over, and everybody can see it"
    assert (await program.tell("free"))["ok"]
    assert (await program.tell(f"alloc {2 * GIB}"))["ok"]


async def test_what_is_in_use_above_the_limit_is_promised_to_nobody_else(site: Site) -> None:
    agent = await site.agent()
    card = await agent.card("H100")
    whole = card["memory"]
    program = await site.program(await site.claim(agent, "a", memory=whole))
    assert (await program.tell(f"alloc {whole // 2}"))["ok"]
    await agent.samples_until(await subject(agent, "a"), lambda s: (s["memory_used"] or 0) >= whole // 2)
    await limit(agent, "a", memory=GIB)
    (held,) = (await agent.card("H100"))["claims"]
    assert held["memory"] > whole // 2
    body = {"devices": [{"uuid": card["uuid"], "memory": whole - 2 * GIB, "compute": 300, "ceiling": 300}]}
    refusal = await agent.ask("PUT", "/claims/b", body | {"uid": 0, "gid": 0}, expect=409)
    assert refusal["code"] == "no_room"
    assert refusal["evidence"]["memory"] < whole // 2
    assert (await program.tell("free"))["ok"]
    await agent.samples_until(await subject(agent, "a"), lambda s: (s["memory_used"] or 0) < GIB)
    await site.claim(agent, "b", memory=whole - 2 * GIB)


async def test_more_than_the_card_has_left_is_refused_with_the_numbers_and_changes_nothing(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=4 * GIB))
    await site.claim(agent, "neighbour", memory=60 * GIB, compute=600)
    refusal = await limit(agent, "a", memory=30 * GIB, expect=409)
    assert refusal["code"] == "no_room"
    assert 4 * GIB < refusal["evidence"]["memory"] < 30 * GIB
    refusal = await limit(agent, "a", compute=500, expect=409)
    assert refusal["evidence"]["compute"] == 400
    assert (await program.tell("info"))["total"] == 4 * GIB


async def test_a_ceiling_is_raised_and_lowered_under_a_program_that_is_busy(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", compute=200, ceiling=200))
    await program.start(f"busy {2 * MS}")
    mine = await subject(agent, "a")
    await agent.samples_until(mine, lambda s: 100 < (s["compute_used"] or 0) < 300)
    (device,) = (await limit(agent, "a", ceiling=900))["devices"]
    assert (device["ceiling"], device["compute"]) == (900, 200)
    await agent.samples_until(mine, lambda s: (s["compute_used"] or 0) > 600)
    await limit(agent, "a", ceiling=300)
    await agent.samples_until(mine, lambda s: s["compute_limit"] == 300 and (s["compute_used"] or 1000) < 400)
    await program.start("info")
    assert (await program.answer())["launches"] > 0


async def test_a_guarantee_is_raised_and_a_neighbour_gives_way(site: Site) -> None:
    agent = await site.agent()
    first = await site.program(await site.claim(agent, "first", compute=200, ceiling=1000))
    second = await site.program(await site.claim(agent, "second", compute=200, ceiling=1000))
    for program in (first, second):
        await program.start(f"busy {2 * MS}")
    await agent.samples_until(await subject(agent, "second"), lambda s: 300 < (s["compute_used"] or 0) < 700)
    await limit(agent, "first", compute=800)
    await agent.samples_until(await subject(agent, "second"), lambda s: (s["compute_used"] or 1000) < 300)
    await agent.samples_until(await subject(agent, "first"), lambda s: (s["compute_used"] or 0) > 700)


async def test_limits_outlive_the_agent(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=10 * GIB, compute=300, ceiling=500))
    await limit(agent, "a", memory=3 * GIB, ceiling=700)
    await agent.kill()
    agent = await site.agent()
    (device,) = (await agent.ask("GET", "/claims/a"))["devices"]
    assert (device["memory"], device["compute"], device["ceiling"]) == (3 * GIB, 300, 700)
    assert (await program.tell("info"))["total"] == 3 * GIB
