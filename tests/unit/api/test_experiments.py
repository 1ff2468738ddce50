"""The life of an experiment as a script sees it."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from apps.api.views.watching import COLUMNS
from apps.audit.models import Event
from apps.cluster.models import Site
from apps.core import clock
from apps.telemetry.models import Sample, Step
from apps.telemetry.services import FIGURES
from apps.workloads.models import Phase, Workload
from tests.factories import World, quota
from tests.fakes.cluster import FakeCluster
from tests.unit.api.conftest import Call


def _asked(world: World, **changes: Any) -> dict[str, Any]:
    return {"tenant": world.lab.slug, "name": "First steps", "environment": "notebook", "flavour": "medium"} | changes


OWN_SHARE = {
    "gpu": {"count": 1, "memory_bytes": 4 * 2**30, "compute_permille": 250, "ceiling_permille": 500},
    "cpu_milli": 500,
    "ram_bytes": 2**30,
}


def test_a_preset_is_asked_for_and_accepted(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    answer = mine.post("experiments", _asked(world, time_limit_seconds=3600))
    made = answer.json()
    assert answer.status_code == 202
    assert answer["Location"] == f"/api/v1/experiments/{made['id']}"
    assert made["phase"] == "admitted"
    assert made["resources"]["gpu"] == {
        "count": 1, "memory_bytes": 8 * 2**30, "compute_permille": 300, "ceiling_permille": 300,
    }  # fmt: skip
    assert mine.get(f"experiments/{made['id']}").json() == made
    event = Event.objects.get(verb="experiment.create")
    assert (event.actor_label, event.token_id != "", event.request_id) == (
        "member (test)", True, answer["X-Request-ID"],
    )  # fmt: skip


def test_a_share_of_ones_own_and_a_name_in_any_script(world: World, site: FakeCluster, call: Call) -> None:
    asked = _asked(world, name="微调 🚀", resources=OWN_SHARE)
    del asked["flavour"]
    made = call(world.member).post("experiments", asked).json()
    assert made["name"] == "微调 🚀"
    assert made["resources"] == OWN_SHARE


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"name": "nul\x00"}, "name"),
        ({"tenant": "nowhere"}, "tenant"),
        ({"tenant": None}, "tenant"),
        ({"environment": "none"}, "environment"),
        ({"flavour": "none"}, "flavour"),
        ({"resources": OWN_SHARE}, ""),
        ({"time_limit_seconds": 59}, "time_limit_seconds"),
        ({"time_limit_seconds": 3600.0}, "time_limit_seconds"),
    ],
)
def test_a_wrong_answer_is_named(
    world: World, site: FakeCluster, call: Call, changes: dict[str, Any], field: str
) -> None:
    answer = call(world.member).post("experiments", _asked(world, **changes))
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert Workload.objects.count() == 0


def test_a_department_runs_nothing(world: World, site: FakeCluster, call: Call) -> None:
    answer = call(world.head).post("experiments", _asked(world, tenant=world.department.slug))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "tenant"


def test_a_dry_run_gives_the_verdict_and_makes_nothing(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    answer = mine.post("experiments?dry_run=true", _asked(world))
    assert answer.status_code == 200
    assert answer.json()["kind"] == "starts"
    assert answer.json()["nearest"] is None
    after = {line["dimension"]: line["used"] for line in answer.json()["lines_after"]}
    assert after["gpu_memory_bytes"] == 8 * 2**30
    assert Workload.objects.count() == 0


def test_the_verdict_of_a_request_that_must_wait_names_what_would_start_now(
    world: World, site: FakeCluster, call: Call
) -> None:
    quota(world.lab, gpu_memory=6 * 2**30 + 8 * 2**30)
    mine = call(world.member)
    mine.post("experiments", _asked(world))
    body = mine.post("experiments?dry_run=true", _asked(world)).json()
    assert body["kind"] == "waits"
    assert body["explanation"]["code"] == "waiting_quota"
    assert body["nearest"]["gpu"]["memory_bytes"] == 6 * 2**30
    waits = mine.post("experiments", _asked(world))
    assert (waits.status_code, waits.json()["phase"]) == (202, "queued")
    why = mine.get(f"experiments/{waits.json()['id']}/explanation").json()
    assert why["queue_position"] == 1
    assert why["evidence"]["dimension"] == "gpu_memory_bytes"
    assert "Vision Lab" in why["explanation"]["text"]


def test_no_place_in_the_queue_is_a_conflict_with_the_numbers(world: World, site: FakeCluster, call: Call) -> None:
    quota(world.lab, gpu_memory=8 * 2**30, pending=0)
    mine = call(world.member)
    mine.post("experiments", _asked(world))
    answer = mine.post("experiments", _asked(world))
    assert (answer.status_code, answer.json()["code"]) == (409, "quota_exceeded")
    assert answer.json()["evidence"]["places"] == 0


def test_stop_and_start_and_delete(world: World, experiment: Workload, call: Call) -> None:
    mine, path = call(world.member), f"experiments/{experiment.id}"
    stopping = mine.post(f"{path}/stop")
    assert (stopping.status_code, stopping.json()["desired"], stopping.json()["phase"]) == (202, "stopped", "stopping")
    assert mine.post(f"{path}/stop").json() == stopping.json()
    refused = mine.post(f"{path}/start")
    assert (refused.status_code, refused.json()["code"]) == (409, "still_stopping")
    gone = mine.delete(f"{path}?remove_home=true")
    assert (gone.status_code, gone.json()["desired"]) == (202, "deleted")
    experiment.experiment.refresh_from_db()
    assert experiment.experiment.remove_home is True
    Workload.objects.update(deleted_at=clock.now())
    assert mine.get(path).status_code == 404


def test_a_manager_stops_with_a_reason_that_the_owner_reads(world: World, experiment: Workload, call: Call) -> None:
    call(world.manager).post(f"experiments/{experiment.id}/stop", {"reason": "Maintenance at noon"})
    shown = call(world.member).get(f"experiments/{experiment.id}").json()["explanation"]
    assert shown["code"] == "stopped_by_manager"
    assert "Maintenance at noon" in shown["text"]


def test_the_home_is_kept_unless_it_is_said_otherwise(world: World, experiment: Workload, call: Call) -> None:
    call(world.member).delete(f"experiments/{experiment.id}")
    experiment.experiment.refresh_from_db()
    assert experiment.experiment.remove_home is False


def test_a_name_is_changed_on_the_generation_that_was_read(world: World, experiment: Workload, call: Call) -> None:
    mine, path = call(world.member), f"experiments/{experiment.id}"
    tag = mine.get(path)["ETag"]
    answer = mine.patch(path, {"name": "Second"}, If_Match=tag)
    assert (answer.status_code, answer.json()["name"]) == (200, "Second")
    stale = mine.patch(path, {"name": "Third"}, If_Match=tag)
    assert stale.status_code == 412
    assert mine.patch(path, {"name": "Third"}).status_code == 200


def test_extending_without_a_limit_is_a_conflict(world: World, site: FakeCluster, call: Call) -> None:
    mine = call(world.member)
    made = mine.post("experiments", _asked(world)).json()
    answer = mine.post(f"experiments/{made['id']}/extend", {"seconds": 60})
    assert (answer.status_code, answer.json()["code"]) == (409, "no_time_limit")


def test_lists_are_filtered(world: World, site: FakeCluster, call: Call) -> None:
    mine, other = call(world.member), call(world.colleague)
    mine.post("experiments", _asked(world, name="Alpha one"))
    other.post("experiments", _asked(world, name="Beta two"))

    def names(query: str) -> list[str]:
        return [item["name"] for item in mine.get(f"experiments?{query}").json()["items"]]

    assert names("") == ["Beta two", "Alpha one"]
    assert names("owner=me") == ["Alpha one"]
    assert names("owner=colleague") == ["Beta two"]
    assert names("q=ALPHA") == ["Alpha one"]
    assert names("phase=ready") == []
    assert names("phase=ready&phase=admitted") == ["Beta two", "Alpha one"]
    assert names(f"tenant={world.lab.slug}") == ["Beta two", "Alpha one"]
    assert names("tenant=elsewhere") == []
    assert names("created_before=2000-01-01T00:00:00Z") == []
    assert names("created_after=2000-01-01T00:00:00Z") == ["Beta two", "Alpha one"]
    assert mine.get("experiments?phase=sleeping").status_code == 422
    assert mine.get("experiments?created_after=yesterday").status_code == 422


def test_a_page_of_experiments_takes_a_fixed_number_of_queries(
    world: World, site: FakeCluster, call: Call, django_assert_max_num_queries: Any
) -> None:
    mine = call(world.member)
    Workload.objects.bulk_create(
        Workload(
            kind="experiment", name=f"n{n}", slug=f"n{n}", owner=world.member.user, tenant=world.lab,
            environment=world.environment, phase=Phase.QUEUED,
        )
        for n in range(60)
    )  # fmt: skip
    with django_assert_max_num_queries(6):
        assert len(mine.get("experiments?limit=50").json()["items"]) == 50


def test_what_was_not_heard_of_for_a_while_is_unknown_not_gone(world: World, experiment: Workload, call: Call) -> None:
    old = clock.now() - timedelta(minutes=10)
    Workload.objects.update(phase=Phase.READY, observed_at=old, phase_since=old)
    Site.objects.update(observed_at=old)
    body = call(world.member).get(f"experiments/{experiment.id}").json()
    assert (body["phase"], body["is_unknown"], body["explanation"]["code"]) == ("ready", True, "cluster_unknown")


def test_steps_are_listed_by_run(world: World, experiment: Workload, call: Call) -> None:
    mine = call(world.member)
    steps = mine.get(f"experiments/{experiment.id}/steps").json()["items"]
    assert [step["phase"] for step in steps][-1] == "admitted"
    assert all(step["began_at"].endswith("Z") and step["explanation"]["title"] for step in steps)
    assert mine.get(f"experiments/{experiment.id}/steps?run=2").json()["items"] == []


def test_metrics_are_columns_of_the_share_and_of_its_gpu(world: World, experiment: Workload, call: Call) -> None:
    Workload.objects.update(cards=["GPU-h100"])
    now = int(clock.now().timestamp())
    for at, used in ((now - 2, 290), (now - 1, None)):
        Sample.objects.create(
            step=Step.SECOND, subject=f"run:{experiment.id}:GPU-h100", at=at, compute_used=used, memory_used=2**30
        )
    body = call(world.member).get(f"experiments/{experiment.id}/metrics?seconds=60").json()
    share, gpu = body["series"]
    assert (share["of"], gpu["of"], body["step_seconds"]) == ("share", "gpu", 1)
    assert share["at_unix_seconds"] == [now - 2, now - 1]
    assert share["compute_used_permille"] == [290, None]
    assert share["memory_used_bytes"] == [2**30, 2**30]
    assert gpu["at_unix_seconds"] == []
    newer = call(world.member).get(f"experiments/{experiment.id}/metrics?since={now - 2}").json()
    assert newer["series"][0]["at_unix_seconds"] == [now - 1]


def test_every_figure_of_telemetry_has_a_name_with_its_unit() -> None:
    assert set(COLUMNS) == set(FIGURES)


def test_logs_are_read_by_offset(world: World, experiment: Workload, call: Call) -> None:
    mine, path = call(world.member), f"experiments/{experiment.id}/logs"
    whole = mine.get(path).json()
    assert whole["text"] == f"[I] JupyterLab of {experiment.id} is running\n"
    part = mine.get(f"{path}?offset=4&limit=10").json()
    assert (part["text"], part["offset"], part["next"]) == (whole["text"][4:14], 4, 14)
    assert mine.get(f"{path}?offset=-8").json()["text"] == "running\n"
    assert mine.get(f"{path}?limit=0").status_code == 422


def test_a_cluster_that_does_not_answer_is_a_503(
    world: World, site: FakeCluster, experiment: Workload, call: Call
) -> None:
    site.silent = True
    answer = call(world.member).get(f"experiments/{experiment.id}/logs")
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("/unavailable")
    assert answer["Retry-After"] == "2"


def test_nothing_is_told_about_an_experiment_that_does_not_exist(
    world: World, experiment: Workload, call: Call
) -> None:
    mine, theirs = call(world.member), call(world.stranger)
    missing = mine.get(f"experiments/{uuid4()}").json()
    hidden = theirs.get(f"experiments/{experiment.id}").json()
    for body in (missing, hidden):
        del body["request_id"], body["instance"]
    assert missing == hidden
