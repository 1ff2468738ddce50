"""Another share for an experiment as a script asks for it."""

from datetime import timedelta
from typing import Any

import pytest

from apps.cluster.models import Gpu, Site
from apps.core import clock
from apps.core.share import GIB
from apps.quotas import ledger
from apps.workloads import notices
from apps.workloads.models import Phase, Workload
from tests.factories import World
from tests.unit.api.conftest import Call, Caller

pytestmark = pytest.mark.django_db


@pytest.fixture
def running(experiment: Workload) -> Workload:
    """With 8 GiB and 30 % of the only card that the mirror shows."""
    made = experiment
    now = clock.now()
    Site.objects.update_or_create(
        id=1, defaults={"driver": "x", "isolation": "y", "ram": 64 * GIB, "observed_at": now, "resizing": "full"}
    )
    Gpu.objects.all().delete()
    Gpu.objects.create(
        uuid="GPU-1", node="here", index=0, model="H100", memory=20 * GIB, physical_memory=20 * GIB,
        holders=[{"uid": made.uid, "memory": 8 * GIB, "compute": 300, "ceiling": 300}],
    )  # fmt: skip
    Workload.objects.filter(id=made.id).update(phase=Phase.READY, cards=["GPU-1"], observed_at=now)
    made.refresh_from_db()
    return made


def _path(workload: Workload, query: str = "") -> str:
    return f"experiments/{workload.id}/resize{query}"


def test_a_share_is_on_its_way_and_what_is_in_force_is_told(world: World, running: Workload, call: Call) -> None:
    answer = call(world.member).post(_path(running), {"memory_bytes": 12 * GIB, "ceiling_permille": 800})
    told = answer.json()
    assert answer.status_code == 202
    assert told["resources"]["gpu"] == {
        "count": 1, "memory_bytes": 12 * GIB, "compute_permille": 300, "ceiling_permille": 800,
    }  # fmt: skip
    assert told["resize_from"]["memory_bytes"] == 8 * GIB
    assert told["generation"] == running.generation + 1
    assert ledger.held().get().gpu_memory == 12 * GIB


def test_a_verdict_changes_nothing(world: World, running: Workload, call: Call) -> None:
    mine = call(world.member)
    smaller = mine.post(_path(running, "?dry_run=true"), {"memory_bytes": 2 * GIB}).json()
    larger = mine.post(_path(running, "?dry_run=true"), {"memory_bytes": 30 * GIB}).json()
    assert (smaller["allowed"], smaller["explanation"]["code"]) == (True, "resize_fits")
    assert (larger["allowed"], larger["explanation"]["code"]) == (False, "resize_card")
    assert (larger["evidence"]["room_bytes"], larger["nearest"]["memory_bytes"]) == (20 * GIB, 20 * GIB)
    assert mine.get(f"experiments/{running.id}").json()["resize_from"] is None


def test_what_is_used_above_the_new_limit_is_told(world: World, running: Workload, call: Call) -> None:
    from apps.telemetry.models import Sample, Step

    at = int((clock.now() - timedelta(seconds=1)).timestamp())
    Sample.objects.create(step=Step.SECOND, subject=f"run:{running.uid}:GPU-1", at=at, memory_used=5 * GIB)
    told = call(world.member).post(_path(running, "?dry_run=true"), {"memory_bytes": 2 * GIB}).json()
    assert (told["memory_used_bytes"], told["memory_over_bytes"]) == (5 * GIB, 3 * GIB)


def test_a_refusal_has_a_code_the_numbers_and_the_nearest(world: World, running: Workload, call: Call) -> None:
    answer = call(world.member).post(_path(running), {"memory_bytes": 30 * GIB})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "resize_card")
    assert problem["evidence"]["room_bytes"] == 20 * GIB
    assert problem["evidence"]["nearest"]["gpu"]["memory_bytes"] == 20 * GIB


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"memory_bytes": "8 GiB"}, "memory_bytes"),
        ({"compute_permille": 1001}, "compute_permille"),
        ({"ceiling_permille": 100}, "ceiling_permille"),
        ({"memory": 1}, "memory"),
    ],
)
def test_a_wrong_answer_is_named(world: World, running: Workload, call: Call, body: dict[str, Any], field: str) -> None:
    answer = call(world.member).post(_path(running), body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_the_same_key_is_the_same_request(world: World, running: Workload, call: Call) -> None:
    mine = call(world.member)
    first = mine.post(_path(running), {"memory_bytes": 4 * GIB}, Idempotency_Key="k").json()
    mine.post(_path(running), {"memory_bytes": 6 * GIB})
    assert mine.post(_path(running), {"memory_bytes": 4 * GIB}, Idempotency_Key="k").json() == first
    running.refresh_from_db()
    assert running.gpu_memory == 6 * GIB


@pytest.mark.parametrize(("who", "status"), [("colleague", 403), ("viewer", 403), ("stranger", 404), ("outsider", 404)])
def test_others_cannot(world: World, running: Workload, call: Call, who: str, status: int) -> None:
    for query in ("", "?dry_run=true"):
        answer = call(getattr(world, who)).post(_path(running, query), {"memory_bytes": 2 * GIB})
        assert answer.status_code == status


def test_a_token_that_only_reads_cannot(world: World, running: Workload, call: Call) -> None:
    assert call(world.member, "read").post(_path(running), {"memory_bytes": 2 * GIB}).status_code == 403


def test_without_a_token_nothing(running: Workload) -> None:
    assert Caller().post(_path(running), {}).status_code == 401


def test_notices_are_part_of_the_explanation(world: World, running: Workload, call: Call) -> None:
    notices.tell(running, notices.RESIZE_REFUSED, {"problem": "no room"})
    (told,) = call(world.member).get(f"experiments/{running.id}/explanation").json()["notices"]
    assert (told["explanation"]["code"], told["ended_at"]) == ("resize_refused", None)
    assert "no room" in told["explanation"]["text"]
