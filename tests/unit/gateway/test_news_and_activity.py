"""Waking pages that wait, and stamping use."""

import asyncio
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError

from apps.core import bells
from apps.core.ids import new_id
from apps.gateway import activity
from apps.gateway.activity import Stamps
from apps.gateway.models import Activity
from apps.gateway.news import News
from tests.conftest import Clock
from tests.factories import World
from tests.unit.gateway.conftest import MakeWorkload


async def test_a_bell_wakes_those_who_wait_for_it_and_nobody_else(bell_dir: Path) -> None:
    news, mine, other = News(), new_id(), new_id()
    listening = asyncio.create_task(news.run())
    with news.about(mine) as hears, news.about(other) as does_not:
        await asyncio.wait_for(hears.wait(), 20)  # "everything may have changed": from now on it listens
        hears.clear()
        does_not.clear()
        bells._send(frozenset({f"workload:{mine}"}))
        await asyncio.wait_for(hears.wait(), 20)
        assert not does_not.is_set()
    listening.cancel()


def test_everything_may_have_changed_wakes_all_and_nobody_is_remembered_for_ever() -> None:
    news = News()
    with news.about(new_id()) as one, news.about(new_id()) as other:
        news.ring(frozenset({"*"}))
        assert one.is_set()
        assert other.is_set()
    assert not news._waiting


@pytest.mark.django_db(transaction=True)
async def test_the_latest_use_of_each_workload_is_written_at_once(
    world: World, make_workload: MakeWorkload, stopped_clock: Clock
) -> None:
    mine, other = await sync_to_async(make_workload)(), await sync_to_async(make_workload)()
    stamps = Stamps()
    stamps.note(mine.id)
    stamps.note(new_id())  # deleted meanwhile
    await stamps.flush()
    later = stopped_clock.tick(seconds=30)
    stamps.note(mine.id)
    stamps.note(other.id)
    await stamps.flush()
    assert {row.workload_id: row.last_request_at async for row in Activity.objects.all()} == {
        mine.id: later,
        other.id: later,
    }


@pytest.mark.django_db(transaction=True)
async def test_what_could_not_be_written_is_tried_again_and_does_not_hide_newer_use(
    monkeypatch: pytest.MonkeyPatch, stopped_clock: Clock
) -> None:
    workload, stamps = new_id(), Stamps()

    def refuse(_seen: object) -> None:
        stopped_clock.tick(seconds=5)
        stamps.note(workload)  # used again while the write was under way
        raise DatabaseError("locked")

    monkeypatch.setattr(activity, "_write", refuse)
    stamps.note(workload)
    await stamps.flush()
    assert stamps._seen == {workload: stopped_clock.now}
