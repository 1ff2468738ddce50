"""A Tessera of its own for tests of the API: web and controller as real processes on a fresh SQLite state, with the cluster in memory.

The controller's reach check is off: no gateway runs here.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from django.conf import settings

PATIENCE = 120  # seconds until a part that should come up is given up; a loaded machine is slow
CONTROLLER = """
import django; django.setup()
from apps.workloads import reach; reach.register(None)
from django.core.management import call_command; call_command("run_controller")
"""
PREPARE = """
import django; django.setup()
from datetime import timedelta
from django.core.management import call_command
from apps.accounts.models import User
from apps.accounts.scopes import SCOPES
from apps.accounts.services import create_token
from apps.audit.context import Actor
call_command("migrate", verbosity=0)
call_command("seed_demo", stdout=open("/dev/null", "w"))
for name in ("lin", "admin"):
    user = User.objects.get(username=name)
    print(create_token(actor=Actor.person(user), user=user, name="test", scopes=SCOPES, expires_in=timedelta(days=1))[1])
"""


@dataclass(frozen=True)
class Server:
    url: str
    member: str  # token of lin, member of the Vision Lab
    operator: str  # token of admin


def _environment(state: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    return kept | {
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "TESSERA_STATE": str(state),
        "TESSERA_PORT": str(port),
        "TESSERA_DRIVER": "tests.fakes.cluster.FakeCluster",
        "TESSERA_LOG_LEVEL": "WARNING",
        "PYTHONPATH": str(settings.BASE_DIR),
    }


@contextmanager
def _running(command: Sequence[str], log: Path, **kwargs: object) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        child = subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=output, stderr=output, **kwargs)  # type: ignore[call-overload]
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _await_ready(url: str, *children: "subprocess.Popen[bytes]") -> None:
    """Until web serves and the controller holds its lease."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for child in children:
            assert child.poll() is None, f"{child.args!r} ended with {child.returncode}"
        try:
            with urlopen(f"{url}/api/readyz") as answer:
                if b'"controller":true' in answer.read():
                    return
        except URLError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} did not become ready within {PATIENCE} s")


@contextmanager
def serving(state: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as stack:
        port = listening.getsockname()[1]
        given = _environment(state, port)

        prepared = subprocess.run(
            [sys.executable, "-c", PREPARE],
            cwd=settings.BASE_DIR,
            env=given,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        member, operator = prepared.stdout.split()
        web = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--fd", str(listening.fileno())]
        fds = (listening.fileno(),)
        controller = stack.enter_context(
            _running([sys.executable, "-c", CONTROLLER], state / "controller.log", env=given)
        )
        served = stack.enter_context(_running(web, state / "web.log", env=given, pass_fds=fds))
        url = f"http://127.0.0.1:{port}"
        _await_ready(url, controller, served)
        yield Server(url, member, operator)
