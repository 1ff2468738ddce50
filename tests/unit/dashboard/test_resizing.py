"""Another share from the page: the dialog, the verdict before the click, what the page says while more is in use than is allowed."""

from datetime import timedelta

import pytest

from apps.cluster.models import Gpu, Site
from apps.cluster.specs import Resizing
from apps.core import clock
from apps.core.share import GIB
from apps.experiments.services import request_experiment
from apps.telemetry.models import Sample, Step
from apps.workloads import notices
from apps.workloads.models import Desired, Phase, Workload
from tests.factories import SLICE, World
from tests.unit.dashboard.conftest import Person

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(world: World, card: Gpu) -> Workload:
    """The member's, with 8 GiB and 30 % of the H100, of which it uses 5 GiB."""
    made = request_experiment(
        actor=world.member, tenant=world.lab, name="Fit", environment=world.environment, resources=SLICE
    )
    Site.objects.update(resizing=Resizing.FULL)
    card.holders = [{"uid": made.uid, "memory": 8 * GIB, "compute": 300, "ceiling": 300}]
    card.save()
    Workload.objects.filter(id=made.id).update(phase=Phase.READY, cards=[card.uuid], observed_at=clock.now())
    at = int((clock.now() - timedelta(seconds=1)).timestamp())
    Sample.objects.create(
        step=Step.SECOND, subject=f"run:{made.uid}:{card.uuid}", at=at, memory_used=5 * GIB, compute_used=100
    )
    made.refresh_from_db()
    return made


def _url(workload: Workload, more: str = "") -> str:
    return f"/experiments/{workload.id}/{more}"


def test_the_dialog_shows_what_there_is_and_the_safe_rule(world: World, running: Workload, browser: Person) -> None:
    page = " ".join(browser(world.member).get(_url(running)).content.decode().split())
    assert 'data-dialog="dialog-resize"' in page
    assert "Programs go on running" in page
    assert "In use now: 5 GiB of 8 GiB" in page
    assert 'name="gpu_memory" data-pair="id_gpu_memory-slider" min="0.25" step="any" value="8"' in page


def test_the_verdict_comes_before_the_click_and_tells_what_is_over(
    world: World, running: Workload, browser: Person
) -> None:
    mine = browser(world.member)
    numbers = {"gpu_compute": "30", "gpu_ceiling": "30"}
    fits = mine.get(_url(running, "resize/verdict/"), {"gpu_memory": "16", **numbers}).content.decode()
    over = mine.get(_url(running, "resize/verdict/"), {"gpu_memory": "2", **numbers}).content.decode()
    never = mine.get(_url(running, "resize/verdict/"), {"gpu_memory": "60", **numbers}).content.decode()
    assert "Possible now" in fits
    assert "more is in use" not in fits
    assert "3 GiB more is in use than this allows" in over
    assert "No quota left for this" in never
    assert "data-fill" in never
    assert "disabled" in never
    running.refresh_from_db()
    assert running.gpu_memory == 8 * GIB


def test_an_unfinished_or_unchanged_form_says_nothing_wrong(world: World, running: Workload, browser: Person) -> None:
    mine = browser(world.member)
    for numbers in ({"gpu_memory": "8", "gpu_compute": "30", "gpu_ceiling": "30"}, {"gpu_memory": "x"}, {}):
        answer = mine.get(_url(running, "resize/verdict/"), numbers)
        assert answer.status_code == 200
        assert "note-bad" not in answer.content.decode()


def test_the_click_changes_it_and_the_page_tells_what_is_still_in_force(
    world: World, running: Workload, browser: Person
) -> None:
    mine = browser(world.member)
    sent = {"gpu_memory": "2", "gpu_compute": "20", "gpu_ceiling": "60"}
    page = mine.post(_url(running, "resize/"), sent, follow=True).content.decode()
    running.refresh_from_db()
    assert (running.gpu_memory, running.gpu_compute, running.gpu_ceiling) == (2 * GIB, 200, 600)
    assert "The new share is on its way." in page
    assert "In force until then: 8 GiB, 30 %, at most 30 %." in page
    assert "over by 3 GiB until freed" in page


def test_a_refusal_comes_back_as_a_sentence(world: World, running: Workload, browser: Person) -> None:
    sent = {"gpu_memory": "60", "gpu_compute": "30", "gpu_ceiling": "30"}
    page = browser(world.member).post(_url(running, "resize/"), sent, follow=True).content.decode()
    assert "60 GiB" in page
    assert "40 GiB" in page
    running.refresh_from_db()
    assert running.gpu_memory == 8 * GIB


def test_where_the_guarantee_is_the_clusters_the_dialog_says_so(
    world: World, running: Workload, browser: Person
) -> None:
    Site.objects.update(resizing=Resizing.WITHIN)
    page = browser(world.member).get(_url(running)).content.decode()
    assert "30 % are guaranteed for as long as it runs" in page
    assert 'name="gpu_compute"' not in page


@pytest.mark.parametrize(
    ("site", "row"),
    [
        ({"resizing": Resizing.NONE}, {}),
        ({}, {"phase": Phase.QUEUED}),
        ({}, {"gpu_compute": 1000, "gpu_ceiling": 1000}),
        ({}, {"gpu_count": 0}),
        ({}, {"desired": Desired.STOPPED}),
    ],
    ids=["the cluster cannot", "it waits", "a whole GPU", "no GPU", "it is ending"],
)
def test_where_it_cannot_change_it_is_not_offered(
    world: World, running: Workload, browser: Person, site: dict[str, object], row: dict[str, object]
) -> None:
    Site.objects.update(**(site or {"resizing": Resizing.FULL}))
    Workload.objects.filter(id=running.id).update(phase=row.pop("phase", Phase.READY), **row)
    assert 'data-dialog="dialog-resize"' not in browser(world.member).get(_url(running)).content.decode()


@pytest.mark.parametrize(("who", "status"), [("colleague", 403), ("viewer", 403), ("stranger", 404), ("outsider", 404)])
def test_others_cannot(world: World, running: Workload, browser: Person, who: str, status: int) -> None:
    theirs = browser(getattr(world, who))
    assert theirs.post(_url(running, "resize/"), {"gpu_memory": "2"}).status_code in (status, 302)
    assert theirs.get(_url(running, "resize/verdict/"), {"gpu_memory": "2"}).status_code in (status, 200)
    running.refresh_from_db()
    assert running.gpu_memory == 8 * GIB


def test_what_holds_of_it_now_is_told_at_the_top_of_its_page(world: World, running: Workload, browser: Person) -> None:
    notices.tell(running, notices.RESIZE_REFUSED, {"problem": "somebody was faster"})
    assert "somebody was faster" in browser(world.member).get(_url(running)).content.decode()
    notices.end(running)
    assert "somebody was faster" not in browser(world.member).get(_url(running)).content.decode()
