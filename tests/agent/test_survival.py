"""The agent may die at any moment; nothing that lives in the claims notices."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.agent.conftest import ACCOUNT, BOUND, GIB, Site, start_agent

MS = 1_000_000  # ns


async def test_kill_9_loses_no_claim_no_share_and_no_byte(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=4 * GIB)
    program = await site.program(claim)
    assert (await program.tell(f"alloc {2 * GIB}"))["ok"]
    before = await agent.ask("GET", "/claims/a")
    await agent.kill()

    assert (await program.tell(f"alloc {GIB}"))["ok"], "programs go on without the agent"
    assert not (await program.tell(f"alloc {3 * GIB}"))["ok"], "and so do limits"
    assert (await program.tell(f"launch {MS} 10"))["ok"]

    again = await site.agent()
    after = await again.ask("GET", "/claims/a")
    for part in ("memory", "compute", "ceiling"):
        assert after["devices"][0][part] == before["devices"][0][part]
    subject = f"run:a:{after['devices'][0]['uuid']}"
    await again.samples_until(subject, lambda s: 3 * GIB <= (s["memory_used"] or 0) < 4 * GIB)
    refusal = await again.ask("DELETE", "/claims/a", expect=409)
    assert [user["pid"] for user in refusal["evidence"]["processes"]] == [program.pid]
    await program.end()
    await again.ask("DELETE", "/claims/a", expect=204)


async def test_a_repeated_claim_after_a_crash_is_the_same_claim(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a")
    await agent.kill()
    again = await site.agent()
    card = await again.card("H100")
    body = {
        "devices": [{"uuid": card["uuid"], "memory": 8 * GIB, "compute": 300, "ceiling": 1000}],
        **{key: (await again.ask("GET", "/claims/a"))[key] for key in ("uid", "gid")},
    }
    assert await again.ask("PUT", "/claims/a", body) == claim


async def test_kill_9_while_claims_are_being_made_leaves_each_whole_or_absent(site: Site) -> None:
    agent = await site.agent()
    card = (await agent.card("H100"))["uuid"]
    part = {"uuid": card, "memory": GIB, "compute": 20, "ceiling": 20}
    body = {"devices": [part], "uid": ACCOUNT, "gid": ACCOUNT}
    asked = [asyncio.create_task(agent.ask("PUT", f"/claims/c{number}", body, expect=201)) for number in range(40)]
    await asyncio.wait(asked, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
    await agent.kill()
    answered = [answer for answer in await asyncio.gather(*asked, return_exceptions=True) if isinstance(answer, dict)]
    assert answered

    again = await site.agent()
    found = {claim["name"] for claim in (await again.ask("GET", "/claims"))["claims"]}
    assert {answer["name"] for answer in answered} <= found
    assert {path.name for path in (again.state / "claims").iterdir()} == found
    for number in range(40):
        name = f"c{number}"
        await again.ask("PUT", f"/claims/{name}", body, expect=200 if name in found else 201)
    program = await site.program(answered[0])
    assert not (await program.tell(f"alloc {GIB}"))["ok"], "its context takes part of the GiB"


async def refusal_of(*options: str | Path) -> str:
    """What an agent says that cannot start with these options."""
    process = await start_agent(*options)
    _, said = await asyncio.wait_for(process.communicate(), BOUND)
    assert process.returncode == 1
    return said.decode()


async def test_a_second_agent_on_the_same_state_refuses_kindly(site: Site) -> None:
    agent = await site.agent()
    said = await refusal_of("--state", agent.state, "--socket", site.place / "other.sock", "--sim-node", site.sim_node)
    assert f"Another agent (process {agent.process.pid})" in said
    assert "--state" in said
    assert (await agent.ask("GET", "/healthz"))["status"] == "ok"


async def test_a_clean_stop_ends_loans_and_removes_the_socket(site: Site) -> None:
    agent = await site.agent()
    await site.claim(agent, "a", compute=300)
    assert await agent.stop() == 0
    assert not agent.socket.exists()
    again = await site.agent()
    (device,) = (await again.ask("GET", "/claims/a"))["devices"]
    assert device["compute"] == 300


async def test_without_the_simulated_node_it_says_how_to_make_one(site: Site) -> None:
    options = ("--state", site.place / "state", "--socket", site.place / "agent.sock")
    said = await refusal_of(*options, "--sim-node", site.place / "nowhere")
    assert "tessera-sim create" in said


async def test_without_a_simulated_node_it_shows_real_cards_or_says_that_there_is_no_driver(site: Site) -> None:
    agent = await site.agent(simulated=False)
    found = await agent.ask("GET", "/cards")
    assert bool(found["cards"]) != ("no_driver" in found["notes"])
    assert not any(card["simulated"] for card in found["cards"])
