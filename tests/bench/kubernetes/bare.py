"""The same pod without the portal: its manifest is what the portal made, under another name and with nothing that the portal watches."""

from __future__ import annotations

import base64
import copy
import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Final

from tests.bench.kubernetes.connection import Connected
from tests.bench.kubernetes.rig import NAMESPACE
from tests.cluster.api import Refused

_CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
TEMPLATES: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
_OURS: Final = "tessera.dev/"
_TOKEN: Final = "bare"
_PAUSE: Final = 0.02  # s between two attempts to connect


class Pattern:
    """Of one run of the portal: pod, volume claim, secret, and its claim as a template, by which pods with claims are made by hand."""

    def __init__(self, api: Connected, workload: str) -> None:
        pod = api.get(f"{_CORE}/pods", labelSelector=f"tessera.dev/workload={workload}")["items"][0]
        self._api = api
        self._pod: dict[str, Any] = _stripped(pod)
        for key in ("nodeName", "tolerations", "priority", "preemptionPolicy", "schedulerName"):
            self._pod["spec"].pop(key, None)
        name = pod["metadata"]["name"]
        self._claim = api.get(f"{CLAIMS}/{name}")["spec"] if self._pod["spec"].get("resourceClaims") else None
        homes = [one for one in self._pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
        self._homes = {
            one["name"]: _stripped(
                api.get(f"{_CORE}/persistentvolumeclaims/{one['persistentVolumeClaim']['claimName']}")
            )
            for one in homes
        }
        for home in self._homes.values():
            home["spec"].pop("volumeName", None)

    def prepare(self, name: str) -> dict[str, Any]:
        """Make what the pod needs, and return the pod, which is not made. The volumes are asked for, as the portal does, at the pod's start."""
        pod = self._named(name)
        container = pod["spec"]["containers"][0]
        container["envFrom"] = [{"secretRef": {"name": name}}]
        word = base64.b64encode(_TOKEN.encode()).decode()
        secret = {"metadata": {"name": name}, "data": {"TESSERA_TOKEN": word}}
        self._make(f"{_CORE}/secrets", secret)
        if self._claim is not None:
            self.template(name)
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
        return pod

    def objects(self, name: str, template: str) -> list[tuple[str, dict[str, Any]]]:
        """Volume claims and pod with their paths, all pods by one claim template, which is there. For fake nodes: without a secret."""
        pod = self._named(name)
        pod["spec"]["containers"][0].pop("envFrom", None)
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        homes = [
            (f"{_CORE}/persistentvolumeclaims", home | {"metadata": {"name": name}}) for home in self._homes.values()
        ]
        return [*homes, (f"{_CORE}/pods", pod)]

    def template(self, name: str) -> None:
        assert self._claim is not None
        self._make(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": self._claim}})

    def _named(self, name: str) -> dict[str, Any]:
        pod = copy.deepcopy(self._pod)
        pod["metadata"] |= {"name": name, "labels": {"bench": "bare"}}
        for volume in pod["spec"]["volumes"]:
            if "persistentVolumeClaim" in volume:
                volume["persistentVolumeClaim"]["claimName"] = name
        return pod

    def _make(self, path: str, thing: dict[str, Any]) -> None:
        try:
            self._api.post(path, thing)
        except Refused as refused:
            if refused.status != 409:
                raise

    def start(self, pod: dict[str, Any]) -> float:
        """Seconds from the first request, for its volume, to the first answer of its server."""
        name = pod["metadata"]["name"]
        address: list[str] = []
        watching = threading.Event()
        watch = threading.Thread(target=self._address, args=(name, address, watching), daemon=True)
        watch.start()
        watching.wait()
        with self._api.kept() as post:  # connected before it counts, as the portal is
            began = time.monotonic()
            for home in self._homes.values():
                post(f"{_CORE}/persistentvolumeclaims", home | {"metadata": {"name": name}})
            post(f"{_CORE}/pods", pod)
        watch.join(120)
        port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        _answered(f"http://{address[0]}:{port}/api/status", began + 120)
        return time.monotonic() - began

    def _address(self, name: str, found: list[str], watching: threading.Event) -> None:
        """Of the pod, once its container runs: told by a watch."""
        since = self._api.get(f"{_CORE}/pods", limit="1")["metadata"]["resourceVersion"]
        watching.set()
        query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": since, "timeoutSeconds": "120"}
        for event in self._api.watch(f"{_CORE}/pods", **query):
            status = event["object"].get("status") or {}
            running = [one for one in status.get("containerStatuses") or () if "running" in (one.get("state") or {})]
            if status.get("podIP") and running:
                found.append(status["podIP"])
                return

    def end(self, *names: str) -> None:
        """And wait until nothing of them is left."""
        for name in names:
            self._api.call("DELETE", f"{_CORE}/pods/{name}", body={"gracePeriodSeconds": 1})
        while any(self._api.find(f"{_CORE}/pods/{name}") for name in names):
            time.sleep(0.1)
        for name in names:
            doomed = [f"{_CORE}/secrets/{name}", *(f"{_CORE}/persistentvolumeclaims/{name}" for _ in self._homes)]
            for path in (*doomed, *([f"{TEMPLATES}/{name}"] if self._claim is not None else [])):
                self._api.delete(path)


def _answered(url: str, end: float) -> None:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {_TOKEN}"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120):
                return
        except urllib.error.HTTPError as answer:
            if answer.code < 500:
                return
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(_PAUSE)


def _stripped(thing: dict[str, Any]) -> dict[str, Any]:
    """What somebody would write down who makes it by hand."""
    kept = json.loads(json.dumps({key: thing[key] for key in ("spec",) if key in thing}))
    kept["metadata"] = {}
    return dict(kept)
