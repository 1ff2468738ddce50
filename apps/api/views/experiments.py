"""Experiments: ask, look, change. Everything that takes time is answered with 202 and the experiment as it is now."""

from typing import Any, ClassVar
from uuid import UUID

import django_filters
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.scopes import EXPERIMENTS_WRITE
from apps.api.idempotency import Change, idempotent, key_of
from apps.api.serializers import experiments as shapes
from apps.api.serializers.experiments import ExperimentSerializer
from apps.api.serializers.explain import GpuShareChangeSerializer
from apps.api.serializers.tenants import DryRunQuery
from apps.api.views.base import IF_MATCH, ResourceView, check_if_match, etag, reads
from apps.api.views.lookup import experiment_at, tenant_named
from apps.catalog import selectors as catalog
from apps.catalog.models import Described
from apps.core.errors import InvalidInput
from apps.core.share import GpuShare, Resources
from apps.experiments import services as experiments
from apps.experiments.kind import NAME
from apps.workloads import resizing, selectors, services
from apps.workloads.models import Phase, Workload
from apps.workloads.resizing import Change as ShareChange


class ExperimentFilter(django_filters.FilterSet):  # type: ignore[misc]
    tenant = django_filters.CharFilter(field_name="tenant__slug", label="Slug of the tenant.")
    owner = django_filters.CharFilter(method="of_owner", label="User name, or `me`.")
    phase = django_filters.MultipleChoiceFilter(choices=Phase.choices, label="Repeat it for several.")
    q = django_filters.CharFilter(field_name="name", lookup_expr="icontains", label="Part of the name.")
    created_after = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = django_filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    def of_owner(self, queryset: QuerySet[Workload], name: str, value: str) -> QuerySet[Workload]:
        return queryset.filter(owner__username=self.request.user.username if value == "me" else value)


class ExperimentView(ResourceView):
    write_scope = EXPERIMENTS_WRITE
    ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-id")
    filterset_class = ExperimentFilter
    queryset = Workload.objects.none()  # names the model for the schema; rows come from the selectors

    @extend_schema(summary="List experiments that I may see", responses=ExperimentSerializer(many=True))
    def list(self, request: Request) -> Response:
        return self.page(selectors.visible_to(self.actor).filter(kind=NAME), ExperimentSerializer)

    @extend_schema(summary="Show an experiment", responses=ExperimentSerializer)
    def retrieve(self, request: Request, pk: UUID) -> Response:
        return self._shown(experiment_at(self.actor, pk), status=200)

    @reads(DryRunQuery)
    @extend_schema(
        summary="Ask for an experiment",
        request=shapes.ExperimentCreateSerializer,
        responses={202: ExperimentSerializer, 200: shapes.VerdictSerializer},
    )
    def create(self, request: Request) -> Response:
        """202 with Location: it starts now or waits. With `dry_run=true`: 200, the verdict, and nothing is made."""
        key_of(request)  # also a dry run tells that it is wrong
        return self._preview() if self.query["dry_run"] else self._create(request)

    def _preview(self) -> Response:
        asked = _Asked(self.actor, self.body(shapes.ExperimentCreateSerializer))
        verdict = experiments.preview(actor=self.actor, tenant=asked.tenant, resources=asked.resources)
        return self.reply(shapes.VerdictSerializer, verdict)

    @idempotent
    def _create(self, request: Request) -> Change:
        body = self.body(shapes.ExperimentCreateSerializer)
        asked = _Asked(self.actor, body)
        wish = experiments.Wish(
            actor=self.actor,
            tenant=asked.tenant,
            kind=NAME,
            name=body["name"],
            environment=asked.environment,
            resources=asked.resources,
            time_limit_seconds=body["time_limit_seconds"],
        )
        begin = experiments.prepare_experiment(wish)

        def change() -> Response:
            workload = begin()
            return self._shown(workload, headers={"Location": f"{request.path}/{workload.id}"})

        return change

    @extend_schema(
        summary="Rename an experiment",
        request=shapes.ExperimentPatchSerializer,
        responses=ExperimentSerializer,
        parameters=[IF_MATCH],
    )
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """If-Match is not required here."""
        workload = experiment_at(self.actor, pk)
        body = self.body(shapes.ExperimentPatchSerializer)
        check_if_match(request, workload.generation, required=False)
        return self._shown(services.rename(actor=self.actor, workload=workload, name=body["name"]), status=200)

    @reads(shapes.DeleteQuery)
    @extend_schema(summary="Delete an experiment", request=None, responses={202: ExperimentSerializer})
    def destroy(self, request: Request, pk: UUID) -> Response:
        """It ends first. Its home folder is kept for operators to hand out, or removed for good."""
        workload = experiment_at(self.actor, pk)
        return self._shown(experiments.delete_experiment(actor=self.actor, workload=workload, **self.query))

    @extend_schema(summary="Stop an experiment", request=shapes.StopSerializer, responses={202: ExperimentSerializer})
    @idempotent
    def stop(self, request: Request, pk: UUID) -> Change:
        """Its home folder stays. Stopping what is stopped changes nothing."""
        workload, body = experiment_at(self.actor, pk), self.body(shapes.StopSerializer)
        return lambda: self._shown(services.stop(actor=self.actor, workload=workload, **body))

    @extend_schema(
        summary="Start an experiment again", request=shapes.NothingSerializer, responses={202: ExperimentSerializer}
    )
    @idempotent
    def start(self, request: Request, pk: UUID) -> Change:
        """A new run, through quota and queue again. Starting what runs or waits changes nothing."""
        workload = experiment_at(self.actor, pk)
        self.body(shapes.NothingSerializer)
        return lambda: self._shown(services.start(actor=self.actor, workload=workload))

    @extend_schema(summary="Move the time limit", request=shapes.ExtendSerializer, responses=ExperimentSerializer)
    @idempotent
    def extend(self, request: Request, pk: UUID) -> Change:
        """So many seconds more. Send an Idempotency-Key: without one, a repeated request extends twice."""
        workload, body = experiment_at(self.actor, pk), self.body(shapes.ExtendSerializer)
        return lambda: self._shown(services.extend(actor=self.actor, workload=workload, **body), status=200)

    @reads(DryRunQuery)
    @extend_schema(
        summary="Change the share of an experiment",
        request=GpuShareChangeSerializer,
        responses={202: ExperimentSerializer, 200: shapes.ResizeVerdictSerializer},
    )
    def resize(self, request: Request, pk: UUID) -> Response:
        """While it runs: 202, and `resize_from` says what is in force until the cluster has done it. Nothing that is in use is taken away:
        above a lower limit, only what comes next is refused. Of one that has ended: for its next run. With `dry_run=true`: 200, the verdict.
        """
        key_of(request)
        if not self.query["dry_run"]:
            return self._resize(request, pk)
        change = ShareChange(**self.body(GpuShareChangeSerializer))
        verdict = resizing.preview(actor=self.actor, workload=experiment_at(self.actor, pk), change=change)
        return self.reply(shapes.ResizeVerdictSerializer, verdict)

    @idempotent
    def _resize(self, request: Request, pk: UUID) -> Change:
        workload = experiment_at(self.actor, pk)
        change = ShareChange(**self.body(GpuShareChangeSerializer))
        return lambda: self._shown(resizing.resize(actor=self.actor, workload=workload, change=change))

    def _shown(self, workload: Workload, *, status: int = 202, headers: dict[str, str] | None = None) -> Response:
        tagged = {"ETag": etag(workload.generation), **(headers or {})}
        return self.reply(ExperimentSerializer, workload, status=status, headers=tagged)


class _Asked:
    """The rows that a create request names. Raises InvalidInput on the field that names nothing."""

    def __init__(self, actor: Any, body: dict[str, Any]) -> None:
        self.tenant = tenant_named(actor, body["tenant"], "tenant")
        self.environment = _named(catalog.environments(NAME), body["environment"], "environment")
        flavour = body.get("flavour")
        self.resources = (
            _named(catalog.flavours(self.tenant), flavour, "flavour").resources
            if flavour is not None
            else _resources(body["resources"])
        )


def _named(choices: QuerySet[Any], slug: str, field: str) -> Any:
    found: Described | None = choices.filter(slug=slug).first()
    if found is None:
        message = _("There is no “%(slug)s” to choose.") % {"slug": slug}
        known = ", ".join(choices.values_list("slug", flat=True))
        raise InvalidInput(message, hint=_("Choose one of: %(known)s.") % {"known": known}, fields={field: message})
    return found


def _resources(asked: dict[str, Any]) -> Resources:
    gpu = asked["gpu"]
    return Resources(GpuShare(**gpu) if gpu else None, asked["cpu_milli"], asked["ram"])
