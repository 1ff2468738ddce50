"""Builds the programs of the test cluster from the pinned modules in `tools/`, once for each version.

The cache lies outside the checkout. Every module is one folder there, named after what it was built from, that appears whole or
not at all; a build that was cut short goes on from Go's own cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.machine import TO_BUILD, Missing, cache, require, require_go

TOOLS: Final = Path(__file__).parent / "tools"
GO_MODULES: Final = ("k8s", "etcd", "containerd", "kwok")
_RENAMED: Final = {"server": "etcd"}  # what Go names after the last word of its path
# No debug information: it is a third of the bytes and some of the time. The race for memory is won by collecting less often.
_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOGC": "200"}
_LINKER: Final = "-s -w"
# kwok's own stages, which say how soon a fake pod runs; they lie beside its source.
_STAGES: Final = (
    "node/fast/node-initialize.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
_REPORT_SECONDS: Final = 15
_UNUSED_SECONDS: Final = 30 * 86_400
_NEW: Final = ".new-"

Say = Callable[[str], None]


class Programs:
    """The built programs by name."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders
        self._paths = {path.name: path for folder in folders.values() for path in (folder / "bin").iterdir()}

    def __getitem__(self, name: str) -> str:
        return str(self._paths[name])

    @property
    def stages(self) -> list[Path]:
        return [self._folders["kwok"] / "stages" / Path(stage).name for stage in _STAGES]

    @property
    def path(self) -> str:
        """A PATH on which programs find each other, as containerd finds its shim."""
        return os.pathsep.join(str(folder / "bin") for folder in self._folders.values())


def programs(say: Say = print) -> Programs:
    """All programs; what is missing is built now, in about eight minutes on two cores where nothing is there yet."""
    folders = {name: _home(name) for name in (*GO_MODULES, "pause")}
    missing = [name for name, folder in folders.items() if not folder.exists()]
    if missing:
        require(TO_BUILD)
        _build(missing, say)
    for folder in folders.values():
        os.utime(folder)
    return Programs(folders)


def version() -> str:
    """The Kubernetes version that is pinned."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", (TOOLS / "k8s" / "go.mod").read_text(), re.MULTILINE)
    assert found, "tools/k8s/go.mod names no k8s.io/kubernetes"
    return found[1]


def _build(missing: list[str], say: Say) -> None:
    """Kubernetes in one lane, the small ones in another: while one links, which takes a single core, the other compiles."""
    began = time.monotonic()
    say(f"Building {', '.join(missing)} into {cache()}")
    lanes = [[name for name in missing if name == "k8s"], [name for name in missing if name != "k8s"]]
    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(_build_lane, lane, say) for lane in lanes]:
            done.result()
    say(f"Built everything in {time.monotonic() - began:.0f} s")


def _build_lane(names: list[str], say: Say) -> None:
    for name in names:
        with _locked(name, say):
            target = _home(name)
            if target.exists():  # somebody else built it while we waited
                continue
            _clear_away(name)
            began = time.monotonic()
            new = target.with_name(f"{target.name}{_NEW}{os.getpid()}")
            (new / "bin").mkdir(parents=True)
            _compile_pause(new / "bin") if name == "pause" else _compile(name, new, say)
            new.rename(target)
            say(f"  {name}: done in {time.monotonic() - began:.0f} s")


def _clear_away(name: str) -> None:
    """What a killed build has left, and versions that no checkout has asked for in a month."""
    for folder in cache().glob(f"{name}-*"):
        if _NEW in folder.name or time.time() - folder.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _compile(name: str, target: Path, say: Say) -> None:
    go = require_go()
    folder = TOOLS / name
    scratch = target / "scratch"  # hundreds of megabytes, which a compiler that is killed leaves where they are
    scratch.mkdir()
    environment = os.environ | _ENVIRONMENT | {"GOTMPDIR": str(scratch)}
    listed = subprocess.run(
        [go, "list", "-deps", "tool"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise Missing(f"Go cannot resolve the module {folder}:\n{listed.stderr.strip()}")
    total = len(listed.stdout.splitlines())
    # With us ends the compiler: it would go on writing where the next build begins.
    command = [
        "setpriv",
        "--pdeathsig=KILL",
        go,
        "build",
        "-v",
        *_FLAGS,
        f"-ldflags={_linker(name)}",
        "-o",
        f"{target / 'bin'}/",
        "tool",
    ]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    compiled: list[str] = []
    assert process.stderr
    with _reporting(lambda seconds: say(f"  {name}: {len(compiled)} of {total} packages, {seconds:.0f} s")):
        compiled.extend(line for line in process.stderr if line.strip())
        if process.wait() != 0:
            raise Missing(f"Building {folder} failed:\n{''.join(compiled[-20:]).strip()}")
    shutil.rmtree(scratch)
    for given, ours in _RENAMED.items():
        if (target / "bin" / given).exists():
            (target / "bin" / given).rename(target / "bin" / ours)
    if name == "kwok":
        _keep_stages(go, folder, target / "stages")


def _keep_stages(go: str, folder: Path, target: Path) -> None:
    command = [go, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    source = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    target.mkdir()
    for stage in _STAGES:
        shutil.copyfile(Path(source) / "kustomize" / "stage" / stage, target / Path(stage).name)


def _compile_pause(target: Path) -> None:
    source = TOOLS / "pause" / "pause.c"
    subprocess.run(["gcc", "-Os", "-static", "-s", "-Wall", "-Werror", "-o", target / "pause", source], check=True)


def _linker(name: str) -> str:
    if name != "k8s":
        return _LINKER
    major, minor, _ = version().split(".", 2)
    base = "k8s.io/component-base/version"
    return f"{_LINKER} -X {base}.gitVersion=v{version()} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}"


def _home(name: str) -> Path:
    digest = hashlib.sha256()
    for path in sorted((TOOLS / name).iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    if name != "pause":
        digest.update(repr((_FLAGS, _ENVIRONMENT["CGO_ENABLED"], _linker(name))).encode())
    if name == "kwok":
        digest.update(repr(_STAGES).encode())
    return cache() / f"{name}-{digest.hexdigest()[:12]}"


@contextmanager
def _locked(name: str, say: Say) -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            say(f"  {name}: process {lock.read().strip()} is building it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def _reporting(report: Callable[[float], None]) -> Iterator[None]:
    """A line every few seconds, so that a build that takes minutes is seen to go on."""
    began, done = time.monotonic(), threading.Event()

    def speak() -> None:
        while not done.wait(_REPORT_SECONDS):
            report(time.monotonic() - began)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        done.set()
        speaker.join()


if __name__ == "__main__":
    try:
        programs(lambda line: print(line, flush=True))
    except Missing as missing:
        sys.exit(str(missing))
