from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import pytest

from apps.core.share import Resources
from apps.tenants.models import Role
from apps.workloads.models import Workload
from tests.conftest import Clock
from tests.factories import NO_GPU, World, member, user
from tests.unit.api.conftest import Call, Caller


def _workloads(world: World, number: int, resources: Resources = NO_GPU) -> None:
    Workload.objects.bulk_create(
        Workload(
            kind="experiment",
            name=f"number {n}",
            slug=f"slug-{n}",
            owner=world.member.user,
            tenant=world.lab,
            environment=world.environment,
            cpu_milli=resources.cpu_milli,
        )
        for n in range(number)
    )


def _walk(caller: Caller, path: str, direction: str = "next") -> list[list[Any]]:
    pages = []
    while path:
        body = caller.get(path).json()
        pages.append(body["items"])
        link = body[direction]
        path = f"{urlsplit(link).path.removeprefix('/api/v1/')}?{urlsplit(link).query}" if link else ""
    return pages


def test_pages_hold_everything_once_in_a_stable_order(world: World, call: Call) -> None:
    _workloads(world, 23)
    pages = _walk(call(world.member), "experiments?limit=5")
    assert [len(page) for page in pages] == [5, 5, 5, 5, 3]
    found = [item["id"] for page in pages for item in page]
    assert len(set(found)) == 23


def test_rows_of_the_same_instant_are_neither_lost_nor_doubled(world: World, stopped_clock: Clock, call: Call) -> None:
    _workloads(world, 12)
    assert Workload.objects.values("created_at").distinct().count() == 1
    from apps.accounts.models import ApiToken

    mine = call(world.member)
    ApiToken.objects.update(expiry=None)
    found = [item["id"] for page in _walk(mine, "experiments?limit=5") for item in page]
    assert (len(found), len(set(found))) == (12, 12)


def test_what_is_made_meanwhile_does_not_shift_the_next_page(world: World, call: Call) -> None:
    _workloads(world, 6)
    mine = call(world.member)
    first = mine.get("experiments?limit=3").json()
    assert world.member.user is not None
    Workload.objects.create(
        kind="experiment", name="newer", slug="newer", owner=world.member.user, tenant=world.lab,
        environment=world.environment,
    )  # fmt: skip
    second = mine.get(f"experiments?{urlsplit(first['next']).query}").json()
    assert {i["id"] for i in first["items"]}.isdisjoint(i["id"] for i in second["items"])
    assert len(second["items"]) == 3


def test_a_list_sorted_by_name_pages_too_and_back(world: World, call: Call) -> None:
    for name in ("ann", "bob", "cyd"):
        member(world.lab, user(name), Role.VIEWER)
    path = f"tenants/{world.lab.slug}/members"
    mine = call(world.member)
    pages = _walk(mine, f"{path}?limit=2")
    names = [item["username"] for page in pages for item in page]
    assert names == ["ann", "bob", "colleague", "cyd", "manager", "member", "viewer"]
    last = mine.get(f"{path}?limit=2").json()["next"]
    back = mine.get(f"{path}?{urlsplit(last).query}").json()["previous"]
    assert mine.get(f"{path}?{urlsplit(back).query}").json()["items"] == pages[0]


def test_filters_stay_in_the_links(world: World, call: Call) -> None:
    _workloads(world, 4)
    link = call(world.member).get("experiments?limit=2&q=number&phase=draft&phase=queued").json()["next"]
    assert "q=number" in link
    assert link.count("phase=") == 2


@pytest.mark.parametrize("limit", ["0", "201", "-1", "ten", "1.5", "", "9" * 40, "\u0665"])
def test_a_limit_outside_of_1_to_200_is_refused(world: World, call: Call, limit: str) -> None:
    answer = call(world.member).get(f"experiments?limit={limit}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "limit"


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "\u00e4",
        "bz0x",
        b64encode(b"p=not-a-time").decode(),
        b64encode(b"p=%00").decode(),
        b64encode(b"o=-5").decode(),
        "",
    ],
)
def test_a_made_up_cursor_is_refused_kindly(world: World, call: Call, cursor: str) -> None:
    answer = call(world.member).get(f"experiments?cursor={cursor}")
    assert answer.status_code in (200, 422)
    if answer.status_code == 422:
        assert answer.json()["errors"][0]["field"] == "cursor"
