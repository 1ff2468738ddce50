"""What is concluded of rate limits from what pods and claims still tell, and of versions and rules. Times are whole seconds, as the API server's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.diagnosis import Finding, Level
from apps.cluster.drivers.kubernetes.diagnosis import limits
from apps.cluster.drivers.kubernetes.diagnosis.limits import (
    CONTROLLER_MANAGER,
    SCHEDULER,
    WINDOW,
    Pace,
    told_limit,
    windows,
)
from apps.cluster.drivers.kubernetes.diagnosis.looking import Hidden, Seen, read_metrics
from apps.cluster.drivers.kubernetes.diagnosis.rights import Right, covered
from apps.cluster.drivers.kubernetes.diagnosis.server import numbers

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NOT_SEEN = Hidden("not asked for")


def seen(**found: Any) -> Seen:
    values: dict[str, Any] = dict.fromkeys(Seen.__slots__, NOT_SEEN)
    return Seen(**values | {"version": "v1.36.3", "took": 0.01} | found)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def crowd(pods: int, *, claims: float, binds: float) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """`pods` made at once, their claims at `claims` a second, then bound at `binds` a second."""
    for number in range(pods):
        claimed = number / claims
        bound = max(claimed, number / binds)
        placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}
        pod = {"metadata": {"uid": f"p{number}", "creationTimestamp": at(0)}, "status": {"conditions": [placed]}}
        owner = [{"kind": "Pod", "uid": f"p{number}"}]
        yield pod, {"metadata": {"uid": f"c{number}", "creationTimestamp": at(claimed), "ownerReferences": owner}}


def judged(pods: int, *, claims: float, binds: float) -> dict[str, Finding]:
    made = list(crowd(pods, claims=claims, binds=binds))
    found = limits.judged(seen(pods=[pod for pod, _ in made], claims=[claim for _, claim in made]))
    return {one.code: one for one in found}


def test_a_stock_cluster_is_known_by_its_crowd() -> None:
    """Measured on one: 10 claims a second, and the scheduler waits for them."""
    found = judged(300, claims=10, binds=1000)
    felt = found["claims_limit_felt"]
    assert felt.level is Level.ATTENTION
    assert felt.evidence["per_second"] == 10.0
    assert "scheduler_limit_unknown" in found, "it has bound each pod as soon as its claim was there"


def test_a_scheduler_that_holds_pods_up_is_known_by_its_crowd() -> None:
    found = judged(300, claims=50, binds=12.8)
    assert found["scheduler_limit_felt"].evidence["waited_seconds"] >= 5
    assert found["claims_limit_seen"].level is Level.GOOD


def test_raised_limits_are_proven_by_what_stock_ones_cannot_give() -> None:
    found = judged(500, claims=45, binds=40)
    assert found["claims_limit_seen"].evidence["per_second"] == 45.0
    assert found["scheduler_limit_seen"].evidence["per_second"] == 40.0
    assert {found[code].level for code in ("claims_limit_seen", "scheduler_limit_seen")} == {Level.GOOD}


def test_pods_that_waited_for_room_are_no_sign_of_a_limit() -> None:
    """They are bound as others end, not in a stream."""
    found = judged(300, claims=50, binds=5)
    assert "scheduler_limit_unknown" in found


def test_a_few_starts_show_nothing() -> None:
    found = judged(8, claims=4, binds=4)
    assert {"claims_limit_unknown", "scheduler_limit_unknown"} <= found.keys()
    assert found["claims_limit_unknown"].level is Level.UNKNOWN


def test_what_stock_limits_give_is_their_burst_and_what_is_refilled() -> None:
    """docs/operations/kubernetes.md: 10 and 13 a second were measured over longer than a window, where the burst counts less."""
    assert CONTROLLER_MANAGER.stock_rate == (30 + 20 * WINDOW) / 2 / WINDOW == 11.5
    assert SCHEDULER.stock_rate == (100 + 50 * WINDOW) / 4 / WINDOW == 15.0


seconds = st.integers(0, 100)


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=60))
def test_no_window_is_overlooked(spans: list[tuple[int, int]]) -> None:
    moments = [(START + timedelta(seconds=a), START + timedelta(seconds=a + b)) for a, b in spans]
    done = [a + b for a, b in spans]
    counts = [sum(first <= one < first + WINDOW for one in done) for first in done]
    found = max(pace.count for pace in windows(moments))
    assert found == max(counts)


def test_no_crowd_has_no_pace() -> None:
    assert windows([]) == []
    assert windows([(START, START)]) == [Pace(1, 0.0)]


# --- Told by command lines -----------------------------------------------------------------------------------------------
def program(*words: str, args: tuple[str, ...] = (), name: str = "kube-controller-manager") -> dict[str, Any]:
    container = {"command": [name, *words], "args": list(args)}
    return {"metadata": {"labels": {"component": name}}, "spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("pods", "limit"),
    [
        ([], None),
        ([program(name="kube-scheduler")], None),
        ([program()], (20, 30)),
        ([program("--kube-api-qps=100", "--kube-api-burst=200")], (100, 200)),
        ([program("--v=2", args=("--kube-api-qps", "100"))], (100, 30)),
        ([program("--kube-api-qps=1e2")], (100, 30)),
        ([program("--kube-api-qps=many")], None),
        ([program("--kube-api-qps=100"), program("--kube-api-qps=50"), program("--kube-api-qps=-1")], (50, 30)),
        ([program("--config=/etc/file"), program("--kube-api-qps=100")], None),
    ],
)
def test_limits_on_command_lines(pods: list[dict[str, Any]], limit: tuple[float, float] | None) -> None:
    assert told_limit(CONTROLLER_MANAGER, pods) == limit


def test_a_limit_that_was_switched_off_suffices() -> None:
    found = limits.judged(seen(control=[program("--kube-api-qps=-1")]))
    assert ("claims_limit_none", Level.GOOD) in [(one.code, one.level) for one in found]


def test_more_queries_without_a_larger_burst_are_low() -> None:
    found = {one.code for one in limits.judged(seen(control=[program("--kube-api-qps=100")]))}
    assert "claims_limit_low" in found


@pytest.mark.parametrize(("nodes", "code"), [(100, "scoring_needs_nothing"), (101, "scoring_unknown")])
def test_how_many_nodes_are_looked_at_matters_from_a_hundred_on(nodes: int, code: str) -> None:
    assert code in {one.code for one in limits.judged(seen(nodes=[{}] * nodes))}


# --- Small things --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "known"),
    [("v1.36.3", (1, 36)), ("v1.33.9-gke.1", (1, 33)), ("2.2.9+unknown", (2, 2)), ("", None), ("unknown", None)],
)
def test_versions(text: str, known: tuple[int, int] | None) -> None:
    assert numbers(text) == known


def test_of_the_metrics_only_the_wanted_are_read() -> None:
    text = (
        '# TYPE a counter\na_total{x="1",y="say \\"so\\""} 3\na_total{x="2"} 1e3\nab_total 9\n'
        '# TYPE b gauge\nb{le="+Inf"} NaN\nnot a line at all {{{\n'
    )
    found = [(one.name, dict(one.labels), one.value) for one in read_metrics(text, ("a_total",))]
    assert found == [("a_total", {"x": "1", "y": 'say "so"'}, 3.0), ("a_total", {"x": "2"}, 1000.0)]


@pytest.mark.parametrize(
    ("rule", "has"),
    [
        ({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}, True),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, True),
        ({"apiGroups": [""], "resources": ["*/log"], "verbs": ["get", "list"]}, True),
        ({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, False),
        ({"apiGroups": ["apps"], "resources": ["pods/log"], "verbs": ["get"]}, False),
        ({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["list"]}, False),
        ({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": ["one"]}, False),
        ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, False),
    ],
)
def test_whether_a_rule_gives_a_right(rule: dict[str, Any], has: bool) -> None:
    assert covered(Right("", "pods/log", "get"), [rule]) is has
