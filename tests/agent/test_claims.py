"""Claims through the agent's socket, and what programs in them see."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import Any

from tests.agent.conftest import ACCOUNT, GIB, Site


async def test_limits_are_read_back_and_programs_obey_them(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=8 * GIB)
    (device,) = (await agent.ask("GET", "/claims/a"))["devices"]
    assert (device["memory"], device["compute"], device["ceiling"]) == (8 * GIB, 300, 1000)
    program = await site.program(claim)
    assert (await program.tell("info"))["total"] == 8 * GIB
    assert (await program.tell(f"alloc {6 * GIB}"))["ok"]
    assert await program.tell(f"alloc {6 * GIB}") == {"ok": False, "code": 2}  # CUDA_ERROR_OUT_OF_MEMORY
    assert (await program.tell("launch 1000 1"))["ok"], "a program lives on after its allocation was refused"


async def test_limits_changed_in_place_reach_a_running_program(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a", memory=4 * GIB))
    card = (await agent.card("H100"))["uuid"]
    assert not (await program.tell(f"alloc {6 * GIB}"))["ok"]
    await agent.ask("PATCH", "/claims/a", {"devices": [{"uuid": card, "memory": 8 * GIB}]})
    assert (await program.tell(f"alloc {6 * GIB}"))["ok"]
    await agent.ask("PATCH", "/claims/a", {"devices": [{"uuid": card, "memory": 7 * GIB}]})
    assert not (await program.tell(f"alloc {GIB}"))["ok"]


async def test_a_program_sees_the_cards_of_its_claim_only(site: Site) -> None:
    agent = await site.agent()
    t4 = await agent.card("T4")
    claim = await site.claim(agent, "small", uuid=t4["uuid"], memory=2 * GIB)
    assert claim["env"]["CUDA_VISIBLE_DEVICES"] == t4["uuid"]
    program = await site.program(claim)
    assert (await program.tell("info"))["total"] == 2 * GIB


async def test_cards_tell_what_they_are_and_who_holds_them(site: Site) -> None:
    agent = await site.agent()
    await site.claim(agent, "a", memory=8 * GIB, compute=300, ceiling=300)
    card = await agent.card("H100")
    assert card["simulated"]
    assert card["healthy"]
    assert card["uuid"].startswith("GPU-")
    assert 70 * GIB < card["memory"] < card["physical_memory"]
    assert card["attributes"].keys() >= {"architecture", "compute_capability", "driver_version", "cuda_version", "pci"}
    assert card["claims"] == [{"uid": "a", "memory": 8 * GIB, "compute": 300, "ceiling": 300, "share": 300}]
    assert (await agent.card("T4"))["claims"] == []


async def test_a_claim_in_use_stays_and_the_answer_names_who(site: Site) -> None:
    agent = await site.agent()
    program = await site.program(await site.claim(agent, "a"))
    assert (await program.tell(f"alloc {GIB}"))["ok"]
    refusal = await agent.ask("DELETE", "/claims/a", expect=409)
    assert refusal["code"] == "claim_in_use"
    assert [user["pid"] for user in refusal["evidence"]["processes"]] == [program.pid]
    assert (await program.tell(f"alloc {GIB}"))["ok"]
    await program.kill()
    await agent.ask("DELETE", "/claims/a", expect=204)
    await agent.ask("DELETE", "/claims/a", expect=204)
    assert not (agent.state / "claims" / "a").exists()


async def test_memory_of_a_killed_program_is_the_claims_again(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a", memory=4 * GIB)
    first = await site.program(claim)
    assert (await first.tell(f"alloc {3 * GIB}"))["ok"]
    await first.kill()
    second = await site.program(claim)
    assert (await second.tell(f"alloc {3 * GIB}"))["ok"]


async def test_the_socket_is_for_the_agents_account_only(site: Site) -> None:
    agent = await site.agent()
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o600


async def test_programs_may_not_write_their_limits_and_strangers_may_not_read_them(site: Site) -> None:
    agent = await site.agent()
    claim = await site.claim(agent, "a")
    root = os.geteuid() == 0
    stranger = ACCOUNT + 1 if root else ACCOUNT
    config, ledger = f"{claim['path']}/config", f"{claim['path']}/ledger"
    assert await run_as(ACCOUNT, "test", "-r", config)
    assert await run_as(ACCOUNT, "test", "-w", ledger)
    assert not root or not await run_as(ACCOUNT, "test", "-w", config)
    assert not root or not await run_as(ACCOUNT, "mv", config, f"{config}-old")
    assert await run_as(stranger, "test", "-r", config) != root
    assert await run_as(stranger, "ls", str(agent.state / "claims")) != root


async def test_bad_requests_are_refused_with_a_sentence_and_a_hint(site: Site) -> None:
    agent = await site.agent()
    unknown = {
        "devices": [{"uuid": "GPU-x", "memory": GIB, "compute": 1, "ceiling": 1}],
        "uid": ACCOUNT,
        "gid": ACCOUNT,
    }
    assert (await agent.ask("PUT", "/claims/a", unknown, expect=422))["code"] == "no_such_card"
    assert (await agent.ask("PUT", "/claims/a", [], expect=422))["message"]
    assert (await agent.ask("PATCH", "/claims/a", unknown, expect=404))["code"] == "not_found"
    assert (await agent.ask("GET", "/nothing", expect=404))["hint"]
    assert (await agent.ask("GET", "/claims"))["claims"] == []


async def run_as(account: int, *command: str) -> bool:
    as_account: dict[str, Any] = {"user": account, "group": account, "extra_groups": []} if os.geteuid() == 0 else {}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, **as_account
    )
    return await process.wait() == 0
