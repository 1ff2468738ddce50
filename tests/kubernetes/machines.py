"""What stands behind the API server of the tests: a scheduler, the controller of claims, and a kubelet whose containers are real
processes of this machine. Small, and true to what the driver relies on.
"""

import asyncio
import copy
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from apps.cluster.drivers.kubernetes import names, quantities
from tests.kubernetes.agents import Agent
from tests.kubernetes.containers import Container, now
from tests.kubernetes.server import ApiServer, Manifest

PROGRAM = Path(__file__).parents[1] / "contract" / "program.py"
NODE = "node-1"
GIB = 1024**3


def node(name: str = NODE, *, ready: bool = True, **meta: Any) -> Manifest:
    conditions = [
        {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, **meta},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


def resource_slice(models: str, node_name: str = NODE, **changes: Any) -> Manifest:
    """As the node agent writes it: one card of 79 GiB for each of the comma-separated models."""
    devices = [
        {
            "name": f"gpu-{index}",
            "allowMultipleAllocations": True,
            "attributes": {
                "uuid": {"string": f"GPU-{node_name}-{index}"},
                "model": {"string": model.upper()},
                "index": {"int": index},
                "simulated": {"bool": True},
                "driverVersion": {"version": "580.0.0"},
            },
            "capacity": {"memory": {"value": "79Gi"}, "compute": {"value": "1000"}},
            **changes,
        }
        for index, model in enumerate(models.split(","))
    ]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": names.DRIVER, "nodeName": node_name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node_name}-{names.DRIVER}"}, "spec": spec}


class Machines:
    """One node. What a test sets here changes what happens to the pods that come next."""

    def __init__(self, server: ApiServer, folder: Path, port: int) -> None:
        self.server, self.folder, self.port = server, folder, port
        self.images = {"contract"}  # that can be pulled
        self.programs = {"exercise": PROGRAM}
        self.schedules = True  # False: pods wait without a word
        self.prepares = True  # False: the kubelet complains of pods with claims, as follows
        self.complaint = ("FailedPrepareDynamicResources", f"DRA driver {names.DRIVER} is not registered")
        self.overlooks = 0  # times that the scheduler overlooks room, and takes no other look before it is woken
        self._overlooked: set[str] = set()
        self._containers: dict[str, Container] = {}  # by pod's id
        self._waiting: list[str] = []  # names of pods, oldest first
        self._unprepared: set[str] = set()  # ids of pods whose claims could not be prepared
        # Addresses of this machine's loopback, another range for each place: several run at once.
        self.network = f"127.{secrets.randbelow(128) + 64}.{secrets.randbelow(256)}"
        self._numbers = iter(range(2, 250))
        self._tasks: set[asyncio.Task[None]] = set()
        self.agent = Agent(server, f"{self.network}.1")
        server.on_change.append(self._changed)
        server.put("nodes", node())
        for name in (names.DRIVER, names.WAKING):
            server.put("deviceclasses", {"metadata": {"name": name}})

    def cards(self, models: str) -> None:
        self.server.put("resourceslices", resource_slice(models))
        self._place_all()

    async def close(self) -> None:
        await self.agent.stop()
        for container in self._containers.values():
            container.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- Scheduler and controllers ---------------------------------------------------------------------------------------
    def _changed(self, plural: str, before: Manifest | None, after: Manifest | None) -> None:
        if plural == "deviceclasses":
            self._overlooked.clear()
            self._place_all()
        if plural == "persistentvolumeclaims" and before is None and after is not None:
            self.server.patch(plural, after["metadata"]["name"], {"status": {"phase": "Bound"}})
        if plural == "pods" and (after or before or {})["metadata"]["namespace"] in (
            names.AGENT_NAMESPACE,
            "kube-system",
        ):
            return  # others look after them
        if plural == "pods" and before is None and after is not None:
            self._waiting.append(after["metadata"]["name"])
            self._place_all()
        elif plural == "pods" and before is not None and after is None:
            self._forget(before)
        elif plural == "pods" and after is not None and after["metadata"].get("deletionTimestamp"):
            self._end(after)
        elif plural == "pods" and before is not None and after is not None and self._is_looked_at_again(before, after):
            self._begin(self._run(after))

    def _is_looked_at_again(self, before: Manifest, after: Manifest) -> bool:
        """The kubelet looks when an annotation has changed; a claim that it could not prepare is then prepared anew."""
        changed = before["metadata"].get("annotations") != after["metadata"].get("annotations")
        return changed and after["metadata"]["uid"] in self._unprepared

    def _forget(self, pod: Manifest) -> None:
        with suppress(ValueError):
            self._waiting.remove(pod["metadata"]["name"])
        container = self._containers.pop(pod["metadata"]["uid"], None)
        if container is not None:
            container.kill()
        self._release(pod)

    def _release(self, pod: Manifest) -> None:
        for claim in self.server.all("resourceclaims"):
            name, id_ = claim["metadata"]["name"], pod["metadata"]["uid"]
            if claim["metadata"].get("ownerReferences", [{}])[0].get("uid") == id_:
                self.server.drop("resourceclaims", name)
            elif any(one["uid"] == id_ for one in claim.get("status", {}).get("reservedFor") or ()):
                self.server.patch("resourceclaims", name, {"status": {"allocation": None, "reservedFor": None}})
        self._place_all()

    def _place_all(self) -> None:
        for name in list(self._waiting) if self.schedules else ():
            found = [pod for pod in self.server.all("pods") if pod["metadata"]["name"] == name]
            if found and name not in self._overlooked and self._place(copy.deepcopy(found[0])):
                self._waiting.remove(name)

    def _place(self, pod: Manifest) -> bool:
        claims = self._claims(pod)
        name = pod["metadata"]["name"]
        if claims and self.overlooks:
            self.overlooks -= 1
            self._overlooked.add(name)
        given = None if name in self._overlooked else self._allocate(claims)
        if given is None:
            message = "0/1 nodes are available: 1 cannot allocate all claims."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            if (pod["status"].get("conditions") or [{}])[0] != condition:
                self.server.patch("pods", name, {"status": {"conditions": [condition]}})
            return False
        for claim, results in zip(claims, given, strict=True):
            allocation = {"devices": {"results": results, "config": claim["spec"]["devices"].get("config", [])}}
            reserved = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
            change = {"status": {"allocation": allocation, "reservedFor": reserved}}
            self.server.patch("resourceclaims", claim["metadata"]["name"], change)
        conditions = [{"type": "PodScheduled", "status": "True"}]
        placed = self.server.patch("pods", name, {"spec": {"nodeName": NODE}, "status": {"conditions": conditions}})
        self._begin(self._run(placed))
        return True

    def _claims(self, pod: Manifest) -> list[Manifest]:
        """Those that it names, and those of templates, which are made once."""
        made = []
        statuses = []
        for wanted in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimName" in wanted:
                made.append(self.server.one("resourceclaims", wanted["resourceClaimName"]))
                continue
            name = f"{pod['metadata']['name']}-{wanted['name']}"
            statuses.append({"name": wanted["name"], "resourceClaimName": name})
            known = [c for c in self.server.all("resourceclaims") if c["metadata"]["name"] == name]
            made.append(known[0] if known else self._make_claim(pod, wanted["resourceClaimTemplateName"], name))
        if statuses and "resourceClaimStatuses" not in pod["status"]:
            self.server.patch("pods", pod["metadata"]["name"], {"status": {"resourceClaimStatuses": statuses}})
        return made

    def _make_claim(self, pod: Manifest, template: str, name: str) -> Manifest:
        spec = self.server.one("resourceclaimtemplates", template)["spec"]
        owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
        meta = {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "ownerReferences": [owner],
            **spec.get("metadata", {}),
        }
        return self.server.put("resourceclaims", {"metadata": meta, "spec": spec["spec"], "status": {}})

    def _allocate(self, claims: list[Manifest]) -> list[list[Manifest]] | None:
        free = self._free()
        given = []
        for claim in claims:
            request = claim["spec"]["devices"]["requests"][0]
            results = list(self._devices(request["exactly"], request["name"], free))
            if len(results) < request["exactly"].get("count", 1):
                return None
            given.append(results)
        return given

    def _devices(self, exactly: Manifest, request: str, free: dict[str, dict[str, int]]) -> Iterator[Manifest]:
        left = exactly.get("count", 1)
        for name, capacity in free.items():
            asked = exactly.get("capacity", {}).get("requests")
            wanted = {key: quantities.whole(asked[key]) if asked else self._total(name)[key] for key in capacity}
            if left and all(capacity[key] >= wanted[key] for key in wanted):
                left -= 1
                for key in wanted:
                    capacity[key] -= wanted[key]
                consumed = {"memory": quantities.bytes_text(wanted["memory"]), "compute": str(wanted["compute"])}
                yield {
                    **{"request": request, "driver": names.DRIVER, "pool": NODE, "device": name},
                    **{"shareID": f"share-{name}-{capacity['compute']}", "consumedCapacity": consumed},
                }

    def _total(self, device: str) -> dict[str, int]:
        for slice_ in self.server.all("resourceslices"):
            for one in slice_["spec"]["devices"]:
                if one["name"] == device:
                    return {key: quantities.whole(c["value"]) for key, c in one["capacity"].items()}
        return {"memory": 0, "compute": 0}

    def _free(self) -> dict[str, dict[str, int]]:
        names_ = [
            d["name"] for s in self.server.all("resourceslices") for d in s["spec"]["devices"] if not d.get("taints")
        ]
        free = {name: self._total(name) for name in names_}
        for claim in self.server.all("resourceclaims"):
            results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            for result in results:
                for key, amount in result["consumedCapacity"].items():
                    if result["device"] in free:
                        free[result["device"]][key] -= quantities.whole(amount)
        return free

    # --- Kubelet ---------------------------------------------------------------------------------------------------------
    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _status(self, pod: Manifest, **status: Any) -> None:
        name = pod["metadata"]["name"]
        if any(known["metadata"]["uid"] == pod["metadata"]["uid"] for known in self.server.all("pods")):
            self.server.patch("pods", name, {"status": status})

    def _container_status(self, pod: Manifest, state: Manifest, **more: Any) -> list[Manifest]:
        return [{"name": "main", "image": pod["spec"]["containers"][0]["image"], "state": state, **more}]

    async def _run(self, pod: Manifest) -> None:
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        self._status(pod, containerStatuses=self._container_status(pod, waiting))
        image = pod["spec"]["containers"][0]["image"]
        if image not in self.images:
            reason = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": not found'}
            self._status(pod, containerStatuses=self._container_status(pod, {"waiting": reason}))
            return
        if pod["spec"].get("resourceClaims") and not self.prepares:
            self._unprepared.add(pod["metadata"]["uid"])
            self.event(pod, *self.complaint)
            return
        self._unprepared.discard(pod["metadata"]["uid"])
        address = f"{self.network}.{next(self._numbers)}"
        container = self._containers[pod["metadata"]["uid"]] = Container(
            self.server, self.programs, self.folder, pod, (address, self.port)
        )
        self.server.logs[pod["metadata"]["name"]] = container.log
        try:
            await container.start()
        except FileNotFoundError as problem:
            container.ended, command = True, problem.filename
            message = f'failed to create task: exec: "{command}": executable file not found in $PATH'
            self._ended(pod, {"exitCode": 128, "reason": "StartError", "message": message})
            return
        running = {"running": {"startedAt": now()}}
        status = self._container_status(pod, running, containerID="containerd://1")
        self._status(pod, phase="Running", podIP=address, containerStatuses=status)
        code = await container.wait()
        signal_code = 128 - code if code < 0 else code
        message = "".join(container.text.decode(errors="replace").splitlines(keepends=True)[-80:])[-2048:]
        ended: Manifest = {
            "exitCode": signal_code,
            "reason": "Completed" if code == 0 else "Error",
            "finishedAt": now(),
        }
        if code:
            ended["message"] = message
        self._ended(pod, ended)

    def _ended(self, pod: Manifest, ended: Manifest) -> None:
        phase = "Failed" if ended["exitCode"] else "Succeeded"
        status = self._container_status(pod, {"terminated": ended}, containerID="containerd://1")
        self._status(pod, phase=phase, containerStatuses=status)
        self._release(pod)
        known = [p for p in self.server.all("pods") if p["metadata"]["uid"] == pod["metadata"]["uid"]]
        if known and known[0]["metadata"].get("deletionTimestamp") and not known[0]["metadata"].get("finalizers"):
            self.server.drop("pods", pod["metadata"]["name"])

    def _end(self, pod: Manifest) -> None:
        container = self._containers.get(pod["metadata"]["uid"])
        if container is None or container.ended:
            if not pod["metadata"].get("finalizers"):
                self.server.drop("pods", pod["metadata"]["name"])
            return
        container.stop(pod["metadata"].get("deletionGracePeriodSeconds", 30))

    def event(self, pod: Manifest, reason: str, message: str) -> None:
        meta = pod["metadata"]
        about = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        name = f"{meta['name']}.{reason.lower()}"
        event = {"metadata": {"name": name, "namespace": meta["namespace"]}, "type": "Warning", "reason": reason}
        self.server.put("events", {**event, "message": message, "involvedObject": about, "lastTimestamp": now()})
