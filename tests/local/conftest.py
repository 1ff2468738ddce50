"""Real processes of this machine, a real agent over a simulated node, and, where a test asks, a real JupyterLab."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apps.cluster.drivers.local import LocalCluster
from apps.cluster.drivers.local.runner import processes
from tests.contract.conftest import end_everything
from tests.contract.local_site import PROJECT, LocalSite, local_site
from tests.contract.watching import Watcher, watching


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.local)


@pytest.fixture
async def place() -> AsyncIterator[LocalSite]:
    with local_site() as made:
        yield made
        await end_everything(made)


@pytest.fixture
async def cluster(place: LocalSite) -> AsyncIterator[LocalCluster]:
    made = place.cluster()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def watch(cluster: LocalCluster) -> AsyncIterator[Watcher]:
    async with watching(cluster) as made:
        yield made


@pytest.fixture(scope="session")
def notebook_environment() -> Path:
    """The environment that `make setup` builds; made now if it is missing or old. Lies where every account can read it."""
    outside = {name: value for name, value in os.environ.items() if name != "TESSERA_STATE"}
    asked = "from portal.state import state_dir; print(state_dir())"
    found = subprocess.run(
        [PROJECT / ".venv/bin/python", "-c", asked],
        cwd=PROJECT,
        env=outside,
        check=True,
        capture_output=True,
        text=True,
    )
    target = Path(found.stdout.strip()) / "environments" / "notebook"
    subprocess.run([PROJECT / "scripts/environment.sh", target], check=True, capture_output=True)
    return target


@pytest.fixture
def notebooks(place: LocalSite, notebook_environment: Path) -> LocalSite:
    (place.environments / "notebook").symlink_to(notebook_environment)
    return place


def left_of(uid: str, run: int = 1) -> set[int]:
    """Processes that still bear the mark of a run."""
    return processes.marked(f"{uid}-{run}")
