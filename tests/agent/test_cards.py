"""Cards that fail, and how the agent says so."""

from __future__ import annotations

from tests.agent.conftest import Site, sim_tool


async def test_a_lost_card_has_no_figures_and_when_it_is_back_it_is_not_trusted(site: Site) -> None:
    agent = await site.agent()
    card = f"card:{(await agent.card('H100'))['uuid']}"
    sim_tool("fault", site.sim_node, "card", "0", "lost")
    await agent.samples_until(card, lambda s: s["compute_used"] is None and s["memory_used"] is None)
    found = await agent.card("H100")
    assert (found["healthy"], found["health_reason"]) == (False, "gpu_lost")
    assert (await agent.card("T4"))["healthy"]
    sim_tool("fault", site.sim_node, "card", "0", "healthy")
    await agent.samples_until(card, lambda s: s["compute_used"] == 0)
    found = await agent.card("H100")
    assert (found["healthy"], found["health_reason"]) == (False, "xid_79")


async def test_a_card_with_a_critical_error_is_not_trusted_again(site: Site) -> None:
    agent = await site.agent()
    sim_tool("fault", site.sim_node, "card", "1", "unhealthy", "--xid", "48")
    sim_tool("fault", site.sim_node, "card", "1", "healthy")
    await agent.whole_second()
    found = await agent.card("T4")
    assert (found["healthy"], found["health_reason"]) == (False, "xid_48")


async def test_an_error_that_a_program_caused_is_not_the_cards_fault(site: Site) -> None:
    agent = await site.agent()
    sim_tool("fault", site.sim_node, "card", "1", "healthy", "--xid", "13")
    await agent.whole_second()
    assert (await agent.card("T4"))["healthy"]
