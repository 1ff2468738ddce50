import pytest
from django.utils.translation import override

from apps.audit.models import Event
from apps.catalog import selectors, services
from apps.core.errors import InvalidInput, NotFound, NotPermitted
from apps.core.share import GIB
from tests.factories import World, flavour

pytestmark = pytest.mark.django_db


def test_operators_make_and_change_choices_and_it_is_audited(world: World) -> None:
    made = services.upsert_flavour(
        actor=world.operator,
        slug="half",
        name="Half",
        gpu_memory=20 * GIB,
        gpu_compute=500,
        gpu_ceiling=500,
        cpu_milli=1000,
        ram=GIB,
    )
    services.upsert_flavour(actor=world.operator, slug="half", name="A half")
    services.upsert_flavour(actor=world.operator, slug="half", name="A half")
    made.refresh_from_db()
    assert (made.name, made.gpu_compute) == ("A half", 500)
    assert [(e.before, e.after) for e in Event.objects.filter(verb="flavour.set").order_by("at")][1] == (
        {"name": "Half"},
        {"name": "A half"},
    )
    assert Event.objects.filter(verb="flavour.set").count() == 2


@pytest.mark.parametrize("who", ["auditor", "head", "manager", "member", "outsider"])
def test_nobody_else_does(world: World, who: str) -> None:
    with pytest.raises(NotPermitted):
        services.upsert_environment(actor=getattr(world, who), slug="x", name="x", key="x")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"colour": "red"},
        {"gpu_compute": 1500},
        {"gpu_compute": 500, "gpu_ceiling": 100},
        {"gpu_memory": 1},
    ],
)
def test_what_is_no_share_is_no_flavour(world: World, fields: dict[str, object]) -> None:
    flavour("small")
    with pytest.raises(InvalidInput):
        services.upsert_flavour(actor=world.operator, slug="small", **fields)


def test_what_is_withdrawn_is_no_longer_offered(world: World) -> None:
    small = flavour("small")
    assert selectors.flavour(small.id) == small
    services.upsert_flavour(actor=world.operator, slug="small", is_active=False)
    services.upsert_environment(actor=world.operator, slug="notebook", is_active=False)
    assert not selectors.flavours(world.lab)
    assert not selectors.environments("experiment")
    with pytest.raises(NotFound):
        selectors.flavour(small.id)
    with pytest.raises(NotFound):
        selectors.environment(world.environment.id)


def test_choices_speak_the_readers_language(world: World) -> None:
    made = flavour("small", name="Small", name_zh="小份")
    with override("zh-hans"):
        assert made.label == "小份"
    with override("en"):
        assert made.label == "Small"
    made.name_zh = ""
    with override("zh-hans"):
        assert made.label == "Small"
