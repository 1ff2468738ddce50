"""Websockets of the pages."""

from django.urls import path

from apps.dashboard.live.consumer import LiveConsumer
from apps.dashboard.live.terminal import TerminalConsumer

websocket_urlpatterns = [
    path("ws/live", LiveConsumer.as_asgi()),  # type: ignore[arg-type]  # an ASGI application
    path("ws/terminal/<uuid:workload_id>", TerminalConsumer.as_asgi()),  # type: ignore[arg-type]
]
