import pytest

from apps.accounts.actors import actor_for
from apps.accounts.models import ApiToken, User
from apps.audit.context import Actor
from apps.audit.models import Event
from apps.core.errors import Conflict, InvalidInput, NotFound, NotPermitted
from apps.tenants import policies, selectors, services
from apps.tenants.models import Role, Tenant, TenantKind
from tests.factories import World, department, member, tenant, user

pytestmark = pytest.mark.django_db
PEOPLE = ("operator", "auditor", "head", "manager", "member", "viewer", "stranger", "outsider")


def names(rows: object) -> set[str]:
    return {str(row) for row in rows}  # type: ignore[attr-defined]


def with_token(actor: Actor, *scopes: str, only: Tenant | None = None) -> Actor:
    """The same person by a token."""
    assert isinstance(actor.user, User)
    made, _secret = ApiToken.objects.create(
        user=actor.user, expiry=None, name="t", scopes=list(scopes), tenant_id=only and only.id
    )
    return actor_for(actor.user, made)


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("operator", {"Research", "Vision Lab", "Speech Lab"}),
        ("auditor", {"Research", "Vision Lab", "Speech Lab"}),
        ("head", {"Research", "Vision Lab", "Speech Lab"}),
        ("member", {"Research", "Vision Lab"}),
        ("viewer", {"Research", "Vision Lab"}),
        ("stranger", {"Research", "Speech Lab"}),
        ("outsider", set()),
    ],
)
def test_everybody_sees_their_tenants_and_the_names_above_them(world: World, who: str, seen: set[str]) -> None:
    assert names(selectors.visible_to(getattr(world, who))) == seen


@pytest.mark.parametrize(
    ("who", "role"),
    [("operator", "manager"), ("auditor", "viewer"), ("head", "manager"), ("manager", "manager"), ("member", "member"),
     ("viewer", "viewer"), ("stranger", None), ("outsider", None)],
)  # fmt: skip
def test_a_role_holds_below_where_it_was_given(world: World, who: str, role: str | None) -> None:
    assert selectors.role_in(getattr(world, who), world.lab) == role


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize("at_least", list(Role))
def test_lists_and_single_answers_agree(world: World, who: str, at_least: Role) -> None:
    actor = getattr(world, who)
    listed = set(selectors.tenants_where(actor, at_least=at_least))
    roles = {t: selectors.role_in(actor, t) for t in Tenant.objects.all()}
    assert listed == {
        t for t, role in roles.items() if role is not None and selectors.RANK[role] >= selectors.RANK[at_least]
    }


def test_what_is_none_of_ones_business_does_not_exist(world: World) -> None:
    assert selectors.get(world.viewer, world.lab.id) == world.lab
    for who in (world.outsider, world.stranger):
        with pytest.raises(NotFound):
            selectors.get(who, world.lab.id)
    with pytest.raises(NotFound):
        selectors.get(world.member, world.department.id)  # its name is known, no more


def test_a_token_bound_to_a_tenant_knows_no_other(world: World) -> None:
    assert isinstance(world.head.user, User)
    bound = with_token(world.head, "read", only=world.lab)
    assert names(selectors.tenants_where(bound, at_least=Role.VIEWER)) == {"Vision Lab"}
    assert selectors.role_in(bound, world.other_lab) is None
    with pytest.raises(NotFound):
        policies.may_view(bound, world.other_lab)


def test_an_operators_bound_token_manages_that_tenant_only(world: World) -> None:
    bound = with_token(world.operator, "platform", only=world.lab)
    assert selectors.role_in(bound, world.lab) == Role.MANAGER
    assert names(selectors.tenants_where(bound, at_least=Role.MANAGER)) == {"Vision Lab"}
    assert selectors.role_in(bound, world.other_lab) is None


def test_a_token_without_the_scope_is_told_which_it_lacks(world: World) -> None:
    with pytest.raises(NotPermitted) as refused:
        policies.may_run(with_token(world.member, "read"), world.lab)
    assert (refused.value.code, refused.value.evidence) == ("missing_scope", {"scope": "experiments:write"})


def test_one_runs_only_where_one_is_a_member(world: World) -> None:
    assert names(selectors.runs_in(world.member)) == {"Vision Lab"}
    assert names(selectors.runs_in(world.head)) == {"Vision Lab", "Speech Lab"}
    assert not selectors.runs_in(world.viewer)
    assert not selectors.runs_in(world.outsider)
    with pytest.raises(NotPermitted):
        policies.may_run(world.viewer, world.lab)
    with pytest.raises(NotFound):
        policies.may_run(world.outsider, world.lab)


def test_a_locked_out_person_has_no_role(world: World) -> None:
    assert isinstance(world.manager.user, User)
    world.manager.user.is_active = False
    assert selectors.role_in(world.manager, world.lab) is None
    assert not selectors.tenants_where(world.manager, at_least=Role.VIEWER)


def test_managers_change_members_and_it_is_audited(world: World) -> None:
    newcomer = user("neu")
    services.set_member(actor=world.manager, tenant=world.lab, user=newcomer, role=Role.VIEWER)
    services.set_member(actor=world.manager, tenant=world.lab, user=newcomer, role=Role.MEMBER)
    services.remove_member(actor=world.manager, tenant=world.lab, user=newcomer)
    events = Event.objects.filter(target_id=str(world.lab.id)).order_by("at")
    assert [event.verb for event in events] == ["member.set", "member.set", "member.remove"]
    assert events[1].before == {"user": "neu", "role": "viewer"}


def test_giving_the_same_role_again_changes_nothing(world: World) -> None:
    services.set_member(actor=world.manager, tenant=world.lab, user=world.member.user, role=Role.MEMBER)
    assert not Event.objects.exists()


@pytest.mark.parametrize("who", ["member", "viewer", "auditor"])
def test_who_sees_a_tenant_does_not_manage_it(world: World, who: str) -> None:
    with pytest.raises(NotPermitted):
        services.set_member(actor=getattr(world, who), tenant=world.lab, user=user(), role=Role.MEMBER)


@pytest.mark.parametrize("who", ["stranger", "outsider"])
def test_who_does_not_see_a_tenant_is_told_nothing(world: World, who: str) -> None:
    with pytest.raises(NotFound):
        services.set_member(actor=getattr(world, who), tenant=world.lab, user=user(), role=Role.MEMBER)


def test_the_last_manager_is_not_locked_out_by_mistake(world: World) -> None:
    for act in (
        lambda who: services.remove_member(actor=who, tenant=world.lab, user=world.manager.user),
        lambda who: services.set_member(actor=who, tenant=world.lab, user=world.manager.user, role=Role.VIEWER),
    ):
        with pytest.raises(Conflict):
            act(world.manager)
    services.remove_member(actor=world.operator, tenant=world.lab, user=world.manager.user)


def test_bad_roles_and_missing_members_are_told(world: World) -> None:
    with pytest.raises(InvalidInput):
        services.set_member(actor=world.manager, tenant=world.lab, user=user(), role="king")
    with pytest.raises(NotFound):
        services.remove_member(actor=world.manager, tenant=world.lab, user=user())


def test_heads_make_tenants_below_their_department_only(world: World) -> None:
    made = services.create_tenant(actor=world.head, name="新实验室", parent=world.department)
    assert (made.parent, made.kind) == (world.department, TenantKind.TENANT)
    assert made.slug
    with pytest.raises(NotPermitted):
        services.create_tenant(actor=world.head, name="Another department", kind=TenantKind.DEPARTMENT)
    with pytest.raises(NotFound):
        services.create_tenant(actor=world.head, name="x", parent=department("Elsewhere"))
    with pytest.raises(InvalidInput):
        services.create_tenant(actor=world.operator, name="x", parent=world.lab)


def test_names_that_look_alike_get_different_slugs(world: World) -> None:
    made = [
        services.create_tenant(actor=world.operator, name=name, parent=world.department)
        for name in ("Robot Lab", "robot lab", "—")
    ]
    assert made[0].slug == "robot-lab"
    assert len({t.slug for t in made}) == 3


def test_an_empty_name_is_no_name(world: World) -> None:
    with pytest.raises(InvalidInput) as refused:
        services.rename_tenant(actor=world.manager, tenant=world.lab, name="  ")
    assert "name" in refused.value.fields


def test_a_rename_keeps_links_alive(world: World) -> None:
    slug = world.lab.slug
    services.rename_tenant(actor=world.manager, tenant=world.lab, name="视觉实验室")
    world.lab.refresh_from_db()
    assert (world.lab.name, world.lab.slug) == ("视觉实验室", slug)


@pytest.mark.parametrize(
    ("who", "error"),
    [("manager", NotPermitted), ("member", NotPermitted), ("outsider", NotFound), ("stranger", NotFound)],
)
def test_nobody_sets_the_limit_that_binds_them(world: World, who: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        policies.may_set_quota(getattr(world, who), world.lab)


def test_heads_set_the_quotas_below_them_and_operators_all(world: World) -> None:
    policies.may_set_quota(world.head, world.lab)
    with pytest.raises(NotPermitted):
        policies.may_set_quota(world.head, world.department)
    policies.may_set_quota(world.operator, world.department)


def test_deeper_trees_work_and_a_circle_does_no_harm(world: World) -> None:
    middle = tenant("Middle", parent=world.department, kind=TenantKind.DEPARTMENT)
    deep = tenant("Deep", parent=middle)
    assert selectors.role_in(world.head, deep) == Role.MANAGER
    Tenant.objects.filter(id=world.department.id).update(parent=middle)
    assert selectors.role_in(world.head, deep) == Role.MANAGER
    assert selectors.role_in(world.outsider, deep) is None
    member(deep, user())


def test_lists_cost_the_same_number_of_queries_for_few_and_many(
    world: World, django_assert_max_num_queries: object
) -> None:
    for _ in range(20):
        tenant(parent=world.department)
    with django_assert_max_num_queries(3):  # type: ignore[operator]
        list(selectors.visible_to(world.head).select_related("parent"))
