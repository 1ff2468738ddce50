"""One active controller: by row and lock file, over real processes."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from django.conf import settings as django_settings

from apps.experiments.services import request_experiment
from apps.workloads import lease
from apps.workloads.models import Lease, Phase, Workload
from tests import child
from tests.conftest import Clock
from tests.factories import NO_GPU, World
from tests.factories import world as make_world

BOUND = 120  # seconds until a wait is given up
HERE, ELSEWHERE = Path("/here"), Path("/elsewhere")


def until(condition: Callable[[], Any]) -> Any:
    """The first true value of `condition`; processes have no event that a test could wait for."""
    end = monotonic() + BOUND
    while not (value := condition()):
        assert monotonic() < end, "it never came true"
        sleep(0.02)
    return value


@pytest.mark.django_db
def test_from_another_machine_the_lease_is_taken_only_when_it_has_expired(stopped_clock: Clock) -> None:
    first, second = lease.new_holder(HERE), lease.new_holder(ELSEWHERE)
    assert lease.take(first) is None
    stopped_clock.tick(seconds=20)
    assert lease.take(second) == pytest.approx(10)
    lease.renew(first)
    stopped_clock.tick(seconds=29)
    assert lease.take(second) == pytest.approx(1)
    stopped_clock.tick(seconds=1)
    assert lease.take(second) is None
    with pytest.raises(lease.LeaseLost):
        lease.renew(first)
    with pytest.raises(lease.LeaseLost):
        lease.Fence(first).check()
    lease.Fence(second).check()


@pytest.mark.django_db
def test_in_the_same_place_the_lock_file_is_proof_enough(stopped_clock: Clock) -> None:
    first, second = lease.new_holder(HERE), lease.new_holder(HERE)
    assert lease.take(first) is None
    assert lease.take(second) is None
    lease.release(first)  # comes too late to take anything away
    lease.Fence(second).check()


@contextmanager
def controllers(state: Path, how_many: int) -> Iterator[list["subprocess.Popen[str]"]]:
    environment = {
        "TESSERA_STATE": str(state),
        "TESSERA_SECRET_KEY": django_settings.SECRET_KEY,  # of the same installation: it hears the same bells
        "TESSERA_DRIVER": "tests.fakes.cluster.FakeCluster",
        "TESSERA_LOG_LEVEL": "ERROR",
    }
    started = [child.start("control", **environment) for _ in range(how_many)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait(BOUND)


def holder() -> str:
    row = Lease.objects.filter(name=lease.NAME).first()
    return row.holder if row else ""


@pytest.fixture
def people(transactional_db: None, settings: Any, tmp_path: Path) -> World:
    settings.BELL_DIR = tmp_path / "run" / "bells"  # where the controllers listen, too
    return make_world()


def no_visit(world: World, name: str) -> Workload:
    return request_experiment(
        actor=world.member, tenant=world.lab, name=name, environment=world.environment, resources=NO_GPU
    )


@pytest.mark.django_db(transaction=True)
def test_when_the_controller_is_killed_the_next_takes_over_without_waiting_for_expiry(
    people: World, tmp_path: Path
) -> None:
    with controllers(tmp_path, 2) as processes:
        first = until(holder)
        asked = no_visit(people, "before")
        until(lambda: Workload.objects.filter(id=asked.id, phase=Phase.STARTING).exists())
        Lease.objects.update(expires_at="2999-01-01T00:00Z")  # nobody may count on its running out
        for process in processes:
            if _holds_the_lock(process, tmp_path):
                os.kill(process.pid, signal.SIGKILL)
        until(lambda: holder() not in ("", first))
        after = no_visit(people, "after")
        until(lambda: Workload.objects.filter(id=after.id, phase=Phase.STARTING).exists())


def _holds_the_lock(process: "subprocess.Popen[str]", state: Path) -> bool:
    inode = (state / "run" / "controller.lock").stat().st_ino
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" not in line]
    return any(int(line[4]) == process.pid and line[5].endswith(f":{inode}") for line in locks)


@pytest.mark.django_db(transaction=True)
def test_a_controller_that_is_told_to_end_gives_the_lease_back(people: World, tmp_path: Path) -> None:
    with controllers(tmp_path, 1) as (process,):
        asked = no_visit(people, "asked")
        until(lambda: Workload.objects.filter(id=asked.id, phase=Phase.STARTING).exists())
        process.terminate()
        assert process.wait(BOUND) == 0
    assert holder() == ""
    assert not list((tmp_path / "run").glob("bells/*"))
