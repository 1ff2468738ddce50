import pytest

from apps.audit import selectors, services
from apps.audit.context import Actor
from apps.audit.models import Event
from tests.factories import World

pytestmark = pytest.mark.django_db


def test_an_event_tells_who_did_what_to_what_by_which_token(world: World) -> None:
    assert world.manager.user is not None
    actor = Actor(user=world.manager.user, label="Mei (script)", token_id="t-1", request_id="r-1", ip="10.0.0.1")
    event = services.record(
        actor=actor,
        verb="tenant.rename",
        target=world.lab,
        tenant=world.lab.id,
        before={"name": "A"},
        after={"name": "B"},
    )
    assert (event.actor_id, event.actor_label, event.token_id) == (str(world.manager.user_id), "Mei (script)", "t-1")
    assert (event.target_type, event.target_id, event.request_id, event.ip) == (
        "tenant",
        str(world.lab.id),
        "r-1",
        "10.0.0.1",
    )


def test_the_trail_is_never_changed_and_never_deleted(world: World) -> None:
    event = services.record(actor=Actor.system(), verb="x.y", target=world.lab)
    event.verb = "x.z"
    with pytest.raises(TypeError, match="never changed"):
        event.save()
    with pytest.raises(TypeError, match="never deleted"):
        event.delete()
    with pytest.raises(TypeError, match="never"):
        Event.objects.all().delete()
    with pytest.raises(TypeError, match="never"):
        Event.objects.update(verb="x.z")


def test_events_are_read_by_tenant_and_by_target_newest_first(world: World) -> None:
    services.record(actor=Actor.system(), verb="a.b", target=world.lab, tenant=world.lab.id)
    services.record(actor=Actor.system(), verb="c.d", target=world.other_lab, tenant=world.other_lab.id)
    services.record(actor=Actor.system(), verb="e.f", target=world.environment)
    assert [event.verb for event in selectors.events()] == ["e.f", "c.d", "a.b"]
    assert [event.verb for event in selectors.events(tenant_ids=[world.lab.id])] == ["a.b"]
    assert [event.verb for event in selectors.events(target=world.environment)] == ["e.f"]
    assert not selectors.events(tenant_ids=[])
