"""What the gateway's benchmark measures: our gateway, our gateway without its memory for answers, nginx that asks nobody, and
configurable-http-proxy, all in front of the same two servers, on one machine at one time.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.sockets import Door

PROJECT = Path(__file__).resolve().parents[2]
PROXY = PROJECT / "node_modules" / ".bin" / "configurable-http-proxy"
PATIENCE = 120.0  # seconds until a program answers
_PLAIN = """
daemon off; worker_processes {workers}; pid {folder}/{name}.pid; error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; client_body_temp_path {folder}/t; proxy_temp_path {folder}/t;
  fastcgi_temp_path {folder}/t; uwsgi_temp_path {folder}/t; scgi_temp_path {folder}/t;
  upstream server {{ server 127.0.0.1:{target}; keepalive 64; keepalive_requests 1000000; }}
  server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}
}}
"""
_SERVER = 'default_type text/plain; return 200 "hello, this is a small answer\\n";'
_FORWARD = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_pass http://server;'


@dataclass(frozen=True, slots=True)
class Way:
    """One proxy in front of the servers. `processes` are those whose memory counts."""

    door: Door
    processes: tuple[int, ...]

    def memory(self) -> float:
        """Resident MiB of its processes, nginx's workers included."""
        kib = 0
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                group = int((entry / "stat").read_text().rpartition(")")[2].split()[2])
                if group in self.processes:
                    kib += int((entry / "status").read_text().split("VmRSS:")[1].split()[0])
            except (OSError, IndexError):
                continue
        return kib / 1024


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    argv: list[str], port: int, env: Mapping[str, str] | None = None, account: int | None = None
) -> Iterator[int]:
    """A program in a process group of its own, until it answers on `port` and then until the block ends; gives the group."""
    how: dict[str, Any] = {"user": account, "group": account, "extra_groups": []} if account is not None else {}
    process = subprocess.Popen(
        argv, cwd=PROJECT, env={**os.environ, **(env or {})}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **how,
    )  # fmt: skip
    try:
        _await(process, port)
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _await(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"{process.args!r} does not answer on port {port}")
        time.sleep(0.05)


def _nginx(folder: Path, name: str, port: int, target: int, answer: str) -> list[str]:
    configuration = folder / f"{name}.conf"
    workers = 1 if answer == _SERVER else min(os.cpu_count() or 1, 8)
    configuration.write_text(
        _PLAIN.format(folder=folder, name=name, port=port, target=target, answer=answer, workers=workers)
    )
    return ["/usr/sbin/nginx", "-e", "stderr", "-c", str(configuration)]


class Rig:
    """`http` and `websocket` are ways to the small answer and to the echo."""

    def __init__(self, stack: ExitStack) -> None:
        if not PROXY.exists():
            raise SystemExit("configurable-http-proxy is not installed. Run: npm ci")
        self._stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="tsr-bench-"))
        self.folder.chmod(0o755)
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._answer, self._echo = free_port(), free_port()
        stack.enter_context(running(_nginx(self.folder, "server", self._answer, 1, _SERVER), self._answer))
        stack.enter_context(running([sys.executable, "-m", "tests.bench.sockets", str(self._echo)], self._echo))
        self.http, self.websocket = self._ways(self._answer), self._ways(self._echo)

    def _ways(self, target: int) -> dict[str, Way]:
        return {
            "peer": self._peer(target),
            "bare": self._bare(target),
            "gateway": self._gateway(target, remembering=True),
            "control": self._gateway(target, remembering=False),
        }

    def _peer(self, target: int) -> Way:
        port, control = free_port(), free_port()
        argv = [str(PROXY), "--ip", "127.0.0.1", "--port", str(port), "--api-port", str(control)]
        argv += ["--default-target", f"http://127.0.0.1:{target}", "--log-level", "error"]
        group = self._stack.enter_context(running(argv, port))
        return Way(Door(port, "localhost"), (group,))

    def _bare(self, target: int) -> Way:
        port = free_port()
        argv = _nginx(self.folder, f"bare-{target}", port, target, _FORWARD)
        return Way(Door(port, "localhost"), (self._stack.enter_context(running(argv, port)),))

    def _gateway(self, target: int, *, remembering: bool) -> Way:
        """A portal of its own: state folder, database, a signed-in person, a workload that is ready."""
        state = self.folder / f"state-{target}-{remembering}"
        port = free_port()
        env = {
            "TESSERA_STATE": str(state),
            "TESSERA_GATEWAY_PORT": str(port),
            "TESSERA_DRIVER": "tests.bench.target.Target",
            "TESSERA_BENCH_TARGET": f"127.0.0.1:{target}",
            "TESSERA_LOG_LEVEL": "WARNING",
        }
        made = subprocess.run(
            [sys.executable, "-m", "tests.bench.gateway_state"], cwd=PROJECT, env={**os.environ, **env},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        host, cookie, account, *nginx = made.stdout.split("\n")[0].split("\t")
        if not remembering:
            script = state / "gateway" / "gateway.lua"
            script.write_text(script.read_text().replace("local CACHE_SECONDS = 2", "local CACHE_SECONDS = 0.001"))
        authoriser = subprocess.Popen(
            [sys.executable, "manage.py", "run_authoriser"], cwd=PROJECT, env={**os.environ, **env}
        )
        self._stack.callback(authoriser.wait)
        self._stack.callback(authoriser.kill)
        group = self._stack.enter_context(running(nginx, port, account=int(account) if account else None))
        return Way(Door(port, host, cookie), (group,))
