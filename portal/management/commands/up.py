"""`manage.py up`: the whole of Tessera on this machine, until Ctrl-C."""

import asyncio
import fcntl
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.cluster import services as cluster
from apps.cluster.specs import RunState
from apps.core.errors import PortalError
from portal import leftovers, parts, site, terminal
from portal.supervisor import CannotStart, Supervisor

GRACE_SECONDS = 10  # for experiments, when everything stops
_RUN = settings.STATE_DIR / "run"
_LOCK, _REGISTER = _RUN / "up.json", _RUN / "up-groups.json"


class Command(BaseCommand):
    help = "Start all parts of Tessera, keep them running, and stop them with Ctrl-C."
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, help="port of the portal (otherwise TESSERA_PORT, or 8000)")
        parser.add_argument("--no-demo", action="store_true", help="do not make the demo department and its people")

    def handle(self, *_args: Any, port: int | None = None, no_demo: bool = False, **_options: Any) -> None:
        if port is not None and port != settings.PORT:
            _again_with_port(port)
        os.umask(0o077)  # what others may see is opened to them by name
        lock = _take_lock()
        try:
            if left := leftovers.end(_REGISTER):
                terminal.warn(f"{left} processes of an earlier run that was killed were still there; ended")
            doors = parts.open_doors()
            site.prepare(demo=not no_demo)
            made = parts.all_parts(doors, site.simulated_node())
            supervisor = Supervisor(made, logs=settings.STATE_DIR / "logs", register=_REGISTER)
            asyncio.run(_Up(supervisor, parts.stop_order(made)).run())
        except (PortalError, CannotStart, parts.PortTaken, site.NotReady) as problem:
            raise CommandError(str(problem)) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped before anything was started.") from None
        finally:
            os.close(lock)


class _Up:
    """One life of the product: start, run, stop; what the signals mean at each moment."""

    def __init__(self, supervisor: Supervisor, stop_order: list[str]) -> None:
        self._supervisor, self._stop_order = supervisor, stop_order
        self._asked = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        asked = asyncio.create_task(self._asked.wait())
        starting = asyncio.create_task(self._supervisor.start())
        await asyncio.wait({asked, starting}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if starting.done():
                starting.result()
                terminal.say(site.welcome())
                await asked
        finally:
            starting.cancel()
            # Where a part cannot start, experiments of an earlier run are none the worse for it.
            await self._stop(experiments=self._asked.is_set())

    def _on_signal(self) -> None:
        if self._supervisor.hurry.is_set():
            os._exit(1)  # the kernel ends our parts with us
        if self._asked.is_set():
            terminal.warn("asked twice: what is left is killed")
            self._supervisor.hurry.set()
        self._asked.set()

    async def _stop(self, *, experiments: bool) -> None:
        terminal.say("\nStopping (once more Ctrl-C kills) …")
        await self._supervisor.stop(["controller"])  # first, so that nothing starts anew
        try:
            if experiments:
                await _stop_experiments(self._supervisor.hurry)
        except PortalError as problem:
            terminal.warn(f"experiments were not stopped and go on running: {problem}")
        await self._supervisor.stop(self._stop_order)
        terminal.done("everything has ended")


async def _stop_experiments(hurry: asyncio.Event) -> None:
    """Only the local driver's runs are ours to stop: they are processes of this machine."""
    if settings.CLUSTER_DRIVER != "local":
        return
    from apps.cluster.drivers.local import LocalCluster

    local = cluster.connect()
    assert isinstance(local, LocalCluster)
    await local.start()
    try:
        running = [seen for seen in await local.list() if seen.state not in (RunState.ABSENT, RunState.EXITED)]
        if running:
            terminal.say(f"  {len(running)} experiments are asked to end; their homes are kept")
        ending = asyncio.create_task(local.stop_everything(GRACE_SECONDS))
        impatient = asyncio.create_task(hurry.wait())
        await asyncio.wait({ending, impatient}, return_when=asyncio.FIRST_COMPLETED)
        impatient.cancel()
        if not ending.done():
            await local.stop_everything(0)
        await ending
    finally:
        await local.close()


def _again_with_port(port: int) -> None:
    """All settings are read from the environment once, so a port from the command line begins anew with it there."""
    os.environ["TESSERA_PORT"] = str(port)
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606 - ourselves


def _take_lock() -> int:
    """Held while we live; a second `up` on the same state is told where the first one is."""
    _RUN.mkdir(parents=True, exist_ok=True)
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(_first_one(lock)) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps({"pid": os.getpid(), "address": settings.PORTAL_URL}).encode(), 0)
    return lock


def _first_one(lock: int) -> str:
    with suppress(ValueError):
        first = json.loads(os.pread(lock, 4096, 0))
        return (
            f"Tessera already runs on this state: {first['address']} (process {first['pid']}). "
            "Stop it with Ctrl-C there, or set TESSERA_STATE and the ports for a second one."
        )
    return "Tessera is already starting on this state."
