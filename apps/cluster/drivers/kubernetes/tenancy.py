"""What every tenant's namespace holds before the first run: an account without rights, closed ways in, limits. Pure.

The portal's quotas are the truth; ResourceQuota and LimitRange here stop only what went around them.
"""

import hashlib
import json
from typing import Any

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.settings import Rules

Manifest = dict[str, Any]

ACCOUNT = "tessera-workload"
_EVERYTHING = "tessera"  # name of the one policy, quota, limit range, binding


def namespace(rules: Rules, tenant: str, *, setup: str = "") -> Manifest:
    """`setup` is written last of all, when everything else is in place."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": names.namespace_of(rules.portal, tenant),
            "labels": {
                **names.portal_labels(rules.portal),
                names.TENANT: names.label_value(tenant),
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/warn": "restricted",
            },
            "annotations": {names.NAME: tenant, **({names.SETUP: setup} if setup else {})},
        },
    }


def contents(rules: Rules, tenant: str) -> list[Manifest]:
    """In the order in which they are to be applied, all before the first pod."""
    inside = [_account(), _policy(rules), _quota(rules), _limits()]
    if rules.tenant_role:
        inside.insert(0, _binding(rules))  # the portal's own rights in here come first
    where = names.namespace_of(rules.portal, tenant)
    for manifest in inside:
        manifest["metadata"] |= {"namespace": where, "labels": names.portal_labels(rules.portal)}
    return inside


def setup_hash(rules: Rules, tenant: str) -> str:
    """Changes when anything in a namespace is to be different, by a new release or new rules."""
    text = json.dumps([namespace(rules, tenant), *contents(rules, tenant)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _account() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT},
        "automountServiceAccountToken": False,
    }


def _policy(rules: Rules) -> Manifest:
    """Nobody reaches a run but the gateway and the controller; runs reach whatever they like."""
    sources: list[Manifest] = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
        for name in rules.ingress_namespaces
    ]
    sources += [{"ipBlock": {"cidr": cidr}} for cidr in rules.ingress_cidrs]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": _EVERYTHING},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": sources}] if sources else [],
        },
    }


def _quota(rules: Rules) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": _EVERYTHING},
        "spec": {"hard": dict(rules.backstop)},
    }


def _limits() -> Manifest:
    """For containers that are not ours; ours name everything themselves."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": _EVERYTHING},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
                }
            ]
        },
    }


def _binding(rules: Rules) -> Manifest:
    where, who = rules.account
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": _EVERYTHING},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": rules.tenant_role},
        "subjects": [{"kind": "ServiceAccount", "name": who, "namespace": where}],
    }
