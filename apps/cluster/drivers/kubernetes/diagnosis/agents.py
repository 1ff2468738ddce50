"""The nodes, and the node agent on each: which have one, of which image, which are not ready or say nothing, what the nodes themselves run."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from apps.cluster.diagnosis import Area, Finding, Level, Report
from apps.cluster.drivers.kubernetes import cards, names
from apps.cluster.drivers.kubernetes.diagnosis.looking import Hidden, Seen, rows
from apps.cluster.drivers.kubernetes.diagnosis.server import NEEDED, current, numbers
from apps.cluster.drivers.kubernetes.objects import (
    Manifest,
    condition,
    id_of,
    is_deleting,
    labels,
    name_of,
    node_answers,
    node_of,
    spec,
    status,
)

_SHOWN = 10  # names in one line
_PODS = f"kubectl get pods -n {names.AGENT_NAMESPACE} -l {names.AGENT_LABEL} -o wide"


def judged(seen: Seen, told: Report | None, now: datetime) -> list[Finding]:
    if isinstance(seen.nodes, Hidden):
        return [Finding(Area.AGENTS, "nodes_unknown", Level.UNKNOWN, {"problem": seen.nodes.problem})]
    found = [*_nodes(seen.nodes), *_programs(seen.nodes)]
    if isinstance(seen.agents, Hidden):
        return [*found, Finding(Area.AGENTS, "agents_unknown", Level.UNKNOWN, {"problem": seen.agents.problem}, _PODS)]
    agents = [pod for pod in seen.agents if not is_deleting(pod)]
    return [
        *found,
        *_agents(agents),
        *_missing(seen.nodes, agents),
        *_without_cards(seen, agents),
        *_silent(agents, told, now),
    ]


# --- Nodes ---------------------------------------------------------------------------------------------------------------
def _nodes(nodes: Sequence[Manifest]) -> list[Finding]:
    away = [name_of(node) for node in nodes if not node_answers(node)]
    if away:
        return [_about("nodes_not_ready", Level.ATTENTION, away, "kubectl get nodes", nodes=len(nodes))]
    return [Finding(Area.AGENTS, "nodes_ready", Level.GOOD, {"nodes": len(nodes)})]


def _programs(nodes: Sequence[Manifest]) -> list[Finding]:
    """The kubelet carries claims to the agent, the runtime carries their devices into containers."""
    wide = "kubectl get nodes -o wide"
    old = [name_of(node) for node in nodes if (numbers(_info(node, "kubeletVersion")) or NEEDED) < NEEDED]
    blind = [name_of(node) for node in nodes if not _gives_devices(_info(node, "containerRuntimeVersion"))]
    versions = {"kubelets": _kinds(nodes, "kubeletVersion"), "runtimes": _kinds(nodes, "containerRuntimeVersion")}
    found = []
    if old:
        found.append(_about("kubelets_old", Level.ATTENTION, old, wide, **versions, needed="1.36"))
    if blind:
        found.append(_about("runtimes_old", Level.ATTENTION, blind, wide, **versions))
    return found or [Finding(Area.AGENTS, "programs_new", Level.GOOD, versions)] if nodes else found


def _gives_devices(runtime: str) -> bool:
    """Whether CDI is on in this runtime unless it was switched off: containerd from 2.0, CRI-O for long."""
    name, _, version = runtime.partition("://")
    return name == "cri-o" or (name == "containerd" and (numbers(version) or (0, 0)) >= (2, 0))


def _info(node: Manifest, key: str) -> str:
    return str((status(node).get("nodeInfo") or {}).get(key, ""))


def _kinds(nodes: Iterable[Manifest], key: str) -> list[str]:
    return sorted({_info(node, key) for node in nodes} - {""})


# --- Agents --------------------------------------------------------------------------------------------------------------
def _agents(agents: Sequence[Manifest]) -> list[Finding]:
    if not agents:
        return [Finding(Area.AGENTS, "agents_none", Level.ATTENTION, {}, _PODS)]
    found = []
    unready = [node_of(pod) or name_of(pod) for pod in agents if condition(pod, "Ready").get("status") != "True"]
    images = sorted({_image(pod) for pod in agents})
    evidence = {"agents": len(agents), "images": images}
    if unready:
        found.append(_about("agents_not_ready", Level.BAD, unready, _PODS, **evidence))
    else:
        found.append(Finding(Area.AGENTS, "agents_ready", Level.GOOD, evidence))
    if len(images) > 1:
        command = f"kubectl rollout status -n {names.AGENT_NAMESPACE} daemonset/tessera-node-agent"
        found.append(Finding(Area.AGENTS, "agents_mixed", Level.ATTENTION, evidence, command))
    return found


def _image(pod: Manifest) -> str:
    containers = spec(pod).get("containers") or ()
    return str(containers[0].get("image", "")).rpartition("/")[2] if containers else ""


def _missing(nodes: Sequence[Manifest], agents: Sequence[Manifest]) -> list[Finding]:
    """Whether a node without an agent has cards, only NVIDIA's own labels and resources could tell us."""
    have = {node_of(pod) for pod in agents}
    without = [node for node in nodes if name_of(node) not in have] if agents else []
    with_cards = [name_of(node) for node in without if _has_cards(node)]
    others = [name_of(node) for node in without if not _has_cards(node)]
    found = []
    if with_cards:
        found.append(_about("agents_missing", Level.ATTENTION, with_cards, _PODS))
    if others:
        found.append(_about("agents_perhaps_missing", Level.UNKNOWN, others, _PODS))
    return found


def _has_cards(node: Manifest) -> bool:
    offered = any(key.startswith("nvidia.com/") for key in status(node).get("capacity") or ())
    return offered or labels(node).get("nvidia.com/gpu.present") == "true"


def _without_cards(seen: Seen, agents: Sequence[Manifest]) -> list[Finding]:
    """A running agent publishes its node's slice within a second, also one without cards."""
    if isinstance(seen.slices, Hidden):
        return []
    published = {str(spec(one).get("nodeName") or cards.pool_of(one)) for one in rows(seen.slices)}
    mute = [node_of(pod) for pod in agents if status(pod).get("phase") == "Running" and node_of(pod) not in published]
    command = f"kubectl logs -n {names.AGENT_NAMESPACE} daemonset/tessera-node-agent"
    return [_about("agents_without_slice", Level.BAD, mute, command)] if mute else []


def _silent(agents: Sequence[Manifest], told: Report | None, now: datetime) -> list[Finding]:
    """Whose figures the controller does not get."""
    known = current(told, now)
    if known is None or not agents:
        return []
    problems: dict[str, str] = known.get("silent_agents") or {}
    mute = [pod for pod in agents if id_of(pod) in problems]
    if not mute:
        return [Finding(Area.AGENTS, "figures_arrive", Level.GOOD, {"agents": len(agents)})]
    where = [node_of(pod) or name_of(pod) for pod in mute]
    return [_about("figures_missing", Level.ATTENTION, where, _PODS, problem=problems[id_of(mute[0])])]


def _about(code: str, level: Level, where: Sequence[str], command: str = "", **evidence: Any) -> Finding:
    """A line about some of many: how many, and the first names."""
    shown = [*sorted(where)[:_SHOWN], *(("…",) if len(where) > _SHOWN else ())]
    return Finding(Area.AGENTS, code, level, {**evidence, "count": len(where), "where": shown}, command)
