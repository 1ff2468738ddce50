"""`manage.py run_authoriser`: what nginx asks about every request."""

from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from apps.core import garbage
from apps.gateway.authoriser import Authoriser
from apps.gateway.nginx import socket_path

KEEP_ALIVE = (
    75  # seconds; longer than nginx keeps an idle connection, so that it never writes to one that we just closed
)


class Command(BaseCommand):
    help = "Answer nginx: who may reach which workload"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--fd", type=int, help="an inherited listening socket; otherwise one is made in the gateway's folder"
        )

    def handle(self, *_args: Any, fd: int | None = None, **_options: Any) -> None:
        where: dict[str, Any] = {"fd": fd} if fd is not None else {"uds": str(socket_path(settings.GATEWAY_DIR))}
        authoriser = Authoriser()
        garbage.has_loaded()
        uvicorn.run(
            authoriser,
            **where,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=3,
        )
