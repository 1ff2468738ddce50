"""The controller killed before any request of a start or an end: asked again, the next one comes to the same end, and nothing is doubled."""

from dataclasses import replace
from typing import Any

import pytest

from apps.cluster.drivers.kubernetes import KubernetesCluster
from apps.cluster.drivers.kubernetes.api import Api
from apps.cluster.specs import RunState
from apps.core.share import GIB, GpuShare
from tests.contract.watching import facts, watching
from tests.kubernetes.place import KubernetesPlace

THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=1000)
KINDS = (
    *("namespaces", "serviceaccounts", "networkpolicies", "resourcequotas", "limitranges", "persistentvolumeclaims"),
    *("secrets", "services", "resourceclaims", "pods"),
)


class Killed(BaseException):
    """In the place of SIGKILL: nothing of the driver runs after it."""


class Mortal:
    """Counts the changing requests of all drivers, and ends the process of whoever sends the chosen one, before or after it is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent, self.at, self.after = 0, 0, False
        original = Api.request
        mortal = self

        async def request(api: Api, method: str, path: str, **arguments: Any) -> Any:
            if method == "GET":
                return await original(api, method, path, **arguments)
            mortal.sent += 1
            dies = mortal.sent == mortal.at
            if dies and not mortal.after:
                raise Killed
            answer = await original(api, method, path, **arguments)
            if dies:
                raise Killed
            return answer

        monkeypatch.setattr(Api, "request", request)

    def dies(self, at: int, *, after: bool) -> None:
        self.sent, self.at, self.after = 0, at, after


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Mortal:
    return Mortal(monkeypatch)


async def started(place: KubernetesPlace) -> KubernetesCluster:
    made = place.cluster()
    await made.start()
    return made


def objects(place: KubernetesPlace) -> dict[str, int]:
    return {kind: len(place.server.all(kind)) for kind in KINDS}


# Six requests set up the namespace, five make the run; the twelfth marks that it has answered, on the side.
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 13))
async def test_a_start_that_was_cut_anywhere_is_finished_by_the_next_controller(
    place: KubernetesPlace, mortal: Mortal, at: int, after: bool
) -> None:
    place.machines.cards("h100")
    place.rules = replace(place.rules, services=True)
    spec = place.spec("a", gpu=THIRD)
    first = await started(place)
    mortal.dies(at, after=after)
    died = False
    try:
        await first.apply(spec)
    except Killed:
        died = True
    assert died == (at <= 11), mortal.sent
    mortal.dies(0, after=False)
    await first.close()
    second = await started(place)
    async with watching(second) as watch:
        if (await second.apply(spec)).state is not RunState.READY:
            await watch.until("a", RunState.READY)
        assert (await facts(second, "a"))["authorised"]
        assert objects(place) == dict.fromkeys(KINDS, 1)
        assert place.server.calls.count("POST /api/v1/namespaces/tessera-physics/pods") <= 2
        await second.delete("a", grace_seconds=5)
        await watch.until("a", RunState.EXITED)
    await second.close()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 5))
async def test_a_change_of_runs_that_was_cut_anywhere_never_leaves_two(
    place: KubernetesPlace, mortal: Mortal, at: int, after: bool
) -> None:
    first = await started(place)
    async with watching(first) as watch:
        await first.apply(place.spec("a", "alone"))
        await watch.until("a", RunState.READY)
        mortal.dies(at, after=after)
        try:
            await first.apply(place.spec("a", "alone", run=2))
            if at > 1:  # what follows happens on the side
                await watch.until("a", RunState.EXITED, run=1)
        except Killed:
            assert at == 1
        mortal.dies(0, after=False)
    await first.close()
    second = await started(place)
    async with watching(second) as watch:
        seen = await second.apply(place.spec("a", "alone", run=2))
        if (seen.run, seen.state) != (2, RunState.READY):
            await watch.until("a", RunState.READY, run=2)
    assert [one["metadata"]["name"] for one in place.server.all("pods")] == ["w-a-2"]
    await second.close()
