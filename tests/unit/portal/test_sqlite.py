"""Transactions on SQLite: each takes its turn, and gives it back however it ends."""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from apps.tenants.models import Tenant
from apps.workloads.threads import keep_short
from portal.sqlite import base

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(bool(settings.DATABASES["default"].get("USER")), reason="is about SQLite"),
]


def turn_is_free() -> bool:
    turn = base._turn_of(str(connection.settings_dict["NAME"]))
    free = turn.take(0)
    if free:
        turn.give()
    return free


def commits() -> None:
    with transaction.atomic():
        Tenant.objects.count()
        assert not turn_is_free()


def raises() -> None:
    with pytest.raises(ValueError), transaction.atomic():  # noqa: PT011 - any would do
        raise ValueError


def nests() -> None:
    with transaction.atomic():
        with transaction.atomic():
            Tenant.objects.count()
        assert not turn_is_free()


def closes_inside() -> None:
    with transaction.atomic():
        connection.close()


def loses_its_connection() -> None:
    """As when the file went away: neither commit nor rollback work."""

    def write() -> None:
        with transaction.atomic():
            sqlite3.Connection.close(connection.connection)
            Tenant.objects.count()

    with pytest.raises(Exception, match="closed database"):
        write()
    connection.close()


@pytest.mark.parametrize("ends", [commits, raises, nests, closes_inside, loses_its_connection])
def test_the_turn_is_given_back(ends: Callable[[], None]) -> None:
    ends()
    assert turn_is_free()


def test_whoever_waits_too_long_is_told_as_by_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_SECONDS", 0.05)
    told: list[str] = []

    def write() -> None:
        try:
            with transaction.atomic():
                Tenant.objects.count()
        except OperationalError as error:
            told.append(str(error))
        finally:
            connection.close()

    with transaction.atomic():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert "locked" in told[0]
    assert turn_is_free()


def test_the_log_is_copied_by_who_keeps_it_short_and_by_no_commit() -> None:
    """A commit that copies waits for the disk, and everybody else with it."""
    log = Path(f"{connection.settings_dict['NAME']}-wal")
    keep_short()
    with transaction.atomic():
        Tenant.objects.create(slug="first", name="First", kind="department")
    for number in range(300):  # each writes several pages of 4 KiB
        with transaction.atomic():
            Tenant.objects.create(slug=f"t-{number}", name=f"Tenant {number}", kind="department")
    grown = log.stat().st_size
    assert grown > 1000 * 4096, "a log that was copied is begun anew"
    keep_short()
    with transaction.atomic():
        Tenant.objects.update(name="Other")
    assert log.stat().st_size == grown, "it is used again from its beginning"
