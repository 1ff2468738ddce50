"""What an API server tells of itself and of its cluster: version, groups, metrics, queues, and what an account may do, by real manifests."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from apps.cluster.drivers.kubernetes import names
from tests.kubernetes.server import ApiServer, Manifest, Refused

RIGHTS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "portal-rights.yaml"
ACCOUNT = "system:serviceaccount:tessera-system:tessera"
# As a real one of 1.36 writes them.
METRICS = """\
# HELP apiserver_flowcontrol_nominal_limit_seats Nominal number of execution seats configured for each priority level
# TYPE apiserver_flowcontrol_nominal_limit_seats gauge
apiserver_flowcontrol_nominal_limit_seats{priority_level="system"} 74
apiserver_flowcontrol_nominal_limit_seats{priority_level="workload-low"} 245
# HELP apiserver_flowcontrol_rejected_requests_total Number of requests rejected by API Priority and Fairness subsystem
# TYPE apiserver_flowcontrol_rejected_requests_total counter
apiserver_flowcontrol_rejected_requests_total{flow_schema="global-default",priority_level="global-default",reason="queue-full"} 7
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 1
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 1
kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1
"""


def roles() -> dict[str, list[Manifest]]:
    """The rules of the manifest's roles, by name."""
    documents = yaml.safe_load_all(RIGHTS.read_text())
    return {d["metadata"]["name"]: d["rules"] for d in documents if d["kind"] in ("Role", "ClusterRole")}


class ControlPlane:
    """Answers by its fields, which a test may change."""

    def __init__(self, server: ApiServer) -> None:
        self.version = "v1.36.3"
        self.groups = ["v1"]
        self.metrics = METRICS
        self.forbidden: set[str] = set()  # paths
        self.roles = roles()
        self.authorises = True  # False: says that it knows not all rules
        server.served |= {"flowschemas", "prioritylevelconfigurations"}
        server.put("flowschemas", {"metadata": {"name": "service-accounts", "uid": "flow-1"}})
        server.put("prioritylevelconfigurations", {"metadata": {"name": "workload-low", "uid": "level-1"}})
        queues = {"X-Kubernetes-PF-FlowSchema-UID": "flow-1", "X-Kubernetes-PF-PriorityLevel-UID": "level-1"}
        server["get /version"] << (lambda: {"gitVersion": self.version}) << queues
        server["get /apis/resource.k8s.io"] << self._group
        server["get /metrics"] << self._metrics
        reviews = "post /apis/authorization.k8s.io/v1/selfsubject"
        server[f"{reviews}accessreviews"] << self._access
        server[f"{reviews}rulesreviews"] << self._rules
        server["post /apis/authentication.k8s.io/v1/selfsubjectreviews"] << (
            lambda: {"status": {"userInfo": {"username": ACCOUNT}}}
        )

    def _group(self) -> Any:
        if not self.groups:
            raise Refused(404, "the server could not find the requested resource")
        return {"kind": "APIGroup", "versions": [{"version": one} for one in self.groups]}

    def _metrics(self) -> Any:
        if "/metrics" in self.forbidden:
            raise Refused(403, f'forbidden: User "{ACCOUNT}" cannot get path "/metrics"')
        return self.metrics.encode()

    def _access(self, request: Any) -> Manifest:
        asked = request.data["spec"]["resourceAttributes"]
        rules = list(self.roles["tessera"])
        if asked["namespace"] == names.AGENT_NAMESPACE:
            rules += self.roles["tessera-figures"]
        return {"status": {"allowed": any(_allows(rule, asked) for rule in rules)}}

    def _rules(self) -> Manifest:
        known = [*self.roles["tessera"], *self.roles["tessera-tenant"]]
        return {"status": {"resourceRules": known if self.authorises else [], "incomplete": not self.authorises}}


def _allows(rule: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
    sub = f"/{asked['subresource']}" if asked.get("subresource") else ""
    return (
        _has(rule.get("verbs"), asked["verb"])
        and _has(rule.get("apiGroups"), asked["group"])
        and _has(rule.get("resources"), asked["resource"] + sub)
        and ("resourceNames" not in rule or asked["name"] in rule["resourceNames"])
    )


def _has(known: Iterable[str] | None, wanted: str) -> bool:
    return bool({"*", wanted} & set(known or ()))
