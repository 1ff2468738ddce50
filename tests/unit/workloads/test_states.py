"""The table of phases, and what an observation means."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.specs import Observation, RunState
from apps.workloads.judge import Errand, errand, judge
from apps.workloads.models import ENDED, Desired, Phase, Workload
from apps.workloads.states import TABLE, Event, Impossible, rendered, transition

NOW = datetime(2026, 3, 2, tzinfo=UTC)
DOC = Path(settings.BASE_DIR) / "docs" / "development" / "states.md"
GONE = (RunState.ABSENT, RunState.EXITED)


def workload(phase: Phase, desired: Desired = Desired.RUNNING, run: int = 1, **fields: object) -> Workload:
    return Workload(id=UUID(int=1), phase=phase, desired=desired, run=run, **fields)


def seen(state: RunState, run: int = 1, reason: str = "", exit_code: int | None = None) -> Observation:
    return Observation(str(UUID(int=1)), run, state, NOW, reason, exit_code=exit_code)


def test_the_table_speaks_of_every_phase_and_of_no_other() -> None:
    assert {phase for phase, _event in TABLE} | set(TABLE.values()) == {str(phase) for phase in Phase}


def test_the_documentation_shows_the_table() -> None:
    assert rendered() in DOC.read_text(encoding="utf-8"), f"render it anew: python -m tests.render_states > {DOC}"


def test_everything_that_lives_can_be_stopped_and_can_end() -> None:
    for phase in Phase:
        if phase in (Phase.DRAFT, *ENDED):
            continue
        assert transition(phase, Event.STOP) in (Phase.STOPPING, Phase.STOPPED)


def test_from_every_phase_there_is_a_way_to_an_end() -> None:
    ways = {phase: {to for (start, _event), to in TABLE.items() if start == phase} for phase in map(str, Phase)}
    reached = {str(phase) for phase in ENDED}
    while more := {phase for phase, following in ways.items() if following & reached} - reached:
        reached |= more
    assert reached == {str(phase) for phase in Phase}


def test_what_is_not_in_the_table_cannot_happen() -> None:
    with pytest.raises(Impossible, match="stopped"):
        transition(Phase.STOPPED, Event.REACHED)


@pytest.mark.parametrize(
    ("phase", "desired", "holds_claim", "todo"),
    [
        (Phase.QUEUED, Desired.RUNNING, False, Errand.NOTHING),
        (Phase.ADMITTED, Desired.RUNNING, True, Errand.APPLY),
        (Phase.SCHEDULING, Desired.RUNNING, True, Errand.LOOK),
        (Phase.READY, Desired.RUNNING, True, Errand.LOOK),
        (Phase.STOPPING, Desired.STOPPED, True, Errand.END),
        (Phase.STOPPING, Desired.DELETED, True, Errand.END),
        (Phase.STOPPED, Desired.STOPPED, False, Errand.NOTHING),
        (Phase.STOPPED, Desired.STOPPED, True, Errand.END),
        (Phase.FAILED, Desired.DELETED, False, Errand.REMOVE),
    ],
)
def test_desire_and_phase_say_what_has_to_be_done(
    phase: Phase, desired: Desired, holds_claim: bool, todo: Errand
) -> None:
    assert errand(workload(phase, desired), still_there=holds_claim) is todo


def test_nothing_is_left_to_do_for_a_removed_row() -> None:
    assert errand(workload(Phase.STOPPED, Desired.DELETED, deleted_at=NOW), still_there=False) is Errand.NOTHING


phases, desires = st.sampled_from(list(Phase)), st.sampled_from(list(Desired))
states, runs = st.sampled_from(list(RunState)), st.integers(0, 3)


@given(phases, desires, states, runs, st.integers(1, 3))
def test_no_observation_leads_outside_the_table(
    phase: Phase, desired: Desired, state: RunState, run: int, own: int
) -> None:
    if desired != Desired.RUNNING and phase not in (Phase.STOPPING, *ENDED):
        return  # services move these at once
    if desired == Desired.RUNNING and phase == Phase.STOPPING:
        return
    row = workload(phase, desired, own)
    verdict = judge(row, seen(state, run))
    if verdict.event is not None:
        transition(phase, verdict.event)


@given(phases, desires, states, runs, st.integers(1, 3))
def test_quota_comes_back_only_for_what_was_seen_gone(
    phase: Phase, desired: Desired, state: RunState, run: int, own: int
) -> None:
    verdict = judge(workload(phase, desired, own), seen(state, run))
    if verdict.settle:
        assert state in GONE


@given(phases, desires, runs)
def test_unknown_means_nothing(phase: Phase, desired: Desired, run: int) -> None:
    verdict = judge(workload(phase, desired), seen(RunState.UNKNOWN, run))
    assert (verdict.event, verdict.settle, verdict.answers) == (None, False, False)


@pytest.mark.parametrize("state", [RunState.WAITING, RunState.PREPARING, RunState.STARTING, RunState.READY])
def test_what_was_ready_stays_ready_while_the_driver_looks_again(state: RunState) -> None:
    assert judge(workload(Phase.READY), seen(state)).event is None


def test_an_earlier_runs_end_is_not_this_runs_end() -> None:
    verdict = judge(workload(Phase.ADMITTED, run=2), seen(RunState.EXITED, run=1))
    assert (verdict.event, verdict.settle) == (None, False)


@pytest.mark.parametrize("other", [1, 3])
@pytest.mark.parametrize("phase", [Phase.ADMITTED, Phase.PREPARING, Phase.READY])
def test_while_another_run_is_alive_under_our_name_nothing_is_concluded(phase: Phase, other: int) -> None:
    verdict = judge(workload(phase, run=2), seen(RunState.READY, run=other))
    assert (verdict.event, verdict.settle) == (None, False)


@pytest.mark.parametrize(
    ("observation", "event", "reason"),
    [
        (seen(RunState.EXITED, exit_code=0), Event.ENDED, "exited"),
        (seen(RunState.EXITED, exit_code=3), Event.BROKE, "crashed"),
        (seen(RunState.EXITED, reason="host_shutdown"), Event.ENDED, "host_shutdown"),
        (seen(RunState.ABSENT, reason="host_shutdown", run=0), Event.ENDED, "host_shutdown"),
        (seen(RunState.ABSENT, run=0), Event.BROKE, "lost"),
        (seen(RunState.EXITED, reason="a_code_of_a_newer_driver"), Event.BROKE, "a_code_of_a_newer_driver"),
    ],
)
def test_an_end_without_our_asking_has_a_reason(observation: Observation, event: Event, reason: str) -> None:
    verdict = judge(workload(Phase.READY), observation)
    assert (verdict.event, verdict.reason, verdict.settle) == (event, reason, True)


def test_ready_is_not_believed_before_the_visit() -> None:
    verdict = judge(workload(Phase.STARTING), seen(RunState.READY))
    assert (verdict.event, verdict.answers) == (Event.SEEN_STARTING, True)
