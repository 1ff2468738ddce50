"""HTTP and websockets of the portal's web process."""

import os

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 - these need the applications to be loaded

from apps.core import garbage  # noqa: E402
from apps.dashboard.routing import websocket_urlpatterns  # noqa: E402
from portal.handler import Handler  # noqa: E402
from portal.places import Places  # noqa: E402

pages = URLRouter(websocket_urlpatterns)  # type: ignore[arg-type] # the stubs want a subclass of their own
application = ProtocolTypeRouter(
    {
        "http": Places(Handler(), settings.WEB_PLACES),  # type: ignore[arg-type] # Django's stubs narrow the messages
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(pages)),
    }
)
garbage.has_loaded()
