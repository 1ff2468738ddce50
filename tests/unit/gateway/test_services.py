"""Tickets and passes."""

import pytest

from apps.audit.models import Event
from apps.core.errors import Conflict
from apps.gateway import services
from apps.gateway.models import Pass
from tests.conftest import Clock
from tests.factories import World
from tests.unit.gateway.conftest import MakeWorkload, ticket


def test_a_ticket_becomes_a_pass_once(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    made = ticket(world.member, mine, page="/lab/tree/x")
    entry = services.redeem_ticket(slug=mine.slug, ticket=made)
    assert entry is not None
    assert entry.page == "/lab/tree/x"
    assert services.redeem_ticket(slug=mine.slug, ticket=made) is None


def test_the_secret_is_not_kept(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    entry = services.redeem_ticket(slug=mine.slug, ticket=ticket(world.member, mine))
    assert entry is not None
    kept = Pass.objects.get()
    assert entry.secret not in (kept.secret_hash, kept.session_key)
    assert kept.secret_hash == services.hashed(entry.secret)


def test_a_ticket_lives_for_a_minute(world: World, make_workload: MakeWorkload, stopped_clock: Clock) -> None:
    mine = make_workload()
    in_time, late = ticket(world.member, mine), ticket(world.member, mine)
    stopped_clock.tick(seconds=59)
    assert services.redeem_ticket(slug=mine.slug, ticket=in_time) is not None
    stopped_clock.tick(seconds=1)
    assert services.redeem_ticket(slug=mine.slug, ticket=late) is None


def test_a_ticket_is_for_its_own_host_and_cannot_be_altered(world: World, make_workload: MakeWorkload) -> None:
    mine, other = make_workload(), make_workload(world.stranger, tenant=world.other_lab)
    made = ticket(world.member, mine)
    assert services.redeem_ticket(slug=other.slug, ticket=made) is None
    assert services.redeem_ticket(slug=mine.slug, ticket=made[:-1] + ("A" if made[-1] != "A" else "B")) is None
    assert services.redeem_ticket(slug=mine.slug, ticket="") is None
    assert services.redeem_ticket(slug=mine.slug, ticket=made) is not None


def test_a_browser_that_keeps_no_cookie_is_told_instead_of_going_round_in_circles(
    world: World, make_workload: MakeWorkload, stopped_clock: Clock
) -> None:
    mine = make_workload()
    for _ in range(5):
        ticket(world.member, mine)
    with pytest.raises(Conflict) as refusal:
        ticket(world.member, mine)
    assert refusal.value.code == "cookie_refused"
    stopped_clock.tick(seconds=11)
    ticket(world.member, mine)


def test_old_passes_are_cleared_away_and_those_in_use_stay(
    world: World, make_workload: MakeWorkload, stopped_clock: Clock
) -> None:
    mine, theirs = make_workload(), make_workload(world.colleague)
    used = services.redeem_ticket(slug=mine.slug, ticket=ticket(world.member, mine))
    ticket(world.member, mine)  # never used
    ticket(world.colleague, theirs)
    stopped_clock.tick(minutes=2)
    ticket(world.member, mine)
    assert used is not None
    assert Pass.objects.filter(user=world.member.user).count() == 2
    assert Pass.objects.filter(user=world.colleague.user).count() == 1
    stopped_clock.tick(days=15)
    ticket(world.member, mine)
    assert Pass.objects.filter(user=world.member.user).count() == 1


def test_only_entering_somebody_elses_session_is_audited(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    ticket(world.member, mine)
    assert not Event.objects.filter(verb="workload.enter").exists()
    ticket(world.operator, mine)
    event = Event.objects.get(verb="workload.enter")
    assert (event.actor_id, event.target_id) == (str(world.operator.user_id), mine.uid)
    assert event.tenant_id == str(world.lab.id)
