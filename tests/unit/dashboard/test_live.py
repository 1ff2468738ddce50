"""Topics and the poll: what is read, for whom, and how far."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.audit.context import Actor
from apps.cluster.specs import Sample as Seen
from apps.core import clock
from apps.core.errors import NotFound
from apps.dashboard.live.frames import Cursor
from apps.dashboard.live.reading import read_all
from apps.dashboard.live.topics import parse
from apps.telemetry.services import ingest
from apps.workloads import services
from apps.workloads.models import Phase
from tests.conftest import Clock
from tests.factories import World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db


def _read(actor: Actor, name: str, cursor: Cursor | None = None) -> tuple[Any, Cursor]:
    return parse(name, actor).read(actor, cursor or Cursor())


@pytest.mark.parametrize("name", ["", "nothing:", "workload:", "workload:42", "list:theirs?", "cluster:x", "workload"])
def test_a_topic_that_there_is_not_is_refused(world: World, name: str) -> None:
    with pytest.raises(NotFound):
        parse(name, world.member)


@pytest.mark.parametrize("kind", ["workload", "series", "logs"])
def test_nobody_reads_what_is_not_theirs_to_see(world: World, make: Make, kind: str) -> None:
    name = f"{kind}:{make().id}"
    for actor in (world.outsider, world.stranger):
        with pytest.raises(NotFound):
            _read(actor, name)
    assert _read(world.colleague, name)[0] is not None


def test_the_topic_of_a_tenant_is_nothing_to_outsiders(world: World) -> None:
    with pytest.raises(NotFound):
        _read(world.outsider, f"tenant:{world.lab.id}")


def test_a_right_that_was_withdrawn_ends_with_the_next_read(world: World, make: Make) -> None:
    topic = parse(f"workload:{make().id}", world.colleague)
    _frame, cursor = topic.read(world.colleague, Cursor())
    world.lab.memberships.filter(user=world.colleague.user).delete()
    read = read_all(world.colleague, {topic.name: (topic, cursor)})
    assert read.gone == [topic.name]
    assert read.frames == []


def test_the_page_as_rendered_needs_no_frame(world: World, browser: Person, make: Make) -> None:
    row = make()
    page = browser(world.member).get(f"/experiments/{row.id}/")
    tags = {name: part.tag for name, part in page.context["parts"].items()}
    assert _read(world.member, f"workload:{row.id}", Cursor(0, tags))[0] is None


def test_a_change_sends_only_the_parts_that_differ(world: World, make: Make) -> None:
    row = make()
    _frame, cursor = _read(world.member, f"workload:{row.id}")
    services.stop(actor=world.member, workload=row)
    frame, after = _read(world.member, f"workload:{row.id}", cursor)
    assert frame.before == cursor.seq
    assert {"head", "actions", "why", "steps"} <= set(frame.patch["parts"])
    assert "share" not in frame.patch["parts"]
    assert "stopping" in frame.patch["parts"]["head"]["html"]
    assert _read(world.member, f"workload:{row.id}", after)[0] is None


def test_a_list_topic_follows_the_filters_of_its_page(world: World, make: Make) -> None:
    make("Alpha")
    make("Beta", Phase.FAILED)
    frame, _cursor = _read(world.member, "list:mine?state=failed")
    html = frame.snapshot["parts"]["rows"]["html"]
    assert "Beta" in html
    assert "Alpha" not in html


def test_the_list_of_all_shows_only_what_the_actor_may_see(world: World, make: Make) -> None:
    make("Vision run")
    frame, _cursor = _read(world.outsider, "list:all?")
    assert "Vision run" not in frame.snapshot["parts"]["rows"]["html"]


def _second(uid: str, used: int | None) -> list[Seen]:
    now = clock.now()
    return [
        Seen(f"run:{uid}:GPU-h100", now, compute_used=used, compute_limit=300, memory_used=5, throttled_ms=7),
        Seen("card:GPU-h100", now, compute_used=900, memory_used=50),
    ]


def test_a_chart_gets_a_snapshot_and_then_only_newer_seconds(world: World, make: Make, stopped_clock: Clock) -> None:
    row = make(cards=["GPU-h100"])
    ingest(_second(str(row.id), 290))
    first, cursor = _read(world.member, f"series:{row.id}")
    second = int(stopped_clock.now.timestamp())
    assert first.snapshot["columns"]["at"] == [second]
    assert first.snapshot["columns"]["0.used"] == [290]
    assert first.snapshot["columns"]["0.card"] == [900]
    assert _read(world.member, f"series:{row.id}", cursor)[0] is None
    stopped_clock.tick(seconds=1)
    ingest(_second(str(row.id), None))
    patch, cursor = _read(world.member, f"series:{row.id}", cursor)
    assert (patch.before, patch.seq) == (second, second + 1)
    assert patch.patch["columns"]["at"] == [second + 1]
    assert patch.patch["columns"]["0.used"] == [None]


def test_output_is_sent_from_where_the_reader_stands(world: World, make: Make) -> None:
    row = make()
    frame, cursor = _read(world.member, f"logs:{row.id}")
    whole = frame.snapshot["text"]
    assert "JupyterLab" in whole
    assert _read(world.member, f"logs:{row.id}", cursor)[0] is None
    patch, _cursor = _read(world.member, f"logs:{row.id}", Cursor(5))
    assert (patch.before, patch.patch["text"]) == (5, whole[5:])


def test_one_topic_that_breaks_does_not_take_the_others_along(
    world: World, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = parse(f"workload:{make().id}", world.member), parse("cluster:", world.member)

    def broken(actor: Actor, cursor: Cursor) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(bad, "read", broken)
    read = read_all(world.member, {bad.name: (bad, Cursor()), good.name: (good, Cursor())})
    assert [frame.topic for frame in read.frames] == [good.name]


def test_the_poll_gives_what_the_socket_would(world: World, browser: Person, make: Make) -> None:
    row = make()
    client = browser(world.member)
    wanted = {f"workload:{row.id}": None, f"workload:{uuid4()}": None, "nonsense": None}
    answer = client.get("/live/snapshot", {"topics": json.dumps(wanted)}).json()
    assert [frame["topic"] for frame in answer["frames"]] == [f"workload:{row.id}"]
    assert len(answer["gone"]) == 2
    seq = answer["frames"][0]["seq"]
    tags = {name: part["tag"] for name, part in answer["frames"][0]["snapshot"]["parts"].items()}
    again = client.get(
        "/live/snapshot", {"topics": json.dumps({f"workload:{row.id}": {"seq": seq, "tags": tags}})}
    ).json()
    assert again["frames"] == []


def test_the_poll_tells_a_signed_out_page_so(world: World) -> None:
    assert Client(HTTP_HOST="localhost").get("/live/snapshot").status_code == 401


@pytest.mark.parametrize("topics", ["{", "[]", "5", json.dumps({f"t{n}": None for n in range(40)})])
def test_the_poll_refuses_nonsense(world: World, browser: Person, topics: str) -> None:
    assert browser(world.member).get("/live/snapshot", {"topics": topics}).status_code == 400
