"""The parts of Tessera on one machine: how each is run, and how it shows that it is ready."""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from django.conf import settings

from apps.core import bells
from apps.gateway import nginx
from portal.children import Program
from portal.supervisor import Part

_MANAGE = [sys.executable, str(settings.BASE_DIR / "manage.py")]


class PortTaken(Exception):
    """Somebody else listens there; the message says where and what to set."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Listening sockets that we hold and our parts inherit: while a part restarts, its callers wait instead of being refused."""

    web: socket.socket
    authoriser: socket.socket


def open_doors() -> Doors:
    """Raises PortTaken."""
    web = _listen(settings.PORT, "TESSERA_PORT (or --port)")
    _listen(settings.GATEWAY_PORT, "TESSERA_GATEWAY_PORT").close()  # nginx opens it itself
    path = nginx.socket_path(settings.GATEWAY_DIR)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    authoriser = socket.socket(socket.AF_UNIX)
    authoriser.bind(str(path))
    authoriser.listen(1024)
    return Doors(web, authoriser)


def _listen(port: int, setting: str) -> socket.socket:
    try:
        return socket.create_server((settings.LISTEN, port), backlog=1024)
    except OSError as problem:
        raise PortTaken(
            f"Port {port} on {settings.LISTEN} cannot be used: {os.strerror(problem.errno or 0).lower()}. "
            f"Stop what listens there, or choose another port with {setting}."
        ) from None


def all_parts(doors: Doors, sim_node: Path | None) -> list[Part]:
    gateway = nginx.prepare(settings.GATEWAY_DIR, listen=f"{settings.LISTEN}:{settings.GATEWAY_PORT}")
    agent = [_agent(sim_node)] if settings.CLUSTER_DRIVER == "local" else []  # elsewhere every node has its own
    web = [_web(doors.web, number) for number in range(1, settings.WEB_PROCESSES + 1)]
    return [*agent, _controller(), *web, _authoriser(doors.authoriser), _nginx(gateway)]


def stop_order(parts: list[Part]) -> list[str]:
    """Names of all but the controller, which ends before everything: first what people reach, last the agent, which gives the GPUs back."""
    return [part.name for part in reversed(parts) if part.name != "controller"]


def _agent(sim_node: Path | None) -> Part:
    argv = [
        sys.executable,
        "-m",
        "vcuda.node",
        "--state",
        str(settings.STATE_DIR),
        "--socket",
        str(settings.AGENT_SOCKET),
    ]
    argv += ["--backend", settings.LIMITS]
    if sim_node is not None:
        argv += ["--sim-node", str(sim_node)]
    program = Program("agent", argv, env={"PYTHONPATH": str(settings.BASE_DIR)})
    return Part(program, "magenta", _answers("http://agent/healthz", unix=settings.AGENT_SOCKET))


def _controller() -> Part:
    return Part(Program("controller", [*_MANAGE, "run_controller"]), "blue", _controller_lives)


def _web(door: socket.socket, number: int) -> Part:
    """Several take their callers from one door; it tells of the first that answers."""
    argv = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--fd", str(door.fileno())]
    argv += ["--no-access-log", "--no-proxy-headers", "--no-server-header", "--timeout-graceful-shutdown", "3"]
    name = "web" if number == 1 else f"web-{number}"
    program = Program(name, argv, env={"PYTHONPATH": str(settings.BASE_DIR)}, fds=(door.fileno(),))
    return Part(program, "cyan", _answers(f"http://{_near()}:{settings.PORT}/api/healthz"))


def _authoriser(door: socket.socket) -> Part:
    argv = [*_MANAGE, "run_authoriser", "--fd", str(door.fileno())]
    ready = _answers("http://authoriser/authorise", unix=nginx.socket_path(settings.GATEWAY_DIR))
    return Part(Program("authoriser", argv, fds=(door.fileno(),)), "green", ready, back=_gateway_is_back)


def _nginx(command: nginx.Command) -> Part:
    # Asked to end fast, and by a signal that the master passes on to its workers.
    program = Program("nginx", command.argv, account=command.account, last_signal=signal.SIGTERM)
    ready = _answers(f"http://{_near()}:{settings.GATEWAY_PORT}/")
    return Part(program, "yellow", ready, back=_gateway_is_back)


def _gateway_is_back() -> None:
    bells.ring_now("gateway")  # visits that it could not let through are made again at once


def _near() -> str:
    """An address of this machine on which we listen."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.LISTEN, settings.LISTEN)  # noqa: S104 - read, not bound


async def _controller_lives() -> None:
    """It has no door to knock at; whoever is the controller holds this lock."""
    lock = os.open(settings.STATE_DIR / "run" / "controller.lock", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
    raise OSError("nobody holds it yet")


def _answers(url: str, unix: Path | None = None) -> Callable[[], Awaitable[None]]:
    """One request that waits for its answer, whatever that is."""

    async def ask() -> None:
        connector = aiohttp.UnixConnector(str(unix)) if unix else None
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url, allow_redirects=False):
            return

    return ask
