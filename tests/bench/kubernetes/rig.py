"""What all figures here stand on: a cluster of their own, and the portal beside it, which has the account that we ship and no more rights.

Requests of that account have a flow of their own in the API server, which counts them there: what we sent, as the server saw it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster import images
from tests.cluster.cluster import Cluster, Options, running
from tests.cluster.install import install, token
from tests.cluster.parts import PROJECT
from tests.product import Api, Product

NAME: Final = os.environ.get("TESSERA_CLUSTER", "bench")
NAMESPACE: Final = "tessera-vision-lab"
PEOPLE: Final = 10
GIB: Final = 1024**3
_ACCOUNT: Final = "tessera"
_FLOW: Final = "tessera-bench"
_COUNTED: Final = re.compile(
    rf'^apiserver_flowcontrol_dispatched_requests_total{{flow_schema="{_FLOW}".*}} (\S+)$', re.MULTILINE
)

_FLOW_SCHEMA: Final[dict[str, Any]] = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": _FLOW},
    "spec": {
        "priorityLevelConfiguration": {"name": "workload-low"},  # where service accounts are anyhow
        "matchingPrecedence": 500,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [
                    {"kind": "ServiceAccount", "serviceAccount": {"name": _ACCOUNT, "namespace": "tessera-system"}}
                ],
                "resourceRules": [
                    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
                ],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        ],
    },
}

_PEOPLE_AND_ROOM: Final = f"""
from datetime import timedelta
from apps.accounts import services as accounts
from apps.accounts.models import User
from apps.audit.context import Actor
from apps.quotas.ledger import LIMITS
from apps.quotas.services import set_quota
from apps.tenants import services as tenants
from apps.tenants.models import Role, Tenant
system = Actor.system("bench")
for slug in ("research", "vision-lab"):
    set_quota(actor=system, tenant=Tenant.objects.get(slug=slug), limits=dict.fromkeys(LIMITS))
for number in range({PEOPLE}):
    user = User.objects.filter(username=f"user{{number}}").first() or accounts.create_user(
        actor=system, username=f"user{{number}}", password="not-a-secret-0123", display_name=f"User {{number}}")
    tenants.set_member(actor=system, tenant=Tenant.objects.get(slug="vision-lab"), user=user, role=Role.MEMBER)
    made = accounts.create_token(actor=system, user=user, name="bench", scopes=["read", "experiments:write"],
                                 expires_in=timedelta(days=1))
    print("TOKEN", made[1])
"""


@dataclass
class Rig:
    cluster: Cluster
    product: Product
    settings: Mapping[str, str] = field(default_factory=dict)
    apis: list[Api] = field(default_factory=list)  # of ten people

    def start(self) -> None:
        self.product.start()
        # Nobody reads what it says from here on, and a full pipe would stop it.
        threading.Thread(target=self.product.output.extend, args=(_lines(self.product),), daemon=True).start()
        printed = self.product.manage("shell", "-c", _PEOPLE_AND_ROOM)
        self.apis = [Api(self.product, line.split()[1]) for line in printed.splitlines() if line.startswith("TOKEN ")]
        assert len(self.apis) == PEOPLE, printed

    def cpu(self) -> tuple[float, float]:
        """Seconds that the portal's processes have used so far, and the cluster's."""
        ours, theirs = 0.0, 0.0
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # ended meanwhile
                marks = (process / "environ").read_bytes()
                ours += _seconds(process) if os.fsencode(self.product.state) in marks else 0.0
                theirs += _seconds(process) if os.fsencode(self.cluster.layout.root) in marks else 0.0
        return ours, theirs

    def sent(self) -> int:
        """Requests of the portal that the API server has taken so far."""
        text = self.cluster.api.call("GET", "/metrics").decode()
        return sum(int(float(number)) for number in _COUNTED.findall(text))


@contextmanager
def _cluster(options: Options, cores: set[int], nice: int) -> Iterator[Cluster]:
    """On some of the cores, and behind the portal's processes: in production it has machines of its own."""
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    os.setpriority(os.PRIO_PROCESS, 0, nice)  # what is started now inherits both
    try:
        with running(options, NAME) as cluster:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            _put_behind(cluster, nice)
            os.sched_setaffinity(0, everything - cores or everything)
            yield cluster
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        os.sched_setaffinity(0, everything)


def _put_behind(cluster: Cluster, nice: int) -> None:
    """Where Linux shares the processor among sessions first (autogroup), a nice value counts within its session alone: theirs each get it too."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or no such file
            if os.fsencode(cluster.layout.root) in (process / "environ").read_bytes():
                (process / "autogroup").write_text(str(nice))


def halves() -> tuple[set[int], set[int]]:
    """Of this machine's cores: those for the cluster, those for the portal and its clients. One core serves both."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    return set(cores[:half] or cores), set(cores[half:])


@contextmanager
def rig(options: Options, *, apart: bool = False, nice: int = 0, **settings: str) -> Iterator[Rig]:
    """`apart`: the cluster has one half of the cores and everything else the other; `nice`: of the cluster's processes."""
    cores = halves()[0] if apart else os.sched_getaffinity(0)
    with _cluster(options, cores, nice) as cluster:
        if options.real:
            images.provide(cluster, "notebook")
            install(cluster)
            _hold_address(cluster.layout.bridge)
        else:
            rights = PROJECT / "deploy" / "kubernetes" / "base" / "portal-rights.yaml"
            cluster.kubectl("apply", "--server-side", f"--filename={rights}")
        cluster.kubectl("apply", "--filename=-", stdin=json.dumps(_FLOW_SCHEMA))
        product = Product(cards="")
        product.settings = {
            "TESSERA_DRIVER": "kubernetes",
            "TESSERA_KUBECONFIG": str(_kubeconfig(cluster, product.state)),
            "TESSERA_KUBE_REACH": "direct",
            "TESSERA_TENANT_ROLE": "tessera-tenant",
            "TESSERA_IMAGES": f"notebook={images.reference('notebook')}",
            "TESSERA_IMAGE_PULL_POLICY": "Never",
            "TESSERA_INGRESS_CIDRS": "0.0.0.0/0",
            **settings,
        }
        if options.real:
            file = product.state / "agent-token"
            file.write_text(token(cluster))
            product.settings["TESSERA_AGENT_TOKEN_FILE"] = str(file)
        made = Rig(cluster, product)
        try:
            made.start()
            yield made
        finally:
            product.discard()
            cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false", check=False)


def _seconds(process: Path) -> float:
    user, system = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _lines(product: Product) -> Iterator[str]:
    assert product.up is not None
    assert product.up.stdout is not None
    with suppress(ValueError):  # closed at its end
        yield from product.up.stdout


def _hold_address(bridge: str) -> None:
    """A bridge takes the lowest address of its ports: with each pod it may change, and then the other pods reach nobody for seconds."""
    address = Path("/sys/class/net", bridge, "address").read_text().strip()
    subprocess.run(["ip", "link", "set", "dev", bridge, "address", address], check=True)


def _kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """The administrator's, with the token of the portal's own account in place of the administrator's certificate."""
    content = json.loads(cluster.kubeconfig.read_text())
    word = cluster.kubectl("create", "token", _ACCOUNT, "--namespace=tessera-system", "--duration=24h").strip()
    content["users"][0]["user"] = {"token": word}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


def until(test: Callable[[], bool], what: str, *, limit: float = 300.0, pause: float = 0.2) -> None:
    end = time.monotonic() + limit
    while not test():
        if time.monotonic() > end:
            raise TimeoutError(f"never came: {what}")
        time.sleep(pause)


def load() -> str:
    """Of the machine, which others use as well: for the method's text."""
    return f"{os.cpu_count()} cores shared with other work, load average {os.getloadavg()[0]:.1f}"
