"""Asking for an experiment, its page, and what can be done on it."""

from datetime import timedelta
from uuid import uuid4

import pytest

from apps.accounts.models import User
from apps.core import clock
from apps.core.share import GIB
from apps.dashboard.forms.experiment import ExperimentForm, numbers_of
from apps.workloads.models import Desired, Phase, Workload
from tests.factories import SLICE, World
from tests.unit.dashboard.conftest import Make, Person

pytestmark = pytest.mark.django_db
CUSTOM = {
    "flavour": "custom",
    "gpu_memory": "8",
    "gpu_compute": "30",
    "gpu_ceiling": "50",
    "gpu_count": "1",
    "cpu": "2",
    "ram": "4",
}


def _asked(world: World, **changes: str) -> dict[str, str]:
    usual = {
        "key": str(uuid4()), "tenant": world.lab.slug, "environment": "notebook", "flavour": "medium", "name": "My run",
        "time_limit": "3600",
    }  # fmt: skip
    return {**usual, **changes}


def _custom(world: World, **changes: str) -> dict[str, str]:
    return {**_asked(world), **CUSTOM, **changes}


def test_the_form_begins_with_the_last_choice(world: World, browser: Person, make: Make, choices: None) -> None:
    make(gpu_memory=12 * GIB, time_limit_seconds=14400)
    page = " ".join(browser(world.member).get("/experiments/new/").content.decode().split())
    assert 'value="custom" checked' in page
    assert 'name="gpu_memory"' in page
    assert 'value="12"' in page
    assert 'value="14400" selected' in page


def test_the_verdict_comes_before_the_click(world: World, browser: Person, card: object, choices: None) -> None:
    client = browser(world.member)
    assert "Starts now" in client.get("/experiments/new/").content.decode()
    verdict = client.get("/experiments/new/verdict/", _asked(world)).content.decode()
    assert "Starts now" in verdict
    assert "8 GiB" in verdict


def test_a_request_beyond_the_quota_is_refused_with_numbers_and_the_nearest_choice(
    world: World, browser: Person, card: object, choices: None
) -> None:
    verdict = browser(world.member).get("/experiments/new/verdict/", _custom(world, gpu_memory="60")).content.decode()
    assert "Cannot start" in verdict
    assert "60 GiB" in verdict
    assert "40 GiB" in verdict
    assert "data-fill" in verdict


def test_an_unfinished_form_has_no_verdict_and_is_no_error(world: World, browser: Person, choices: None) -> None:
    answer = browser(world.member).get("/experiments/new/verdict/", _custom(world, gpu_memory=""))
    assert answer.status_code == 200
    assert "Choose a share" in answer.content.decode()


def test_a_missing_name_does_not_hide_the_verdict(world: World, browser: Person, card: object, choices: None) -> None:
    assert (
        "Starts now" in browser(world.member).get("/experiments/new/verdict/", _asked(world, name="")).content.decode()
    )


def test_a_request_is_made_and_leads_to_its_page(world: World, browser: Person, choices: None) -> None:
    answer = browser(world.member).post("/experiments/new/", _asked(world))
    made = Workload.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == f"/experiments/{made.id}/"
    assert (made.name, made.resources, made.time_limit_seconds) == ("My run", SLICE, 3600)


def test_a_double_click_makes_one_experiment(world: World, browser: Person, choices: None) -> None:
    client, asked = browser(world.member), _asked(world)
    first, second = client.post("/experiments/new/", asked), client.post("/experiments/new/", asked)
    assert first["Location"] == second["Location"]
    assert Workload.objects.count() == 1


def test_own_numbers_become_bytes_and_per_mille(world: World, browser: Person) -> None:
    browser(world.member).post("/experiments/new/", _custom(world, gpu_compute="12.5", gpu_memory="1.5"))
    made = Workload.objects.get()
    assert (made.gpu_memory, made.gpu_compute, made.gpu_ceiling, made.cpu_milli) == (3 * GIB // 2, 125, 500, 2000)


def test_own_numbers_may_ask_for_no_gpu(world: World, browser: Person) -> None:
    browser(world.member).post("/experiments/new/", _custom(world, gpu_count="0", gpu_memory=""))
    assert Workload.objects.get().share is None


def test_nothing_typed_is_lost_when_an_answer_is_wrong(world: World, browser: Person, choices: None) -> None:
    asked = _custom(world, name="", gpu_memory="7.25", gpu_ceiling="20")
    answer = browser(world.member).post("/experiments/new/", asked)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Give it a name" in page
    assert "must not be below what is guaranteed" in page
    assert 'value="7.25"' in page
    assert asked["key"] in page


def test_a_refusal_of_the_quota_is_said_on_the_form(world: World, browser: Person) -> None:
    answer = browser(world.member).post("/experiments/new/", _custom(world, gpu_memory="60"))
    assert answer.status_code == 422
    assert "40 GiB" in answer.content.decode()
    assert not Workload.objects.exists()


def test_another_tenant_cannot_be_asked_for(world: World, browser: Person, choices: None) -> None:
    answer = browser(world.member).post("/experiments/new/", _asked(world, tenant=world.other_lab.slug))
    assert answer.status_code == 422
    assert not Workload.objects.exists()


def test_what_fills_the_form_asks_for_the_same_again(world: World) -> None:
    numbers = {key: str(value) for key, value in numbers_of(SLICE).items()}
    form = ExperimentForm(_asked(world, flavour="custom", **numbers), actor=world.member)
    assert form.is_valid(), form.errors
    assert form.resources == SLICE


def test_the_page_of_a_failure_keeps_sentence_evidence_and_next_action(
    world: World, browser: Person, make: Make
) -> None:
    row = make(phase=Phase.FAILED, reason="crashed", evidence={"exit_code": 3})
    page = browser(world.member).get(f"/experiments/{row.id}/").content.decode()
    assert "exit code 3" in page
    assert "Look at the logs" in page
    assert f"logs:{row.id}" in page


def test_only_the_owner_is_offered_to_open(world: World, browser: Person, make: Make) -> None:
    row = make()
    address = f"/experiments/{row.id}/"
    assert f"/open/{row.id}/" in browser(world.member).get(address).content.decode()
    assert f"/open/{row.id}/" not in browser(world.manager).get(address).content.decode()
    assert "Open as operator" in browser(world.operator).get(address).content.decode()


def test_it_is_stopped_by_its_owner(world: World, browser: Person, make: Make) -> None:
    row = make()
    assert browser(world.member).post(f"/experiments/{row.id}/stop/").status_code == 302
    row.refresh_from_db()
    assert (row.desired, row.phase) == (Desired.STOPPED, Phase.STOPPING)


def test_a_manager_gives_the_owner_a_reason(world: World, browser: Person, make: Make) -> None:
    row = make()
    client = browser(world.manager)
    assert 'name="reason"' in client.get(f"/experiments/{row.id}/").content.decode()
    client.post(f"/experiments/{row.id}/stop/", {"reason": "maintenance at noon"})
    assert "maintenance at noon" in browser(world.member).get(f"/experiments/{row.id}/").content.decode()


def test_it_is_extended(world: World, browser: Person, make: Make) -> None:
    end = clock.now() + timedelta(hours=1)
    row = make(time_limit_seconds=3600, expires_at=end)
    browser(world.member).post(f"/experiments/{row.id}/extend/", {"seconds": "3600"})
    row.refresh_from_db()
    assert row.expires_at == end + timedelta(hours=1)


@pytest.mark.parametrize("seconds", ["", "-5", "soon", "999999999999"])
def test_nonsense_extends_nothing_and_is_explained(world: World, browser: Person, make: Make, seconds: str) -> None:
    row = make(time_limit_seconds=3600)
    answer = browser(world.member).post(f"/experiments/{row.id}/extend/", {"seconds": seconds})
    assert answer.status_code == 422
    assert "Choose by how much" in answer.content.decode()


def test_it_is_renamed_and_a_bad_name_is_explained(world: World, browser: Person, make: Make) -> None:
    row = make()
    client = browser(world.member)
    client.post(f"/experiments/{row.id}/rename/", {"name": "微调 <b>"})
    page = client.get(f"/experiments/{row.id}/").content.decode()
    assert "微调 &lt;b&gt;" in page
    assert "<b>" not in page
    answer = client.post(f"/experiments/{row.id}/rename/", {"name": ""}, follow=True)
    assert "Give it a name" in answer.content.decode()


@pytest.mark.parametrize(("choice", "removed"), [("keep", False), ("remove", True)])
def test_it_is_deleted_with_or_without_its_home(
    world: World, browser: Person, make: Make, choice: str, removed: bool
) -> None:
    row = make()
    browser(world.member).post(f"/experiments/{row.id}/delete/", {"home": choice})
    row.refresh_from_db()
    assert row.desired == Desired.DELETED
    assert row.experiment.remove_home is removed


def test_its_output_can_be_taken_along(world: World, browser: Person, make: Make) -> None:
    row = make()
    answer = browser(world.member).get(f"/experiments/{row.id}/log.txt")
    assert "JupyterLab of" in answer.content.decode()
    assert "attachment" in answer["Content-Disposition"]


def test_a_list_is_filtered_sorted_and_the_address_says_how(world: World, browser: Person, make: Make) -> None:
    make("Alpha")
    make("Beta", Phase.FAILED)
    client = browser(world.member)
    page = client.get("/experiments/?state=failed").content.decode()
    assert "Beta" in page
    assert "Alpha" not in page
    assert client.get("/experiments/?q=alph&sort=name&page=zzz&state=<x>").status_code == 200
    nothing = client.get("/experiments/?q=gamma").content.decode()
    assert "Nothing matches" in nothing


def test_a_list_costs_the_same_for_one_and_for_many(
    world: World, browser: Person, make: Make, django_assert_max_num_queries: object
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = browser(world.member)
    make("first", cards=["GPU-h100"])
    client.get("/experiments/")
    with CaptureQueriesContext(connection) as one:
        client.get("/experiments/")
    for number in range(20):
        make(f"run {number}", cards=["GPU-h100"])
    with CaptureQueriesContext(connection) as many:
        client.get("/experiments/")
    assert len(many) == len(one)


def test_the_page_speaks_the_language_of_the_account(world: World, browser: Person) -> None:
    User.objects.filter(username="member").update(language="zh-hans")
    client = browser(world.member)
    assert 'lang="zh-hans"' in client.get("/").content.decode()
    assert 'lang="zh-hans"' not in browser(world.manager).get("/").content.decode()
