"""Pages under test: plain static files, a cluster in memory, and workloads in any state."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import translation
from pytest_django import Settings

from apps.audit.context import Actor
from apps.cluster import services as cluster
from apps.cluster.models import Gpu, Site
from apps.core import clock
from apps.core.share import GIB
from apps.experiments.models import Experiment
from apps.tenants.models import Tenant
from apps.workloads.models import Phase, Step, Workload
from tests import factories
from tests.factories import SLICE, World

Person = Callable[[Actor], Client]
Make = Callable[..., Workload]


@pytest.fixture(autouse=True)
def pages(settings: Settings) -> Iterator[None]:
    """Names of static files without hashes, so that nothing has to be collected; logs from the cluster in memory."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    settings.CLUSTER_DRIVER = "tests.fakes.cluster.FakeCluster"
    cluster.reader.cache_clear()
    yield
    cluster.reader.cache_clear()
    translation.deactivate()  # a page in Chinese leaves this thread's language so


@pytest.fixture
def diagnosed(settings: Settings) -> Iterator[None]:
    settings.CLUSTER_DRIVER = "tests.fakes.diagnosed.Diagnosed"
    cluster.reader.cache_clear()
    yield
    cluster.reader.cache_clear()


@pytest.fixture
def browser() -> Person:
    """A browser in which somebody is signed in."""

    def signed_in(actor: Actor) -> Client:
        client = Client(HTTP_HOST="localhost")
        assert actor.user is not None
        client.force_login(actor.user)
        return client

    return signed_in


@pytest.fixture
def card(world: World) -> Gpu:
    Site.objects.create(
        id=1, driver="fake", isolation="single_account", cpu_milli=32_000, ram=128 * GIB, observed_at=clock.now()
    )
    return Gpu.objects.create(
        uuid="GPU-h100", node="here", index=0, model="H100", memory=79 * GIB, physical_memory=80 * GIB,
    )  # fmt: skip


@pytest.fixture
def make(world: World) -> Make:
    """A workload of `owner` (the member) in `phase`, without asking anybody."""

    def made(
        name: str = "Baseline", phase: str = Phase.READY, *, owner: Actor | None = None, **fields: Any
    ) -> Workload:
        who, where = owner or world.member, fields.pop("tenant", world.lab)
        assert who.user is not None
        assert isinstance(where, Tenant)
        gpu = SLICE.gpu
        assert gpu is not None
        now = clock.now()
        usual: dict[str, Any] = {
            "gpu_count": gpu.count, "gpu_memory": gpu.memory, "gpu_compute": gpu.compute, "gpu_ceiling": gpu.ceiling,
            "cpu_milli": 1000, "ram": 2 * GIB, "phase_since": now, "observed_at": now, "reason": phase,
        }  # fmt: skip
        row = Workload.objects.create(
            kind="experiment", name=name, slug=f"w-{Workload.objects.count()}", owner=who.user, tenant=where,
            environment=world.environment, phase=phase, **{**usual, **fields},
        )  # fmt: skip
        Experiment.objects.create(workload=row, home=f"home-{row.id}")
        Step.objects.create(workload=row, run=1, phase=phase, began_at=now - timedelta(seconds=3))
        return row

    return made


@pytest.fixture
def choices(world: World) -> None:
    factories.flavour("medium", SLICE, position=1)
