"""`decide` alone: numbers in, decision out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.share import GIB, MIB, GpuShare, Resources
from apps.quotas.admission import NOTHING, Amounts, Kind, Limits, Node, decide

SLICE = Resources(GpuShare(1, 8 * GIB, 300, 500), 1000, 2 * GIB)


def node(name: str = "lab", **fields: object) -> Node:
    return Node(id=name, name=name, **{"limits": Limits(), **fields})  # type: ignore[arg-type]


def test_without_limits_everything_is_admitted() -> None:
    assert decide(SLICE, [node()]).kind is Kind.ADMIT


def test_a_tenant_without_a_quota_admits_nothing_and_says_so() -> None:
    decision = decide(SLICE, [node(limits=NOTHING, has_quota=False)])
    assert (decision.kind, decision.reason) == (Kind.REFUSE, "no_quota")


def test_what_exceeds_the_quota_is_refused_with_the_numbers_and_the_nearest_that_fits() -> None:
    decision = decide(SLICE, [node(limits=Limits(gpu_memory=6 * GIB))])
    assert (decision.kind, decision.reason) == (Kind.REFUSE, "never_fits_quota")
    assert decision.evidence["dimension"] == "gpu_memory"
    assert (decision.evidence["asked"], decision.evidence["limit"]) == (8 * GIB, 6 * GIB)
    assert decision.nearest == Resources(GpuShare(1, 6 * GIB, 300, 500), 1000, 2 * GIB)


def test_the_memory_of_all_cards_counts_not_that_of_one() -> None:
    two = replace(SLICE, gpu=GpuShare(2, 4 * GIB, 100, 100))
    decision = decide(two, [node(limits=Limits(gpu_memory=6 * GIB))])
    assert decision.evidence["asked"] == 8 * GIB
    assert decision.nearest is not None
    assert decision.nearest.gpu == GpuShare(2, 3 * GIB, 100, 100)


def test_what_only_has_to_wait_waits_and_tells_what_would_start_now() -> None:
    used = Amounts(gpu_memory=4 * GIB)
    decision = decide(SLICE, [node(limits=Limits(gpu_memory=10 * GIB), used=used)])
    assert (decision.kind, decision.reason) == (Kind.WAIT, "waiting_quota")
    assert decision.evidence["free"] == 6 * GIB
    assert decision.nearest is not None
    assert decision.nearest.gpu is not None
    assert decision.nearest.gpu.memory == 6 * GIB


def test_the_department_above_counts_too() -> None:
    decision = decide(SLICE, [node("lab"), node("department", limits=Limits(gpu_compute=200))])
    assert decision.kind is Kind.REFUSE
    assert decision.evidence["tenant"] == "department"


def test_a_full_queue_refuses_what_would_wait() -> None:
    full = node(limits=Limits(running=1, pending=2), used=Amounts(running=1), waiting=2)
    decision = decide(SLICE, [full])
    assert (decision.kind, decision.reason) == (Kind.REFUSE, "queue_full")
    assert (decision.evidence["waiting"], decision.evidence["places"]) == (2, 2)


def test_a_full_queue_does_not_turn_away_who_waits_in_it() -> None:
    full = node(limits=Limits(running=1, pending=0), used=Amounts(running=1), waiting=5)
    assert decide(SLICE, [full], has_place=True).kind is Kind.WAIT


def test_a_later_request_does_not_overtake_one_that_waits_for_the_same_quota() -> None:
    decision = decide(SLICE, [node(held_back=True)])
    assert (decision.kind, decision.reason, decision.nearest) == (Kind.WAIT, "waiting_turn", None)


def test_who_waits_for_the_own_limit_holds_back_only_the_own_requests() -> None:
    assert decide(SLICE, [node(user_held_back=True)]).kind is Kind.WAIT
    assert decide(SLICE, [node(user_held_back=True)]).evidence["dimension"] == "running_per_user"
    assert decide(SLICE, [node(user_held_back=False)]).kind is Kind.ADMIT


@pytest.mark.parametrize("dimension", ["running", "running_per_user"])
def test_where_nothing_may_run_no_smaller_request_is_proposed(dimension: str) -> None:
    decision = decide(SLICE, [node(limits=Limits(**{dimension: 0}))])
    assert (decision.kind, decision.nearest) == (Kind.REFUSE, None)


amounts = st.integers(0, 64 * GIB)
shares = st.builds(
    lambda count, memory, compute, more: GpuShare(count, memory, compute, min(compute + more, 1000)),
    st.integers(1, 8), st.integers(MIB, 32 * GIB), st.integers(1, 1000), st.integers(0, 300),
)  # fmt: skip
requests = st.builds(Resources, st.none() | shares, st.integers(100, 64_000), st.integers(256 * MIB, 64 * GIB))
limits = st.builds(
    Limits,
    gpu_memory=st.none() | amounts, gpu_compute=st.none() | st.integers(0, 8000), cpu_milli=st.none() | st.integers(0, 64_000),
    ram=st.none() | amounts, running=st.none() | st.integers(0, 9), running_per_user=st.none() | st.integers(0, 4),
    pending=st.none() | st.integers(0, 4),
)  # fmt: skip
used = st.builds(Amounts, amounts, st.integers(0, 8000), st.integers(0, 64_000), amounts, st.integers(0, 9))
nodes = st.lists(
    st.builds(
        Node, id=st.uuids().map(str), name=st.just("n"), limits=limits, used=used, used_by_user=st.integers(0, 4),
        waiting=st.integers(0, 5), held_back=st.booleans(), user_held_back=st.booleans(),
    ),
    min_size=1, max_size=3,
)  # fmt: skip


@given(requests, nodes)
def test_admission_never_exceeds_any_limit_and_waiting_is_never_for_ever(request: Resources, path: list[Node]) -> None:
    decision = decide(request, path)
    asked = Amounts.of(request)
    for at in path:
        for name in ("gpu_memory", "gpu_compute", "cpu_milli", "ram", "running"):
            limit, more = getattr(at.limits, name), getattr(asked, name)
            if limit is None or not more:
                continue
            if decision.kind is Kind.ADMIT:
                assert getattr(at.used, name) + more <= limit
            elif decision.kind is Kind.WAIT:
                assert more <= limit, "what can never fit must not wait"


@given(requests, nodes)
def test_the_nearest_choice_is_no_larger_and_would_be_taken(request: Resources, path: list[Node]) -> None:
    decision = decide(request, path)
    nearest = decision.nearest
    if nearest is None or decision.kind is Kind.ADMIT:
        return
    assert nearest.cpu_milli <= request.cpu_milli
    assert nearest.ram <= request.ram
    again = decide(nearest, path, has_place=True)
    if decision.reason == "never_fits_quota":
        assert again.kind is not Kind.REFUSE
    else:
        assert again.kind is Kind.ADMIT
