"""The portal's way to the gateway."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.core.ids import new_id
from apps.gateway import addresses, services
from tests.factories import World
from tests.unit.gateway.conftest import MakeWorkload


def signed_in(client: Client, actor: Actor) -> Client:
    assert isinstance(actor.user, User)
    client.force_login(actor.user)
    return client


def ticket_in(address: str) -> str:
    return parse_qs(urlsplit(address).query)["ticket"][0]


def test_the_owner_is_sent_to_the_workloads_origin_with_a_ticket_that_works(
    client: Client, world: World, make_workload: MakeWorkload
) -> None:
    mine = make_workload()
    answer = signed_in(client, world.member).get(f"/open/{mine.id}/?next=/lab/tree/x")
    assert answer.status_code == 303
    assert answer["Location"].startswith(f"{addresses.origin(mine.slug)}/_tessera/enter?ticket=")
    assert "no-store" in answer["Cache-Control"]
    entry = services.redeem_ticket(slug=mine.slug, ticket=ticket_in(answer["Location"]))
    assert entry is not None
    assert entry.page == "/lab/tree/x"


def test_both_names_of_a_workload_lead_there(client: Client, world: World, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    answer = signed_in(client, world.member).get(f"/open/{mine.slug}/")
    assert answer.status_code == 303


@pytest.mark.parametrize("who", ["stranger", "outsider"])
def test_outsiders_see_what_a_workload_that_does_not_exist_shows(
    client: Client, world: World, make_workload: MakeWorkload, who: str
) -> None:
    mine = make_workload()
    signed_in(client, getattr(world, who))
    for address in (f"/open/{mine.id}/", f"/open/{mine.slug}/", f"/open/{new_id()}/", "/open/nobody-was-here/"):
        assert client.get(address).status_code == 404


@pytest.mark.parametrize("who", ["colleague", "viewer", "manager", "head", "auditor"])
def test_who_only_sees_a_workload_may_not_enter_it(
    client: Client, world: World, make_workload: MakeWorkload, who: str
) -> None:
    mine = make_workload()
    assert signed_in(client, getattr(world, who)).get(f"/open/{mine.id}/").status_code == 403


def test_an_anonymous_visitor_signs_in_first_and_then_comes_back(
    client: Client, world: World, make_workload: MakeWorkload
) -> None:
    mine = make_workload()
    answer = client.get(f"/open/{mine.id}/?next=/lab/tree/x")
    assert answer.status_code == 302
    back = parse_qs(urlsplit(answer["Location"]).query)["next"][0]
    # A form's answer may not redirect to another origin under our policy, so this one is a page that goes on by itself.
    after_form = signed_in(client, world.member).get(back)
    assert after_form.status_code == 200
    address = after_form["Refresh"].removeprefix("0; url=")
    entry = services.redeem_ticket(slug=mine.slug, ticket=ticket_in(address))
    assert entry is not None
    assert entry.page == "/lab/tree/x"


def test_an_anonymous_visitor_cannot_tell_what_exists(client: Client, make_workload: MakeWorkload) -> None:
    mine = make_workload()
    there, nowhere = client.get(f"/open/{mine.slug}/"), client.get("/open/nobody-was-here/")
    assert (there.status_code, there["Location"].replace(mine.slug, "X")) == (
        nowhere.status_code,
        nowhere["Location"].replace("nobody-was-here", "X"),
    )


def test_opening_is_a_get(client: Client, world: World, make_workload: MakeWorkload) -> None:
    assert signed_in(client, world.member).post(f"/open/{make_workload().id}/").status_code == 405
