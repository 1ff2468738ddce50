"""`manage.py seed_demo`: the world that a fresh start shows."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils.translation import override

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.catalog.models import Environment, Flavour
from apps.quotas.models import Quota
from apps.tenants.models import Role, Tenant
from apps.tenants.selectors import role_in, visible_to
from apps.workloads.selectors import visible_to as workloads_of

pytestmark = pytest.mark.django_db
PEOPLE = {"admin", "mei", "lin", "tom", "otto"}


@pytest.fixture
def seeded(settings: Any, tmp_path: Path) -> Path:
    settings.STATE_DIR = tmp_path
    call_command("seed_demo", stdout=StringIO())
    return tmp_path


def actor(username: str) -> Actor:
    return Actor.person(User.objects.get(username=username))


def test_everybody_can_sign_in_with_the_kept_password_that_only_its_owner_reads(seeded: Path) -> None:
    file = seeded / "demo-accounts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    passwords = json.loads(file.read_text())
    assert set(passwords) == PEOPLE
    for username, password in passwords.items():
        assert User.objects.get(username=username).check_password(password)
    assert len(set(passwords.values())) == len(PEOPLE)


def test_roles_are_as_told_and_the_outsider_sees_nothing(seeded: Path) -> None:
    vision = Tenant.objects.get(slug="vision-lab")
    roles = {name: role_in(actor(name), vision) for name in PEOPLE}
    assert roles == {"admin": Role.MANAGER, "mei": Role.MANAGER, "lin": Role.MEMBER, "tom": None, "otto": None}
    assert not visible_to(actor("otto"))
    assert not workloads_of(actor("otto"))


def test_again_it_changes_nothing_even_what_people_changed(seeded: Path, settings: Any) -> None:
    passwords = (seeded / "demo-accounts.json").read_text()
    Quota.objects.filter(tenant__slug="vision-lab").update(running=1)
    Flavour.objects.filter(slug="small").update(name="Mine")
    out = StringIO()
    call_command("seed_demo", stdout=out)
    assert (seeded / "demo-accounts.json").read_text() == passwords
    assert not any(password in out.getvalue() for password in json.loads(passwords).values())
    assert Quota.objects.get(tenant__slug="vision-lab").running == 1
    assert Flavour.objects.get(slug="small").name == "Mine"
    assert User.objects.count() == len(PEOPLE)


def test_every_choice_has_a_chinese_name_and_is_within_somebodys_quota(seeded: Path) -> None:
    with override("zh-hans"):
        assert all(choice.label and choice.summary for choice in (*Flavour.objects.all(), *Environment.objects.all()))
    quota = Quota.objects.get(tenant__slug="vision-lab")
    for flavour in Flavour.objects.all():
        assert flavour.gpu_count * flavour.gpu_memory <= (quota.gpu_memory or 0)
        assert flavour.resources.ram <= (quota.ram or 0)
    assert Environment.objects.get().key == "notebook"
