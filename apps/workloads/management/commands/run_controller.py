"""Runs the controller until it is told to stop, or until another one takes over."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from apps.cluster import services as cluster
from apps.core import garbage
from apps.workloads import lease
from apps.workloads.controller import Controller
from apps.workloads.threads import DatabaseThread

_log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run the controller: admission, reconciliation, timers, samples. A second one waits until the first is gone."
    requires_system_checks = ()  # they load every page and would only delay a take-over

    def handle(self, *_args: Any, **_options: Any) -> None:
        connections.settings["default"]["BEHIND"] = True  # people's requests are written first (portal.sqlite)
        garbage.has_loaded()
        folder = Path(settings.STATE_DIR) / "run"
        lease.lock_file(folder)  # waits; SIGTERM ends the wait as it ends any process
        try:
            uvloop.run(_main(lease.new_holder(folder)))
        except* lease.LeaseLost:
            raise CommandError("Another controller has taken over; this one stops.") from None


async def _main(holder: str) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    rows = DatabaseThread("lease")
    try:
        while (wait := await rows(lease.take, holder)) is not None:
            _log.info("another controller holds the lease; looking again in %.0f s", wait)
            await asyncio.sleep(wait)
        running = asyncio.create_task(Controller(cluster.connect(), holder).run())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if stopped.is_set():
            running.cancel()
            await asyncio.wait((running,))
        elif running.done():
            running.result()
    finally:
        await rows(lease.release, holder)
        await rows.close()
