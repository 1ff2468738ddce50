from datetime import UTC, datetime, timedelta
from statistics import mean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.cluster.specs import Sample as Seen
from apps.core import clock
from apps.telemetry import selectors, services
from apps.telemetry.models import Sample, Step
from tests.conftest import Clock

pytestmark = pytest.mark.django_db
CARD = "card:GPU-1"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def second(offset: int, subject: str = CARD, **figures: Any) -> Seen:
    return Seen(subject, START + timedelta(seconds=offset), **figures)


def at(offset: int) -> int:
    return int(START.timestamp()) + offset


def rows(step: Step, subject: str = CARD) -> list[tuple[int, int | None]]:
    return list(Sample.objects.filter(step=step, subject=subject).order_by("at").values_list("at", "compute_used"))


def test_the_same_second_twice_is_kept_once_and_late_ones_find_their_place() -> None:
    services.ingest([second(3, compute_used=30), second(1, compute_used=10)])
    services.ingest([second(3, compute_used=99), second(2, compute_used=20)])
    assert rows(Step.SECOND) == [(at(1), 10), (at(2), 20), (at(3), 30)]


def test_nothing_known_is_no_data_and_not_zero() -> None:
    services.ingest([second(0), second(1, compute_used=0)])
    assert rows(Step.SECOND) == [(at(0), None), (at(1), 0)]


def test_ten_seconds_are_the_mean_of_their_seconds_with_the_peak_kept() -> None:
    services.ingest([second(n, compute_used=100 * n, denied_bytes=n, throttled_ms=10) for n in range(10)])
    services.ingest([second(n, subject="card:GPU-2", compute_used=7) for n in range(10)])
    services.roll_up(START + timedelta(seconds=13))
    kept = Sample.objects.get(step=Step.TEN_SECONDS, subject=CARD)
    assert (kept.at, kept.compute_used, kept.compute_peak, kept.denied_bytes, kept.throttled_ms) == (
        at(0),
        450,
        900,
        9,
        10,
    )
    assert rows(Step.TEN_SECONDS, "card:GPU-2") == [(at(0), 7)]


def test_a_bucket_that_is_not_complete_is_not_written() -> None:
    services.ingest([second(n, compute_used=5) for n in range(15)])
    services.roll_up(START + timedelta(seconds=16))
    assert rows(Step.TEN_SECONDS) == [(at(0), 5)]


def test_late_samples_still_count_and_repeating_changes_nothing() -> None:
    services.ingest([second(n, compute_used=0) for n in range(5)])
    services.roll_up(START + timedelta(seconds=14))
    assert rows(Step.TEN_SECONDS) == [(at(0), 0)]
    services.ingest([second(n, compute_used=100) for n in range(5, 10)])
    services.roll_up(START + timedelta(seconds=24))
    services.roll_up(START + timedelta(seconds=24))
    assert rows(Step.TEN_SECONDS) == [(at(0), 50)]


def test_five_minutes_come_from_ten_seconds() -> None:
    services.ingest([second(n, compute_used=n % 10, memory_used=2**40) for n in range(300)])
    services.roll_up(START + timedelta(seconds=304))
    coarse = Sample.objects.get(step=Step.FIVE_MINUTES)
    assert (coarse.at, coarse.compute_peak, coarse.memory_used) == (at(0), 9, 2**40)
    assert coarse.compute_used in (4, 5)


def test_a_pause_of_the_controller_loses_nothing_that_is_still_kept() -> None:
    services.ingest([second(n, compute_used=1) for n in range(0, 600, 5)])
    services.roll_up(START + timedelta(seconds=620))
    assert len(rows(Step.TEN_SECONDS)) == 60
    assert len(rows(Step.FIVE_MINUTES)) == 2


def test_old_samples_are_forgotten_by_step() -> None:
    services.ingest([second(n, compute_used=1) for n in range(20)])
    services.roll_up(START + timedelta(seconds=30))
    services.roll_up(START + timedelta(minutes=16))
    assert rows(Step.SECOND) == []
    assert len(rows(Step.TEN_SECONDS)) == 2
    services.roll_up(START + timedelta(hours=49))
    assert rows(Step.TEN_SECONDS) == []
    assert len(rows(Step.FIVE_MINUTES)) == 1
    services.roll_up(START + timedelta(days=91))
    assert not Sample.objects.exists()


@given(st.lists(st.none() | st.integers(0, 1000), min_size=10, max_size=10), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_arrival_gives_the_same_mean(values: list[int | None], random: Any) -> None:
    Sample.objects.all().delete()
    seen = [second(n, compute_used=value) for n, value in enumerate(values)]
    random.shuffle(seen)
    for one in seen:
        services.ingest([one, seen[0]])
    services.roll_up(START + timedelta(seconds=14))
    known = [value for value in values if value is not None]
    ((_at, got),) = rows(Step.TEN_SECONDS)
    assert got == pytest.approx(mean(known), abs=0.5) if known else got is None


def test_series_are_columns_of_the_step_that_suits_the_span(stopped_clock: Clock) -> None:
    services.ingest([second(n, compute_used=n) for n in range(20)])
    stopped_clock.tick(seconds=30)
    services.roll_up(clock.now())
    fine = selectors.series(CARD, seconds=60)
    assert fine["at"] == [at(n) for n in range(20)]
    assert fine["compute_used"] == list(range(20))
    assert fine["power"] == [None] * 20
    coarse = selectors.series(CARD, seconds=3600)
    assert coarse["at"] == [at(0), at(10)]
    assert selectors.series(CARD, seconds=60, since=at(17))["at"] == [at(18), at(19)]
    assert selectors.series("card:none", seconds=60)["at"] == []


@pytest.mark.parametrize(
    ("seconds", "step"), [(60, 1), (900, 1), (901, 10), (7200, 10), (9001, 300), (90 * 86400, 300)]
)
def test_a_series_never_has_more_points_than_a_chart_can_show(seconds: int, step: int) -> None:
    assert selectors.step_for(seconds) == step


def test_the_newest_second_of_each_subject_is_found_and_old_ones_are_no_data(stopped_clock: Clock) -> None:
    services.ingest([second(n, compute_used=n) for n in range(5)])
    services.ingest(
        [second(2, subject="run:a:GPU-1", compute_used=7), second(-3600, subject="card:GPU-9", compute_used=1)]
    )
    stopped_clock.tick(seconds=10)
    found = selectors.latest([CARD, "run:a:GPU-1", "card:GPU-9", "card:none"])
    assert {subject: sample.compute_used for subject, sample in found.items()} == {CARD: 4, "run:a:GPU-1": 7}


def test_a_workload_has_its_own_part_and_its_cards() -> None:
    class Placed:
        uid = "w-1"
        cards = ("GPU-1", "GPU-2")

    subjects = selectors.subjects_of(Placed())
    assert subjects.runs == ["run:w-1:GPU-1", "run:w-1:GPU-2"]
    assert list(subjects) == [*subjects.runs, "card:GPU-1", "card:GPU-2"]
