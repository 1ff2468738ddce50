"""Tenants, members, quotas, many workloads at once, the audit trail, the account."""

import pytest

from apps.accounts.models import ApiToken, User
from apps.audit.models import Event
from apps.core.share import GIB
from apps.quotas.models import Claim, Quota
from apps.tenants.models import Membership, Role, Tenant
from apps.workloads.models import Desired, Phase
from tests import factories
from tests.factories import World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db
NO_LIMITS = dict.fromkeys(
    ("gpu_memory", "gpu_compute", "cpu_milli", "ram", "running", "running_per_user", "pending"), ""
)


def test_a_manager_adds_changes_and_removes_a_member(world: World, browser: Person) -> None:
    newcomer = factories.user("newcomer")
    client, address = browser(world.manager), f"/tenants/{world.lab.slug}/members/"
    client.post(address, {"username": "newcomer", "role": "viewer"})
    client.post(address, {"username": "newcomer", "role": "member"})
    assert Membership.objects.get(user=newcomer).role == Role.MEMBER
    client.post(f"{address}{newcomer.id}/remove/")
    assert not Membership.objects.filter(user=newcomer).exists()


def test_a_name_that_nobody_has_is_said_beside_the_field(world: World, browser: Person) -> None:
    answer = browser(world.manager).post(
        f"/tenants/{world.lab.slug}/members/", {"username": "nobdoy", "role": "member"}
    )
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "nobody with this user name" in page
    assert 'value="nobdoy"' in page


def test_the_last_manager_stays(world: World, browser: Person) -> None:
    answer = browser(world.manager).post(
        f"/tenants/{world.lab.slug}/members/{world.manager.user_id}/remove/", follow=True
    )
    assert "last manager" in answer.content.decode()


@pytest.mark.parametrize("person", ["member", "viewer"])
def test_members_see_the_members_and_change_none(world: World, browser: Person, person: str) -> None:
    client = browser(getattr(world, person))
    assert "member-username" not in client.get(f"/tenants/{world.lab.slug}/").content.decode()
    answer = client.post(f"/tenants/{world.lab.slug}/members/", {"username": "outsider", "role": "member"})
    assert answer.status_code == 403
    assert not Membership.objects.filter(user=world.outsider.user).exists()


def test_an_outsider_does_not_join_by_a_forged_form(world: World, browser: Person) -> None:
    answer = browser(world.outsider).post(
        f"/tenants/{world.lab.slug}/members/", {"username": "outsider", "role": "manager"}
    )
    assert answer.status_code == 404


def test_a_new_quota_is_shown_before_it_is_saved(world: World, browser: Person, make: Make) -> None:
    row = make()
    Claim.objects.create(
        workload_id=row.id, run=1, tenant=world.lab, owner=row.owner, gpu_memory=8 * GIB, gpu_compute=300
    )
    asked = {**NO_LIMITS, "version": "1", "gpu_memory": "4"}
    page = browser(world.operator).get(f"/tenants/{world.lab.slug}/quota/effect/", asked).content.decode()
    assert "More is held than this allows" in page
    assert Quota.objects.get(tenant=world.lab).gpu_memory == 40 * GIB


def test_a_quota_is_saved_and_audited(world: World, browser: Person) -> None:
    asked = {**NO_LIMITS, "version": "1", "gpu_memory": "12.5", "gpu_compute": "62.5", "pending": "0"}
    answer = browser(world.head).post(f"/tenants/{world.lab.slug}/quota/", asked)
    assert answer.status_code == 302
    quota = Quota.objects.get(tenant=world.lab)
    assert (quota.gpu_memory, quota.gpu_compute, quota.pending, quota.running) == (12 * GIB + GIB // 2, 625, 0, None)
    page = browser(world.head).get("/audit/?q=quota").content.decode()
    assert "quota.set" in page


def test_a_quota_that_somebody_changed_meanwhile_is_not_overwritten(world: World, browser: Person) -> None:
    Quota.objects.filter(tenant=world.lab).update(version=2)
    answer = browser(world.operator).post(
        f"/tenants/{world.lab.slug}/quota/", {**NO_LIMITS, "version": "1", "gpu_memory": "7"}
    )
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Somebody else changed" in page
    assert 'value="7"' in page
    assert Quota.objects.get(tenant=world.lab).gpu_memory == 40 * GIB


def test_a_manager_does_not_set_the_own_limit(world: World, browser: Person) -> None:
    client, address = browser(world.manager), f"/tenants/{world.lab.slug}/"
    assert "Change the quota" not in client.get(address).content.decode()
    assert client.post(f"{address}quota/", {**NO_LIMITS, "version": "1"}).status_code == 403


def test_an_operator_makes_a_tenant(world: World, browser: Person) -> None:
    asked = {"name": "语音实验室", "kind": "tenant", "parent": world.department.slug}
    answer = browser(world.operator).post("/tenants/", asked, follow=True)
    assert "语音实验室" in answer.content.decode()
    assert Tenant.objects.get(name="语音实验室").parent == world.department


def test_a_member_makes_no_tenant(world: World, browser: Person) -> None:
    browser(world.member).post("/tenants/", {"name": "Mine", "kind": "tenant", "parent": world.department.slug})
    assert not Tenant.objects.filter(name="Mine").exists()


def test_stopping_many_says_first_whom_it_hits(world: World, browser: Person, make: Make) -> None:
    first, second = make("Alpha"), make("Beta", owner=world.colleague)
    client = browser(world.manager)
    chosen = {"workload": [str(first.id), str(second.id)]}
    page = client.post("/workloads/stop/", chosen).content.decode()
    assert "colleague" in page
    assert "Alpha" in page
    first.refresh_from_db()
    assert first.desired == Desired.RUNNING
    client.post("/workloads/stop/", {**chosen, "confirm": "1", "reason": "power cut at noon"})
    for row in (first, second):
        row.refresh_from_db()
        assert (row.desired, row.phase) == (Desired.STOPPED, Phase.STOPPING)
    assert Event.objects.filter(verb="experiment.stop", reason="power cut at noon").count() == 2


def test_stopping_many_spares_what_is_not_managed(world: World, browser: Person, make: Make) -> None:
    foreign = make(owner=world.stranger, tenant=world.other_lab)
    chosen = {"workload": [str(foreign.id), "nonsense"], "confirm": "1", "reason": "x"}
    browser(world.manager).post("/workloads/stop/", chosen)
    foreign.refresh_from_db()
    assert foreign.desired == Desired.RUNNING


def test_an_auditor_reads_and_stops_nothing(world: World, browser: Person, make: Make) -> None:
    row = make()
    browser(world.auditor).post("/workloads/stop/", {"workload": [str(row.id)], "confirm": "1", "reason": "x"})
    row.refresh_from_db()
    assert row.desired == Desired.RUNNING


def test_the_trail_shows_a_manager_the_own_tenant_only(world: World, browser: Person) -> None:
    browser(world.operator).post(
        f"/tenants/{world.other_lab.slug}/members/", {"username": "outsider", "role": "viewer"}
    )
    assert "member.set" not in browser(world.manager).get("/audit/").content.decode()
    assert "member.set" in browser(world.auditor).get("/audit/").content.decode()


def test_a_token_is_shown_once_and_never_again(world: World, browser: Person) -> None:
    client = browser(world.member)
    asked = {"name": "training script", "scopes": ["read", "experiments:write"], "days": "30", "tenant": world.lab.slug}
    page = client.post("/account/tokens/", asked).content.decode()
    token = ApiToken.objects.get()
    secret = page.split('id="secret">')[1].split("<")[0]
    assert secret.startswith("tsr_")
    assert (token.scopes, token.tenant_id) == (["experiments:write", "read"], world.lab.id)
    assert secret not in client.get("/account/").content.decode()
    assert secret not in str(list(Event.objects.values()))


def test_a_token_is_revoked_by_its_owner_only(world: World, browser: Person) -> None:
    browser(world.member).post("/account/tokens/", {"name": "script", "scopes": ["read"], "days": "7"})
    token = ApiToken.objects.get()
    assert browser(world.colleague).post(f"/account/tokens/{token.id}/revoke/").status_code == 404
    browser(world.member).post(f"/account/tokens/{token.id}/revoke/")
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    "changes", [{"scopes": []}, {"scopes": ["everything"]}, {"days": "9999"}, {"name": ""}, {"scopes": ["platform"]}]
)
def test_a_token_that_cannot_be_made_is_explained(world: World, browser: Person, changes: dict[str, object]) -> None:
    asked = {"name": "script", "scopes": ["read"], "days": "7", **changes}
    answer = browser(world.member).post("/account/tokens/", asked)
    assert answer.status_code == 422
    assert "field-error" in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_preferences_are_kept_and_used(world: World, browser: Person) -> None:
    client = browser(world.member)
    client.post("/account/preferences/", {"display_name": "林涛", "language": "zh-hans", "theme": "dark"})
    page = " ".join(client.get("/").content.decode().split())
    assert 'lang="zh-hans" data-theme="dark"' in page
    assert "林涛" in page
    assert client.post("/account/preferences/", {"theme": "pink"}).status_code == 422


def test_the_language_can_be_chosen_before_signing_in_and_leads_nowhere_else(world: World, client: object) -> None:
    from django.test import Client

    visitor = Client(HTTP_HOST="localhost")
    answer = visitor.post("/language/", {"language": "zh-hans", "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"
    assert 'lang="zh-hans"' in visitor.get("/account/login/").content.decode()
    assert visitor.post("/language/", {"language": "klingon"}).cookies["django_language"].value == "en-gb"
    assert User.objects.filter(language="zh-hans").count() == 0


def test_lists_offer_an_operator_no_way_into_the_sessions_of_others(world: World, browser: Person, make: Make) -> None:
    row = make()
    assert f"/open/{row.id}/" not in browser(world.operator).get("/workloads/").content.decode()
    assert f"/open/{row.id}/" in browser(world.member).get("/experiments/").content.decode()
