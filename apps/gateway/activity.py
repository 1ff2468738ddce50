"""Remembers when each workload was last used: in a dictionary, written to the rows in one statement now and then."""

import asyncio
import logging
from datetime import datetime
from uuid import UUID

from channels.db import database_sync_to_async
from django.db import DatabaseError

from apps.core import clock
from apps.gateway.models import Activity
from apps.workloads.models import Workload

PERIOD = 15.0  # seconds between writes: how old a stamp may be
_log = logging.getLogger(__name__)


class Stamps:
    """Not for several threads. What a crash loses is at most one period of stamps."""

    def __init__(self) -> None:
        self._seen: dict[UUID, datetime] = {}

    def note(self, workload_id: UUID) -> None:
        self._seen[workload_id] = clock.now()

    async def flush(self) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        try:
            await database_sync_to_async(_write)(seen)
        except DatabaseError as problem:
            _log.warning("activity of %d workloads was not written, next time again: %s", len(seen), problem)
            self._seen = seen | self._seen

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            await self.flush()


def _write(seen: dict[UUID, datetime]) -> None:
    there = Workload.objects.filter(id__in=seen).values_list("id", flat=True)
    rows = [Activity(workload_id=one, last_request_at=seen[one]) for one in there]
    Activity.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["workload"], update_fields=["last_request_at"]
    )
