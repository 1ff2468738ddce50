"""An experiment's output: a piece as JSON, or all that comes as server-sent events (`Accept: text/event-stream`)."""

from typing import ClassVar
from uuid import UUID

from asgiref.sync import async_to_sync
from django.http import StreamingHttpResponse
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.scopes import EXPERIMENTS_WRITE
from apps.api.following import Follower, Position, Reading
from apps.api.serializers.experiments import LogQuery, LogSerializer
from apps.api.views.base import ResourceView, reads
from apps.api.views.lookup import experiment_at
from apps.cluster.services import reader
from apps.cluster.specs import LogChunk
from apps.core.errors import InvalidInput
from apps.workloads.models import Workload

EVENT_STREAM = "text/event-stream"
RESUME = OpenApiParameter(
    "Last-Event-ID",
    str,
    OpenApiParameter.HEADER,
    description="Of an event stream: go on after this event. Browsers send it by themselves.",
)


class EventStreamRenderer(JSONRenderer):
    """Only makes the format known to content negotiation; what is rendered through it are problems."""

    media_type = EVENT_STREAM
    format = "events"
    charset = "utf-8"


class LogView(ResourceView):
    write_scope = EXPERIMENTS_WRITE
    renderer_classes: ClassVar[list[type[BaseRenderer]]] = [JSONRenderer, EventStreamRenderer]  # type: ignore[misc]

    @reads(LogQuery)
    @extend_schema(
        summary="Read or follow an experiment's output",
        parameters=[RESUME],
        responses={
            (200, "application/json"): LogSerializer,
            (200, EVENT_STREAM): OpenApiResponse(
                OpenApiTypes.STR, description="Events `log`, `run` and `end`; `id` is the place to resume."
            ),
        },
    )
    def retrieve(self, request: Request, pk: UUID) -> Response | StreamingHttpResponse:
        """Of the latest run. An event stream sends what is there from `offset` on, and what comes, until its end."""
        workload = experiment_at(self.actor, pk)
        if request.accepted_renderer.format == EventStreamRenderer.format:
            return self._stream(request, workload)
        chunk = _read(workload, self.query["offset"], self.query["limit"])
        shown = {"run": workload.run, "text": chunk.text, "offset": chunk.offset, "next": chunk.next, "eof": chunk.eof}
        return self.reply(LogSerializer, shown)

    def _stream(self, request: Request, workload: Workload) -> StreamingHttpResponse:
        reading = Reading(self.actor, None if self.actor.token_id else request.session.session_key)
        stream = Follower(reading, workload.id, self._position(request, workload))
        response = StreamingHttpResponse(stream, content_type=EVENT_STREAM)
        response["X-Accel-Buffering"] = "no"
        return response

    def _position(self, request: Request, workload: Workload) -> Position:
        resume = request.headers.get("Last-Event-ID")
        if not resume:
            return Position(workload.run, self.query["offset"])
        try:
            return Position.parse(resume)
        except ValueError:
            message = _("This is no event of this stream.")
            raise InvalidInput(message, fields={"Last-Event-ID": message}) from None


@async_to_sync
async def _read(workload: Workload, offset: int, limit: int) -> LogChunk:
    return await reader().logs(workload.uid, offset=offset, limit=limit)
