"""GPUs, tokens, the audit trail, and oneself."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import selectors as accounts
from apps.accounts import services
from apps.accounts.models import ApiToken, User
from apps.accounts.scopes import PLATFORM, TOKENS_WRITE
from apps.api.idempotency import Change, idempotent
from apps.api.serializers import platform as shapes
from apps.api.views.base import ResourceView
from apps.api.views.lookup import tenant_named
from apps.api.views.tenants import roles_of
from apps.audit import selectors as audit
from apps.audit.models import Event
from apps.cluster import selectors as cluster
from apps.cluster import services as clusters
from apps.cluster.models import Gpu
from apps.core.errors import NotFound, NotPermitted
from apps.telemetry import selectors as telemetry
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant
from apps.workloads import selectors as workloads


class GpuFilter(django_filters.FilterSet):  # type: ignore[misc]
    node = django_filters.CharFilter(field_name="node")
    model = django_filters.CharFilter(field_name="model")


class GpuView(ResourceView):
    """The physical GPUs, for all who have a role somewhere, with the names of the shares that the asker may see."""

    write_scope = PLATFORM
    ordering: ClassVar[tuple[str, ...]] = ("uuid",)
    filterset_class = GpuFilter
    queryset = Gpu.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List the GPUs and what is held of them", responses=shapes.GpuSerializer(many=True))
    def list(self, request: Request) -> Response:
        rows = self.paginate_queryset(self.filter_queryset(self._visible()))
        assert rows is not None, "every list has pages"
        return self.get_paginated_response(shapes.GpuSerializer(rows, many=True, context=self._around(rows)).data)

    @extend_schema(summary="Show a GPU", responses=shapes.GpuSerializer)
    def retrieve(self, request: Request, uuid: str) -> Response:
        gpu = self._visible().filter(uuid=uuid).first()
        if gpu is None:
            raise NotFound(_("There is no such GPU, or it is not yours to see."))
        return self.reply(shapes.GpuSerializer, gpu, **self._around([gpu]))

    def _visible(self) -> QuerySet[Gpu]:
        somewhere = self.actor.sees_everything or tenants.tenants_where(self.actor, at_least=Role.VIEWER).exists()
        return cluster.gpus() if somewhere else cluster.gpus().none()

    def _around(self, gpus: Sequence[Gpu]) -> dict[str, Any]:
        """Names of the visible holders, the newest figures, and when all that was seen: three queries, however many GPUs."""
        site = cluster.site()
        held = {found for gpu in gpus for holder in gpu.holders if (found := _workload_id(holder["uid"]))}
        names = workloads.visible_to(self.actor).filter(id__in=held).values_list("id", "name")
        return {
            "names": {str(workload_id): name for workload_id, name in names},
            "latest": telemetry.latest(f"card:{gpu.uuid}" for gpu in gpus),
            "observed_at": site.observed_at if site else None,
        }


class DiagnosisView(ResourceView):
    """Looks at the cluster anew each time, which takes it about fifty small requests."""

    write_scope = PLATFORM
    may_be_missing = True  # where the driver is not that of a cluster

    @extend_schema(summary="Show whether the cluster is as Tessera needs it", responses=shapes.DiagnosisSerializer)
    def retrieve(self, request: Request) -> Response:
        """For operators; a token needs the scope `platform`. A cluster that does not answer is a finding; 404 where there is none."""
        if not self.actor.is_operator:
            raise NotPermitted(_("Only operators see this."))
        found = clusters.diagnose()
        if found is None:
            raise NotFound(_("This driver has no cluster to look at."))
        return self.reply(shapes.DiagnosisSerializer, found)


def _workload_id(uid: str) -> UUID | None:
    """None for what the driver found running and no workload of this portal ever was."""
    try:
        return UUID(uid)
    except ValueError:
        return None


def tenant_slugs(tokens: Iterable[ApiToken]) -> dict[UUID, str]:
    wanted = {token.tenant_id for token in tokens if token.tenant_id}
    return dict(Tenant.objects.filter(id__in=wanted).order_by().values_list("id", "slug"))


class TokenView(ResourceView):
    """One's own tokens. A token makes only tokens that may no more than itself."""

    write_scope = TOKENS_WRITE
    ordering: ClassVar[tuple[str, ...]] = ("-created", "id")
    queryset = ApiToken.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List my tokens", responses=shapes.TokenSerializer(many=True))
    def list(self, request: Request) -> Response:
        tokens = accounts.tokens_of(self.actor)
        return self.page(tokens, shapes.TokenSerializer, tenant_slugs=tenant_slugs(list(tokens)))

    @extend_schema(
        summary="Make a token", request=shapes.TokenCreateSerializer, responses={201: shapes.NewTokenSerializer}
    )
    @idempotent
    def create(self, request: Request) -> Change:
        """Its secret is in this reply and nowhere else."""
        asked = self.body(shapes.TokenCreateSerializer)
        tenant = tenant_named(self.actor, asked["tenant"], "tenant") if asked["tenant"] else None
        return lambda: self._made(request, asked, tenant)

    def _made(self, request: Request, asked: Mapping[str, Any], tenant: Tenant | None) -> Response:
        token, secret = services.create_token(
            actor=self.actor,
            user=_person(request),
            name=asked["name"],
            scopes=asked["scopes"],
            tenant_id=tenant.id if tenant else None,
            expires_in=timedelta(seconds=asked["expires_in_seconds"]),
        )
        token.secret = secret  # for this reply only; the row holds the hash
        slugs = {tenant.id: tenant.slug} if tenant else {}
        location = f"{request.path}/{token.id}"
        return self.reply(
            shapes.NewTokenSerializer, token, status=201, headers={"Location": location}, tenant_slugs=slugs
        )

    @extend_schema(summary="Revoke a token", responses={204: None})
    def destroy(self, request: Request, pk: UUID) -> Response:
        services.revoke_token(actor=self.actor, token=accounts.get_token(self.actor, pk))
        return Response(status=204)


def _person(request: Request) -> User:
    assert isinstance(request.user, User), "HasScope lets nobody else in"
    return request.user


class EventFilter(django_filters.FilterSet):  # type: ignore[misc]
    verb = django_filters.CharFilter(field_name="verb")
    actor_id = django_filters.UUIDFilter(method="of_actor")
    tenant = django_filters.CharFilter(method="of_tenant", label="Slug of the tenant.")
    target_type = django_filters.CharFilter(field_name="target_type")
    target_id = django_filters.CharFilter(field_name="target_id")
    after = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    before = django_filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")

    def of_actor(self, queryset: QuerySet[Event], name: str, value: UUID) -> QuerySet[Event]:
        return queryset.filter(actor_id=str(value))

    def of_tenant(self, queryset: QuerySet[Event], name: str, value: str) -> QuerySet[Event]:
        ids = [str(found) for found in Tenant.objects.filter(slug=value).values_list("id", flat=True)]
        return queryset.filter(tenant_id__in=ids)


class EventView(ResourceView):
    write_scope = PLATFORM
    ordering: ClassVar[tuple[str, ...]] = ("-at", "-id")
    filterset_class = EventFilter
    queryset = Event.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List what was done, newest first", responses=shapes.EventSerializer(many=True))
    def list(self, request: Request) -> Response:
        """Managers see their tenants', operators and auditors everything."""
        if self.actor.sees_everything:
            return self.page(audit.events(), shapes.EventSerializer)
        managed = tenants.tenants_where(self.actor, at_least=Role.MANAGER).order_by().values_list("id", flat=True)
        return self.page(audit.events(tenant_ids=list(managed)), shapes.EventSerializer)


class MeView(ResourceView):
    write_scope = PLATFORM

    @extend_schema(summary="Show who I am and what I may", responses=shapes.MeSerializer)
    def retrieve(self, request: Request) -> Response:
        user = _person(request)
        roles = roles_of(self.actor)
        mine = Tenant.objects.filter(id__in=roles).order_by("name")
        token = request.auth if isinstance(request.auth, ApiToken) else None
        shown = {
            "id": user.id,
            "username": user.username,
            "display_name": user.display_name,
            "platform_role": user.platform_role,
            "tenants": [{"slug": tenant.slug, "name": tenant.name, "role": roles[tenant.id]} for tenant in mine],
            "token": token,
        }
        return self.reply(shapes.MeSerializer, shown, tenant_slugs=tenant_slugs([token] if token else []))
