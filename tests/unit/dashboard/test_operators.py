"""What only operators see of a cluster: how its cards are cut, and where it differs from the ledger."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from apps.audit.models import Event
from apps.cluster import services as cluster
from apps.cluster.differences import Difference, Row
from apps.cluster.drivers.kubernetes.compare import Objects, compare
from apps.cluster.drivers.kubernetes.objects import workload_of
from apps.cluster.drivers.kubernetes.rebuild import rebuild
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.cluster.models import Gpu, Site
from apps.cluster.specs import Inventory, RunSpec, Slicing
from apps.core import clock
from apps.core.errors import Conflict, NotPermitted, Unavailable
from apps.quotas import services as quotas
from apps.quotas.models import Claim
from apps.workloads import adoption, books
from apps.workloads.models import Phase, Workload
from tests.conftest import Clock
from tests.factories import World
from tests.fakes.cluster import FakeCluster
from tests.unit.dashboard.conftest import Make, Person
from tests.unit.kubernetes.made import UID, claim, pod, running, spec

pytestmark = pytest.mark.django_db

PLUGIN = Slicing(
    "device-plugin",
    "slices_device_plugin",
    {"resources": ["nvidia.com/gpu.shared"]},
    ("plugin_fixed_sizes", "plugin_replicas_unlimited"),
)


def _mirror(slicing: Slicing | None) -> bool:
    notes = (slicing.reason, *slicing.cannot) if slicing else ()
    fields: dict[str, Any] = {"cards": (), "cpu_milli": 1000, "ram": 1, "isolation": "pods_per_run"}
    return cluster.mirror_inventory(
        Inventory("kubernetes", observed_at=clock.now(), notes=notes, slicing=slicing, **fields)
    )


def test_the_operator_reads_which_way_why_and_what_it_cannot_do(world: World, browser: Person) -> None:
    _mirror(PLUGIN)
    page = browser(world.operator).get("/cluster/").content.decode()
    assert "How GPUs are cut" in page
    assert "device plugin" in page
    assert "GPUs come from a device plugin" in page
    assert "nvidia.com/gpu.shared" in page
    assert "Fixed sizes only" in page
    assert page.count("A device plugin gives out whole GPUs") == 1, "said once, in its own place"


@pytest.mark.parametrize("person", ["manager", "member", "outsider"])
def test_others_read_only_what_it_keeps_them_from(world: World, browser: Person, person: str) -> None:
    _mirror(PLUGIN)
    page = browser(getattr(world, person)).get("/cluster/").content.decode()
    assert "How GPUs are cut" not in page
    assert "nvidia.com/gpu.shared" not in page
    assert "A device plugin gives out whole GPUs" in page


def test_where_there_is_one_way_only_nothing_is_said(world: World, browser: Person, card: Gpu) -> None:
    assert "How GPUs are cut" not in browser(world.operator).get("/cluster/").content.decode()


def test_with_claims_nothing_is_missing(world: World, browser: Person) -> None:
    _mirror(Slicing("dra", "slices_dra"))
    page = browser(world.operator).get("/cluster/").content.decode()
    assert "Dynamic Resource Allocation" in page
    assert "Nothing is missing" in page


@pytest.mark.usefixtures("world")
def test_the_mirror_keeps_it_and_knows_when_it_changes() -> None:
    assert _mirror(PLUGIN)
    assert not _mirror(PLUGIN), "the same again is no change"
    assert Site.objects.get().slicing["cannot"] == list(PLUGIN.cannot)
    assert _mirror(Slicing("dra", "slices_dra"))
    assert _mirror(None)
    assert Site.objects.get().slicing == {}


# --- Differences ----------------------------------------------------------------------------------------------------------
class Compared(FakeCluster):
    """A driver with a cluster that others can change too: really compared, only the looking and the deleting are the test's."""

    objects = Objects()
    removed: ClassVar[list[tuple[str, ...]]] = []

    def comparer(self) -> "Compared":
        return self

    async def look(self) -> Objects:
        if self.silent:
            raise Unavailable("The API server does not answer.")
        return Compared.objects

    def workloads(self, seen: Objects) -> set[str]:
        return {workload_of(thing) for thing in seen.pods}

    def differences(self, rows: Iterable[Row], seen: Objects) -> Sequence[Difference]:
        return compare(rows, seen, clock.now(), Timing())

    def spec(self, seen: Objects, uid: str) -> RunSpec | None:
        return next((found.spec for found in rebuild(seen.pods).workloads if found.uid == uid), None)

    async def remove(self, seen: Objects, difference: Difference) -> None:
        assert seen is Compared.objects
        Compared.removed.append(difference.objects)


@pytest.fixture
def compared(settings: Settings) -> Iterator[None]:
    settings.CLUSTER_DRIVER = f"{__name__}.Compared"
    cluster.reader.cache_clear()
    Compared.objects, Compared.removed[:] = Objects(), []
    yield
    cluster.reader.cache_clear()


def _repairs(page: str) -> list[str]:
    return re.findall(r'href="(/cluster/differences/[0-9a-f]{20}/[a-z]+/)"', page)


@pytest.mark.parametrize("person", ["auditor", "head", "manager", "member", "outsider"])
@pytest.mark.usefixtures("compared")
def test_to_all_but_operators_there_is_no_such_page(world: World, browser: Person, person: str) -> None:
    Compared.objects = Objects(pods=[pod(status=running())])
    client = browser(getattr(world, person))
    assert client.get("/cluster/differences/").status_code == 404
    (address, _remove) = _repairs(browser(world.operator).get("/cluster/differences/").content.decode())
    assert client.get(address).status_code == 404
    assert client.post(address, {"reason": "mine"}).status_code == 404
    assert not Workload.objects.exists()
    assert "/cluster/differences/" not in client.get("/cluster/").content.decode()


def test_the_gpus_page_leads_operators_there_and_a_driver_without_a_second_truth_says_so(
    world: World, browser: Person
) -> None:
    client = browser(world.operator)
    assert 'href="/cluster/differences/"' in client.get("/cluster/").content.decode()
    assert "There is nothing to compare with here" in client.get("/cluster/differences/").content.decode()


@pytest.mark.usefixtures("compared")
def test_where_everything_agrees_the_page_says_so(world: World, browser: Person) -> None:
    assert "Everything agrees" in browser(world.operator).get("/cluster/differences/").content.decode()


@pytest.mark.usefixtures("compared")
def test_a_cluster_that_does_not_answer_is_unknown_and_not_equal(
    world: World, browser: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.reader(), "silent", True)
    page = browser(world.operator).get("/cluster/differences/").content.decode()
    assert "nothing is known" in page
    assert "Everything agrees" not in page


@pytest.mark.usefixtures("compared")
def test_an_orphan_is_adopted_after_a_preview_that_changes_nothing(world: World, browser: Person) -> None:
    made_of = spec(labels={"owner": "member", "tenant": world.lab.slug, "environment": world.environment.slug})
    Compared.objects = Objects(pods=[pod(made_of, status=running())], claims=[claim(made_of, ("gpu-0", "8Gi", "300"))])
    client = browser(world.operator)
    page = client.get("/cluster/differences/").content.decode()
    assert "Runs without a row" in page
    assert "量子 training" in page
    adopt, _remove = _repairs(page)
    preview = client.get(adopt).content.decode()
    assert "belongs to member" in preview
    assert f"charged to {world.lab.slug}" in preview
    assert not Workload.objects.exists()
    answer = client.post(adopt, {"reason": "database restored from Friday"}, follow=True)
    row = Workload.objects.get()
    assert (row.uid, row.owner.username, row.tenant, row.gpu_compute) == (UID, "member", world.lab, 300)
    assert Claim.objects.get(settled_at=None).workload_id == row.id
    event = Event.objects.get(verb="experiment.adopt")
    assert (event.actor_label, event.reason) == (str(world.operator.user), "database restored from Friday")
    assert "Everything agrees" in answer.content.decode()
    again = client.post(adopt, {"reason": "twice"}, follow=True).content.decode()
    assert "is no more, or has changed" in again
    assert Workload.objects.count() == 1


@pytest.mark.usefixtures("compared")
def test_adoption_says_whom_it_would_make(world: World, browser: Person) -> None:
    Compared.objects = Objects(pods=[pod(status=running())])
    client = browser(world.operator)
    (adopt, _remove) = _repairs(client.get("/cluster/differences/").content.decode())
    preview = client.get(adopt).content.decode()
    assert "ada is not known here" in preview
    assert "There is no tenant lab" in preview


@pytest.mark.usefixtures("compared")
def test_an_orphan_is_removed_and_that_is_written_down_first(world: World, browser: Person) -> None:
    Compared.objects = Objects(pods=[pod(status=running())])
    client = browser(world.operator)
    (_adopt, remove) = _repairs(client.get("/cluster/differences/").content.decode())
    preview = client.get(remove).content.decode()
    assert f"Pod tessera-lab/w-{UID}-1 is deleted." in preview
    assert Compared.removed == []
    client.post(remove, {"reason": "nobody knows it"})
    assert Compared.removed == [(f"Pod tessera-lab/w-{UID}-1",)]
    event = Event.objects.get(verb="cluster.remove")
    assert (event.target_id, event.reason) == (UID, "nobody knows it")
    assert event.before == {"kind": "orphan_pod", "objects": [f"Pod tessera-lab/w-{UID}-1"]}


@pytest.mark.usefixtures("compared")
def test_what_is_charged_for_nothing_is_given_back(
    world: World, browser: Person, make: Make, stopped_clock: Clock
) -> None:
    row = make("Long gone", Phase.STOPPED)
    quotas.take_over(workload_id=row.id, run=1, tenant_id=row.tenant_id, owner_id=row.owner_id, resources=row.resources)
    client = browser(world.operator)
    assert "Everything agrees" in client.get("/cluster/differences/").content.decode(), "it may be on its way"
    stopped_clock.tick(minutes=1)
    page = client.get("/cluster/differences/").content.decode()
    assert "Charged, and nothing is there" in page
    (settle,) = _repairs(page)
    assert "given back to the quota" in client.get(settle).content.decode()
    assert Claim.objects.filter(settled_at=None).exists()
    client.post(settle, {"reason": "checked"})
    assert not Claim.objects.filter(settled_at=None).exists()
    assert Event.objects.get(verb="claim.settle").reason == "checked"


@pytest.mark.usefixtures("compared")
def test_what_the_controller_looks_after_is_left_to_it(
    world: World, browser: Person, make: Make, stopped_clock: Clock
) -> None:
    row = make("Just asked for", Phase.ADMITTED)
    quotas.take_over(workload_id=row.id, run=1, tenant_id=row.tenant_id, owner_id=row.owner_id, resources=row.resources)
    stopped_clock.tick(minutes=1)
    page = browser(world.operator).get("/cluster/differences/").content.decode()
    assert _repairs(page) == []
    assert "the controller looks after it" in page
    with pytest.raises(Conflict):
        books.settle(actor=world.operator, workload_id=row.id)


@pytest.mark.usefixtures("compared")
def test_claims_of_others_are_shown_and_never_touched(world: World, browser: Person) -> None:
    Compared.objects = Objects(claims=[claim(None, ("gpu-0", "8Gi", "300"))])
    page = browser(world.operator).get("/cluster/differences/").content.decode()
    assert "Held by somebody else" in page
    assert _repairs(page) == []


@pytest.mark.usefixtures("compared")
@pytest.mark.django_db
def test_the_services_refuse_whoever_is_no_operator(world: World) -> None:
    for actor in (world.manager, world.outsider):
        with pytest.raises(NotPermitted):
            adoption.adopt_one(actor=actor, spec=spec())
        with pytest.raises(NotPermitted):
            books.settle(actor=actor, workload_id=UUID(UID))


# --- Diagnosis -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("person", ["auditor", "head", "manager", "member", "outsider"])
@pytest.mark.usefixtures("diagnosed")
def test_only_operators_see_the_diagnosis(world: World, browser: Person, person: str) -> None:
    client = browser(getattr(world, person))
    assert client.get("/cluster/diagnosis/").status_code == 404
    assert "/cluster/diagnosis/" not in client.get("/cluster/").content.decode()


@pytest.mark.usefixtures("diagnosed")
def test_the_diagnosis_names_what_needs_somebody_worst_first(world: World, browser: Person) -> None:
    client = browser(world.operator)
    assert 'href="/cluster/diagnosis/"' in client.get("/cluster/").content.decode()
    page = client.get("/cluster/diagnosis/").content.decode()
    assert "2 things need you" in page
    summary, _, lines = page.partition('<details class="card"')
    assert summary.index("No GPU is offered") < summary.index("rate limit is low")
    assert "One thing could not be seen from here" in summary
    assert "--kube-api-qps=100 --kube-api-burst=200" in lines
    assert "kubectl logs &lt;agents&gt;" in lines
    looks = re.findall(r'class="state state-(\w+)"', "".join(re.findall(r'class="found">.*?</ul>', lines, re.DOTALL)))
    assert sorted(looks) == ["failed", "ready", "unknown", "waiting"], "unknown never looks good"


def test_a_driver_without_a_cluster_of_others_has_no_diagnosis(world: World, browser: Person) -> None:
    assert "There is no cluster to look at here" in browser(world.operator).get("/cluster/diagnosis/").content.decode()
    with pytest.raises(CommandError):
        call_command("diagnose")


@pytest.mark.usefixtures("diagnosed")
def test_the_diagnosis_in_chinese(world: World, browser: Person) -> None:
    client = browser(world.operator)
    client.cookies["django_language"] = "zh-hans"
    page = client.get("/cluster/diagnosis/").content.decode()
    assert "诊断" in page
    assert "没有 GPU 可供分配" in page


@pytest.mark.usefixtures("compared")
def test_in_chinese_too(world: World, browser: Person) -> None:
    Compared.objects = Objects(pods=[pod(status=running())])
    client = browser(world.operator)
    client.cookies["django_language"] = "zh-hans"
    page = client.get("/cluster/differences/").content.decode()
    assert "有运行而无记录" in page
    assert "纳入门户" in page
