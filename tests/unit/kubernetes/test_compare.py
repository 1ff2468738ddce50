"""Three views side by side: what differs is named, with repairs and what each would do; rows can be made again from pods."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.drivers.kubernetes import manifests, names
from apps.cluster.drivers.kubernetes.adapters.dra import Dra
from apps.cluster.drivers.kubernetes.compare import Difference, Kind, Objects, Repair, Row
from apps.cluster.drivers.kubernetes.compare import compare as compare_at
from apps.cluster.drivers.kubernetes.rebuild import plain, rebuild
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.cluster.specs import RunSpec
from apps.core.share import GIB, GpuShare, Resources
from tests.unit.kubernetes.made import RULES, WHOLE, claim, pod, running, spec


def row(made_of: RunSpec | None = None, **changes: Any) -> Row:
    made_of = made_of or spec()
    return replace(Row(made_of.uid, made_of.run, made_of.name, made_of.resources, ended=False, holds=True), **changes)


def live(made_of: RunSpec | None = None) -> dict[str, Any]:
    return pod(made_of, status=running(), node="n1")


NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # two months after the objects of `made`
TIMING = Timing()


def compare(rows: Iterable[Row], objects: Objects) -> tuple[Difference, ...]:
    return compare_at(rows, objects, NOW, TIMING)


def made(ago: timedelta, thing: dict[str, Any]) -> dict[str, Any]:
    thing["metadata"]["creationTimestamp"] = (NOW - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    return thing


GIVEN = claim(spec(), ("gpu-0", "8Gi", "300"))


def only(*differences: Difference) -> Difference:
    (one,) = differences
    return one


def repairs(difference: Difference) -> list[Repair]:
    assert all(option.effects for option in difference.options)
    return [option.repair for option in difference.options]


def test_what_agrees_is_not_told() -> None:
    assert compare([row()], Objects(pods=[live()], claims=[GIVEN])) == ()
    whole = spec(resources=Resources(WHOLE, 1000, GIB))
    both = claim(whole, ("gpu-0", "79Gi", "1000"), ("gpu-1", "79Gi", "1000"))
    assert compare([row(whole)], Objects(pods=[live(whole)], claims=[both])) == ()
    assert compare([row()], Objects(pods=[pod()])) == ()  # waits, and has no claim yet


def test_a_pod_without_a_row_can_be_adopted_or_removed() -> None:
    found = only(*compare([], Objects(pods=[live()], claims=[GIVEN])))
    assert (found.kind, found.uid, repairs(found)) == (Kind.ORPHAN_POD, spec().uid, [Repair.ADOPT, Repair.REMOVE])
    assert "量子 training" in found.options[0].effects[0]
    assert found.objects == (f"Pod tessera-lab/w-{spec().uid}-1",)


def test_one_that_does_not_say_enough_can_only_be_removed() -> None:
    mute = live()
    del mute["metadata"]["annotations"][names.SPEC]
    assert repairs(only(*compare([], Objects(pods=[mute], claims=[GIVEN])))) == [Repair.REMOVE]


def test_a_row_that_holds_quota_for_nothing_gives_it_back() -> None:
    found = only(*compare([row()], Objects()))
    assert (found.kind, repairs(found)) == (Kind.PHANTOM_ROW, [Repair.REPAIR])
    assert found.evidence["memory_bytes"] == 8 * GIB
    assert compare([row(holds=False, ended=True)], Objects()) == ()


def test_what_has_ended_and_runs_is_removed_first_of_all() -> None:
    found = only(*compare([row(ended=True, holds=False)], Objects(pods=[live()], claims=[GIVEN])))
    assert (found.kind, repairs(found)) == (Kind.ENDED_ROW_RUNS, [Repair.REMOVE, Repair.ADOPT])


@pytest.mark.parametrize(("run", "wanted"), [(3, [Repair.REMOVE]), (1, [Repair.REPAIR, Repair.REMOVE])])
def test_a_pod_of_another_run_is_told(run: int, wanted: list[Repair]) -> None:
    later = spec(run=2)
    given_ = claim(later, ("gpu-0", "8Gi", "300"))
    found = only(*compare([row(later, run=run)], Objects(pods=[live(later)], claims=[given_])))
    assert (found.kind, repairs(found)) == (Kind.OTHER_RUN, wanted)


@pytest.mark.parametrize("results", [[("gpu-0", "4Gi", "300")], [("gpu-0", "8Gi", "300"), ("gpu-1", "8Gi", "300")]])
def test_a_claim_that_gives_something_else_than_the_ledger_is_told(results: list[tuple[str, str, str]]) -> None:
    found = only(*compare([row()], Objects(pods=[live()], claims=[claim(spec(), *results)])))
    assert (found.kind, repairs(found)) == (Kind.OTHER_SHARE, [Repair.REPAIR, Repair.REMOVE])
    assert len(found.evidence["given"]) == len(results)


def test_a_share_that_runs_without_a_claim_is_told() -> None:
    assert only(*compare([row()], Objects(pods=[live()]))).kind is Kind.NO_CLAIM


def test_claims_without_a_pod_are_ours_to_remove_others_are_not() -> None:
    ours, theirs = claim(spec(), ("gpu-0", "8Gi", "300")), claim(None, ("gpu-0", "1Gi", "10"), name="d")
    foreign, orphan = compare([], Objects(claims=[ours, theirs]))
    assert (foreign.kind, repairs(foreign)) == (Kind.FOREIGN_CLAIM, [])
    assert (orphan.kind, repairs(orphan)) == (Kind.ORPHAN_CLAIM, [Repair.REMOVE])


def test_secrets_and_idle_claims_of_nobody_are_left_over() -> None:
    secret = manifests.secret(spec(), RULES, "t")
    (idle,) = manifests.slice_objects(spec(), RULES, Dra().slice(spec()))
    found = compare([], Objects(secrets=[secret], claims=[idle]))
    assert [one.kind for one in found] == [Kind.LEFT_OVER, Kind.LEFT_OVER]
    assert compare([row()], Objects(pods=[live()], claims=[GIVEN], secrets=[secret])) == ()
    foreign = {**idle, "metadata": {"name": "theirs", "namespace": "elsewhere"}}
    assert compare([], Objects(claims=[foreign])) == ()


# --- What is young --------------------------------------------------------------------------------------------------------
MOMENT = timedelta(seconds=1)


@pytest.mark.parametrize(("age", "told"), [(timedelta(0), 0), (TIMING.young - MOMENT, 0), (TIMING.young, 1)])
def test_what_was_charged_a_moment_ago_is_on_its_way_and_no_phantom(age: timedelta, told: int) -> None:
    assert len(compare([row(held_at=NOW - age)], Objects())) == told


def test_the_portals_clock_may_be_behind() -> None:
    ahead = timedelta(seconds=-30)
    secret = made(ahead, manifests.secret(spec(), RULES, "t"))
    assert compare([row(held_at=NOW - ahead)], Objects(secrets=[secret])) == ()


@pytest.mark.parametrize(
    ("age", "told"), [(timedelta(0), 0), (TIMING.left_over - MOMENT, 0), (TIMING.left_over, 2), (timedelta(days=1), 2)]
)
def test_secrets_and_claims_come_before_their_pod_and_are_left_over_only_when_it_does_not_come(
    age: timedelta, told: int
) -> None:
    secret = made(age, manifests.secret(spec(), RULES, "t"))
    (idle,) = manifests.slice_objects(spec(), RULES, Dra().slice(spec()))
    found = compare([row()], Objects(secrets=[secret], claims=[made(age, idle)]))
    assert [one.kind for one in found].count(Kind.LEFT_OVER) == told


@pytest.mark.parametrize(("ago", "told"), [(MOMENT, 0), (TIMING.young, 1)])
def test_a_claim_that_is_just_being_let_go_of_is_no_orphan(ago: timedelta, told: int) -> None:
    going = claim(spec(), ("gpu-0", "8Gi", "300"))
    going["metadata"]["deletionTimestamp"] = (NOW - ago).isoformat()
    assert len(compare([], Objects(claims=[going]))) == told


def test_what_is_being_deleted_is_not_left_over() -> None:
    secret = made(timedelta(days=1), manifests.secret(spec(), RULES, "t"))
    secret["metadata"]["deletionTimestamp"] = NOW.isoformat()
    assert compare([], Objects(secrets=[secret])) == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2), st.booleans(), st.booleans()), max_size=6))
def test_every_pod_and_every_held_row_is_accounted_for(things: list[tuple[int, int, bool, bool]]) -> None:
    rows, pods = {}, {}
    for number, run, has_row, has_pod in things:
        made_of = spec(uid=f"u{number}", run=run, resources=Resources(None, 1000, GIB))
        if has_row:
            rows[made_of.uid] = row(made_of)
        if has_pod:
            pods[made_of.uid] = live(made_of)
    told = {one.uid for one in compare(rows.values(), Objects(pods=list(pods.values())))}
    agree = {
        uid for uid in rows.keys() & pods.keys() if str(rows[uid].run) == pods[uid]["metadata"]["labels"][names.RUN]
    }
    assert told == (rows.keys() | pods.keys()) - agree


# --- Rows again ----------------------------------------------------------------------------------------------------------
def test_rows_can_be_made_again_from_pods() -> None:
    made_of = spec(run=3)
    volume = manifests.volume(made_of, RULES, made_of.volumes[0])
    found = rebuild([live(spec(run=2)), live(made_of)], [volume])
    (one,) = found.workloads
    assert (one.uid, one.run, one.name, one.slug) == (made_of.uid, 3, "量子 training", "training-abc")
    assert (one.owner, one.owner_name, one.tenant, one.tenant_slug) == (made_of.owner, "ada", made_of.tenant, "lab")
    assert (one.resources, one.environment, one.volumes, one.wanted) == (
        made_of.resources,
        "notebook",
        ("home-1",),
        True,
    )
    assert one.spec == replace(made_of, env={})
    assert found.volumes == {"home-1": ("tessera-lab", "ada")}
    assert plain(one)["compute_permille"] == 300
    assert plain(replace(one, resources=Resources(None, 1, 1)))["gpus"] == 0


def test_what_is_ending_or_ended_is_not_wanted() -> None:
    ending = pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert not rebuild([ending]).workloads[0].wanted
    assert not rebuild([pod(status={"phase": "Failed"})]).workloads[0].wanted


def test_a_pod_that_contradicts_itself_is_said_so() -> None:
    forged = live()
    forged["metadata"]["labels"][names.RUN] = "9"
    (one,) = rebuild([forged]).unreadable
    assert "run 9" in one.problem
    assert rebuild([{"metadata": {"name": "x", "labels": {names.WORKLOAD: "a"}}}]).unreadable


@given(st.text(min_size=1, max_size=40), st.integers(1, 1000))
def test_any_name_comes_back(name: str, compute: int) -> None:
    made_of = spec(name=name, resources=Resources(GpuShare(1, GIB, compute, 1000), 1000, GIB))
    (one,) = rebuild([live(made_of)]).workloads
    assert (one.name, one.resources) == (name, made_of.resources)
