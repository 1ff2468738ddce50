"""About the service itself: version, health, documentation, and what has no address. Open to all but for metrics."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.actors import actor_of
from apps.api import exposition
from apps.api.problem_kinds import KINDS, type_uri
from apps.api.serializers.platform import ReadySerializer, VersionSerializer
from apps.core import clock
from apps.core.errors import NotFound, NotPermitted
from apps.workloads.models import Lease


class OpenView(APIView):
    """For everybody; looks at no credentials, so that a dead token cannot break a health check."""

    authentication_classes: ClassVar[list[Any]] = []  # type: ignore[misc]
    permission_classes: ClassVar[list[Any]] = [AllowAny]  # type: ignore[misc]
    http_method_names: ClassVar[list[str]] = ["get", "head"]  # type: ignore[misc]


class VersionView(OpenView):
    @extend_schema(summary="Show the version", responses=VersionSerializer)
    def get(self, request: Request) -> Response:
        return Response({"version": settings.VERSION, "api": "v1"})


class HealthView(OpenView):
    """Alive: this process answers."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response({"alive": True})


class ReadyView(OpenView):
    """Ready: requests can be served. A missing controller is told, but does not take the pages away."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        try:
            connection.ensure_connection()
            controller = Lease.objects.filter(name="controller", expires_at__gt=clock.now()).exists()
        except DatabaseError:
            return Response(ReadySerializer({"ready": False, "database": False, "controller": False}).data, status=503)
        return Response(ReadySerializer({"ready": True, "database": True, "controller": controller}).data)


class ProblemView(OpenView):
    """Explains a `type` of problem: where the address in it leads."""

    @extend_schema(exclude=True)
    def get(self, request: Request, kind: str) -> Response:
        found = KINDS.get(kind)
        if found is None:
            raise NotFound(_("There is no such kind of problem."))
        return Response(
            {"type": type_uri(kind), "status": found.status, "title": str(found.title), "hint": str(found.advice)}
        )


class NoSuchView(OpenView):
    """Everything else below /api/. Any method: what is not there is not there."""

    http_method_names: ClassVar[list[str]] = ["get", "head", "post", "put", "patch", "delete", "options"]  # type: ignore[misc]

    @extend_schema(exclude=True)
    def get(self, request: Request, rest: str) -> Response:
        hint = (
            _("Addresses have no slash at the end.")
            if rest.endswith("/")
            else _("The interface is described at /api/docs/.")
        )
        raise NotFound(_("There is nothing at this address."), hint=hint)

    post = put = patch = delete = get

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return self.get(request, **kwargs)


class MetricsView(APIView):
    """For Prometheus, with an operator's or auditor's token that has the scope `platform`."""

    http_method_names: ClassVar[list[str]] = ["get", "head"]  # type: ignore[misc]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        if not actor_of(request).sees_everything:
            raise NotPermitted(_("Only operators and auditors read the metrics of the whole platform."))
        return HttpResponse(exposition.rendered(), content_type=CONTENT_TYPE_LATEST)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Scrapers ask for formats of their own; there is one."""
        return super().perform_content_negotiation(request, force=True)


class SchemaView(SpectacularAPIView):
    authentication_classes = []
    permission_classes = [AllowAny]


class DocsView(SpectacularSwaggerSplitView):
    authentication_classes = []
    permission_classes = [AllowAny]
    url_name = "api-schema"
    template_name = "api/docs.html"
