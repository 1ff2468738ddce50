"""Operators' pages before an API server: what holds a card for nobody, what was left behind, and what the cluster itself lacks.

The pages run in this thread, as a web worker does; the API server in another, so that everything between them is real.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from io import StringIO
from typing import Any, ClassVar, TypeVar

import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from apps.accounts import services as accounts
from apps.audit.models import Event
from apps.cluster import services as cluster
from apps.cluster.drivers.kubernetes import Connection, KubernetesCluster, Rules, manifests
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.models import Health
from apps.core import clock
from apps.core.share import GIB, GpuShare
from tests.factories import World
from tests.kubernetes.control import ControlPlane
from tests.kubernetes.place import KubernetesPlace, kubernetes_place

pytestmark = pytest.mark.django_db

T = TypeVar("T")
RULES = Rules(images={"contract": "contract"})
THIRD = GpuShare(count=1, memory=8 * GIB, compute=300, ceiling=300)


class Elsewhere:
    """The API server and its machines, in an event loop of their own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        self.place: KubernetesPlace = self._run(self._stack.enter_async_context(kubernetes_place()))
        self.control: ControlPlane = self.do(lambda: ControlPlane(self.place.server))

    def do(self, work: Callable[[], T]) -> T:
        async def within() -> T:
            return work()

        done: T = self._run(within())
        return done

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def put(self, plural: str, thing: dict[str, Any], *, ago: timedelta = timedelta(days=1)) -> None:
        made = (clock.now() - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        thing["metadata"]["creationTimestamp"] = made
        self.do(lambda: self.place.server.put(plural, thing))

    def names(self, plural: str) -> list[str]:
        return self.do(lambda: [one["metadata"]["name"] for one in self.place.server.all(plural)])

    def close(self) -> None:
        self._run(self._stack.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Driver(KubernetesCluster):
    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(Connection(host=Driver.url), rules=RULES)


@pytest.fixture
def elsewhere(settings: Settings) -> Iterator[Elsewhere]:
    made = Elsewhere()
    Driver.url = made.place.url
    settings.CLUSTER_DRIVER = f"{__name__}.Driver"
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    cluster.reader.cache_clear()
    yield made
    cluster.reader.cache_clear()
    made.close()


@pytest.fixture
def olga(world: World) -> Client:
    client = Client(HTTP_HOST="localhost")
    assert world.operator.user is not None
    client.force_login(world.operator.user)
    return client


def page(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def repairs(text: str) -> list[str]:
    return re.findall(r'href="(/cluster/differences/[0-9a-f]{20}/[a-z]+/)"', text)


def left_behind(elsewhere: Elsewhere) -> tuple[str, str]:
    """What a controller leaves that was killed between a pod's end and its tidying: names of the secret and of the claim."""
    spec = elsewhere.place.spec("a", gpu=THIRD)
    where = manifests.namespace_of(spec, RULES)
    labels = manifests.labels(spec, RULES)
    elsewhere.put("namespaces", {"metadata": {"name": where, "labels": labels}})
    secret = manifests.secret(spec, RULES, "a word")
    (idle,) = manifests.slice_objects(spec, RULES, Dra().slice(spec))
    elsewhere.put("secrets", secret)
    elsewhere.put("resourceclaims", idle)
    result = {"request": "gpu", "driver": "gpu.tessera.dev", "pool": "node-1", "device": "gpu-0"}
    result["consumedCapacity"] = {"memory": "8Gi", "compute": "300"}  # type: ignore[assignment]
    claim = {
        "metadata": {"name": "claim-of-a", "namespace": where, "labels": labels},
        "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    elsewhere.put("resourceclaims", claim)
    return secret["metadata"]["name"], "claim-of-a"


def test_a_claim_that_holds_a_card_for_nobody_is_removed_after_a_preview(elsewhere: Elsewhere, olga: Client) -> None:
    secret, claim = left_behind(elsewhere)
    text = page(olga, "/cluster/differences/")
    assert "Holds a card for nobody" in text
    assert "node-1/gpu-0" in text
    item = next(one for one in text.split("<li") if claim in one)
    (remove,) = repairs(item)

    preview = page(olga, remove)
    assert f"ResourceClaim tessera-physics/{claim} is deleted." in preview
    assert "free when the cluster has let go of it" in preview
    assert claim in elsewhere.names("resourceclaims"), "a preview changes nothing"

    answer = olga.post(remove, {"reason": "node-1 was rebuilt"}, follow=True).content.decode()
    assert claim not in elsewhere.names("resourceclaims")
    assert "Holds a card for nobody" not in answer
    assert secret in elsewhere.names("secrets"), "only what was confirmed"
    event = Event.objects.get(verb="cluster.remove")
    assert (event.reason, event.actor_label) == ("node-1 was rebuilt", "operator")
    assert event.before == {"kind": "orphan_claim", "objects": [f"ResourceClaim tessera-physics/{claim}"]}

    again = olga.post(remove, {"reason": "twice"}, follow=True).content.decode()
    assert "is no more, or has changed" in again
    assert Event.objects.filter(verb="cluster.remove").count() == 1


def test_what_was_left_behind_is_removed_one_by_one_after_previews(elsewhere: Elsewhere, olga: Client) -> None:
    secret, claim = left_behind(elsewhere)
    text = page(olga, "/cluster/differences/")
    assert text.count("Left behind") == 2
    for kind, plural in (("Secret", "secrets"), ("ResourceClaim", "resourceclaims")):
        named = f"{kind} tessera-physics/{secret}"
        item = next(one for one in page(olga, "/cluster/differences/").split("<li") if named in one)
        (remove,) = repairs(item)
        preview = page(olga, remove)
        assert f"{named} is deleted." in preview
        assert "Nothing that runs uses it." in preview
        assert secret in elsewhere.names(plural)
        olga.post(remove, {"reason": f"no {kind} is needed"})
        assert secret not in elsewhere.names(plural)
        event = Event.objects.get(verb="cluster.remove", reason=f"no {kind} is needed")
        assert event.before == {"kind": "left_over", "objects": [named]}
    assert elsewhere.names("resourceclaims") == [claim], "only what was confirmed"


def test_what_is_just_being_made_is_not_offered_for_removal(elsewhere: Elsewhere, olga: Client) -> None:
    """Secret and claim come before their pod."""
    spec = elsewhere.place.spec("a", gpu=THIRD)
    labels = manifests.labels(spec, RULES)
    elsewhere.put("namespaces", {"metadata": {"name": manifests.namespace_of(spec, RULES), "labels": labels}})
    elsewhere.put("secrets", manifests.secret(spec, RULES, "a word"), ago=timedelta(seconds=5))
    assert "Everything agrees" in page(olga, "/cluster/differences/")


def test_another_claim_of_that_name_stays(elsewhere: Elsewhere, olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the deletion somebody has made it anew: what was confirmed is no more, and nothing is done."""
    _, claim = left_behind(elsewhere)
    item = next(one for one in page(olga, "/cluster/differences/").split("<li") if claim in one)
    (remove,) = repairs(item)
    server = elsewhere.place.server
    record = cluster.comparer

    def made_anew() -> None:
        known = server.one("resourceclaims", claim)
        server.drop("resourceclaims", claim)
        server.put("resourceclaims", {**known, "metadata": {**known["metadata"], "uid": "another"}})

    def slow() -> Any:
        comparer = record()
        assert comparer is not None
        deletion = comparer.remove

        async def late(seen: Any, difference: Any) -> None:
            elsewhere.do(made_anew)
            await deletion(seen, difference)

        monkeypatch.setattr(comparer, "remove", late)
        return comparer

    monkeypatch.setattr(cluster, "comparer", slow)
    olga.post(remove, {"reason": "too late"})
    assert claim in elsewhere.names("resourceclaims")


# --- Diagnosis -----------------------------------------------------------------------------------------------------------
def test_the_page_says_what_needs_the_operator_first(elsewhere: Elsewhere, olga: Client, world: World) -> None:
    text = page(olga, "/cluster/diagnosis/")
    assert "3 things need you" in text, "no card is offered, no agent is there, the node does not say what it runs"
    assert text.index("No GPU is offered") < text.index("API server answers")
    assert "Kubernetes v1.36.3" in text
    assert "All rights over the cluster are there" in text
    assert "could not be seen from here" in text
    assert "The controller has said nothing lately" in text
    Health.objects.create(
        told_at=clock.now(),
        content={
            "watches": [
                {"kind": "pods", "served": True, "fresh": True, "staleness_seconds": 0.0, "objects": 3, "lists": 1}
                | {"watches": 2, "failures": 0, "doubts": 0, "problem": ""}
            ],
            "silent_agents": {},
            "requests": 41,
            "refused": 0,
        },
    )
    text = page(olga, "/cluster/diagnosis/")
    assert "Watch of pods: current" in text
    assert "Since its start: 41" in text


def test_a_server_that_is_away_is_said_on_the_page(elsewhere: Elsewhere, olga: Client) -> None:
    elsewhere.place.server.away = True
    text = page(olga, "/cluster/diagnosis/")
    assert "The API server does not answer" in text
    assert "state-ready" not in text
    elsewhere.place.server.away = False


def test_rest_and_the_shell_say_the_same(elsewhere: Elsewhere, world: World) -> None:
    assert world.operator.user is not None
    _, secret = accounts.create_token(
        actor=world.operator,
        user=world.operator.user,
        name="x",
        scopes=["read", "platform"],
        expires_in=timedelta(hours=1),
    )
    answer = Client(HTTP_HOST="localhost").get(
        "/api/v1/cluster/diagnosis", headers={"Authorization": f"Bearer {secret}"}
    )
    assert answer.status_code == 200
    told = answer.json()
    assert told["counts"]["bad"] == 1
    by_code = {one["code"]: one for one in told["findings"]}
    assert by_code["dra_served"]["evidence"] == {"versions": ["v1"]}
    assert (by_code["scheduler_limit_unknown"]["level"], by_code["scheduler_limit_unknown"]["area"]) == (
        *("unknown", "limits"),
    )

    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("diagnose", json=True, stdout=out)
    assert ended.value.code == 1
    same = json.loads(out.getvalue())
    assert [one["code"] for one in same["findings"]] == [one["code"] for one in told["findings"]]

    plain = StringIO()
    with pytest.raises(SystemExit):
        call_command("diagnose", stdout=plain)
    assert "!!  No GPU is offered" in plain.getvalue()
    assert "ok  The API server answers. Kubernetes v1.36.3" in plain.getvalue()
