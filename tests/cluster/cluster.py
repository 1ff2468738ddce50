"""A real Kubernetes on this machine: started, looked at, disturbed on purpose, and taken away without a trace.

    with running(cards=["h100", "h100"]) as cluster:
        cluster.kubectl("get", "nodes")

Owns the order of things. Programs come from `build`, their flags from `parts`, the node's place on the machine from `node`.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.cluster import certificates, fake, node, pause_image, processes, settings, simulated, volumes
from tests.cluster.api import Api, Refused
from tests.cluster.build import Programs, Say, programs
from tests.cluster.layout import MOST, Layout
from tests.cluster.machine import Missing, cache, require, state_root, why_no_node
from tests.cluster.parts import CONTROL, FAKE, NODE, PROJECT, VOLUMES, command

DEFAULT: Final = "default"
_OPTIONS: Final = "cluster.json"
_PATIENCE: Final = 60.0  # seconds for any one step of the start, on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a cluster is made of."""

    cards: tuple[str, ...] = ()  # of the simulated node, by the names of `tessera-sim`
    fake_nodes: int = 0
    fake_cards: int = 8  # on each fake node
    real: bool = True  # a node that runs pods
    raised_limits: bool = True  # of scheduler and controller manager, as an operator must raise them
    percentage_of_nodes: int | None = None  # that the scheduler scores; None: its own formula


class Cluster:
    """One cluster by its name; several can run at the same time."""

    def __init__(self, name: str = DEFAULT, say: Say = print) -> None:
        self._root = state_root() / name
        self._say = say
        self._built: Programs | None = None
        self._begun: dict[str, int] = {}  # parts by name, and their processes
        self._options, self._layout = _remembered(self._root)

    # What it is -----------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            raise RuntimeError(f"The cluster {self._root.name} is not up. Start it: python -m tests.cluster up")
        return self._layout

    @property
    def options(self) -> Options:
        return self._options

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def address(self) -> str:
        """Of the API server, as a URL."""
        return self.layout.address

    @property
    def node_ip(self) -> str:
        return self.layout.node_ip

    @property
    def node_name(self) -> str:
        return self.layout.node_name

    @property
    def logs(self) -> Path:
        return self.layout.logs

    @property
    def api(self) -> Api:
        return Api(self.kubeconfig)

    @property
    def parts(self) -> list[str]:
        """Those that this cluster has, in the order of their start."""
        real = [*NODE, VOLUMES] if self._options.real else []
        return [*CONTROL, *real, *([FAKE] if self._options.fake_nodes else [])]

    def alive(self) -> dict[str, int | None]:
        """Every part with its process, None where it is dead."""
        found = {part: processes.main_of(self._root, part) for part in self.parts}
        return {part: process.pid if process else None for part, process in found.items()}

    @property
    def up(self) -> bool:
        return self._layout is not None and all(self.alive().values())

    # Its life -------------------------------------------------------------------------------------------------------

    def start(self, options: Options) -> None:
        """Whatever is missing is made or started; what runs is left alone."""
        self._check(options)
        self._built = programs(self._say)
        with _locked(self._root):
            self._options, self._layout = _remembered(self._root)
            if not processes.of(self._root):  # the rest of one that ended with the machine, or was cut short
                self._clear()
            if self._layout is None:
                self._layout = Layout(self._root, _free_index(self._root), options.real)
            elif replace(self._options, fake_nodes=0) != replace(options, fake_nodes=0):
                raise Missing(
                    f"The cluster {self._root.name} exists with other options: {self._options}. Stop it first."
                )
            self._options = options
            self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
            self._remember()
            self._start_all()

    def stop(self) -> None:
        """Nothing of it stays: no process, mount, bridge, control group or file. Its parts need not be in a good state."""
        with _locked(self._root):
            self._clear()
            with suppress(OSError):  # others run
                self._root.parent.rmdir()

    def keep_logs(self, target: Path = PROJECT / "build" / "logs" / "cluster") -> None:
        """A copy of the parts' logs, for after the end."""
        if self._layout is not None and self.logs.exists():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self.logs, target, ignore_dangling_symlinks=True)

    def _check(self, options: Options) -> None:
        obstacle = why_no_node() if options.real else ""
        if obstacle:
            raise Missing(obstacle)
        require({"openssl": "/usr/bin/openssl"})

    def _clear(self) -> None:
        if self._root.exists():
            _, layout = _remembered(self._root)
            processes.end([process.pid for process in processes.of(self._root)])
            if layout:  # it is written down before anything else is made
                node.remove(layout)
            shutil.rmtree(self._root)
        self._layout = None

    def _start_all(self) -> None:
        began = time.monotonic()
        layout, options = self.layout, self._options
        layout.logs.mkdir(exist_ok=True)
        certificates.make(layout)
        settings.write(layout, percentage_of_nodes=options.percentage_of_nodes, raised_limits=options.raised_limits)
        if options.real:
            layout.volumes.mkdir(exist_ok=True)
            node.make(layout)
            self._begin("containerd")
        self._begin("etcd")
        self._begin("kube-apiserver")
        self._until("the API server is ready", self._ready)
        self._say(f"  API server ready after {time.monotonic() - began:.1f} s")
        for part in ("kube-controller-manager", "kube-scheduler", *((VOLUMES,) if options.real else ())):
            self._begin(part)
        if options.real:
            self._until("containerd answers", layout.containerd_socket.is_socket)
            self._provide_pause()
            self._begin("kubelet")
        if options.fake_nodes:
            self._begin(FAKE)
            fake.make(self.api, options.fake_nodes, options.fake_cards)
        if options.cards:
            simulated.make(layout, options.cards)
        self._provide_objects()
        self._until("every node is ready", self._nodes_ready)
        self._say(f"The cluster {self._root.name} is up after {time.monotonic() - began:.1f} s")

    def _begin(self, part: str) -> None:
        if processes.main_of(self._root, part) is not None:
            return
        words = command(part, self.layout, self._programs, raised_limits=self._options.raised_limits)
        if part in NODE:
            words = node.inside(self.layout, words)
        # containerd finds its shim on the PATH, and Debian's own containerd may be there as well.
        path = {"PATH": f"{self._programs.path}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        self._begun[part] = processes.start(self._root, part, words, path | {"PYTHONPATH": str(PROJECT)})

    def _provide_pause(self) -> None:
        tar = self._root / "pause.tar"
        if not tar.exists():
            pause_image.write(tar, Path(self._programs["pause"]), settings.PAUSE)
            self.import_image(tar)

    def _provide_objects(self) -> None:
        """What no part of the product brings along by itself, and the way to ask for cards: of use without the node agent, too."""
        files = (PROJECT / "deploy" / "kubernetes" / "base" / name for name in ("namespace.yaml", "device-class.yaml"))
        self.kubectl("apply", *(f"--filename={path}" for path in files))
        if self._options.real:
            with suppress(Refused):  # it is there
                self.api.post("/apis/storage.k8s.io/v1/storageclasses", volumes.STORAGE_CLASS)

    # What tests do to it --------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints. Raises RuntimeError with its complaint."""
        words = [self._programs["kubectl"], f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def import_image(self, tar: Path) -> None:
        """Images come from no registry: pods use them with `imagePullPolicy: Never`."""
        self.ctr("images", "import", str(tar))

    def ctr(self, *arguments: str) -> str:
        words = [self._programs["ctr"], "--address=/run/containerd/containerd.sock", "--namespace=k8s.io", *arguments]
        done = subprocess.run(node.inside(self.layout, words), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def run_on_node(self, words: Sequence[str]) -> str:
        """The output of a command among the node's mounts."""
        return subprocess.run(node.inside(self.layout, words), capture_output=True, text=True, check=True).stdout

    def kill(self, part: str) -> None:
        """Without warning. Containers live on without containerd and kubelet."""
        process = processes.main_of(self._root, part)
        if process is not None:
            processes.end([process.pid])
            self._begun.pop(part, None)

    def restart(self, part: str) -> None:
        """Start a part that was killed. Does not wait until it is ready."""
        self._begin(part)

    def stop_kubelet(self) -> None:
        process = processes.main_of(self._root, "kubelet")
        if process is not None:
            processes.end([process.pid], patience=10)
            self._begun.pop("kubelet", None)

    def start_kubelet(self) -> None:
        self._begin("kubelet")

    def pause(self, part: str) -> None:
        """It keeps its connections and answers nobody, as a machine that hangs."""
        self._signal(part, signal.SIGSTOP)

    def resume(self, part: str = "kube-apiserver") -> None:
        self._signal(part, signal.SIGCONT)

    def pause_apiserver(self) -> None:
        self.pause("kube-apiserver")

    # Inside ---------------------------------------------------------------------------------------------------------

    @property
    def _programs(self) -> Programs:
        if self._built is None:
            self._built = programs(self._say)
        return self._built

    def _signal(self, part: str, number: signal.Signals) -> None:
        process = processes.main_of(self._root, part)
        if process is None:
            raise RuntimeError(f"{part} does not run.")
        os.kill(process.pid, number)

    def _remember(self) -> None:
        content = asdict(self._options) | {"index": self.layout.index}
        (self._root / _OPTIONS).write_text(json.dumps(content, indent=1))

    def _ready(self) -> bool:
        try:
            return self.api.call("GET", "/readyz") == b"ok"
        except (OSError, http.client.HTTPException, Refused):
            return False

    def _nodes_ready(self) -> bool:
        nodes = self.api.get("/api/v1/nodes")["items"]
        ready = [
            condition["status"] == "True"
            for item in nodes
            for condition in item["status"].get("conditions", ())
            if condition["type"] == "Ready"
        ]
        return all(ready) and len(ready) == len(nodes) >= self._options.fake_nodes + self._options.real

    def _is_dead(self, part: str) -> bool:
        """Looked for by number too: a program that has only just begun shows no environment for a moment."""
        return processes.main_of(self._root, part) is None and not processes.alive(self._begun[part])

    def _until(self, what: str, test: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not test():
            dead = next((part for part in self._begun if self._is_dead(part)), None)
            if dead:
                raise RuntimeError(f"{dead} ended at its start:\n{_tail(self.logs / f'{dead}.log')}")
            if time.monotonic() > until:
                raise TimeoutError(f"After {_PATIENCE:.0f} s it is not yet so that {what}. Logs: {self.logs}")
            time.sleep(0.05)


@contextmanager
def running(options: Options, name: str = DEFAULT, say: Say = print) -> Iterator[Cluster]:
    """A cluster for as long as the block. One that was up before is used as it is, and stays."""
    cluster = Cluster(name, say)
    found = cluster.up
    try:
        cluster.start(options)
        yield cluster
    finally:
        if not found:
            cluster.keep_logs()
            cluster.stop()


def names() -> list[str]:
    """All clusters of this machine, running or left half-made."""
    root = state_root()
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.exists() else []


def _remembered(root: Path) -> tuple[Options, Layout | None]:
    try:
        content: dict[str, Any] = json.loads((root / _OPTIONS).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return Options(), None
    index = content.pop("index")
    options = Options(**content | {"cards": tuple(content["cards"])})
    return options, Layout(root, index, options.real)


def _free_index(root: Path) -> int:
    taken = {layout.index for name in names() if (layout := _remembered(root.parent / name)[1])}
    free = next((index for index in range(MOST) if index not in taken and not _in_use(root, index)), None)
    if free is None:
        raise Missing(f"{MOST} clusters run on this machine; stop one: {', '.join(names())}")
    return free


def _in_use(root: Path, index: int) -> bool:
    """Of clusters of other people on this machine we see no folder, only that something listens."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", Layout(root, index, real=False).port("etcd"))) == 0


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One start or stop at a time on a machine: they share addresses and mount points."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "clusters.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            print(f"Process {lock.read().strip()} is starting or stopping a cluster; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])
