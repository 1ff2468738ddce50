"""What can be chosen. Everybody who is signed in reads it; operators change it."""

from typing import ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.scopes import PLATFORM
from apps.api.serializers.catalog import (
    EnvironmentPutSerializer,
    EnvironmentSerializer,
    FlavourPutSerializer,
    FlavourSerializer,
)
from apps.api.views.base import ResourceView
from apps.catalog import selectors, services
from apps.catalog.models import Described, Environment, Flavour
from apps.core.errors import NotFound, NotPermitted


class CatalogView(ResourceView):
    write_scope = PLATFORM
    ordering: ClassVar[tuple[str, ...]] = ("position", "slug")

    def found(self, rows: QuerySet[Described], slug: str) -> Described:
        row = rows.filter(slug=slug).first()
        if row is None:
            raise NotFound(_("There is no such choice, or it is no longer offered."))
        return row

    def require_operator(self) -> None:
        """Before the body is looked at: who may not change anything learns nothing about how."""
        if not self.actor.is_operator:
            raise NotPermitted(_("Only operators change the catalogue."))


class EnvironmentView(CatalogView):
    queryset = Environment.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List environments", responses=EnvironmentSerializer(many=True))
    def list(self, request: Request) -> Response:
        return self.page(selectors.environments(), EnvironmentSerializer)

    @extend_schema(summary="Show an environment", responses=EnvironmentSerializer)
    def retrieve(self, request: Request, slug: str) -> Response:
        return self.reply(EnvironmentSerializer, self.found(selectors.environments(), slug))

    @extend_schema(
        summary="Make or change an environment", request=EnvironmentPutSerializer, responses=EnvironmentSerializer
    )
    def update(self, request: Request, slug: str) -> Response:
        self.require_operator()
        row = services.upsert_environment(actor=self.actor, slug=slug, **self.body(EnvironmentPutSerializer))
        return self.reply(EnvironmentSerializer, row)


class FlavourView(CatalogView):
    queryset = Flavour.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List flavours", responses=FlavourSerializer(many=True))
    def list(self, request: Request) -> Response:
        return self.page(selectors.flavours(), FlavourSerializer)

    @extend_schema(summary="Show a flavour", responses=FlavourSerializer)
    def retrieve(self, request: Request, slug: str) -> Response:
        return self.reply(FlavourSerializer, self.found(selectors.flavours(), slug))

    @extend_schema(summary="Make or change a flavour", request=FlavourPutSerializer, responses=FlavourSerializer)
    def update(self, request: Request, slug: str) -> Response:
        """What runs keeps what it has."""
        self.require_operator()
        body = FlavourPutSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return self.reply(FlavourSerializer, services.upsert_flavour(actor=self.actor, slug=slug, **body.flat()))
