"""The kinds of objects that the driver reads and writes, and where the API server has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object; `group` is empty for the core one."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", *more: str) -> str:
        """Without a namespace: all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        return "/" + "/".join(quote(part, safe="") for part in (*parts, *((name,) if name else ()), *more))


PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
VOLUMES = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = Resource("", "v1", "events", "Event")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
ALL = {
    (r.api_version, r.kind): r
    for r in (
        *(PODS, SECRETS, SERVICES, VOLUMES, NODES, NAMESPACES, CLAIMS),
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource("", "v1", "resourcequotas", "ResourceQuota"),
        Resource("", "v1", "limitranges", "LimitRange"),
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    )
}


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    return ALL[manifest["apiVersion"], manifest["kind"]]
