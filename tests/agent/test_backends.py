"""What keeps the limits of a claim: chosen by what the driver can do, read back before the claim is there, and told to operators."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import ACCOUNT, GIB, Agent, Program, Site, running_agent, sim_tool

_TREES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
REFUSED = "999"  # NVML_ERROR_UNKNOWN
OUT_OF_MEMORY = {"ok": False, "code": 2}


@pytest.fixture(params=["13.4"])
def driver(request: pytest.FixtureRequest) -> str:
    """CUDA version of the driver; limits of control groups came with 13.4."""
    return str(request.param)


@pytest.fixture(params=["h100,t4"])
def cards(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sim_node(place: Path, libraries: Path, driver: str, cards: str) -> Path:
    assert libraries.exists()
    sim_tool("create", place / "node", "--cards", cards, "--driver", driver)
    return place / "node"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 2, for all programs of one claim. Asked for before `site`, which ends the programs."""
    tree = next((tree for tree in _TREES if (tree / "cgroup.controllers").exists()), None)
    if tree is None or os.geteuid() != 0:
        pytest.skip("needs root and control groups of version 2")
    made = tree / f"tessera-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


@pytest.fixture
def join(group: Path) -> Callable[[Program], None]:
    def joined(program: Program) -> None:
        (group / "cgroup.procs").write_text(str(program.pid))

    return joined


async def claim_in(site: Site, agent: Agent, group: Path | None, **part: Any) -> dict[str, Any]:
    device = {"memory": 4 * GIB, "compute": 300, "ceiling": 1000, **part}
    device.setdefault("uuid", (await agent.card("H100"))["uuid"])
    body = {"devices": [device], "uid": ACCOUNT, "gid": ACCOUNT, "group": str(group or "")}
    answer: dict[str, Any] = await agent.ask("PUT", "/claims/a", body, expect=201)
    return answer


async def told(agent: Agent) -> tuple[str, str]:
    attributes = (await agent.card("H100"))["attributes"]
    return attributes["limits"], attributes["limits_reason"]


async def test_where_the_driver_has_limits_nobody_gets_around_them(
    group: Path, site: Site, join: Callable[[Program], None]
) -> None:
    """Not even one who opens the hidden driver, which without this wall gives everything (test_bypass)."""
    agent = await site.agent()
    assert await told(agent) == ("cgroup-memory", "limits_by_driver")
    claim = await claim_in(site, agent, group)
    assert (await agent.ask("GET", "/claims/a"))["backend"] == "cgroup-memory"
    rogue = await site.program(claim, library=f"{claim['library_path']}/driver/libcuda.so.1", context=False)
    join(rogue)
    assert (await rogue.tell("open"))["ok"]
    assert await rogue.tell(f"alloc {10 * GIB}") == OUT_OF_MEMORY
    assert (await rogue.tell(f"alloc {3 * GIB}"))["ok"]
    assert (await rogue.tell("info"))["total"] == 4 * GIB
    honest = await site.program(claim, context=False)
    join(honest)
    assert not (await honest.tell("open"))["ok"] or not (await honest.tell(f"alloc {GIB}"))["ok"]


async def test_a_changed_limit_is_the_drivers_too_and_goes_with_the_claim(
    group: Path, site: Site, join: Callable[[Program], None]
) -> None:
    agent = await site.agent()
    claim = await claim_in(site, agent, group)
    rogue = await site.program(claim, library=f"{claim['library_path']}/driver/libcuda.so.1", context=False)
    join(rogue)
    assert (await rogue.tell("open"))["ok"]
    card = (await agent.card("H100"))["uuid"]
    await agent.ask("PATCH", "/claims/a", {"devices": [{"uuid": card, "memory": 12 * GIB}]})
    assert (await rogue.tell(f"alloc {10 * GIB}"))["ok"]
    await agent.ask("PATCH", "/claims/a", {"devices": [{"uuid": card, "memory": 2 * GIB}]})
    assert await rogue.tell(f"alloc {16 * 1024**2}") == OUT_OF_MEMORY
    assert (await rogue.tell("free"))["ok"]
    await agent.kill()
    agent = await site.agent()
    assert await rogue.tell(f"alloc {3 * GIB}") == OUT_OF_MEMORY, "limits are the driver's, whoever looks after them"
    await rogue.end()
    await agent.ask("DELETE", "/claims/a", expect=204)
    free = await site.program(
        claim | {"env": {"TESSERA_SIM_NODE": str(site.sim_node)}}, library=_driver(), context=False
    )
    join(free)
    assert (await free.tell("open"))["ok"]
    assert (await free.tell(f"alloc {20 * GIB}"))["ok"], "the group has no limit any more"


def _driver() -> str:
    from tests.agent.conftest import BUILD

    return str(BUILD / "sim" / "libcuda.so.1")


async def test_a_claim_whose_limits_cannot_be_written_is_not_there(group: Path, site: Site) -> None:
    agent = await site.agent()
    sim_tool("fault", site.sim_node, "fail", "nvmlDeviceSetMemoryLimits_v1", REFUSED, "--times", "1")
    body = {"devices": [{"uuid": (await agent.card("H100"))["uuid"], "memory": GIB, "compute": 1, "ceiling": 1}]}
    refusal = await agent.ask("PUT", "/claims/a", body | {"uid": 0, "gid": 0, "group": str(group)}, expect=503)
    assert refusal["code"] == "limits_refused"
    assert (await agent.ask("GET", "/claims"))["claims"] == []
    assert not (agent.state / "claims" / "a").exists()
    await agent.ask("PUT", "/claims/a", body | {"uid": 0, "gid": 0, "group": str(group)}, expect=201)


async def test_a_claim_without_a_group_is_kept_by_the_library(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    agent = await site.agent()
    program = await site.program(await claim_in(site, agent, None))
    assert (await agent.ask("GET", "/claims/a"))["backend"] == "interposer"
    assert (await program.tell("info"))["total"] == 4 * GIB


async def test_what_is_no_control_group_is_refused(site: Site) -> None:
    agent = await site.agent()
    body = {"devices": [{"uuid": (await agent.card("H100"))["uuid"], "memory": GIB, "compute": 1, "ceiling": 1}]}
    for wrong in ("/tmp", "no/path", 5):
        refusal = await agent.ask("PUT", "/claims/a", body | {"uid": 0, "gid": 0, "group": wrong}, expect=422)
        assert "group" in refusal["message"]


@pytest.mark.parametrize("driver", ["12.9"], indirect=True)
async def test_an_older_driver_leaves_the_limits_to_the_library(site: Site) -> None:
    agent = await site.agent()
    reason = "limits_need_driver" if os.geteuid() == 0 else "limits_need_root"
    assert await told(agent) == ("interposer", reason)


async def test_an_operator_may_choose(site: Site) -> None:
    async with running_agent(site.place, "--sim-node", site.sim_node, "--backend", "interposer") as agent:
        assert await told(agent) == ("interposer", "limits_by_setting")


@pytest.mark.parametrize("cards", ["h100"], indirect=True)
async def test_a_whole_card_with_nothing_beside_it_is_the_programs_own(site: Site) -> None:
    agent = await site.agent()
    claim = await claim_in(site, agent, None, compute=1000)
    assert (await agent.ask("GET", "/claims/a"))["backend"] == "exclusive"
    assert (await agent.card("H100"))["attributes"]["whole_reason"] == "whole_only_card"
    program = await site.program(claim)
    card = await agent.card("H100")
    assert (await program.tell("info"))["total"] > card["memory"], "all that the driver has, not what was asked for"
    assert (await program.tell(f"alloc {30 * GIB}"))["ok"]
    subject = f"run:a:{card['uuid']}"
    seen = await agent.samples_until(subject, lambda s: (s["memory_used"] or 0) >= 30 * GIB)
    assert seen["uncounted_bytes"] is None, "nobody counts here, so nothing is beside the books"
    await agent.kill()
    agent = await site.agent()
    assert (await agent.ask("GET", "/claims/a"))["backend"] == "exclusive"
    refusal = await agent.ask("DELETE", "/claims/a", expect=409)
    assert [user["pid"] for user in refusal["evidence"]["processes"]] == [program.pid]


async def test_beside_other_cards_a_whole_one_keeps_the_library(site: Site) -> None:
    """Without it `CUDA_VISIBLE_DEVICES` alone would keep a program off the other card."""
    agent = await site.agent()
    claim = await claim_in(site, agent, None, compute=1000)
    assert (await agent.ask("GET", "/claims/a"))["backend"] == "interposer"
    assert json.dumps(claim["env"]).count("GPU-") == 1
