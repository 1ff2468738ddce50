"""What an administrator does, done by the tests: images, the token of the agents, the shipped manifests. And waiting until it works."""

from __future__ import annotations

import base64
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.parts import PROJECT

NAMESPACE: Final = "tessera-system"
TOKEN_SECRET: Final = "tessera-node-agent-token"
_MANIFESTS: Final = PROJECT / "deploy" / "kubernetes"
_PATIENCE: Final = 90.0  # s
# A part of the manifests is left out by deleting it in a kustomization, which is what an administrator would do as well.
_PORTAL: Final = (("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("apps/v1", "Deployment"), ("v1", "Service"))


def install(cluster: Cluster, *, portal: bool = False, say: Callable[[str], None] = print) -> None:
    """The node agent with the cluster's simulated cards, the rights of the portal and, if wanted, the portal itself."""
    wanted = ["node-agent-sim", *(["portal", "notebook"] if portal else [])]
    images.provide(cluster, *wanted, say=say)
    _make_token(cluster)
    cluster.kubectl("apply", "--server-side", "--kustomize", str(_overlay(cluster, portal=portal)))
    _until(lambda: len(devices(cluster)) == len(cluster.options.cards), lambda: _explain(cluster))
    say(f"  installed: {len(devices(cluster))} cards are offered")


def token(cluster: Cluster) -> str:
    """By which the agents know whom they may tell."""
    found = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{TOKEN_SECRET}")
    return base64.b64decode(found["data"]["token"]).decode()


def devices(cluster: Cluster) -> list[dict[str, Any]]:
    """All cards that the scheduler can give out on the real node."""
    found = cluster.api.get(
        "/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={cluster.node_name}"
    )
    return [device for item in found["items"] for device in item["spec"].get("devices") or ()]


def agent_pod(cluster: Cluster) -> dict[str, Any]:
    pods = cluster.api.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app.kubernetes.io/name=tessera-node-agent"
    )["items"]
    found: dict[str, Any] = next((pod for pod in pods if not pod["metadata"].get("deletionTimestamp")), {})
    return found


def _make_token(cluster: Cluster) -> None:
    if cluster.api.find(f"/api/v1/namespaces/{NAMESPACE}/secrets/{TOKEN_SECRET}") is None:
        secret = {"metadata": {"name": TOKEN_SECRET}, "stringData": {"token": secrets.token_urlsafe(32)}}
        cluster.api.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)


def _overlay(cluster: Cluster, *, portal: bool) -> Path:
    """A kustomization of our own: which images, which cards, and what of the portal."""
    folder = cluster.layout.root / "install"
    folder.mkdir(exist_ok=True)
    cards = {"name": "CARDS", "value": ",".join(cluster.options.cards)}
    patches: list[dict[str, Any]] = [
        {
            "target": {"kind": "DaemonSet", "name": "tessera-node-agent"},
            "patch": json.dumps(
                [{"op": "replace", "path": "/spec/template/spec/initContainers/0/env/0", "value": cards}]
            ),
        }
    ]
    if portal:
        images_of = f"notebook={images.reference('notebook')}"
        value = {"op": "replace", "path": "/data/TESSERA_IMAGES", "value": images_of}
        patches.append({"target": {"kind": "ConfigMap", "name": "tessera"}, "patch": json.dumps([value])})
    else:
        patches += [{"patch": json.dumps(_deletion(version, kind))} for version, kind in _PORTAL]
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(_MANIFESTS / "simulated", folder.resolve())],
        "images": [
            {"name": reference, "newTag": "test"} for reference in ("tessera.dev/node-agent-sim", "tessera.dev/portal")
        ],
        "patches": patches,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content, indent=1))
    return folder


def _deletion(version: str, kind: str) -> dict[str, Any]:
    metadata = {"name": "tessera", "namespace": NAMESPACE}
    return {"$patch": "delete", "apiVersion": version, "kind": kind, "metadata": metadata}


def _explain(cluster: Cluster) -> str:
    pod = agent_pod(cluster)
    if not pod:
        return "There is no pod of the node agent."
    name = pod["metadata"]["name"]
    log = cluster.kubectl("logs", f"--namespace={NAMESPACE}", name, "--tail=20", check=False)
    return f"The node agent {name} offers no cards: {json.dumps(pod['status'])[:2000]}\n{log}"


def _until(test: Callable[[], bool], explain: Callable[[], str]) -> None:
    until = time.monotonic() + _PATIENCE
    while not test():
        if time.monotonic() > until:
            raise TimeoutError(explain())
        time.sleep(0.1)
