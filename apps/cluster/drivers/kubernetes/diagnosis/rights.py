"""What the portal's account may do, asked of the API server, against what it needs (deploy/kubernetes/base/portal-rights.yaml).

Rights over the cluster are asked one by one, which is what counts. In the namespaces of tenants, of which there may be hundreds, the
rules are read instead: one request each.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apps.cluster.diagnosis import Area, Finding, Level
from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.api import Api

if TYPE_CHECKING:
    from apps.cluster.drivers.kubernetes.diagnosis.looking import Seen

MANIFEST = "deploy/kubernetes/base/portal-rights.yaml"
_AT_ONCE = 16  # requests; those of starts need the API server more
_SHOWN = 10  # names in one line


@dataclass(frozen=True, slots=True)
class Rule:
    """As in a Role: each verb on each resource."""

    group: str
    resources: tuple[str, ...]  # "pods/log" with its subresource
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""  # empty: everywhere


_DRA, _RBAC = "resource.k8s.io", "rbac.authorization.k8s.io"
_LOOK = ("get", "list", "watch")
CLUSTER = (
    Rule("", ("pods", "events", "persistentvolumeclaims"), _LOOK),
    Rule("", ("nodes",), _LOOK),
    Rule(_DRA, ("resourceslices", "resourceclaims", "deviceclasses"), _LOOK),
    Rule(_DRA, ("deviceclasses",), ("patch",), (names.WAKING,)),
    Rule("", ("namespaces",), (*_LOOK, "create", "patch")),
    Rule(_RBAC, ("rolebindings",), ("create", "patch")),
    Rule(_RBAC, ("clusterroles",), ("bind",), ("tessera-tenant",)),
)
FIGURES = (
    Rule("", ("pods/portforward",), ("get", "create"), namespace=names.AGENT_NAMESPACE),
    Rule("", ("secrets",), ("get",), ("tessera-node-agent-token",), names.AGENT_NAMESPACE),
)
TENANT = (
    Rule("", ("pods",), ("create", "patch", "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("", ("pods/exec", "pods/portforward"), ("get", "create")),
    Rule("", ("secrets",), ("get", "list", "create", "delete")),
    Rule("", ("persistentvolumeclaims",), ("create", "delete")),
    Rule("", ("services",), ("create", "patch", "delete")),
    Rule(_DRA, ("resourceclaims",), ("create", "patch", "delete")),
    Rule("", ("serviceaccounts", "resourcequotas", "limitranges"), ("create", "patch")),
    Rule("networking.k8s.io", ("networkpolicies",), ("create", "patch")),
)


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        where = f" -n {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{' ' + self.name if self.name else ''}{where}"


def rights_of(rules: Iterable[Rule]) -> list[Right]:
    return [
        Right(rule.group, resource, verb, name, rule.namespace)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.names or ("",)
    ]


@dataclass(frozen=True, slots=True)
class Reviews:
    account: str
    unlimited: bool  # everything is allowed
    asked: int
    missing: Sequence[Right]
    tenants: int  # namespaces of tenants
    tenant_missing: Sequence[Right]  # in some of them
    tenants_unknown: Sequence[str]  # namespaces of which the API server does not know all rules


# --- Asking --------------------------------------------------------------------------------------------------------------
async def review(api: Api, rules: Sequence[Rule], places: Sequence[str]) -> Reviews:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def within(right: Right) -> bool:
        async with turns:
            return await _allowed(api, right)

    async def there(place: str) -> Mapping[str, Any]:
        async with turns:
            return await _rules(api, place)

    wanted = rights_of(rules)
    account, unlimited = await asyncio.gather(_account(api), within(Right("*", "*", "*")))
    allowed = await asyncio.gather(*(within(one) for one in wanted))
    told = await asyncio.gather(*(there(place) for place in places))
    return Reviews(
        account=account,
        unlimited=unlimited,
        asked=len(wanted),
        missing=[one for one, may in zip(wanted, allowed, strict=True) if not may],
        tenants=len(places),
        tenant_missing=[
            Right(one.group, one.resource, one.verb, one.name, place)
            for place, known in zip(places, told, strict=True)
            if not known.get("incomplete")
            for one in rights_of(TENANT)
            if not covered(one, known.get("resourceRules") or ())
        ],
        tenants_unknown=[place for place, known in zip(places, told, strict=True) if known.get("incomplete")],
    )


async def _post(api: Api, group: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
    answer = await api.request("POST", f"/apis/{group}/v1/{kind.lower()}s", body=body)
    status: Mapping[str, Any] = answer.get("status") or {}
    return status


async def _account(api: Api) -> str:
    told = await _post(api, "authentication.k8s.io", "SelfSubjectReview", {})
    return str((told.get("userInfo") or {}).get("username", ""))


async def _allowed(api: Api, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked = {"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb}
    asked |= {"name": right.name, "namespace": right.namespace}
    told = await _post(api, "authorization.k8s.io", "SelfSubjectAccessReview", {"resourceAttributes": asked})
    return bool(told.get("allowed"))


async def _rules(api: Api, place: str) -> Mapping[str, Any]:
    return await _post(api, "authorization.k8s.io", "SelfSubjectRulesReview", {"namespace": place})


def covered(right: Right, rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the rules gives this right on every object."""
    subresource = right.resource.partition("/")[2]
    resources = {"*", right.resource, *((f"*/{subresource}",) if subresource else ())}
    return any(
        {"*", right.verb} & set(rule.get("verbs") or ())
        and {"*", right.group} & set(rule.get("apiGroups") or ())
        and resources & set(rule.get("resources") or ())
        and not rule.get("resourceNames")
        for rule in rules
    )


# --- Judging -------------------------------------------------------------------------------------------------------------
def judged(seen: "Seen") -> list[Finding]:
    told = seen.reviews
    if not isinstance(told, Reviews):
        command = "kubectl auth can-i --list --as=system:serviceaccount:tessera-system:tessera"
        return [Finding(Area.RIGHTS, "rights_unknown", Level.UNKNOWN, {"problem": told.problem}, command)]
    if told.unlimited:
        return [Finding(Area.RIGHTS, "rights_unlimited", Level.ATTENTION, {"account": told.account}, _apply())]
    return [_of_cluster(told), *_of_tenants(told)]


def _of_cluster(told: Reviews) -> Finding:
    evidence = {"account": told.account, "rights": told.asked}
    if not told.missing:
        return Finding(Area.RIGHTS, "rights_complete", Level.GOOD, evidence)
    lacks = {"lacking": len(told.missing), "missing": _some(map(str, told.missing))}
    return Finding(Area.RIGHTS, "rights_missing", Level.BAD, evidence | lacks, _apply())


def _of_tenants(told: Reviews) -> list[Finding]:
    found = []
    if not told.tenants:
        return [Finding(Area.RIGHTS, "rights_no_tenants", Level.UNKNOWN, {})]
    if told.tenants_unknown:
        command = f"kubectl auth can-i --list --as={told.account} -n {told.tenants_unknown[0]}"
        evidence: dict[str, Any] = {"namespaces": _some(told.tenants_unknown)}
        found.append(Finding(Area.RIGHTS, "rights_of_tenants_unknown", Level.UNKNOWN, evidence, command))
    if told.tenant_missing:
        evidence = {"lacking": len(told.tenant_missing), "missing": _some(map(str, told.tenant_missing))}
        found.append(Finding(Area.RIGHTS, "rights_of_tenants_missing", Level.BAD, evidence, _apply()))
    elif known := told.tenants - len(told.tenants_unknown):
        evidence = {"namespaces": known, "rights": len(rights_of(TENANT))}
        found.append(Finding(Area.RIGHTS, "rights_of_tenants_complete", Level.GOOD, evidence))
    return found


def _apply() -> str:
    return f"kubectl apply --server-side -f {MANIFEST}"


def _some(found: Iterable[str]) -> list[str]:
    known = list(found)
    return [*known[:_SHOWN], *(("…",) if len(known) > _SHOWN else ())]
