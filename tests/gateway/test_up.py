"""`manage.py up` itself: real parts, on a state folder of its own. What happens to experiments is for the tests of the whole product."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.gateway.conftest import free_port

BOUND = 180  # seconds within which anything awaited must happen; not a claim about speed
PARTS = ("web", "nginx", "authoriser", "controller", "agent")
UP = [sys.executable, str(settings.BASE_DIR / "manage.py"), "up"]


class State:
    """A state folder with ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.gateway_port = free_port(), free_port()
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TESSERA_", "DJANGO_"))},
            "TESSERA_STATE": str(folder),
            "TESSERA_PORT": str(self.port),
            "TESSERA_GATEWAY_PORT": str(self.gateway_port),
        }

    def health(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/healthz", timeout=BOUND) as answer:
            return int(answer.status)

    def groups(self) -> list[int]:
        register = self.folder / "run" / "up-groups.json"
        return [group["pid"] for group in json.loads(register.read_text())["groups"]]


class Run:
    """One `up`; `said` is everything it printed so far."""

    def __init__(self, state: State, *flags: str) -> None:
        self.output = state.folder.with_suffix(".out")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen([*UP, *flags], env=state.env, stdout=output, stderr=output)

    @property
    def said(self) -> str:
        return self.output.read_text()

    def until(self, true: Callable[..., bool], what: str) -> None:
        end = time.monotonic() + BOUND
        while not true():
            assert time.monotonic() < end, f"{what} did not happen. It said:\n{self.said}"
            time.sleep(0.05)

    def until_said(self, words: str) -> None:
        self.until(lambda: words in self.said or self.process.poll() is not None, words)
        assert words in self.said, self.said


@contextmanager
def running(state: State, *flags: str) -> Iterator[Run]:
    run = Run(state, *flags)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait(BOUND)


@pytest.fixture
def state() -> Iterator[State]:
    # Not below pytest's own folder: nginx's account could not walk there.
    with tempfile.TemporaryDirectory(prefix="tsr-up-") as folder:
        Path(folder).chmod(0o755)
        inner = Path(folder) / "state"
        inner.mkdir()
        yield State(inner)


def living(groups: list[int]) -> list[int]:
    """Processes of these groups that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) in groups and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def leader(run: Run, words: str) -> int:
    """The child of `up` whose command line has these words."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == run.process.pid and words in (entry / "cmdline").read_text().replace("\0", " "):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"no part with {words}")


COMMANDS = {
    "web": "portal.asgi",
    "nginx": "nginx: master",
    "authoriser": "run_authoriser",
    "controller": "run_controller",
    "agent": "vcuda.node",
}


def test_it_starts_heals_and_leaves_nothing_behind(state: State) -> None:
    with running(state) as run:
        run.until_said(f"Tessera is running at http://localhost:{state.port}")
        for name in PARTS:
            assert f"{name} is ready" in run.said
        passwords = json.loads((state.folder / "demo-accounts.json").read_text())
        assert all(password in run.said for password in passwords.values())
        assert state.health() == 200

        second = subprocess.run(UP, env=state.env, capture_output=True, text=True, timeout=BOUND, check=False)
        assert second.returncode == 1
        assert f"already runs on this state: http://localhost:{state.port} (process {run.process.pid})" in second.stderr

        for number, name in enumerate((*PARTS, "nginx")):  # nginx twice: it is looked after for good
            os.kill(leader(run, COMMANDS[name]), signal.SIGKILL)
            if name == "web":
                assert state.health() == 200  # the caller waited while it came back
            times = 1 + (*PARTS, "nginx")[:number].count(name)
            run.until(lambda name=name, times=times: run.said.count(f"{name} is back") == times, f"{name} is back")
        groups = state.groups()
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(BOUND) == 0
        assert "everything has ended" in run.said
        assert not living(groups)


def test_of_several_web_processes_one_that_dies_is_not_missed(state: State) -> None:
    state.env["TESSERA_WEB_PROCESSES"] = "2"
    with running(state, "--no-demo") as run:
        run.until_said("Tessera is running at")
        assert "web-2 is ready" in run.said
        os.kill(leader(run, COMMANDS["web"]), signal.SIGKILL)
        assert [state.health() for _ in range(10)] == [200] * 10
        run.until(lambda: "web is back" in run.said or "web-2 is back" in run.said, "the other again")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(BOUND) == 0
        assert "everything has ended" in run.said


def test_when_it_is_killed_its_parts_end_and_the_next_one_starts(state: State) -> None:
    with running(state, "--no-demo") as run:
        run.until_said("Tessera is running at")
        groups = state.groups()
        assert len(living(groups)) > len(PARTS)  # nginx has workers
        run.process.kill()
        run.process.wait(BOUND)
        run.until(lambda: not living(groups), "the end of all parts")
    assert not (state.folder / "demo-accounts.json").exists()
    with running(state, "--no-demo") as again:
        again.until_said("Tessera is running at")
        again.process.terminate()
        assert again.process.wait(BOUND) == 0


@pytest.mark.parametrize(("which", "setting"), [("port", "--port"), ("gateway_port", "TESSERA_GATEWAY_PORT")])
def test_a_port_that_is_taken_is_named_with_what_to_set(state: State, which: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", getattr(state, which))):
        told = subprocess.run(UP, env=state.env, capture_output=True, text=True, timeout=BOUND, check=False)
    assert told.returncode == 1
    assert f"Port {getattr(state, which)} on 127.0.0.1 cannot be used: address already in use" in told.stderr
    assert setting in told.stderr
    assert "Traceback" not in told.stderr
