"""The agent's process as the DRA driver of a node: a real driver underneath, kubelet's calls, an API server in this process."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.agent.conftest import BOUND, GIB, Agent, Site, running_agent, sim_tool, start_agent
from tests.agent.test_survival import refusal_of
from tests.unit.node.apiserver import CLAIMS, SLICES, ApiServer, kubeconfig, resource_claim, result, running_api_server
from tests.unit.node.dra.kubelet import Kubelet, kubelet
from vcuda.node.proto import health_v1alpha1_pb2 as health

TOKEN = "a-token"


@dataclass
class ClusterSite:
    """`url` is the agent's address for what only reads."""

    site: Site
    server: ApiServer
    agent: Agent
    url: str
    options: list[str | Path]  # of the agent

    @property
    def folder(self) -> Path:
        return self.site.place

    def claim(self, uid: str, **how: Any) -> tuple[str, str]:
        self.server.put(CLAIMS, "tenant", resource_claim(uid, name=uid, **how))
        return uid, uid

    async def refresh(self, uid: str, token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self.url}/claims/{uid}/refresh"
        async with aiohttp.ClientSession(headers=headers) as client, client.post(url) as response:
            return response.status, await response.text()

    async def get(self, path: str, token: str = "") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession() as client, client.get(self.url + path, headers=headers) as response:
            return response.status, await response.text()


@pytest.fixture
async def cluster(site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterSite]:
    async with running_api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(server, site.place)))
        (site.place / "token").write_text(f"{TOKEN}\n")
        address = f"127.0.0.1:{_closed_port()}"
        options = in_cluster(site, address)
        async with running_agent(site.place, *options) as agent:
            yield ClusterSite(site, server, agent, f"http://{address}", options)


def in_cluster(site: Site, address: str) -> list[str | Path]:
    options: list[str | Path] = ["--sim-node", site.sim_node, "--kubernetes", "--node-name", "node-1"]
    options += ["--kubelet-dir", site.place / "k", "--cdi-dir", site.place / "cdi"]
    return [*options, "--listen", address, "--token-file", site.place / "token"]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not holds():  # noqa: ASYNC110 - what holds is in another process
            await asyncio.sleep(0.02)


async def test_the_cards_of_the_driver_are_the_devices_of_the_slice(cluster: ClusterSite) -> None:
    await until(lambda: cluster.server.get_slice() is not None)
    found = cluster.server.get_slice()
    assert found is not None
    devices = {device["name"]: device for device in found["spec"]["devices"]}
    cards = (await cluster.agent.ask("GET", "/cards"))["cards"]
    assert {name: device["attributes"]["uuid"]["string"] for name, device in devices.items()} == {
        f"gpu-{card['index']}": card["uuid"] for card in cards
    }
    memory = devices["gpu-0"]["capacity"]["memory"]["value"]
    assert memory == f"{cards[0]['memory'] // 1024**2}Mi"
    assert devices["gpu-0"]["attributes"].keys() >= {
        "model",
        "architecture",
        "driverVersion",
        "cudaVersion",
        "numaNode",
    }
    assert not any("taints" in device for device in devices.values())


async def test_a_claim_is_prepared_with_limits_that_programs_will_meet(cluster: ClusterSite) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        answers = await caller.prepare(
            cluster.claim("claim-1"), cluster.claim("claim-2", results=[result("gpu-1", memory="1Gi", compute="100")])
        )
        assert {uid: answer.error for uid, answer in answers.items()} == {"claim-1": "", "claim-2": ""}
        claim = await cluster.agent.ask("GET", "/claims/claim-1")
        assert (claim["devices"][0]["memory"], claim["devices"][0]["compute"]) == (8 * GIB, 300)
        assert all((cluster.agent.state / name).stat().st_mode & 0o077 == 0 for name in ("claims", "agent.lock"))
        health = await cluster.agent.ask("GET", "/healthz")
        assert health["kubernetes"]["registered"]
        assert await caller.unprepare(("claim-1", "claim-1"), ("claim-2", "claim-2")) == {"claim-1": "", "claim-2": ""}
    assert (await cluster.agent.ask("GET", "/claims"))["claims"] == []


async def test_limits_on_the_claim_are_obeyed_when_somebody_says_that_they_changed(cluster: ClusterSite) -> None:
    """By a program that runs, and with no more rights than to read the claim."""
    async with kubelet(cluster.folder / "k") as caller:
        assert (await caller.prepare(cluster.claim("claim-1")))["claim-1"].error == ""
        cluster.claim("claim-1", limits='{"memory": 2147483648, "ceiling": 400}')
        status, told = await cluster.refresh("claim-1", TOKEN)
        device = json.loads(told)["devices"][0]
        assert (status, device["memory"], device["compute"], device["ceiling"]) == (200, 2 * GIB, 300, 400)
        assert (await cluster.refresh("claim-1", "another"))[0] == 401
        assert (await cluster.refresh("nobody", TOKEN))[0] == 404
        answer = (await caller.prepare(("claim-1", "claim-1")))["claim-1"]
        assert answer.error == "", "kubelet may ask again at any time"
        claim = await cluster.agent.ask("GET", "/claims/claim-1")
        assert claim["devices"][0]["memory"] == 2 * GIB
        cluster.claim("claim-1")
        assert json.loads((await cluster.refresh("claim-1", TOKEN))[1])["devices"][0]["memory"] == 8 * GIB


@pytest.mark.parametrize(
    "limits", ['{"memory": 17179869184}', '{"ceiling": 200}', '{"memory": "2Gi"}', "[]", "2Gi"],
    ids=["more than was allocated", "below the guarantee", "no number", "no object", "no JSON"],
)  # fmt: skip
async def test_limits_that_make_no_sense_are_refused_and_those_in_force_stay(cluster: ClusterSite, limits: str) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        await caller.prepare(cluster.claim("claim-1"))
        cluster.claim("claim-1", limits=limits)
        status, told = await cluster.refresh("claim-1", TOKEN)
        assert (status, "tessera.dev/limits" in json.loads(told)["message"]) == (422, True)
    claim = await cluster.agent.ask("GET", "/claims/claim-1")
    assert (claim["devices"][0]["memory"], claim["devices"][0]["ceiling"]) == (8 * GIB, 1000)


async def test_an_agent_that_was_away_obeys_the_claims_limits_when_it_comes_back(
    cluster: ClusterSite, site: Site
) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        await caller.prepare(cluster.claim("claim-1"))
    await cluster.agent.kill()
    cluster.claim("claim-1", limits='{"memory": 2147483648}')
    async with running_agent(site.place, *cluster.options) as agent:
        async with asyncio.timeout(BOUND):
            while (await agent.ask("GET", "/claims/claim-1"))["devices"][0]["memory"] != 2 * GIB:
                await agent.whole_second()


async def test_over_the_network_one_can_read_with_the_token_and_nothing_else(cluster: ClusterSite) -> None:
    for path in ("/cards", "/claims", "/claims/none", "/samples"):
        assert (await cluster.get(path))[0] == 401
        assert (await cluster.get(path, "another"))[0] == 401
    assert (await cluster.get("/cards", TOKEN))[0] == 200
    assert (await cluster.get("/claims", TOKEN))[0] == 200
    for path in ("/healthz", "/metrics"):
        assert (await cluster.get(path))[0] == 200
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for method in ("PUT", "PATCH", "DELETE"):
            async with client.request(method, f"{cluster.url}/claims/a", json={}) as response:
                assert response.status == 405
        async with client.get(f"{cluster.url}/samples") as response:
            assert (await response.content.readline()).startswith(b'[{"subject": "card:GPU-')


async def test_a_new_token_counts_at_once_and_without_one_nobody_reads(cluster: ClusterSite) -> None:
    (cluster.folder / "token").write_text("new")
    assert (await cluster.get("/cards", TOKEN))[0] == 401
    assert (await cluster.get("/cards", "new"))[0] == 200
    (cluster.folder / "token").write_text("\n")
    assert (await cluster.get("/cards", ""))[0] == 401
    (cluster.folder / "token").unlink()
    assert (await cluster.get("/cards", "new"))[0] == 401
    assert (await cluster.get("/metrics"))[0] == 200


async def test_metrics_name_each_claim(cluster: ClusterSite) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        await caller.prepare(cluster.claim("claim-1"))
    await cluster.agent.whole_second()
    _, text = await cluster.get("/metrics")
    card = (await cluster.agent.card("H100"))["uuid"]
    name = f'tessera_claim_memory_limit_bytes{{card="{card}",claim="claim-1"}} '
    (value,) = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    assert float(value) == 8 * GIB


async def test_a_sick_card_is_tainted_and_kubelet_hears_of_it(cluster: ClusterSite) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        states = aiter(caller.health.NodeWatchResources(health.NodeWatchResourcesRequest()))
        assert {device.health for device in (await anext(states)).devices} == {health.HEALTHY}
        sim_tool("fault", cluster.site.sim_node, "card", "0", "lost", "--xid", "0")
        await until(lambda: effects(cluster.server) == ["NoExecute"])
        sick = await anext(states)
        assert [(d.device.device_name, d.message) for d in sick.devices if d.health == health.UNHEALTHY] == [
            ("gpu-0", "gpu_lost")
        ]
        sim_tool("fault", cluster.site.sim_node, "card", "0", "healthy")
        await until(lambda: effects(cluster.server) == [])


async def test_a_card_whose_error_wants_a_reset_is_trusted_again_after_a_restart(cluster: ClusterSite) -> None:
    sim_tool("fault", cluster.site.sim_node, "card", "0", "unhealthy", "--xid", "48")
    await until(lambda: effects(cluster.server) == ["NoSchedule"])
    sim_tool("fault", cluster.site.sim_node, "card", "0", "healthy")
    for _ in range(2):
        await cluster.agent.whole_second()
    assert effects(cluster.server) == ["NoSchedule"]
    assert await cluster.agent.stop() == 0
    address = cluster.url.removeprefix("http://")
    async with running_agent(cluster.folder, *in_cluster(cluster.site, address)):
        await until(lambda: effects(cluster.server) == [])


def effects(server: ApiServer) -> list[str]:
    """Of the taints that the slice tells."""
    found = server.get_slice() or {"spec": {"devices": []}}
    return [taint["effect"] for device in found["spec"]["devices"] for taint in device.get("taints", ())]


async def test_it_stays_small(cluster: ClusterSite) -> None:
    async with kubelet(cluster.folder / "k") as caller:
        took = await _often(caller, cluster, 100)
    await cluster.agent.whole_second()
    rss = rss_mib(cluster.agent.process.pid)
    print(f"RSS {rss:.0f} MiB after 100 claims; prepare in the median {took * 1000:.1f} ms")
    assert rss < 100


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def _often(caller: Kubelet, cluster: ClusterSite, count: int) -> float:
    times = []
    for number in range(count):
        claim = cluster.claim(f"claim-{number}")
        times.append(await _timed(caller.prepare(claim)))
        assert await caller.unprepare(claim) == {claim[0]: ""}
    return sorted(times)[count // 2]


async def _timed(call: Awaitable[Any]) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await call
    return loop.time() - began


@asynccontextmanager
async def second_agent(cluster: ClusterSite) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """On the same state, and its address. It waits for the first one to end."""
    address = f"127.0.0.1:{_closed_port()}"
    state, own = cluster.agent.state, cluster.folder / "second.sock"
    process = await start_agent("--state", state, "--socket", own, *in_cluster(cluster.site, address))
    assert process.stderr is not None
    try:
        async for line in process.stderr:
            if b"takes over when that ends" in line:
                break
        yield process, f"http://{address}/healthz"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def healthz(url: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("ends", ["as asked", "killed"])
async def test_an_agent_follows_another_and_no_call_of_kubelet_fails(cluster: ClusterSite, ends: str) -> None:
    """As in a rolling update: the new one is there before the old one goes, and kubelet calls the new one."""
    async with second_agent(cluster) as (process, health):
        assert (await healthz(health))[0] == 503, "kubelet does not know it yet, so the other one must stay"
        async with kubelet(cluster.folder / "k", process.pid) as caller:
            assert (await healthz(health))[0] == 200
            claims = [
                cluster.claim(f"claim-{number}", results=[result(memory="1Gi", compute="10")]) for number in range(40)
            ]
            asked = asyncio.create_task(_prepared_one_after_another(caller, claims))
            await until(lambda: len(list((cluster.folder / "cdi").glob("tessera-*.json"))) >= 5)
            assert len((await cluster.agent.ask("GET", "/claims"))["claims"]) >= 5, "the first one did that"
            await (cluster.agent.stop() if ends == "as asked" else cluster.agent.kill())
            assert await asked == [""] * 40
            status, said = await healthz(health)
            assert (status, said["status"], said["claims"], said["kubernetes"]["registered"]) == (200, "ok", 40, True)
            sockets = [path.name for path in (cluster.folder / "k").rglob("*.sock")]
            assert sorted(sockets) == [f"dra-{process.pid}.sock", f"gpu.tessera.dev-{process.pid}-reg.sock"]


async def test_an_agent_that_waits_for_another_ends_when_asked(cluster: ClusterSite) -> None:
    async with second_agent(cluster) as (process, _):
        process.terminate()
        await process.communicate()
        assert process.returncode == 0
    assert len(list((cluster.folder / "k").rglob("*.sock"))) == 2
    assert (await cluster.agent.ask("GET", "/healthz"))["status"] == "ok"


async def _prepared_one_after_another(caller: Kubelet, claims: list[tuple[str, str]]) -> list[str]:
    return [(await caller.prepare(claim))[claim[0]].error for claim in claims]


async def test_without_a_way_to_the_api_server_it_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    options: list[str | Path] = [
        "--state",
        site.place / "state",
        "--socket",
        site.place / "a.sock",
        "--sim-node",
        site.sim_node,
    ]
    said = await refusal_of(
        *options, "--kubernetes", "--node-name", "n", "--kubelet-dir", site.place, "--cdi-dir", site.place
    )
    assert "KUBECONFIG" in said


async def test_an_api_server_that_comes_later_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_api_server() as server:
        path = kubeconfig(server, site.place)
        path.write_text(path.read_text().replace(f":{server.url.port}", f":{_closed_port()}"))
        monkeypatch.setenv("KUBECONFIG", str(path))
        options: list[str | Path] = ["--sim-node", site.sim_node, "--kubernetes", "--node-name", "node-1"]
        options += ["--kubelet-dir", site.place / "k", "--cdi-dir", site.place / "cdi"]
        async with running_agent(site.place, *options) as agent, kubelet(site.place / "k") as caller:
            answer = (await caller.prepare(("u", "u")))["u"]
            assert "does not answer" in answer.error
            assert (await agent.ask("GET", "/healthz"))["kubernetes"] == {"registered": True, "published": False}
        assert server.asked("list", SLICES) == []


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
