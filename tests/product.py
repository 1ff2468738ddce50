"""The whole product in a state folder of its own, started as `make run` starts it. For tests in a real browser and for benchmarks."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

PROJECT = Path(__file__).resolve().parent.parent
START_LIMIT = 300  # seconds; the first start makes the database on a machine that may be busy
PARTS = {
    "agent": "vcuda.node",
    "controller": "run_controller",
    "web": "portal.asgi",
    "authoriser": "run_authoriser",
    "gateway": "nginx: master",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Reply:
    """Of the REST API: status, decoded body, headers."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class Product:
    """One running Tessera. `state` survives `stop` and `start`, as it does for a user."""

    cards: str = "h100"
    state: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tessera-product-")))
    port: int = field(default_factory=free_port)
    gateway_port: int = field(default_factory=free_port)
    up: "subprocess.Popen[str] | None" = None
    output: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)  # beyond those of a plain start

    def __post_init__(self) -> None:
        self.state.chmod(0o755)  # accounts of experiments walk through it

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def accounts(self) -> dict[str, str]:
        return dict(json.loads((self.state / "demo-accounts.json").read_text(encoding="utf-8")))

    @property
    def environment(self) -> dict[str, str]:
        built = subprocess.run(
            [sys.executable, "-c", "from portal.state import state_dir; print(state_dir() / 'environments')"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=True,
            env={k: v for k, v in os.environ.items() if k != "TESSERA_STATE"},
        ).stdout.strip()
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "TESSERA_STATE": str(self.state),
            "TESSERA_PORT": str(self.port),
            "TESSERA_GATEWAY_PORT": str(self.gateway_port),
            "TESSERA_SIM_CARDS": self.cards,
            "TESSERA_ENVIRONMENTS": built,  # the one that `make setup` made; it is only read
            **self.settings,
        }

    def start(self) -> None:
        """Returns when `manage.py up` says that it is ready; raises with its words where it ends instead."""
        self.up = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=PROJECT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.up.stdout is not None
        for line in self.up.stdout:
            self.output.append(line)
            if "Ctrl-C stops everything" in line:
                return
        raise AssertionError("manage.py up ended:\n" + "".join(self.output))

    def stop(self) -> int:
        """As Ctrl-C does. Returns the exit status once it has ended."""
        assert self.up is not None
        self.up.send_signal(signal.SIGINT)
        rest, _ = self.up.communicate(timeout=120)
        self.output.append(rest)
        return self.up.returncode

    def kill(self) -> None:
        """-9, as a crash would."""
        assert self.up is not None
        self.up.kill()
        self.up.communicate(timeout=60)

    def discard(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.stop()
        shutil.rmtree(self.state, ignore_errors=True)

    def manage(self, *words: str) -> str:
        """Output of `manage.py …` on this state."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=PROJECT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def part(self, name: str) -> int:
        """Process number of one part (see PARTS)."""
        assert self.up is not None
        for pid in _children(self.up.pid):
            if PARTS[name] in _command(pid):
                return pid
        raise LookupError(f"{name} does not run")

    def token(self, username: str, *scopes: str) -> "Api":
        words = [word for scope in scopes or ("read", "experiments:write") for word in ("--scope", scope)]
        return Api(self, self.manage("create_token", username, *words).strip().splitlines()[-1])


@dataclass
class Api:
    """A script with a token."""

    product: Product
    secret: str

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        request = urllib.request.Request(
            f"{self.product.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json", **headers},
        )
        if method == "POST" and "Idempotency-Key" not in headers:
            request.add_header("Idempotency-Key", uuid4().hex)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _reply(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as answer:
            return _reply(answer.code, answer.read(), answer.headers)

    def get(self, path: str) -> Any:
        reply = self("GET", path)
        assert reply.status == 200, reply
        return reply.body


def _reply(status: int, body: bytes, headers: Any) -> Reply:
    return Reply(status, json.loads(body) if body else None, dict(headers))


def _children(pid: int) -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == pid]


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # ended meanwhile
        return None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # ended meanwhile
        return ""


@contextmanager
def running(cards: str = "h100") -> Iterator[Product]:
    product = Product(cards=cards)
    try:
        product.start()
        yield product
    finally:
        product.discard()
