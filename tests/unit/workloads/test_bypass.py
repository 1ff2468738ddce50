"""Programs around the limits: one notice for as long as it lasts, one audit event, and few writes however many figures come."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from apps.audit.models import Event as Audited
from apps.cluster.specs import Sample
from apps.workloads import bypass, notices
from apps.workloads.models import Notice, Phase, Workload
from tests.factories import World
from tests.fakes.cluster import FakeCluster
from tests.unit.workloads.controlled import ask, controlled, in_phase, stop, until

AT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
EVIDENCE = {"uncounted_bytes": 10 * 2**30, "busy_permille": 0, "processes": ["python3 (77)"]}


def sample(uid: str = "a", second: float = 0, evidence: Any = None, card: str = "GPU-1") -> Sample:
    return Sample(f"run:{uid}:{card}", AT + timedelta(seconds=second), memory_used=0, bypass=evidence)


def watch() -> bypass.Watch:
    return bypass.Watch(open={})


def test_it_is_told_with_the_first_figures_that_have_it() -> None:
    assert watch().news([sample(evidence=EVIDENCE), sample("b"), Sample("card:GPU-1", AT)]) == ({"a": EVIDENCE}, [])


def test_numbers_that_change_all_the_time_are_told_every_ten_seconds_and_another_process_at_once() -> None:
    told = watch()
    told.news([sample(evidence=EVIDENCE)])
    more = {**EVIDENCE, "uncounted_bytes": 11 * 2**30}
    assert [bool(told.news([sample(second=second, evidence=more)])[0]) for second in range(1, 11)] == [False] * 9 + [
        True
    ]
    another = {**more, "processes": ["python3 (77)", "rogue (78)"]}
    assert told.news([sample(second=11, evidence=another)]) == ({"a": another}, [])


def test_it_is_over_after_five_seconds_of_figures_without_it_and_never_for_want_of_figures() -> None:
    told = watch()
    told.news([sample(evidence=EVIDENCE)])
    assert told.news([sample("b", second=100)]) == ({}, []), "nothing was heard of it"
    assert told.news([sample(second=5)]) == ({}, [])
    assert told.news([sample(second=6)]) == ({}, ["a"])
    assert told.news([sample(second=7)]) == ({}, [])


def test_of_several_cards_one_workload_is_told() -> None:
    second = {"uncounted_bytes": 2**30, "busy_permille": 300, "processes": ["rogue (78)"]}
    tell, _over = watch().news([sample(evidence=EVIDENCE), sample(evidence=second, card="GPU-2")])
    assert tell == {
        "a": {"uncounted_bytes": 11 * 2**30, "busy_permille": 300, "processes": ["python3 (77)", "rogue (78)"]}
    }


@pytest.mark.django_db(transaction=True)
async def test_a_notice_and_an_event_come_and_the_notice_goes(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload: Workload = await until(in_phase(await ask(people), Phase.READY))
        for second in (0, 1):
            await cluster.sample_batches.put([sample(workload.uid, second, EVIDENCE)])
        await until(lambda: notices.open_of([workload.id]).exists())
        await cluster.sample_batches.put([sample("of-somebody-else", 2, EVIDENCE), sample(workload.uid, 8)])
        await until(lambda: not notices.open_of([workload.id]).exists())
    (notice,) = await sync_to_async(lambda: list(Notice.objects.all()))()
    assert (notice.code, notice.evidence, notice.run) == ("bypass", EVIDENCE, 1)
    (event,) = await sync_to_async(lambda: list(Audited.objects.filter(verb="experiment.bypass")))()
    assert (event.target_id, event.after) == (workload.uid, EVIDENCE)


@pytest.mark.django_db(transaction=True)
async def test_a_controller_that_comes_later_knows_what_is_open_and_a_run_that_ends_ends_it(people: World) -> None:
    cluster = FakeCluster()
    async with controlled(cluster):
        workload = await until(in_phase(await ask(people), Phase.READY))
        await cluster.sample_batches.put([sample(workload.uid, 0, EVIDENCE)])
        await until(lambda: notices.open_of([workload.id]).exists())
    async with controlled(cluster):
        await cluster.sample_batches.put([sample(workload.uid, 20, EVIDENCE)])
        await stop(actor=people.member, workload=workload)
        await until(in_phase(workload, Phase.STOPPED))
        await until(lambda: not notices.open_of([workload.id]).exists())
    assert await sync_to_async(Audited.objects.filter(verb="experiment.bypass").count)() == 1
