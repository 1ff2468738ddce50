"""The objects of one run, from its RunSpec. Pure: the same spec and rules give the same objects, so making them again changes nothing.

Everything that the portal's row needs lies in labels (to select by) and annotations (to read).
"""

import base64
import re
from collections.abc import Mapping
from typing import Any

from apps.cluster.drivers.kubernetes import encoding, names, quantities
from apps.cluster.drivers.kubernetes.adapters.base import Slice
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.cluster.drivers.kubernetes.tenancy import ACCOUNT
from apps.cluster.specs import RunSpec, Volume
from apps.core.share import MIB

Manifest = dict[str, Any]

CONTAINER = "main"
TOKEN = "TESSERA_TOKEN"  # noqa: S105 - the name of a variable
_HOST_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HOME = "~"


def tenant_of(spec: RunSpec) -> str:
    """The slug where the portal gives one; its id is no name for people."""
    return spec.labels.get("tenant") or spec.tenant


def namespace_of(spec: RunSpec, rules: Rules) -> str:
    return names.namespace_of(rules.portal, tenant_of(spec))


def labels(spec: RunSpec, rules: Rules) -> dict[str, str]:
    return {
        **names.portal_labels(rules.portal),
        names.WORKLOAD: names.key_of(spec.uid),
        names.RUN: str(spec.run),
        names.TENANT: names.label_value(tenant_of(spec)),
        names.KIND: names.label_value(spec.kind),
    }


def _uid_annotation(spec: RunSpec) -> dict[str, str]:
    return {names.UID: spec.uid} if names.key_of(spec.uid) != spec.uid else {}


def _metadata(spec: RunSpec, rules: Rules, name: str, **annotations: str) -> Manifest:
    return {
        "name": name,
        "namespace": namespace_of(spec, rules),
        "labels": labels(spec, rules),
        "annotations": {**_uid_annotation(spec), **annotations},
    }


# --- What must be there before the pod -----------------------------------------------------------------------------------
def secret(spec: RunSpec, rules: Rules, token: str) -> Manifest:
    """The run's variables, which may be secret, and the word by which the gateway proves itself. Never changed once made."""
    values = {**spec.env, TOKEN: token}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(spec, rules, names.run_name(spec.uid, spec.run)),
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(values.items())},
    }


def token_in(secret: Mapping[str, Any]) -> str:
    return base64.b64decode((secret.get("data") or {}).get(TOKEN, "")).decode()


def slice_objects(spec: RunSpec, rules: Rules, part: Slice) -> list[Manifest]:
    return [{**thing, "metadata": _metadata(spec, rules, names.run_name(spec.uid, spec.run))} for thing in part.objects]


def volume(spec: RunSpec, rules: Rules, wanted: Volume) -> Manifest:
    """Belongs to the tenant, not to the run: it outlives it."""
    claim: Manifest = {
        "accessModes": [rules.access_mode],
        "resources": {"requests": {"storage": quantities.bytes_text(rules.volume_bytes)}},
    }
    if rules.storage_class:
        claim["storageClassName"] = rules.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.volume_name(wanted.name),
            "namespace": namespace_of(spec, rules),
            "labels": {**names.portal_labels(rules.portal), names.TENANT: names.label_value(tenant_of(spec))},
            "annotations": {names.VOLUME: wanted.name, names.OWNER: _owner(spec)},
        },
        "spec": claim,
    }


def service(spec: RunSpec, rules: Rules) -> Manifest:
    """A name within the cluster that stays over all runs; without an address of its own, it points at the pod's."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **_metadata(spec, rules, names.service_name(spec.uid)),
            "labels": {key: value for key, value in labels(spec, rules).items() if key != names.RUN},
        },
        "spec": {
            "clusterIP": "None",
            "selector": {names.PORTAL: rules.portal, names.WORKLOAD: names.key_of(spec.uid)},
            "ports": [
                {"name": port.name, "port": number, "targetPort": number} for port, number in _ports(spec, rules)
            ],
        },
    }


# --- The pod -------------------------------------------------------------------------------------------------------------
def pod(spec: RunSpec, rules: Rules, image: str, part: Slice, adapter: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(
            spec,
            rules,
            names.run_name(spec.uid, spec.run),
            **{
                names.NAME: spec.name,
                names.OWNER: _owner(spec),
                names.SPEC: encoding.to_json(spec),
                names.SPEC_HASH: encoding.hash_of(spec),
                names.SLICES: adapter,
                **part.annotations,
            },
        ),
        "spec": _pod_spec(spec, rules, image, part),
    }


def _pod_spec(spec: RunSpec, rules: Rules, image: str, part: Slice) -> Manifest:
    made: Manifest = {
        "restartPolicy": "Never",  # a run is wanted once
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,  # somebody must reap what programs leave behind, and SIGTERM must end what does not ask for it
        "terminationGracePeriodSeconds": max(spec.grace_seconds, 1),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": rules.user,
            "runAsGroup": rules.user,
            "fsGroup": rules.user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec, rules, image, part)],
        "volumes": _volumes(spec, rules),
        **part.pod,
    }
    if _HOST_NAME.fullmatch(spec.slug):
        made["hostname"] = spec.slug
    if rules.pull_secrets:
        made["imagePullSecrets"] = [{"name": name} for name in rules.pull_secrets]
    if rules.priority_class:
        made["priorityClassName"] = rules.priority_class
    if spec.resources.gpu is not None and rules.tolerations:
        made["tolerations"] = [dict(one) for one in rules.tolerations]
    return made


def _container(spec: RunSpec, rules: Rules, image: str, part: Slice) -> Manifest:
    wanted = spec.resources
    request = max(wanted.cpu_milli * rules.cpu_request_permille // 1000, 1)
    resources: Manifest = {
        "requests": {"cpu": quantities.milli_text(request), "memory": quantities.bytes_text(wanted.ram)},
        "limits": {
            "cpu": quantities.milli_text(wanted.cpu_milli),
            "memory": quantities.bytes_text(wanted.ram),
            **part.limits,
        },
    }
    if part.claims:
        resources["claims"] = [dict(claim) for claim in part.claims]
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": rules.pull_policy,
        "command": list(spec.command),
        "workingDir": rules.home,
        "envFrom": [{"secretRef": {"name": names.run_name(spec.uid, spec.run)}}],
        "env": [{"name": name, "value": value} for name, value in variables(spec, rules).items()],
        "ports": [{"name": port.name, "containerPort": number} for port, number in _ports(spec, rules)],
        "resources": resources,
        "volumeMounts": _mounts(spec, rules),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # its last lines, where it fails
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def variables(spec: RunSpec, rules: Rules) -> dict[str, str]:
    """Everything that is no secret. `$(` is doubled: Kubernetes would take it for a reference."""
    person = _owner(spec)
    found = {
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "HOME": rules.home,
        "USER": person,
        "LOGNAME": person,
        "TMPDIR": "/tmp",  # noqa: S108 - a volume of this pod alone
        "XDG_RUNTIME_DIR": "/tmp/run",  # noqa: S108
        "JUPYTER_RUNTIME_DIR": "/tmp/run/jupyter",  # noqa: S108
        "OMP_NUM_THREADS": str(max(1, -(-spec.resources.cpu_milli // 1000))),
        "TESSERA_OWNER": person,
        **_share(spec),
    }
    if spec.ports:
        found["TESSERA_PORT"] = str(rules.first_port)
    return {name: value.replace("$(", "$$(") for name, value in found.items()}


def _share(spec: RunSpec) -> dict[str, str]:
    """For people and programs that want to know. It limits nothing; the claim does."""
    gpu = spec.resources.gpu
    if gpu is None:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    return {
        "TESSERA_GPU_COUNT": str(gpu.count),
        "TESSERA_GPU_MEMORY": str(gpu.memory),  # bytes per card
        "TESSERA_GPU_COMPUTE": str(gpu.compute),  # per mille of each card, guaranteed
        "TESSERA_GPU_CEILING": str(gpu.ceiling),  # per mille of each card, while others are idle
    }


def _volumes(spec: RunSpec, rules: Rules) -> list[Manifest]:
    shared_memory = max(spec.resources.ram // 2 // MIB * MIB, MIB)
    found: list[Manifest] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": quantities.bytes_text(rules.scratch_bytes)}},
        # The runtime's default of 64 MiB ends every data loader with worker processes.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantities.bytes_text(shared_memory)}},
    ]
    if not any(volume.path == _HOME for volume in spec.volumes):
        found.append({"name": "home", "emptyDir": {"sizeLimit": quantities.bytes_text(rules.scratch_bytes)}})
    for number, volume in enumerate(spec.volumes):
        claim = {"claimName": names.volume_name(volume.name)}
        found.append({"name": f"volume-{number}", "persistentVolumeClaim": claim})
    return found


def _mounts(spec: RunSpec, rules: Rules) -> list[Manifest]:
    found = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
    if not any(volume.path == _HOME for volume in spec.volumes):
        found.append({"name": "home", "mountPath": rules.home})
    for number, volume in enumerate(spec.volumes):
        path = rules.home + volume.path[1:] if volume.path.startswith(_HOME) else volume.path
        found.append({"name": f"volume-{number}", "mountPath": path})
    return found


def port_number(spec: RunSpec, rules: Rules, name: str) -> int | None:
    return next((number for port, number in _ports(spec, rules) if port.name == name), None)


def _ports(spec: RunSpec, rules: Rules) -> list[tuple[Any, int]]:
    return [(port, rules.first_port + offset) for offset, port in enumerate(spec.ports)]


def _owner(spec: RunSpec) -> str:
    return spec.labels.get("owner") or spec.owner
