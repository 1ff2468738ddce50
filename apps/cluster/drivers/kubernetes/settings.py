"""What an administrator chooses about runs in the cluster. Plain data; every field has a default that works on a stock cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from apps.core.share import GIB


@dataclass(frozen=True, slots=True)
class Rules:
    """How runs are written down as objects."""

    portal: str = "tessera"  # tells several portals of one cluster apart; the first part of their namespaces' names
    images: Mapping[str, str] = field(
        default_factory=dict
    )  # environment's key -> image; a key with "/" or ":" is an image itself
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()  # names, present in every tenant's namespace
    user: int = 1000  # number of the account and the group in the container
    home: str = "/home/tessera"
    first_port: int = 8888
    cpu_request_permille: int = 250  # of the CPU asked for; CPU is not promised, it only gets slower
    storage_class: str = ""  # empty: the cluster's default
    access_mode: str = "ReadWriteOnce"
    volume_bytes: int = 10 * GIB
    scratch_bytes: int = 10 * GIB  # of /tmp
    services: bool = False  # a Service for each workload; costs the cluster about two writes more for each start
    priority_class: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = (
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    )
    ingress_namespaces: tuple[str, ...] = ("tessera-system",)  # where the gateway and the controller run
    ingress_cidrs: tuple[str, ...] = ()  # where they run outside of the cluster, or on the hosts' network
    backstop: Mapping[str, str] = field(
        default_factory=lambda: {
            "pods": "10000",  # far above any quota of the portal, which decides: this only stops what runs wild
            "persistentvolumeclaims": "20000",
            "services": "10000",
            "services.nodeports": "0",
        }
    )
    tenant_role: str = ""  # a ClusterRole that the portal's account gets in each tenant's namespace
    account: tuple[str, str] = ("tessera-system", "tessera")  # namespace and name of that account

    def image(self, environment: str) -> str | None:
        """None for an environment that nobody has told us of."""
        known = self.images.get(environment)
        return known or (environment if any(mark in environment for mark in "/:") else None)


@dataclass(frozen=True, slots=True)
class Timing:
    """Every pause and bound of the driver, in seconds."""

    request: float = 15.0  # for the answer to a single request
    # A watch ends by the server's clock before the silence counts: quiet kinds get their first bookmark only after two minutes.
    watch: float = 80.0  # the server ends a watch after this, spread by a quarter
    silence: float = 90.0  # without a byte, after which a watch's connection is taken for dead
    stale: float = 10.0  # without a watch, after which what is known is no longer taken for the truth
    start: float = 30.0  # for the first lists
    room: float = 0.5  # changes of cards within this are explained at once to those that wait
    noticed: float = 5.0  # from which on it is worth a word that the scheduler does not take the room that there is
    overlooked: float = 0.2  # after which it is woken for that; then after twice as long, and so on
    overlooked_longest: float = 60.0
    mark: float = 2.0  # before it is written down that a run answers; whoever starts just now needs the cluster more
    slow: float = 20.0  # without an answer, after which the page says that this is unusual
    stuck: float = 30.0  # after the end of the grace, when a pod is still there
    prods: tuple[float, ...] = (0.3, 1.0, 3.0, 8.0, 16.0, 30.0)  # before the kubelet is made to look again at a pod
    tidy: float = 3600.0  # between looks for what a killed controller left
    young: timedelta = timedelta(minutes=1)  # age up to which what is charged may still be on its way into the cluster
    left_over: timedelta = timedelta(minutes=10)  # age from which objects without a pod are left-overs
    keep_finished: timedelta = timedelta(days=7)  # of a pod that ended by itself, for its log
