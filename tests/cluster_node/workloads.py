"""Pods with shares of cards."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from tests.cluster.api import Refused
from tests.cluster.cluster import Cluster
from tests.cluster.pods import eventually
from tests.cluster_node.programs import Program, running
from tests.cluster_node.python_image import NAME

GIB: Final = 1024**3
BESIDE: Final = (
    16 << 20
)  # bytes; what a process takes beside its requests, modules say, is told to it in such steps (overheads.py)
DRIVER: Final = "gpu.tessera.dev"
_TELLING: Final = re.compile(r"(?i)dra|claim|registration|error|warning")

Json = dict[str, Any]


def claim_spec(*, memory: str | None = "8Gi", compute: int | None = 300, ceiling: int = 300, count: int = 1) -> Json:
    """As the portal writes it; without `memory` a whole card."""
    exactly: Json = {"deviceClassName": DRIVER, "count": count}
    if memory is not None:
        exactly["capacity"] = {"requests": {"memory": memory, "compute": str(compute)}}
    parameters = {"apiVersion": "tessera.dev/v1", "kind": "ShareConfig", "ceiling": ceiling, "priority": 0}
    devices: Json = {
        "requests": [{"name": "gpu", "exactly": exactly}],
        "config": [{"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    if count > 1:
        devices["constraints"] = [{"requests": ["gpu"], "distinctAttribute": f"{DRIVER}/uuid"}]
    return {"devices": devices}


class Tenant:
    """A namespace as strict as a tenant's, and what is in it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.others_said: Callable[[], str] = str  # the agent's log, told in `story`
        self._root = f"/api/v1/namespaces/{name}"

    def template(self, name: str, **how: Any) -> str:
        spec = {"metadata": {"labels": {"tessera.dev/workload": name}}, "spec": claim_spec(**how)}
        self._post("resource.k8s.io/v1", "resourceclaimtemplates", name, spec)
        return name

    def claim(self, name: str, **how: Any) -> str:
        self._post("resource.k8s.io/v1", "resourceclaims", name, claim_spec(**how))
        return name

    def pod(
        self,
        name: str,
        *,
        template: str = "",
        claim: str = "",
        containers: Sequence[str] = ("main",),
        read_only: bool = False,
        image: str = NAME,
    ) -> str:
        source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "runAsGroup": 1000,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [
                {
                    "name": container,
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", "trap exit TERM; sleep infinity & wait"],  # ends when asked
                    "resources": {"claims": [{"name": "gpu"}]},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": read_only,
                    },
                }
                for container in containers
            ],
        }
        self._post("v1", "pods", name, spec)
        return name

    def find(self, pod: str) -> Json | None:
        found: Json | None = self.cluster.api.find(f"{self._root}/pods/{pod}")
        return found

    def pods(self) -> list[Json]:
        found: list[Json] = self.cluster.api.get(f"{self._root}/pods")["items"]
        return found

    def runs(self, pod: str) -> bool:
        containers = (self.find(pod) or {}).get("status", {}).get("containerStatuses") or [{}]
        return all(container.get("state", {}).get("running") for container in containers)

    def running(self, *pods: str) -> str:
        """The last one's name, once all of them run."""
        eventually(lambda: all(self.runs(pod) for pod in pods), lambda: self.story(*pods), meanwhile=self.prod)
        return pods[-1]

    def delete(self, *pods: str) -> None:
        """Returns when they are gone."""
        for pod in pods:
            self.cluster.api.delete(f"{self._root}/pods/{pod}")
        eventually(lambda: not any(self.find(pod) for pod in pods), lambda: self.story(*pods), meanwhile=self.prod)

    def clear(self) -> None:
        """Without pods, claims and templates; returns when that is so."""
        self.cluster.api.delete(f"{self._root}/pods")
        eventually(lambda: not self.pods(), self.story, meanwhile=self.prod)
        for plural in ("resourceclaims", "resourceclaimtemplates"):
            self.cluster.api.delete(f"/apis/resource.k8s.io/v1/namespaces/{self.name}/{plural}")
        claims = f"/apis/resource.k8s.io/v1/namespaces/{self.name}/resourceclaims"
        eventually(lambda: not self.cluster.api.get(claims)["items"], self.story)

    def prod(self) -> None:
        """Makes kubelet look again at pods whose claims it could not prepare or give back, and the scheduler at those that wait for room, as
        the portal does: by themselves they do so after 60 to 90 s, and after five minutes (apps/cluster/drivers/kubernetes/prodding.py,
        waiting.py there)."""
        for pod in self.pods():
            if pod["status"]["phase"] == "Pending" or pod["metadata"].get("deletionTimestamp"):
                self._mark(f"{self._root}/pods/{pod['metadata']['name']}")
        self._mark("/apis/resource.k8s.io/v1/deviceclasses/waking.tessera.dev")

    def story(self, *pods: str) -> str:
        """What everybody said, for who reads why a test gave up."""
        told = [pod for pod in self.pods() if not pods or pod["metadata"]["name"] in pods]
        lines = []
        for pod in told:
            name = pod["metadata"]["name"]
            lines += [f"pod {name}: {json.dumps(pod['status'])}", *(f"  {event}" for event in self.events(name))]
        said = (self.cluster.logs / "kubelet.log").read_text(errors="replace").splitlines()
        lines += ["kubelet:", *[line for line in said if _TELLING.search(line)][-20:], "agent:", self.others_said()]
        return "\n".join(lines)

    def claim_uid(self, pod: str) -> str:
        return str(self._claim_of(pod)["metadata"]["uid"])

    def devices(self, pod: str) -> list[Json]:
        results: list[Json] = self._claim_of(pod)["status"]["allocation"]["devices"]["results"]
        return results

    def events(self, pod: str) -> list[str]:
        selector = f"involvedObject.name={pod}"
        listed = self.cluster.api.get(f"{self._root}/events", fieldSelector=selector)["items"]
        return [f"{event['reason']}: {event['message']}" for event in listed]

    def met_no_agent(self, pod: str) -> bool:
        """kubelet said so. (It also cannot prepare a claim when the API server has not yet seen that the pod is on its node.)"""
        missing = re.compile("FailedPrepareDynamicResources: .*(is not registered|NodePrepareResources)")
        return any(missing.match(event) for event in self.events(pod))

    def exec(self, pod: str, *command: str, container: str = "main") -> str:
        return self.cluster.kubectl("exec", "-n", self.name, pod, "-c", container, "--", *command)

    def program(
        self, pod: str, *, container: str = "main", before: Sequence[str] = (), library: str = "", context: bool = True
    ) -> AbstractContextManager[Program]:
        """tests/agent/program.py in the pod. `before` are words before the interpreter: `env -i`."""
        words = [self.cluster._programs["kubectl"], f"--kubeconfig={self.cluster.kubeconfig}", "exec", "-i"]
        words += ["-n", self.name, pod, "-c", container, "--", *before]
        return running(words, library=library, context=context)

    def _mark(self, path: str) -> None:
        with suppress(Refused):  # it has just gone
            self.cluster.api.merge(path, {"metadata": {"annotations": {"tessera.dev/test": secrets.token_hex(4)}}})

    def _claim_of(self, pod: str) -> Json:
        whole = self.cluster.api.get(f"{self._root}/pods/{pod}")
        (source,) = whole["spec"]["resourceClaims"]
        (made,) = whole["status"].get("resourceClaimStatuses") or [{}]
        name = source.get("resourceClaimName") or made["resourceClaimName"]
        found: Json = self.cluster.api.get(f"/apis/resource.k8s.io/v1/namespaces/{self.name}/resourceclaims/{name}")
        return found

    def _post(self, version: str, plural: str, name: str, spec: Json) -> None:
        kinds = {"pods": "Pod", "resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate"}
        body = {"apiVersion": version, "kind": kinds[plural], "metadata": {"name": name}, "spec": spec}
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        self.cluster.api.post(f"{root}/namespaces/{self.name}/{plural}", body)
