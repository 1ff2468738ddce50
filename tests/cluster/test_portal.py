"""The portal as an administrator installs it, in the cluster with no more rights than it needs: from nothing to a notebook."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.cluster import pods
from tests.cluster.cluster import Cluster
from tests.cluster.install import NAMESPACE, install

PERSON = "lin"


@pytest.fixture(scope="module")
def portal(cluster: Cluster) -> Cluster:
    install(cluster, portal=True)
    cluster.kubectl("rollout", "status", "deployment/tessera", "-n", NAMESPACE, "--timeout=120s")
    manage(cluster, "seed_demo")
    return cluster


def test_a_person_gets_a_notebook_with_a_part_of_a_card(portal: Cluster) -> None:
    token = manage(portal, "create_token", PERSON, "--scope=read", "--scope=experiments:write").split()[-1]
    asked = {"tenant": "vision-lab", "name": "First 第一", "environment": "notebook", "flavour": "medium"}
    made = ask(portal, token, "POST", "/api/v1/experiments", asked)
    where = f"/api/v1/experiments/{made['id']}"

    def ready() -> dict[str, Any] | None:
        seen: dict[str, Any] = ask(portal, token, "GET", where)
        return seen if seen["phase"] == "ready" else None

    seen = pods.eventually(ready, lambda: explain(portal, ask(portal, token, "GET", where)))
    assert seen["node"] == portal.node_name
    assert len(seen["gpus"]) == 1
    ask(portal, token, "POST", f"{where}/stop")
    pods.eventually(lambda: not claims(portal))


def test_of_such_a_cluster_nothing_is_amiss_and_what_cannot_be_seen_is_unknown(portal: Cluster) -> None:
    """By the shipped account. The control plane's programs are no pods here, so nobody tells their limits."""
    findings = pods.eventually(lambda: settled(portal), lambda: diagnosis(portal))
    by_level: dict[str, set[str]] = {}
    for one in findings:
        by_level.setdefault(one["level"], set()).add(one["code"])
    seen = {"server_answers", "watch_fresh", "rights_complete", "slices_dra", "dra_served", "feature_on"}
    seen |= {"cards_offered", "priority_serves", "requests_served", "agents_ready", "figures_arrive", "programs_new"}
    assert seen <= by_level.pop("good")
    unknown = {"scheduler_limit_unknown", "volumes_limit_unknown", "order_unknown"}
    assert unknown <= by_level.pop("unknown")
    assert by_level == {}
    features = {one["evidence"]["feature"] for one in findings if one["code"] == "feature_on"}
    assert features == {"DynamicResourceAllocation", "DRAConsumableCapacity", "DRADeviceTaints"}


def settled(cluster: Cluster) -> list[dict[str, Any]] | None:
    """None until the controller has told of itself, and while something is bad: on a busy machine a watch or an agent may be late."""
    findings = diagnosis(cluster)
    bad = any(one["level"] == "bad" for one in findings)
    return findings if not bad and any(one["code"] == "watch_fresh" for one in findings) else None


def diagnosis(cluster: Cluster) -> list[dict[str, Any]]:
    """The command ends with 1 where something is bad, and says what all the same."""
    found: list[dict[str, Any]] = json.loads(manage(cluster, "diagnose", "--json", check=False))["findings"]
    return found


def claims(cluster: Cluster) -> list[Any]:
    found: list[Any] = cluster.api.get("/apis/resource.k8s.io/v1/resourceclaims")["items"]
    return found


def manage(cluster: Cluster, *words: str, check: bool = True) -> str:
    command = ("python", "manage.py", *words)
    return cluster.kubectl("exec", "-n", NAMESPACE, "deployment/tessera", "--", *command, check=check)


def ask(cluster: Cluster, token: str, method: str, path: str, body: Any = None) -> Any:
    selected = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app.kubernetes.io/name=tessera")
    address = next(pod["status"]["podIP"] for pod in selected["items"] if pod["status"].get("podIP"))
    connection = http.client.HTTPConnection(address, 8000, timeout=30)
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    if method == "POST":
        headers["Idempotency-Key"] = f"{path}-once"
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    response = connection.getresponse()
    text = response.read()
    assert response.status < 300, (response.status, text)
    return json.loads(text) if text else None


def explain(cluster: Cluster, seen: Any) -> str:
    log = (
        "exec",
        "-n",
        NAMESPACE,
        "deployment/tessera",
        "--",
        "tail",
        "-n",
        "20",
        "/var/lib/tessera/logs/controller.log",
    )
    return f"{seen}\n{cluster.kubectl(*log, check=False)}\n{cluster.kubectl('get', 'pods', '-A')}"
