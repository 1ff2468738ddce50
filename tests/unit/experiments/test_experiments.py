"""The verdict before the click, and what an experiment is to the cluster."""

from dataclasses import replace
from typing import Any

import pytest

from apps.cluster import services as cluster
from apps.cluster.specs import Card, Holder, Inventory, Port, Probe, RunSpec, Volume
from apps.core.errors import NeverFits, NotFound, NotPermitted, QuotaExceeded
from apps.core.share import GIB, GpuShare, Resources
from apps.experiments.kind import KIND
from apps.experiments.services import delete_experiment, preview, request_experiment
from apps.experiments.verdict import Verdict
from apps.workloads.models import Phase, Workload
from tests.conftest import Clock
from tests.factories import NO_GPU, SLICE, World, flavour, quota
from tests.fakes.cluster import H100

pytestmark = pytest.mark.django_db


def look(clock: Clock, *cards: Card, ram: int = 64 * GIB) -> None:
    """The controller has looked at the machines."""
    cluster.mirror_inventory(Inventory("fake", clock.now, cards, 8000, ram, "single_account"))


def ask(world: World, resources: Resources = SLICE, **fields: Any) -> Workload:
    wanted = {
        "actor": world.member,
        "tenant": world.lab,
        "name": "测试",
        "environment": world.environment,
        "resources": resources,
    }
    return request_experiment(**{**wanted, **fields})


def verdict(world: World, resources: Resources = SLICE, who: str = "member") -> Verdict:
    return preview(actor=getattr(world, who), tenant=world.lab, resources=resources)


def test_with_quota_and_a_card_it_starts_now_and_the_quota_is_shown_with_it(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, H100)
    ask(world)
    seen = verdict(world)
    assert (seen.kind, seen.nearest) == ("starts", None)
    memory = next(line for line in seen.lines_after if line.dimension == "gpu_memory")
    assert (memory.used, memory.limit) == (16 * GIB, 40 * GIB)
    person = next(line for line in seen.lines_after if line.dimension == "running_per_user")
    assert (person.used, person.limit) == (2, 2)


def test_a_verdict_changes_nothing(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, H100)
    verdict(world)
    assert not Workload.objects.exists()


def test_with_the_quota_in_use_it_waits_and_the_nearest_choice_starts_now(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, H100)
    quota(world.lab, gpu_memory=14 * GIB)
    flavour("tiny", Resources(GpuShare(1, 2 * GIB, 100, 100), 1000, 2 * GIB))
    small = flavour("small", Resources(GpuShare(1, 6 * GIB, 100, 100), 1000, 2 * GIB))
    flavour("medium", SLICE)
    ask(world)
    seen = verdict(world)
    assert (seen.kind, seen.reason, seen.evidence["free"]) == ("waits", "waiting_quota", 6 * GIB)
    assert seen.nearest == replace(SLICE, gpu=GpuShare(1, 6 * GIB, 300, 300))
    assert seen.nearest_flavour == small
    assert verdict(world, small.resources).kind == "starts"


def test_what_exceeds_the_quota_is_refused_and_its_nearest_is_not(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, H100)
    seen = verdict(world, replace(SLICE, gpu=GpuShare(1, 60 * GIB, 300, 300)))
    assert (seen.kind, seen.reason) == ("refused", "never_fits_quota")
    assert seen.nearest is not None
    assert verdict(world, seen.nearest).kind == "starts"


def test_what_exceeds_every_card_is_refused_and_its_nearest_is_not(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, replace(H100, memory=16 * GIB))
    seen = verdict(world, replace(SLICE, gpu=GpuShare(1, 20 * GIB, 300, 300)))
    assert (seen.kind, seen.reason, seen.evidence["largest_bytes"]) == ("refused", "never_fits_card", 16 * GIB)
    assert seen.nearest is not None
    assert verdict(world, seen.nearest).kind == "starts"


def test_with_all_cards_taken_it_waits_and_says_who_holds_them(world: World, stopped_clock: Clock) -> None:
    holder = Holder("w-1", 70 * GIB, 800, 800)
    look(stopped_clock, replace(H100, holders=(holder,)))
    seen = verdict(world)
    assert (seen.kind, seen.reason) == ("waits", "waiting_card")
    assert seen.evidence["cards"][0]["holders"][0]["uid"] == "w-1"
    assert (seen.evidence["room_bytes"], seen.evidence["room_permille"]) == (8 * GIB, 200)
    assert seen.nearest is not None
    assert verdict(world, seen.nearest).kind == "starts"


def test_where_somebody_waits_ahead_nothing_starts_however_small(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock, H100)
    quota(world.lab, gpu_compute=500)
    ask(world)
    ask(world, actor=world.colleague)
    seen = verdict(world, NO_GPU)
    assert (seen.kind, seen.reason, seen.nearest) == ("waits", "waiting_turn", None)


def test_without_any_card_only_what_needs_none_starts(world: World, stopped_clock: Clock) -> None:
    look(stopped_clock)
    assert (verdict(world).kind, verdict(world).reason) == ("refused", "no_cards")
    assert verdict(world, NO_GPU).kind == "starts"


def test_ram_beyond_the_machine_is_refused_and_ram_that_is_promised_is_waited_for(
    world: World, stopped_clock: Clock
) -> None:
    look(stopped_clock, H100, ram=4 * GIB)
    refused = verdict(world, replace(NO_GPU, ram=5 * GIB))
    assert (refused.kind, refused.reason) == ("refused", "never_fits_machine")
    ask(world, replace(NO_GPU, ram=3 * GIB))
    waits = verdict(world, NO_GPU)
    assert (waits.kind, waits.reason, waits.evidence["room_bytes"]) == ("waits", "waiting_machine", GIB)


def test_before_anybody_has_looked_nothing_is_promised_and_nothing_refused(world: World) -> None:
    seen = verdict(world)
    assert (seen.kind, seen.reason) == ("waits", "cluster_unknown")
    assert ask(world).phase == Phase.ADMITTED


@pytest.mark.parametrize(("who", "error"), [("viewer", NotPermitted), ("stranger", NotFound), ("outsider", NotFound)])
def test_a_verdict_is_for_those_who_may_ask(world: World, who: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        verdict(world, who=who)


def test_the_verdict_is_what_the_click_then_gives(world: World, stopped_clock: Clock) -> None:
    """For every flavour, with a quota that is filling up."""
    look(stopped_clock, H100)
    quota(world.lab, gpu_memory=30 * GIB, running_per_user=None, pending=1)
    for memory in (8, 20, 8, 40, 2, 2):
        wanted = Resources(GpuShare(1, memory * GIB, 100, 100), 1000, 2 * GIB)
        seen = verdict(world, wanted)
        try:
            got = {Phase.ADMITTED: "starts", Phase.QUEUED: "waits"}[Phase(ask(world, wanted).phase)]
        except (NeverFits, QuotaExceeded):
            got = "refused"
        assert got == seen.kind, f"{memory} GiB: {seen.reason}"


def test_its_run_is_all_that_the_cluster_needs_to_know(world: World) -> None:
    asked = ask(world)
    lab, owner = world.lab, world.member.user_id
    assert KIND.build_spec(asked) == RunSpec(
        uid=str(asked.id), run=1, kind="experiment", name="测试", slug=asked.slug, tenant=str(lab.id), owner=str(owner),
        account=f"{lab.id}/{owner}", environment="notebook", command=("tessera-notebook",), resources=SLICE,
        env={"TESSERA_WORKLOAD": str(asked.id), "TESSERA_NAME": "测试"}, ports=(Port("http"),),
        volumes=(Volume(name=f"home-{asked.id}", path="~"),), probe=Probe(port="http", path="/api/status"), grace_seconds=10,
        labels={
            "name": "测试", "owner": "member", "tenant": lab.slug, "tenant_name": lab.name, "environment": "notebook",
            "time_limit_seconds": "",
        },
    )  # fmt: skip


def test_a_home_is_removed_only_where_that_was_said(world: World) -> None:
    kept, removed = ask(world), ask(world)
    delete_experiment(actor=world.member, workload=kept, remove_home=False)
    delete_experiment(actor=world.member, workload=removed, remove_home=True)
    homes = [list(KIND.volumes_to_remove(Workload.objects.get(id=w.id))) for w in (kept, removed)]
    assert homes == [[], [f"home-{removed.id}"]]


def test_a_verdict_costs_few_queries(world: World, stopped_clock: Clock, django_assert_max_num_queries: Any) -> None:
    look(stopped_clock, *(replace(H100, uuid=f"GPU-{n}", index=n) for n in range(8)))
    with django_assert_max_num_queries(20):
        verdict(world)
