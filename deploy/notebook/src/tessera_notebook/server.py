"""`tessera-notebook`: JupyterLab in the home folder, on a socket that the caller has opened, for the gateway alone.

The caller opens the listening socket, so a request sent before the server is up waits in the accept queue and is answered by
the first turn of the event loop: nobody has to ask twice whether it is there yet.

Read from the environment: TESSERA_TOKEN (required), LISTEN_FDS (a socket from descriptor 3 on) or TESSERA_PORT. None of them
reaches kernels and terminals.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from pathlib import Path

from tessera_notebook.home import furnish

FIRST_DESCRIPTOR = 3  # where LISTEN_FDS begins, by convention
BACKLOG = 128


def main() -> None:
    token = os.environ.pop("TESSERA_TOKEN", "")
    if not token:
        sys.exit("tessera-notebook needs TESSERA_TOKEN: whoever starts it says how the gateway proves itself.")
    listener = inherited_socket() or opened_socket(int(os.environ.get("TESSERA_PORT") or 0))
    home = Path.home()
    furnish(home)
    paths = os.environ.get("PATH", os.defpath)
    # JupyterLab asks `node` for yarn's registry whenever it finds one, 0.6 s each time, for builds that nobody makes here.
    os.environ["PATH"] = str(Path(sys.executable).parent)
    from tessera_notebook.lab import prepared

    server = prepared(listener, token, home)
    os.environ["PATH"] = paths
    forget_caller()
    server.start()


def inherited_socket() -> socket.socket | None:
    """The socket given in the manner of LISTEN_FDS, if one was given to this very process."""
    if os.environ.get("LISTEN_PID") not in (None, str(os.getpid())) or not os.environ.get("LISTEN_FDS"):
        return None
    listener = socket.socket(fileno=FIRST_DESCRIPTOR)
    listener.setblocking(False)
    listener.set_inheritable(False)
    return listener


def opened_socket(port: int) -> socket.socket:
    """A socket on `port` of all addresses (0: any free one). For containers, where the network stands between."""
    listener = socket.create_server(("", port), backlog=BACKLOG)
    listener.setblocking(False)
    return listener


def forget_caller() -> None:
    """What the caller told this process alone is taken out of the environment that kernels and terminals inherit."""
    for name in [name for name in os.environ if name.startswith(("LISTEN_", "TESSERA_PORT"))]:
        del os.environ[name]


def same(given: str, expected: str) -> bool:
    """Compared in a time that tells nothing about where they differ."""
    return secrets.compare_digest(given.encode(), expected.encode())
