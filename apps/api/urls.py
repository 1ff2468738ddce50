"""Addresses of the API. Flat, without a slash at the end, so that nothing is ever redirected and no body is lost."""

from typing import Any

from django.urls import path, re_path

from apps.api.views.catalog import EnvironmentView, FlavourView
from apps.api.views.experiments import ExperimentView
from apps.api.views.logs import LogView
from apps.api.views.platform import DiagnosisView, EventView, GpuView, MeView, TokenView
from apps.api.views.quotas import QuotaView
from apps.api.views.service import (
    DocsView,
    HealthView,
    MetricsView,
    NoSuchView,
    ProblemView,
    ReadyView,
    SchemaView,
    VersionView,
)
from apps.api.views.tenants import MemberView, TenantView
from apps.api.views.watching import ExplanationView, StepView
from apps.api.views.watching import MetricsView as SeriesView

LIST: dict[str, Any] = {"get": "list"}
SHOW: dict[str, Any] = {"get": "retrieve"}

urlpatterns = [
    path("v1/me", MeView.as_view(SHOW)),
    path("v1/version", VersionView.as_view()),
    path("v1/tenants", TenantView.as_view({**LIST, "post": "create"})),
    path("v1/tenants/<slug:slug>", TenantView.as_view({**SHOW, "patch": "partial_update"})),
    path("v1/tenants/<slug:slug>/members", MemberView.as_view(LIST)),
    path("v1/tenants/<slug:slug>/members/<str:username>", MemberView.as_view({"put": "update", "delete": "destroy"})),
    path("v1/tenants/<slug:slug>/quota", QuotaView.as_view({**SHOW, "put": "update", "patch": "partial_update"})),
    path("v1/environments", EnvironmentView.as_view(LIST)),
    path("v1/environments/<slug:slug>", EnvironmentView.as_view({**SHOW, "put": "update"})),
    path("v1/flavours", FlavourView.as_view(LIST)),
    path("v1/flavours/<slug:slug>", FlavourView.as_view({**SHOW, "put": "update"})),
    path("v1/experiments", ExperimentView.as_view({**LIST, "post": "create"})),
    path("v1/experiments/<uuid:pk>", ExperimentView.as_view({**SHOW, "patch": "partial_update", "delete": "destroy"})),
    path("v1/experiments/<uuid:pk>/stop", ExperimentView.as_view({"post": "stop"})),
    path("v1/experiments/<uuid:pk>/start", ExperimentView.as_view({"post": "start"})),
    path("v1/experiments/<uuid:pk>/extend", ExperimentView.as_view({"post": "extend"})),
    path("v1/experiments/<uuid:pk>/resize", ExperimentView.as_view({"post": "resize"})),
    path("v1/experiments/<uuid:pk>/logs", LogView.as_view(SHOW)),
    path("v1/experiments/<uuid:pk>/metrics", SeriesView.as_view(SHOW)),
    path("v1/experiments/<uuid:pk>/steps", StepView.as_view(LIST)),
    path("v1/experiments/<uuid:pk>/explanation", ExplanationView.as_view(SHOW)),
    path("v1/gpus", GpuView.as_view(LIST)),
    path("v1/gpus/<str:uuid>", GpuView.as_view(SHOW)),
    path("v1/cluster/diagnosis", DiagnosisView.as_view(SHOW)),
    path("v1/tokens", TokenView.as_view({**LIST, "post": "create"})),
    path("v1/tokens/<uuid:pk>", TokenView.as_view({"delete": "destroy"})),
    path("v1/events", EventView.as_view(LIST)),
    path("healthz", HealthView.as_view()),
    path("readyz", ReadyView.as_view()),
    path("metrics", MetricsView.as_view()),
    path("openapi.yaml", SchemaView.as_view(), name="api-schema"),
    path("docs/", DocsView.as_view(), name="api-docs"),
    path("problems/<slug:kind>", ProblemView.as_view()),
    re_path(r"^(?P<rest>(?s:.*))\Z", NoSuchView.as_view()),
]
