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


def claims(cluster: Cluster) -> list[Any]:
    found: list[Any] = cluster.api.get("/apis/resource.k8s.io/v1/resourceclaims")["items"]
    return found


def manage(cluster: Cluster, *words: str) -> str:
    return cluster.kubectl("exec", "-n", NAMESPACE, "deployment/tessera", "--", "python", "manage.py", *words)


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
