"""What people want, and who may want it."""

from datetime import timedelta
from typing import Any

import pytest

from apps.audit.context import Actor
from apps.audit.models import Event as Audited
from apps.cluster.models import Gpu, Site
from apps.core.errors import Conflict, InvalidInput, NeverFits, NotFound, NotPermitted, QuotaExceeded
from apps.core.share import GIB
from apps.experiments.services import delete_experiment
from apps.quotas import ledger
from apps.workloads import selectors, services
from apps.workloads.models import Desired, Phase, Workload
from tests.conftest import Clock
from tests.factories import World, member, quota, tenant
from tests.unit.workloads.asking import ask, ended

pytestmark = pytest.mark.django_db
OUTSIDERS = ("stranger", "outsider")


# --- Asking ----------------------------------------------------------------------------------------------------------------
def test_with_room_a_request_is_admitted_and_holds_what_it_asked_for(world: World) -> None:
    asked = ask(world)
    claim = ledger.held().get()
    assert (asked.phase, asked.generation, asked.run) == (Phase.ADMITTED, 1, 1)
    assert (claim.workload_id, claim.gpu_memory, claim.gpu_compute, claim.cpu_milli, claim.ram) == (
        asked.id,
        8 * GIB,
        300,
        1000,
        2 * GIB,
    )
    assert [step.phase for step in selectors.steps(asked)] == [Phase.QUEUED, Phase.ADMITTED]
    assert Audited.objects.get().verb == "experiment.create"


@pytest.mark.parametrize("who", ["viewer", "auditor"])
def test_who_only_looks_runs_nothing(world: World, who: str) -> None:
    with pytest.raises(NotPermitted):
        ask(world, who)


@pytest.mark.parametrize("who", OUTSIDERS)
def test_outsiders_learn_nothing_not_even_how_large_the_cards_are(world: World, who: str, stopped_clock: Clock) -> None:
    Site.objects.create(driver="x", isolation="y", ram=GIB, observed_at=stopped_clock.now)
    with pytest.raises(NotFound):
        ask(world, who)
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "  "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"time_limit_seconds": 5}, "time_limit_seconds"),
    ],
)
def test_bad_answers_are_told_by_field(world: World, fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(world, **fields)
    assert set(refused.value.fields) == {wrong}


def test_departments_run_nothing_themselves(world: World) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(world, "head", tenant=world.department)
    assert set(refused.value.fields) == {"tenant"}


def test_more_than_the_quota_could_ever_give_is_refused_with_numbers_and_the_nearest(world: World) -> None:
    quota(world.lab, gpu_memory=6 * GIB)
    with pytest.raises(NeverFits) as refused:
        ask(world)
    evidence = refused.value.evidence
    assert (evidence["reason"], evidence["asked"], evidence["limit"]) == ("never_fits_quota", 8 * GIB, 6 * GIB)
    assert evidence["nearest"]["gpu"]["memory"] == 6 * GIB
    assert "6 GiB" in str(refused.value.message)
    assert not Workload.objects.exists()


def test_more_than_any_card_has_is_refused_with_the_largest_card(world: World, stopped_clock: Clock) -> None:
    now = stopped_clock.now
    Site.objects.create(driver="x", isolation="y", ram=64 * GIB, cpu_milli=4000, observed_at=now)
    Gpu.objects.create(uuid="g", node="n", index=0, model="T4", memory=4 * GIB, physical_memory=4 * GIB)
    with pytest.raises(NeverFits) as refused:
        ask(world)
    evidence = refused.value.evidence
    assert (evidence["reason"], evidence["largest_bytes"], evidence["asked_bytes"]) == (
        "never_fits_card",
        4 * GIB,
        8 * GIB,
    )
    assert evidence["nearest"]["gpu"]["memory"] == 4 * GIB


def test_a_tenant_without_a_quota_says_so(world: World) -> None:
    bare = tenant(parent=world.department)
    assert world.member.user is not None
    member(bare, world.member.user)
    with pytest.raises(NeverFits) as refused:
        ask(world, tenant=bare)
    assert refused.value.evidence["reason"] == "no_quota"


def test_a_full_queue_refuses_and_leaves_nothing_behind(world: World) -> None:
    quota(world.lab, running=1, pending=0)
    ask(world)
    with pytest.raises(QuotaExceeded) as refused:
        ask(world)
    assert refused.value.evidence["reason"] == "queue_full"
    assert Workload.objects.count() == 1


def test_the_same_key_is_the_same_request(world: World) -> None:
    first, again = ask(world, key="k"), ask(world, key="k")
    assert first == again
    assert ask(world, "colleague", key="k") != first
    assert ask(world, key="other") != first


@pytest.mark.parametrize(
    "name", ["训练 🚀", "مرحبا", "a" * 200, "<script>alert(1)</script>", "'; DROP TABLE x; --", "é" * 200, "%(x)s {x}"]
)
def test_any_name_that_can_be_shown_is_a_name(world: World, name: str) -> None:
    asked = ask(world, name=name)
    asked.refresh_from_db()
    assert asked.name == name
    assert selectors.explanation(asked).text


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "a\u2028b", "\x7f", "tab\there"])
def test_what_no_page_could_show_is_no_name(world: World, name: str) -> None:
    with pytest.raises(InvalidInput):
        ask(world, name=name)


# --- Stopping and starting ---------------------------------------------------------------------------------------------------
def test_stopping_asks_for_the_end_and_keeps_the_claim_until_it_is_seen(world: World) -> None:
    asked = ask(world)
    stopped = services.stop(actor=world.member, workload=asked)
    assert (stopped.phase, stopped.desired, stopped.reason) == (Phase.STOPPING, Desired.STOPPED, "stopped_by_user")
    assert stopped.generation == 2
    assert ledger.held().count() == 1
    again = services.stop(actor=world.member, workload=asked)
    assert (again.generation, again.version) == (stopped.generation, stopped.version)


def test_what_waits_for_quota_stops_at_once(world: World) -> None:
    quota(world.lab, running=1)
    ask(world)
    waits = ask(world)
    assert services.stop(actor=world.member, workload=waits).phase == Phase.STOPPED


def test_a_managers_stop_tells_the_owner_who_and_why(world: World) -> None:
    asked = ask(world)
    stopped = services.stop(actor=world.manager, workload=asked, reason="maintenance at noon")
    told = selectors.explanation(stopped)
    assert stopped.reason == "stopped_by_manager"
    assert "manager" in told.title
    assert "maintenance at noon" in told.text
    assert Audited.objects.filter(verb="experiment.stop", reason="maintenance at noon").exists()


@pytest.mark.parametrize("act", ["stop", "start", "delete", "rename", "extend"])
@pytest.mark.parametrize(
    ("who", "error"),
    [("colleague", NotPermitted), ("viewer", NotPermitted), ("stranger", NotFound), ("outsider", NotFound)],
)
def test_nobody_else_changes_what_is_mine(world: World, act: str, who: str, error: type[Exception]) -> None:
    asked = ask(world, time_limit_seconds=3600)
    acts: dict[str, dict[str, Any]] = {"rename": {"name": "x"}, "extend": {"seconds": 60}}
    more = acts.get(act, {})
    with pytest.raises(error):
        getattr(services, act)(actor=getattr(world, who), workload=asked, **more)
    fresh = Workload.objects.get(id=asked.id)
    assert (fresh.generation, fresh.name, fresh.desired) == (1, "测试", Desired.RUNNING)


@pytest.mark.parametrize("who", ["member", "manager", "head", "operator"])
def test_owners_managers_and_operators_stop_it(world: World, who: str) -> None:
    assert services.stop(actor=getattr(world, who), workload=ask(world)).desired == Desired.STOPPED


def test_a_new_run_passes_the_quota_anew(world: World) -> None:
    asked = ask(world)
    services.stop(actor=world.member, workload=asked)
    with pytest.raises(Conflict) as refused:
        services.start(actor=world.member, workload=asked)
    assert refused.value.code == "still_stopping"
    ended(asked)
    started = services.start(actor=world.member, workload=asked)
    assert (started.run, started.phase, started.desired) == (2, Phase.ADMITTED, Desired.RUNNING)
    assert ledger.held().get().run == 2
    again = services.start(actor=world.member, workload=asked)
    assert (again.run, again.generation) == (2, started.generation)


def test_a_start_that_is_refused_changes_nothing(world: World) -> None:
    asked = ask(world)
    services.stop(actor=world.member, workload=asked)
    before = ended(asked)
    quota(world.lab, gpu_memory=GIB)
    with pytest.raises(NeverFits):
        services.start(actor=world.member, workload=asked)
    after = Workload.objects.get(id=asked.id)
    assert (after.run, after.phase, after.generation) == (before.run, before.phase, before.generation)


def test_who_is_no_longer_a_member_starts_nothing_but_may_stop(world: World) -> None:
    from apps.tenants.services import remove_member

    asked = ask(world)
    remove_member(actor=world.manager, tenant=world.lab, user=world.member.user)
    services.stop(actor=world.member, workload=asked)
    ended(asked)
    with pytest.raises(NotPermitted):
        services.start(actor=world.member, workload=asked)


# --- Time limit, name, deletion ------------------------------------------------------------------------------------------------
def test_more_time_can_be_had_before_and_while_it_counts(world: World, stopped_clock: Clock) -> None:
    asked = ask(world, time_limit_seconds=3600)
    assert services.extend(actor=world.member, workload=asked, seconds=600).time_limit_seconds == 4200
    row = Workload.objects.get(id=asked.id)
    row.start_clock(stopped_clock.now)
    row.save()
    longer = services.extend(actor=world.member, workload=asked, seconds=600)
    assert longer.expires_at == stopped_clock.now + timedelta(seconds=4800)
    assert longer.warn_at == longer.next_due_at == longer.expires_at - timedelta(seconds=480)


@pytest.mark.parametrize("seconds", [0, -60, 31 * 24 * 3600])
def test_senseless_extensions_are_refused(world: World, seconds: int) -> None:
    with pytest.raises(InvalidInput):
        services.extend(actor=world.member, workload=ask(world, time_limit_seconds=3600), seconds=seconds)


def test_what_has_no_limit_or_does_not_run_is_not_extended(world: World) -> None:
    with pytest.raises(Conflict):
        services.extend(actor=world.member, workload=ask(world), seconds=60)
    limited = ask(world, time_limit_seconds=3600)
    services.stop(actor=world.member, workload=limited)
    with pytest.raises(Conflict):
        services.extend(actor=world.member, workload=limited, seconds=60)


def test_a_new_name_keeps_the_address(world: World) -> None:
    asked = ask(world)
    renamed = services.rename(actor=world.member, workload=asked, name="新名字")
    assert (renamed.name, renamed.slug) == ("新名字", asked.slug)


def test_what_is_deleted_can_be_neither_started_nor_deleted_twice(world: World) -> None:
    asked = ask(world)
    deleted = delete_experiment(actor=world.member, workload=asked, remove_home=True)
    assert (deleted.desired, deleted.phase, deleted.reason) == (Desired.DELETED, Phase.STOPPING, "deleted")
    asked.experiment.refresh_from_db()
    assert asked.experiment.remove_home
    assert services.delete(actor=world.member, workload=asked).generation == deleted.generation
    ended(asked)
    with pytest.raises(NotFound):
        services.start(actor=world.member, workload=asked)


# --- Reading -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("who", "sees"),
    [
        ("member", 2),
        ("colleague", 2),
        ("viewer", 2),
        ("manager", 2),
        ("head", 3),
        ("operator", 3),
        ("auditor", 3),
        ("stranger", 1),
        ("outsider", 0),
    ],
)
def test_everybody_sees_what_is_theirs_to_see(world: World, who: str, sees: int) -> None:
    mine, _theirs, _other = ask(world), ask(world, "colleague"), ask(world, "stranger", tenant=world.other_lab)
    actor: Actor = getattr(world, who)
    assert selectors.visible_to(actor).count() == sees
    if who in OUTSIDERS:
        with pytest.raises(NotFound):
            selectors.get(actor, mine.id)
    else:
        assert selectors.get(actor, mine.id) == mine


@pytest.mark.parametrize(
    ("who", "enters"),
    [
        ("member", True),
        ("operator", True),
        ("colleague", False),
        ("manager", False),
        ("viewer", False),
        ("auditor", False),
        ("stranger", False),
        ("outsider", False),
    ],
)
def test_only_the_owner_and_operators_enter_a_session(world: World, who: str, enters: bool) -> None:
    asked = ask(world)
    person: Any = getattr(world, who).user
    assert (selectors.reachable(person, asked.slug) == asked) is enters


def test_who_left_the_tenant_or_was_locked_out_enters_no_more(world: World) -> None:
    from apps.tenants.services import remove_member

    asked = ask(world)
    person: Any = world.member.user
    assert selectors.reachable(person, "no-such-slug") is None
    person.is_active = False
    assert selectors.reachable(person, asked.slug) is None
    person.is_active = True
    remove_member(actor=world.manager, tenant=world.lab, user=person)
    assert selectors.reachable(person, asked.slug) is None


def test_what_was_not_seen_for_long_is_unknown_not_dead(world: World, stopped_clock: Clock) -> None:
    asked = ask(world)
    row = Workload.objects.get(id=asked.id)
    row.phase, row.reason, row.observed_at = Phase.READY, "ready", stopped_clock.now
    assert selectors.explanation(row).code == "ready"
    stopped_clock.tick(seconds=46)
    assert selectors.explanation(row).code == "cluster_unknown"
    row.phase = Phase.STOPPED
    assert selectors.explanation(row).code != "cluster_unknown"


def test_a_list_costs_the_same_for_few_and_for_many(world: World, django_assert_max_num_queries: Any) -> None:
    quota(world.lab, running_per_user=None, gpu_compute=None, gpu_memory=None)
    for _ in range(15):
        ask(world)
    with django_assert_max_num_queries(3):
        for workload in selectors.visible_to(world.viewer):
            assert all((workload.owner.username, workload.tenant.name, workload.environment.name))


def test_a_user_of_another_tenant_counts_for_nothing_here(world: World) -> None:
    quota(world.lab, running_per_user=1)
    member(world.other_lab, world.member.user)  # type: ignore[arg-type]
    ask(world)
    assert ask(world, tenant=world.other_lab).phase == Phase.ADMITTED
