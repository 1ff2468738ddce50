"""Pods with shares of cards, and CUDA programs inside them."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.cluster.cluster import Cluster
from tests.cluster.parts import PROJECT
from tests.cluster.pods import eventually
from tests.cluster_node.python_image import NAME

GIB: Final = 1024**3
DRIVER: Final = "gpu.tessera.dev"
_PROGRAM: Final = (PROJECT / "tests" / "agent" / "program.py").read_text()
_BOUND: Final = 60  # s; only says when a test gives up
_SECOND_TRY: Final = 150  # s; kubelet looks at a pod again after 60 to 90 s when its claim could not be prepared

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
                    "command": ["sleep", "infinity"],
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

    def status(self, pod: str) -> Json:
        found: Json = self.cluster.api.get(f"/api/v1/namespaces/{self.name}/pods/{pod}")["status"]
        return found

    def runs(self, pod: str) -> bool:
        found = self.cluster.api.find(f"/api/v1/namespaces/{self.name}/pods/{pod}")
        containers = (found or {}).get("status", {}).get("containerStatuses") or [{}]
        return all(container.get("state", {}).get("running") for container in containers)

    def running(self, pod: str) -> str:
        eventually(lambda: self.runs(pod), lambda: (self.status(pod), self.events(pod)), seconds=_SECOND_TRY)
        return pod

    def delete(self, pod: str) -> None:
        self.cluster.kubectl("delete", "pod", "-n", self.name, pod, f"--timeout={_BOUND}s")

    def claim_uid(self, pod: str) -> str:
        return str(self._claim_of(pod)["metadata"]["uid"])

    def devices(self, pod: str) -> list[Json]:
        results: list[Json] = self._claim_of(pod)["status"]["allocation"]["devices"]["results"]
        return results

    def events(self, pod: str) -> list[str]:
        selector = f"involvedObject.name={pod}"
        listed = self.cluster.api.get(f"/api/v1/namespaces/{self.name}/events", fieldSelector=selector)["items"]
        return [f"{event['reason']}: {event['message']}" for event in listed]

    def exec(self, pod: str, *command: str, container: str = "main") -> str:
        return self.cluster.kubectl("exec", "-n", self.name, pod, "-c", container, "--", *command)

    @contextmanager
    def program(
        self, pod: str, *, container: str = "main", before: Sequence[str] = (), library: str = "", context: bool = True
    ) -> Iterator[Program]:
        """tests/agent/program.py in the pod. `before` are words before the interpreter: `env -i`."""
        words = [self.cluster._programs["kubectl"], f"--kubeconfig={self.cluster.kubeconfig}", "exec", "-i"]
        words += ["-n", self.name, pod, "-c", container, "--", *before, "python3", "-I", "-S", "-c", _PROGRAM]
        words += ["--library", library] if library else []
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            program = Program(process)
            try:
                program.inner_pid = program.answer()["pid"]
                if context:
                    opened = program.tell("open")
                    assert opened["ok"], opened
                yield program
            finally:
                program.end()

    def _claim_of(self, pod: str) -> Json:
        whole = self.cluster.api.get(f"/api/v1/namespaces/{self.name}/pods/{pod}")
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


class Program:
    """See tests/agent/program.py for what it can be told. `inner_pid` is its number inside the container."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.inner_pid = 0

    def tell(self, command: str) -> Json:
        self.begin(command)
        return self.answer()

    def begin(self, command: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Json:
        assert self._process.stdout
        assert select.select([self._process.stdout], [], [], _BOUND)[0], "the program says nothing"
        line = self._process.stdout.readline()
        assert line, "the program ended without an answer"
        found: Json = json.loads(line)
        return found

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(_BOUND)
        except subprocess.TimeoutExpired:
            self._process.kill()


def host_pid(inner: int, pod_uid: str) -> int:
    """This machine's number of a process in a pod, whose containers' control groups carry the pod's uid."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and pod_uid in _read(folder / "cgroup").replace("_", "-"):
            numbers = _read(folder / "status").partition("NSpid:")[2].splitlines()[0].split()
            if numbers[-1] == str(inner):
                return int(folder.name)
    raise AssertionError(f"no process {inner} in pod {pod_uid}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
