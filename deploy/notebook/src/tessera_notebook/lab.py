"""The Jupyter server of `tessera-notebook`: who may talk to it, on which socket, with which settings."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from jupyter_server.auth import IdentityProvider, User
from jupyter_server.serverapp import ServerApp
from tornado import httpserver, web
from traitlets.config import Config

from tessera_notebook.server import same


class GatewayIdentity(IdentityProvider):
    """Whoever brings the gateway's header is the owner; nobody else is anybody.

    The header is on every request that the gateway lets through, so unlike a token that a script brings it says nothing about
    who made the browser send it: the checks of origin and XSRF stay on. There is no login, no cookie, and no token in the page.
    """

    def get_user(self, handler: web.RequestHandler) -> User | None:
        scheme, _, given = handler.request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() not in ("bearer", "token") or not same(given.strip(), handler.settings["tessera_token"]):
            return None
        name = os.environ.get("TESSERA_OWNER") or "owner"
        return User(username=name, name=name, display_name=name)

    def is_token_authenticated(self, handler: web.RequestHandler) -> bool:  # noqa: ARG002
        return False

    @property
    def login_available(self) -> bool:
        return False

    @property
    def logout_available(self) -> bool:
        return False


class NotebookServer(ServerApp):
    """Serves on a socket that is open already."""

    no_browser_open_file = True  # that file would carry an address that nobody can open
    listener: socket.socket

    def init_httpserver(self) -> None:
        self._http_server = httpserver.HTTPServer(
            self.web_app, xheaders=self.trust_xheaders, max_body_size=self.max_body_size
        )
        self.io_loop.add_callback(self.http_server.add_socket, self.listener)

    def start_app(self) -> None:
        super().start_app()
        self.log.info("JupyterLab is ready in %s", self.root_dir)

    def running_server_info(self, kernel_count: bool = True) -> str:  # noqa: ARG002
        return "JupyterLab answers through Tessera's gateway only."


def prepared(listener: socket.socket, token: str, home: Path) -> NotebookServer:
    """The server with everything loaded; `start()` answers what waits on the socket."""
    NotebookServer.name = "jupyter-server"  # so that a person's own jupyter_server_config.py is found
    host, port = listener.getsockname()[:2]
    server: NotebookServer = NotebookServer.instance(
        config=Config(settings(home, str(host), int(port))),
        jpserver_extensions={"jupyterlab": True, "jupyter_server_terminals": True},
    )
    server.listener = listener
    # Jupyter pings every 30 s and waits three times as long by default. A patience as short as the interval cuts healthy sockets:
    # the last answer is always a little older than the interval. (Tornado warns of a longer one; it means its own pings, which are off.)
    server.tornado_settings = {"tessera_token": token}
    server.initialize(argv=[], find_extensions=False)
    return server


def settings(home: Path, host: str, port: int) -> dict[str, Any]:
    return {
        "ServerApp": {
            "ip": host,
            "port": port,
            "root_dir": str(home),
            "default_url": "/lab",
            "identity_provider_class": "tessera_notebook.lab.GatewayIdentity",
            "open_browser": False,
            "allow_remote_access": True,  # the Host header is the gateway's affair
            "trust_xheaders": True,
            "quit_button": False,  # stopping is done in the portal, which then gives the share back
            "terminals_enabled": True,
            "log_level": "INFO",
            "log_format": "%(color)s[%(levelname)1.1s %(asctime)s]%(end_color)s %(message)s",
        },
        "IdentityProvider": {"token": ""},
        # Kernels listen on the loopback, which other accounts of the machine reach too: without the key they hear nothing.
        "KernelManager": {"transport_encryption": "auto"},
        "LabApp": {
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "extension_manager": "readonly",
        },
    }
