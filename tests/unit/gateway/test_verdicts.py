"""Who may in. Every kind of refusal, and that nothing is learnt by asking."""

from datetime import timedelta

import pytest

from apps.accounts.models import User
from apps.core import clock
from apps.gateway import probe
from apps.gateway.services import redeem_ticket
from apps.gateway.verdicts import Kind, judge, judge_probe
from apps.tenants.models import Membership
from apps.workloads.models import Phase
from tests.conftest import Clock
from tests.factories import World
from tests.unit.gateway.conftest import MakeWorkload, let_in, ticket


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        (Phase.DRAFT, Kind.STARTING),
        (Phase.QUEUED, Kind.STARTING),
        (Phase.ADMITTED, Kind.STARTING),
        (Phase.SCHEDULING, Kind.STARTING),
        (Phase.PREPARING, Kind.STARTING),
        (Phase.STARTING, Kind.STARTING),
        (Phase.READY, Kind.ALLOWED),
        (Phase.STOPPING, Kind.STOPPED),
        (Phase.STOPPED, Kind.STOPPED),
        (Phase.FAILED, Kind.STOPPED),
    ],
)
def test_the_phase_decides_for_whom_may_in(world: World, make_workload: MakeWorkload, phase: Phase, kind: Kind) -> None:
    mine = make_workload(phase=phase)
    secret, _session = let_in(world.member, mine)
    verdict = judge(mine.slug, [secret])
    assert verdict.kind is kind
    assert verdict.workload == mine


def test_every_phase_is_judged() -> None:
    cases = test_the_phase_decides_for_whom_may_in.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {phase for phase, _kind in cases} == set(Phase)


def test_a_stranger_learns_nothing(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    for secrets in ([], ["guess"], [""]):
        assert judge(mine.slug, secrets) == judge("no-such-host", secrets)
        assert judge(mine.slug, secrets).workload is None


def test_a_pass_opens_its_own_host_only(world: World, make_workload: MakeWorkload) -> None:
    mine, second = make_workload(), make_workload()
    other = make_workload(world.stranger, tenant=world.other_lab)
    secret, _session = let_in(world.member, mine)
    assert judge(second.slug, [secret]).kind is Kind.SIGN_IN
    assert judge(other.slug, [secret]).kind is Kind.SIGN_IN
    assert judge(mine.slug, ["planted", secret]).kind is Kind.ALLOWED


def test_the_end_of_the_session_ends_the_pass(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    secret, session = let_in(world.member, mine)
    session.delete()
    assert judge(mine.slug, [secret]).kind is Kind.SIGN_IN


def test_a_session_that_expired_ends_the_pass(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    secret, session = let_in(world.member, mine)
    session.set_expiry(clock.now() - timedelta(seconds=1))
    session.save()
    assert judge(mine.slug, [secret]).kind is Kind.SIGN_IN


def test_a_session_that_another_person_took_over_is_not_the_passes(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    secret, session = let_in(world.member, mine)
    assert isinstance(world.colleague.user, User)
    session["_auth_user_id"] = str(world.colleague.user.pk)
    session["_auth_user_hash"] = world.colleague.user.get_session_auth_hash()
    session.save()
    assert judge(mine.slug, [secret]).kind is Kind.SIGN_IN


def test_a_new_password_and_a_disabled_account_end_the_pass(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    user = world.member.user
    assert isinstance(user, User)
    secret, _session = let_in(world.member, mine)
    user.is_active = False
    user.save()
    assert judge(mine.slug, [secret]).kind is Kind.SIGN_IN
    user.is_active = True
    user.save()
    assert judge(mine.slug, [secret]).kind is Kind.ALLOWED
    user.set_password("something else entirely")
    user.save()
    assert judge(mine.slug, [secret]).kind is Kind.SIGN_IN


def test_who_left_the_tenant_is_told_so_and_a_deleted_workload_is_gone(
    world: World, make_workload: MakeWorkload
) -> None:
    mine = make_workload()
    secret, _session = let_in(world.member, mine)
    mine.deleted_at = clock.now()
    mine.save()
    assert judge(mine.slug, [secret]).kind is Kind.GONE
    mine.deleted_at = None
    mine.save()
    Membership.objects.filter(user=world.member.user).delete()
    assert judge(mine.slug, [secret]).kind is Kind.NO_ACCESS


def test_an_operator_who_is_none_any_more_stays_outside(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    secret, _session = let_in(world.operator, mine)
    assert judge(mine.slug, [secret]).kind is Kind.ALLOWED
    User.objects.filter(username="operator").update(platform_role="")
    assert judge(mine.slug, [secret]).kind is Kind.NO_ACCESS


def test_a_proof_lets_our_own_visit_in_while_the_workload_starts(
    world: World, make_workload: MakeWorkload, stopped_clock: Clock
) -> None:
    starting, queued = make_workload(phase=Phase.STARTING), make_workload(phase=Phase.QUEUED)
    proof = probe.proof(starting.slug)
    assert judge_probe(starting.slug, proof).kind is Kind.ALLOWED
    assert judge_probe(queued.slug, proof).kind is Kind.SIGN_IN
    assert judge_probe(queued.slug, probe.proof(queued.slug)).kind is Kind.STOPPED
    assert judge_probe(starting.slug, proof + "x").kind is Kind.SIGN_IN
    stopped_clock.tick(seconds=61)
    assert judge_probe(starting.slug, proof).kind is Kind.SIGN_IN


def test_a_ticket_is_no_proof_and_a_proof_no_ticket(world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    assert judge_probe(mine.slug, ticket(world.member, mine)).kind is Kind.SIGN_IN
    assert redeem_ticket(slug=mine.slug, ticket=probe.proof(mine.slug)) is None
