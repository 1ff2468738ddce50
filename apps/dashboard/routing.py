"""Websockets of the pages."""

from django.urls import path

from apps.dashboard.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi())]  # type: ignore[arg-type]  # an ASGI application
