"""Who sees which page: an outsider finds nothing, not even that there is something."""

import pytest
from django.test import Client

from apps.workloads.models import Phase, Workload
from tests.factories import World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db
PAGES = ("/", "/experiments/", "/experiments/new/", "/cluster/", "/account/", "/search/?q=x", "/tenants/")
ACTIONS = ("stop", "start", "extend", "rename", "delete")


@pytest.mark.parametrize("address", PAGES)
def test_nobody_sees_a_page_without_signing_in(address: str) -> None:
    answer = Client(HTTP_HOST="localhost").get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/account/login/")


@pytest.mark.parametrize("address", PAGES)
def test_everybody_who_is_signed_in_sees_their_own_pages(world: World, browser: Person, address: str) -> None:
    for actor in (world.outsider, world.member, world.operator):
        answer = browser(actor).get(address)
        assert answer.status_code == 200
        assert "no-store" in answer["Cache-Control"]


def test_the_sign_in_page_says_what_tessera_is_and_offers_no_sign_up() -> None:
    client = Client(HTTP_HOST="localhost")
    page = client.get("/account/login/").content.decode()
    assert "shares the GPUs" in page
    assert "signup" not in page
    assert client.get("/account/signup/").status_code in (200, 404)
    assert "password1" not in client.get("/account/signup/").content.decode()


def test_an_outsider_finds_no_experiment_of_others(world: World, browser: Person, make: Make) -> None:
    row = make("Secret plan")
    for actor in (world.outsider, world.stranger):
        client = browser(actor)
        assert client.get(f"/experiments/{row.id}/").status_code == 404
        assert client.get(f"/experiments/{row.id}/log.txt").status_code == 404
        for page in ("/", "/experiments/", "/search/?q=Secret", "/cluster/"):
            assert "Secret plan" not in client.get(page).content.decode()


@pytest.mark.parametrize("action", ACTIONS)
def test_an_outsider_changes_nothing(world: World, browser: Person, make: Make, action: str) -> None:
    row = make()
    answer = browser(world.outsider).post(f"/experiments/{row.id}/{action}/", {"seconds": "60", "name": "Mine now"})
    assert answer.status_code == 404
    row.refresh_from_db()
    assert (row.name, row.desired, row.generation) == ("Baseline", "running", 1)


@pytest.mark.parametrize("action", ["stop", "extend", "rename", "delete"])
def test_a_colleague_sees_it_and_is_told_whose_it_is(world: World, browser: Person, make: Make, action: str) -> None:
    row = make(time_limit_seconds=3600)
    client = browser(world.colleague)
    assert client.get(f"/experiments/{row.id}/").status_code == 200
    answer = client.post(f"/experiments/{row.id}/{action}/", {"seconds": "60", "name": "Mine now"})
    assert answer.status_code == 403
    assert "member" in answer.content.decode()


@pytest.mark.parametrize("address", ["/workloads/", "/audit/"])
def test_managing_pages_are_for_those_who_manage(world: World, browser: Person, address: str) -> None:
    assert browser(world.member).get(address).status_code == 404
    assert browser(world.outsider).get(address).status_code == 404
    for actor in (world.manager, world.head, world.operator, world.auditor):
        assert browser(actor).get(address).status_code == 200


def test_a_manager_sees_only_what_is_managed(world: World, browser: Person, make: Make) -> None:
    make("Vision run")
    make("Speech run", owner=world.stranger, tenant=world.other_lab)
    page = browser(world.manager).get("/workloads/").content.decode()
    assert "Vision run" in page
    assert "Speech run" not in page
    assert "Speech run" in browser(world.head).get("/workloads/").content.decode()


def test_a_tenant_is_nothing_to_those_outside_it(world: World, browser: Person) -> None:
    address = f"/tenants/{world.lab.slug}/"
    assert browser(world.member).get(address).status_code == 200
    assert browser(world.stranger).get(address).status_code == 404
    assert browser(world.outsider).get(address).status_code == 404


def test_a_department_above_shows_members_its_name_only(world: World, browser: Person) -> None:
    assert browser(world.member).get(f"/tenants/{world.department.slug}/").status_code == 404


def test_cards_show_everybody_the_load_and_names_by_right(
    world: World, browser: Person, make: Make, card: object
) -> None:
    from apps.cluster.models import Gpu

    row = make("Secret plan", cards=["GPU-h100"])
    holder = {"uid": str(row.id), "memory": row.gpu_memory, "compute": row.gpu_compute, "ceiling": row.gpu_ceiling}
    Gpu.objects.update(holders=[holder])
    other = browser(world.outsider).get("/cluster/").content.decode()
    assert "8 GiB" in other
    assert "somebody else" in other
    assert "Secret plan" not in other
    assert "Secret plan" in browser(world.colleague).get("/cluster/").content.decode()


def test_who_waits_for_a_card_sees_who_holds_it_and_names_by_right(
    world: World, browser: Person, make: Make, card: object
) -> None:
    from apps.cluster.models import Gpu

    row = make("Secret plan", cards=["GPU-h100"])
    holder = {"uid": str(row.id), "memory": row.gpu_memory, "compute": row.gpu_compute, "ceiling": row.gpu_ceiling}
    Gpu.objects.update(holders=[holder])
    evidence = {"cards": [{"uuid": "GPU-h100"}, {"uuid": "GPU-that-is-gone"}]}
    waits = make("Waits", phase="scheduling", reason="waiting_card", evidence=evidence)
    shown = browser(world.colleague).get(f"/experiments/{waits.id}/").content.decode()
    assert "Who holds the GPUs" in shown
    assert "Secret plan" in shown
    stranger = make("Waits too", owner=world.stranger, phase="scheduling", reason="waiting_card", evidence=evidence)
    shown = browser(world.stranger).get(f"/experiments/{stranger.id}/").content.decode()
    assert "somebody else" in shown
    assert "Secret plan" not in shown


def test_a_forged_request_changes_nothing(world: World, make: Make) -> None:
    row = make()
    client = Client(HTTP_HOST="localhost", enforce_csrf_checks=True)
    assert world.member.user is not None
    client.force_login(world.member.user)
    answer = client.post(f"/experiments/{row.id}/stop/")
    assert answer.status_code == 403
    assert "Please send it again" in answer.content.decode()
    assert Workload.objects.get().phase == Phase.READY


def test_reading_by_post_and_writing_by_get_are_refused(world: World, browser: Person, make: Make) -> None:
    row = make()
    client = browser(world.member)
    assert client.get(f"/experiments/{row.id}/stop/").status_code == 405
    assert client.post("/cluster/").status_code == 405
