"""A portal that has lost its rows gets them back from what runs."""

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from apps.audit.context import Actor
from apps.experiments.models import Experiment
from apps.quotas.models import Claim, Quota
from apps.tenants.models import Membership, Tenant
from apps.workloads import selectors
from apps.workloads.models import Phase, Step, Workload
from tests.factories import SLICE, World
from tests.fakes.cluster import FakeCluster
from tests.unit.workloads.controlled import ask, controlled, held, in_phase, until

pytestmark = pytest.mark.django_db(transaction=True)


@sync_to_async
def lose(*models: type) -> None:
    for model in (Experiment, Step, Claim, Workload, *models):
        model.objects.all().delete()  # type: ignore[attr-defined]


async def running(people: World, cluster: FakeCluster) -> Workload:
    async with controlled(cluster):
        asked = await ask(people, name="语言模型", time_limit_seconds=3600)
        ready: Workload = await until(in_phase(asked, Phase.READY))
        return ready


async def test_rows_owner_share_and_claim_are_back_and_nothing_was_restarted(people: World) -> None:
    cluster = FakeCluster()
    before = await running(people, cluster)
    await lose()
    cluster.calls.clear()
    async with controlled(cluster):
        after = await until(in_phase(before, Phase.READY))
    assert (after.name, after.slug, after.run) == (before.name, before.slug, before.run)
    assert (after.owner_id, after.tenant_id, after.environment_id) == (
        before.owner_id,
        before.tenant_id,
        before.environment_id,
    )
    assert (after.resources, after.cards, after.time_limit_seconds) == (SLICE, before.cards, 3600)
    assert await sync_to_async(held)(after)
    home = await sync_to_async(lambda: after.experiment.home)()
    assert home == f"home-{before.id}"
    assert {method for method, _uid in cluster.calls} & {"delete"} == set()


async def test_people_and_tenants_that_are_gone_too_are_made_without_rights(people: World, db: None) -> None:
    cluster = FakeCluster()
    before = await running(people, cluster)
    await lose(Membership, Quota)
    await sync_to_async(lambda: Tenant.objects.filter(id=before.tenant_id).delete())()
    await sync_to_async(lambda: get_user_model().objects.filter(id=before.owner_id).delete())()
    async with controlled(cluster):
        after = await until(in_phase(before, Phase.READY))
    owner = await sync_to_async(lambda: get_user_model().objects.get(id=after.owner_id))()
    assert owner.username == "member"
    assert not owner.has_usable_password()
    assert not await sync_to_async(lambda: Membership.objects.filter(tenant=after.tenant_id).exists())()
    outsider = await sync_to_async(lambda: get_user_model().objects.get(username="outsider"))()
    assert not await sync_to_async(lambda: selectors.visible_to(Actor.person(outsider)).filter(id=after.id).exists())()


async def test_a_database_that_knows_of_workloads_takes_nothing_in(people: World) -> None:
    cluster = FakeCluster()
    stays = await running(people, cluster)
    async with controlled(cluster):
        lost = await ask(people, name="Lost")
        await until(in_phase(lost, Phase.READY))
    await sync_to_async(lambda: Claim.objects.filter(workload_id=lost.id).delete())()
    await sync_to_async(lambda: Workload.objects.filter(id=lost.id).delete())()
    async with controlled(cluster):
        await until(in_phase(stays, Phase.READY))
    assert not await sync_to_async(lambda: Workload.objects.filter(id=lost.id).exists())()
