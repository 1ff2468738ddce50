"""What is concluded of rate limits from what pods and claims still tell, and of versions and rules. Times are whole seconds, as the API server's."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.cluster.diagnosis import Finding, Level
from apps.cluster.drivers.kubernetes.diagnosis import limits, order
from apps.cluster.drivers.kubernetes.diagnosis.limits import CONTROLLER_MANAGER, SCHEDULER, told_limit
from apps.cluster.drivers.kubernetes.diagnosis.looking import Hidden, Seen, read_metrics
from apps.cluster.drivers.kubernetes.diagnosis.order import Turn, in_order
from apps.cluster.drivers.kubernetes.diagnosis.pace import WINDOW, Pace, windows
from apps.cluster.drivers.kubernetes.diagnosis.rights import Right, covered
from apps.cluster.drivers.kubernetes.diagnosis.server import numbers

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NOT_SEEN = Hidden("not asked for")


def seen(**found: Any) -> Seen:
    values: dict[str, Any] = dict.fromkeys(Seen.__slots__, NOT_SEEN)
    return Seen(**values | {"version": "v1.36.3", "took": 0.01} | found)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def volume(name: str, made: float, bound: float | None) -> dict[str, Any]:
    """As the API server shows one: who bound it is told by who wrote last, and when."""
    writers = [{"manager": "tessera", "operation": "Apply", "time": at(made)}]
    if bound is not None:
        writers += [
            {"manager": "kube-controller-manager", "operation": "Update", "time": at(bound)},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "time": at(bound)},
        ]
    meta = {"name": name, "namespace": "physics", "creationTimestamp": at(made), "managedFields": writers}
    return {"metadata": meta, "spec": {} if bound is None else {"volumeName": f"pv-{name}"}}


def crowd(pods: int, *, volumes: float, binds: float) -> Seen:
    """`pods` made at once with their claims, their volumes bound at `volumes` a second, then placed at `binds` a second."""
    all_pods, all_claims, all_volumes = [], [], []
    for number in range(pods):
        bound = number / volumes
        all_volumes.append(volume(f"v{number}", 0, bound))
        all_claims.append(claim(f"w{number}", 0))
        all_pods.append(pod(f"w{number}", 0, max(bound, number / binds), volume=f"v{number}"))
    return seen(pods=all_pods, claims=all_claims, volumes=all_volumes)


def claim(name: str, made: float, permille: int = 300) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"capacity": {"requests": {"compute": permille}}}}
    meta = {"name": name, "namespace": "physics", "creationTimestamp": at(made)}
    return {"metadata": meta, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, made: float, placed: float | None, *, volume: str = "", **fields: Any) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(made)}
    if placed is not None:
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(placed)}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    homes = [{"name": "home", "persistentVolumeClaim": {"claimName": volume}}] if volume else []
    return {
        "metadata": {"name": name, "namespace": "physics", "creationTimestamp": at(made)},
        "spec": {"resourceClaims": claims, "volumes": homes, "containers": [{"name": "run"}]} | fields,
        "status": {"conditions": [condition]},
    }


def judged(pods: int, *, volumes: float, binds: float) -> dict[str, Finding]:
    return {one.code: one for one in limits.judged(crowd(pods, volumes=volumes, binds=binds))}


def test_a_stock_cluster_is_known_by_its_crowd() -> None:
    """Measured on one: 5 volumes a second, and the scheduler waits for them."""
    found = judged(300, volumes=5, binds=1000)
    felt = found["volumes_limit_felt"]
    assert felt.level is Level.ATTENTION
    assert felt.evidence["per_second"] == 5.0
    assert "scheduler_limit_unknown" in found, "it has placed each pod as soon as its volume was there"


def test_a_scheduler_that_holds_pods_up_is_known_by_its_crowd() -> None:
    found = judged(300, volumes=50, binds=12.8)
    assert found["scheduler_limit_felt"].evidence["waited_seconds"] >= 5
    assert found["volumes_limit_seen"].level is Level.GOOD


def test_raised_limits_are_proven_by_what_stock_ones_cannot_give() -> None:
    found = judged(500, volumes=45, binds=40)
    assert found["volumes_limit_seen"].evidence["per_second"] == 45.0
    assert found["scheduler_limit_seen"].evidence["per_second"] == 40.0
    assert {found[code].level for code in ("volumes_limit_seen", "scheduler_limit_seen")} == {Level.GOOD}


def test_pods_that_waited_for_room_are_no_sign_of_a_limit() -> None:
    """They are bound as others end, not in a stream."""
    found = judged(300, volumes=50, binds=5)
    assert "scheduler_limit_unknown" in found


def test_a_few_starts_show_nothing() -> None:
    found = judged(8, volumes=4, binds=4)
    assert {"volumes_limit_unknown", "scheduler_limit_unknown"} <= found.keys()
    assert found["volumes_limit_unknown"].level is Level.UNKNOWN


def test_pods_whose_volumes_are_not_seen_tell_nothing() -> None:
    hidden = crowd(500, volumes=1000, binds=40)
    found = {one.code for one in limits.judged(seen(pods=hidden.pods, claims=hidden.claims))}
    assert "volumes_limit_unknown" in found
    assert "scheduler_limit_unknown" in found, "since when their volumes are there is not known"


def test_what_stock_limits_give_is_their_burst_and_what_is_refilled() -> None:
    """docs/operations/kubernetes.md: 5 and 13 a second were measured over longer than a window, where the burst counts less."""
    assert CONTROLLER_MANAGER.stock_rate == (30 + 20 * WINDOW) / 4 / WINDOW == 5.75
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


# --- Who waits longest goes first ----------------------------------------------------------------------------------------
def line(*spans: tuple[float, float | None], **fields: Any) -> Finding:
    """Pods of one size, made and placed at these seconds."""
    pods = [pod(f"w{number}", made, placed, **fields) for number, (made, placed) in enumerate(spans)]
    claims = [claim(f"w{number}", made) for number, (made, _) in enumerate(spans)]
    (found,) = order.judged(seen(pods=pods, claims=claims))
    return found


def test_a_queue_that_was_kept_is_good() -> None:
    found = line((0, 30), (1, 60), (2, 61), (3, None))
    assert (found.code, found.level, found.evidence["pods"]) == ("order_kept", Level.GOOD, 3)


@pytest.mark.parametrize("placed", [40, None])
def test_who_was_passed_is_named_with_who_passed(placed: float | None) -> None:
    found = line((0, placed), (5, 10))
    assert (found.code, found.level) == ("order_passed", Level.ATTENTION)
    assert found.evidence == {"older": "physics/w0", "younger": "physics/w1"}


def test_a_queue_of_two_proves_nothing() -> None:
    assert line((0, 30), (1, 60)).code == "order_unknown"


def test_those_that_all_wait_prove_nothing() -> None:
    assert line((0, None), (1, None), (2, None), (3, None), (4, None)).code == "order_unknown"


def test_of_the_same_second_nobody_is_older() -> None:
    assert line((0, 40), (0, 10)).code == "order_unknown"


def test_a_small_share_may_pass_a_large_one() -> None:
    pods = [pod("large", 0, None), pod("small", 5, 6)]
    found = order.judged(seen(pods=pods, claims=[claim("large", 0, 1000), claim("small", 5, 100)]))
    assert [one.code for one in found] == ["order_unknown"]


def test_who_wants_another_node_is_in_no_queue_with_others() -> None:
    pods = [pod("far", 0, None, nodeSelector={"room": "b"}), pod("near", 5, 6)]
    found = order.judged(seen(pods=pods, claims=[claim("far", 0), claim("near", 5)]))
    assert [one.code for one in found] == ["order_unknown"]


def test_a_pod_is_in_the_queue_since_its_volume_is_there() -> None:
    pods = [pod("first", 0, 40, volume="home"), pod("second", 5, 6)]
    claims = [claim("first", 0), claim("second", 5)]
    for bound, code in ((0, "order_passed"), (39, "order_unknown"), (None, "order_unknown")):
        found = order.judged(seen(pods=pods, claims=claims, volumes=[volume("home", 0, bound)]))
        assert [one.code for one in found] == [code]


turns = st.builds(
    lambda shape, since, wait: Turn(shape, START + timedelta(seconds=since), START + timedelta(seconds=since + wait)),
    st.sampled_from("ab"),
    st.integers(0, 60),
    st.integers(0, 60),
)


def turn(since: int, placed: int) -> Turn:
    return Turn("a", START + timedelta(seconds=since), START + timedelta(seconds=placed))


@given(st.lists(turns, max_size=30))
@example(
    [turn(0, 18), turn(1, 20), turn(1, 12)]
)  # two that came at the same time; the first is not older than the second
def test_nobody_is_passed_unseen(queue: list[Turn]) -> None:
    moment = timedelta(seconds=5)
    expected = any(
        older.shape == younger.shape and older.since < younger.since and younger.placed + moment < older.placed
        for older in queue
        for younger in queue
    )
    _, passed = in_order(queue)
    assert (passed is not None) is expected


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
    assert ("volumes_limit_none", Level.GOOD) in [(one.code, one.level) for one in found]


def test_more_queries_without_a_larger_burst_are_low() -> None:
    found = {one.code for one in limits.judged(seen(control=[program("--kube-api-qps=100")]))}
    assert "volumes_limit_low" in found


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
