"""The portal on this machine, its workloads on a real Kubernetes with two simulated H100, installed as an administrator would."""

from collections.abc import Iterator

import pytest

from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import cluster as cluster
from tests.cluster.fixtures import machine_for_a_node as machine_for_a_node
from tests.cluster.install import install, token
from tests.e2e.conftest import browser as browser
from tests.e2e.conftest import browser_context_of_otto as browser_context_of_otto
from tests.e2e.conftest import context as context
from tests.e2e.conftest import lin as lin
from tests.e2e.conftest import nothing_runs as nothing_runs
from tests.product import Product

GIB = 1024**3
SLICE = {  # little CPU and RAM, so that only the cards limit how many run on this machine
    "tenant": "vision-lab",
    "environment": "notebook",
    "resources": {
        "gpu": {"count": 1, "memory_bytes": 8 * GIB, "compute_permille": 300, "ceiling_permille": 300},
        "cpu_milli": 500,
        "ram_bytes": GIB,
    },
}


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    images.provide(cluster, "notebook")
    install(cluster)
    return cluster


@pytest.fixture(scope="session")
def product(installed: Cluster) -> Iterator[Product]:
    made = Product(cards="")
    token_file = made.state / "agent-token"
    token_file.write_text(token(installed))
    made.settings = {
        "TESSERA_DRIVER": "kubernetes",
        "TESSERA_KUBECONFIG": str(installed.kubeconfig),
        "TESSERA_KUBE_REACH": "direct",
        "TESSERA_AGENT_TOKEN_FILE": str(token_file),
        "TESSERA_IMAGES": f"notebook={images.reference('notebook')}",
        "TESSERA_IMAGE_PULL_POLICY": "Never",
        "TESSERA_INGRESS_CIDRS": "0.0.0.0/0",
    }
    try:
        made.start()
        yield made
    finally:
        made.discard()
        for namespace in ("tessera-vision-lab", "tessera-speech-lab"):
            installed.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


_MAKE_ROOM = """
from apps.audit.context import Actor
from apps.quotas.services import set_quota
from apps.tenants.models import Tenant
limits = dict(gpu_compute=3000, gpu_memory=200 * 2**30, cpu_milli=64_000, ram=200 * 2**30, running=12, running_per_user=12, pending=10)
for slug in ("research", "vision-lab"):
    set_quota(actor=Actor.system(), tenant=Tenant.objects.get(slug=slug), limits=limits)
"""


@pytest.fixture
def roomy(product: Product) -> None:
    """Vision Lab, and one person of it, may fill both cards."""
    product.manage("shell", "-c", _MAKE_ROOM)
