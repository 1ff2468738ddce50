"""Tenants and their members."""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

import django_filters
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.scopes import MEMBERS_WRITE
from apps.accounts.selectors import find_user
from apps.api.idempotency import Change, idempotent
from apps.api.serializers.tenants import (
    MemberPutSerializer,
    MemberQuery,
    MemberSerializer,
    TenantCreateSerializer,
    TenantPatchSerializer,
    TenantSerializer,
)
from apps.api.views.base import ResourceView, reads
from apps.api.views.lookup import tenant_at, tenant_named
from apps.audit.context import Actor
from apps.core.errors import NotFound
from apps.tenants import policies, selectors, services
from apps.tenants.models import Membership, Role, Tenant, TenantKind


def roles_of(actor: Actor) -> Mapping[UUID, Role]:
    """The actor's highest role in each tenant, in a number of queries that does not grow with them."""
    found: dict[UUID, Role] = {}
    for role in (Role.VIEWER, Role.MEMBER, Role.MANAGER):
        for tenant_id in selectors.tenants_where(actor, at_least=role).order_by().values_list("id", flat=True):
            found[tenant_id] = role
    return found


class TenantFilter(django_filters.FilterSet):  # type: ignore[misc]
    kind = django_filters.ChoiceFilter(choices=TenantKind.choices)
    parent = django_filters.CharFilter(field_name="parent__slug", label="Slug of the department above.")
    q = django_filters.CharFilter(field_name="name", lookup_expr="icontains", label="Part of the name.")


class TenantView(ResourceView):
    """A department holds tenants; workloads belong to tenants."""

    write_scope = MEMBERS_WRITE
    ordering: ClassVar[tuple[str, ...]] = ("name", "id")
    filterset_class = TenantFilter
    queryset = Tenant.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List the tenants in which I have a role", responses=TenantSerializer(many=True))
    def list(self, request: Request) -> Response:
        found = selectors.tenants_where(self.actor, at_least=Role.VIEWER).select_related("parent")
        return self.page(found, TenantSerializer, roles=roles_of(self.actor))

    @extend_schema(summary="Show a tenant", responses=TenantSerializer)
    def retrieve(self, request: Request, slug: str) -> Response:
        return self._shown(tenant_at(self.actor, slug))

    @extend_schema(
        summary="Make a tenant or a department", request=TenantCreateSerializer, responses={201: TenantSerializer}
    )
    @idempotent
    def create(self, request: Request) -> Change:
        asked = self.body(TenantCreateSerializer)
        parent = tenant_named(self.actor, asked["parent"], "parent") if asked["parent"] else None

        def change() -> Response:
            tenant = services.create_tenant(actor=self.actor, name=asked["name"], kind=asked["kind"], parent=parent)
            return self._shown(tenant, status=201, headers={"Location": f"{request.path}/{tenant.slug}"})

        return change

    @extend_schema(summary="Rename a tenant", request=TenantPatchSerializer, responses=TenantSerializer)
    def partial_update(self, request: Request, slug: str) -> Response:
        tenant = tenant_at(self.actor, slug)
        return self._shown(services.rename_tenant(actor=self.actor, tenant=tenant, **self.body(TenantPatchSerializer)))

    def _shown(self, tenant: Tenant, **kwargs: Any) -> Response:
        role = selectors.role_in(self.actor, tenant)
        return self.reply(TenantSerializer, tenant, roles={tenant.id: role}, **kwargs)


class MemberView(ResourceView):
    """Who has which role in a tenant. A role in a department holds in each of its tenants too."""

    write_scope = MEMBERS_WRITE
    ordering: ClassVar[tuple[str, ...]] = ("user__username", "id")
    queryset = Membership.objects.none()  # names the model for the schema; rows come from the selectors

    @reads(MemberQuery)
    @extend_schema(summary="List the members of a tenant", responses=MemberSerializer(many=True))
    def list(self, request: Request, slug: str) -> Response:
        tenant = tenant_at(self.actor, slug)
        found = selectors.members_above(tenant) if self.query["inherited"] else selectors.members_of(tenant)
        return self.page(found.select_related("user", "tenant"), MemberSerializer)

    @extend_schema(summary="Give a person a role", request=MemberPutSerializer, responses=MemberSerializer)
    def update(self, request: Request, slug: str, username: str) -> Response:
        tenant, user = self._managed(slug, username)
        member = services.set_member(
            actor=self.actor, tenant=tenant, user=user, role=self.body(MemberPutSerializer)["role"]
        )
        return self.reply(MemberSerializer, member)

    @extend_schema(summary="Take a person's role away", responses={204: None})
    def destroy(self, request: Request, slug: str, username: str) -> Response:
        """What the person runs goes on running."""
        tenant, user = self._managed(slug, username)
        services.remove_member(actor=self.actor, tenant=tenant, user=user)
        return Response(status=204)

    def _managed(self, slug: str, username: str) -> tuple[Tenant, User]:
        """Rights first: only who may add people learns whether a user name exists."""
        tenant = tenant_at(self.actor, slug)
        policies.may_manage(self.actor, tenant)
        user = find_user(username)
        if user is None:
            raise NotFound(_("There is no active person with the user name %(name)s.") % {"name": username})
        return tenant, user
