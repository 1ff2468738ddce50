"""The shipped images, built on this machine from nothing but Debian's packages and the Python index, and given to a cluster.

    python -m tests.cluster.images notebook portal node-agent

Every image is a tar in the cache, named after what it was built from. The machine's authorities and its configuration of pip and
apt are mounted while it is built and are no part of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.build import Say
from tests.cluster.cluster import Cluster
from tests.cluster.machine import FOR_IMAGES, Missing, cache, require
from tests.cluster.parts import PROJECT

_FILES: Final = PROJECT / "deploy" / "images"
_DEBIAN: Final = ("bookworm", "python3,python3-venv,ca-certificates")  # release, packages beyond the smallest
# Lists of packages are 50 MB; where this machine gets them from is nobody else's affair.
_NOT_IN_DEBIAN: Final = ("./var/cache/apt/*", "./var/lib/apt/lists/*", "./etc/apt/sources.list")
_MOUNTED: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf", "/etc/apt")
_SKIPPED: Final = {"__pycache__", ".venv", ".mypy_cache", ".ruff_cache"}
_UNUSED_DAYS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A Dockerfile and every path of the repository that it copies from."""

    file: str
    target: str = ""
    copies: tuple[str, ...] = ()
    built_by: str = ""  # what makes those of the paths that git ignores


_AGENT: Final = (
    "requirements.txt",
    "uv.lock",
    "deploy/images/agent.in",
    "deploy/images/subset.py",
    "vcuda/__init__.py",
    "vcuda/node",
    "build/vcuda/lib",
)
IMAGES: Final = {
    "base": Image(file="base.Dockerfile"),
    "notebook": Image(file="notebook.Dockerfile", copies=("deploy/notebook",)),
    "portal": Image(
        file="portal.Dockerfile",
        copies=("pyproject.toml", "uv.lock", "manage.py", "locale", "templates", "static", "apps", "portal"),
        built_by="make setup",
    ),
    "node-agent": Image(file="agent.Dockerfile", target="agent", copies=_AGENT, built_by="make vcuda"),
    "node-agent-sim": Image(
        file="agent.Dockerfile",
        target="agent-sim",
        copies=(*_AGENT, "build/vcuda/sim", "vcuda/sim/cards"),
        built_by="make vcuda",
    ),
}
_BUILT: Final = ("libcuda.so.1", "libnvidia-ml.so.1", "tessera-sim")  # all that an image takes from build/


def reference(name: str) -> str:
    """How a pod names the image. No registry has it: `imagePullPolicy: Never`."""
    return f"tessera.dev/{name}:test"


def provide(cluster: Cluster, *names: str, say: Say = print) -> None:
    """Build what is missing and import what the node does not have in this very version."""
    record = cluster.layout.root / "images.json"
    known: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    for name in names:
        tar = archive(name, say)
        if known.get(name) != tar.name:
            began = time.monotonic()
            cluster.import_image(tar)
            record.write_text(json.dumps(known := known | {name: tar.name}))
            say(f"  image {name}: imported in {time.monotonic() - began:.1f} s")


def archive(name: str, say: Say = print) -> Path:
    """The image as a tar that containerd imports, built if needed."""
    tar = _home() / f"{name}-{_fingerprint(name)}.tar"
    if not tar.exists():
        require(FOR_IMAGES)
        with _alone():
            if not tar.exists():  # nobody else built it while we waited
                _build(name, tar, say)
    os.utime(tar)
    return tar


def _build(name: str, tar: Path, say: Say) -> None:
    image = IMAGES[name]
    absent = [path for path in image.copies if not (PROJECT / path).exists()]
    if absent:
        raise Missing(f"The image {name} takes {', '.join(absent)}, which is missing. Run: {image.built_by}")
    tagged = f"localhost/tessera/{name}:{_fingerprint(name)}"
    if name == "base":
        arguments = {"DEBIAN": _debian(say)}
    else:
        base = f"localhost/tessera/base:{_fingerprint('base')}"
        if not _has(base):
            _build("base", _home() / f"base-{_fingerprint('base')}.tar", say)
        arguments = {"BASE": base}
    began = time.monotonic()
    _bud(image, tagged, arguments)
    say(f"  image {name}: built in {time.monotonic() - began:.0f} s")
    if name != "base":
        new = tar.with_suffix(f".{os.getpid()}.new")
        _buildah("push", tagged, f"docker-archive:{new}:{reference(name)}")
        new.rename(tar)
        _forget_old(name, tar)


def _bud(image: Image, tagged: str, arguments: dict[str, str]) -> None:
    words = ["bud", "--isolation=chroot", "--network=host", "--layers", "--pull-never", "--format=docker"]
    words += [f"--build-arg={name}={value}" for name, value in arguments.items()]
    words += [f"--target={image.target}"] if image.target else []
    words += [f"--volume={volume}" for volume in _volumes()]
    words += [f"--ignorefile={_FILES / 'dockerignore'}"]
    _buildah(*words, f"--file={_FILES / image.file}", f"--tag={tagged}", str(PROJECT))


def _volumes() -> list[str]:
    uv_cache = _home() / "uv"
    uv_cache.mkdir(exist_ok=True)
    return [f"{uv_cache}:/root/.cache/uv", *(f"{path}:{path}:ro" for path in _MOUNTED if Path(path).exists())]


def _debian(say: Say) -> str:
    """The smallest Debian as an image: what `debian:bookworm-slim` is where a registry can be reached."""
    release, packages = _DEBIAN
    tagged = f"localhost/tessera/debian:{hashlib.sha256(repr((_DEBIAN, _NOT_IN_DEBIAN)).encode()).hexdigest()[:12]}"
    if _has(tagged):
        return tagged
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_home(), prefix="debian-") as folder:
        words = ["debootstrap", "--variant=minbase", f"--include={packages}", release, f"{folder}/root", *_mirror()]
        _run(_private(words))
        left_out = [f"--exclude={path}" for path in _NOT_IN_DEBIAN]
        _run(["tar", "--numeric-owner", *left_out, "-C", f"{folder}/root", "-cf", f"{folder}/root.tar", "."])
        Path(folder, "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
        _buildah("bud", "--isolation=chroot", "--format=docker", f"--tag={tagged}", folder)
    say(f"  Debian {release}: made in {time.monotonic() - began:.0f} s")
    return tagged


def _mirror() -> list[str]:
    """Where this machine gets its packages; debootstrap has a default where apt has no answer."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {_DEBIAN[0]}", "Created-By: Packages"]
    if shutil.which("apt-get") is None:
        return []
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()[:1]


def _has(tagged: str) -> bool:
    return bool(_buildah("images", "--quiet", "--filter", f"reference={tagged}").strip())


def _forget_old(name: str, kept: Path) -> None:
    for tar in _home().glob(f"{name}-????????????.tar"):
        if tar != kept and time.time() - tar.stat().st_mtime > _UNUSED_DAYS * 86_400:
            tar.unlink()
            _buildah("rmi", "--force", f"localhost/tessera/{tar.stem.replace(f'{name}-', f'{name}:')}")


def _fingerprint(name: str) -> str:
    image = IMAGES[name]
    digest = hashlib.sha256((_FILES / image.file).read_bytes())
    digest.update(
        repr(
            (image.target, _DEBIAN, _NOT_IN_DEBIAN) if name == "base" else (image.target, _fingerprint("base"))
        ).encode()
    )
    for path in sorted(path for copied in image.copies for path in _files(PROJECT / copied)):
        digest.update(f"\0{path.relative_to(PROJECT)}\0{path.stat().st_mode & 0o111}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _files(root: Path) -> Iterator[Path]:
    if root.is_relative_to(PROJECT / "build"):
        yield from (root / name for name in _BUILT if (root / name).exists())
    elif root.is_file():
        yield root
    else:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            yield from (Path(folder, name) for name in names if not name.endswith(".pyc"))


def _home() -> Path:
    home = cache() / "images"
    home.mkdir(parents=True, exist_ok=True)
    return home


def _buildah(*words: str) -> str:
    """In a storage of our own, and among mounts of its own: a build that is killed leaves none behind."""
    with tempfile.TemporaryDirectory(dir=_home(), prefix="run-") as run:
        storage = [f"--root={_home() / 'storage'}", f"--runroot={run}", "--storage-driver=overlay"]
        return _run(_private(["buildah", *storage, *words]))


def _private(words: Sequence[str]) -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", *words]


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        output = f"{done.stdout}\n{done.stderr}".strip().splitlines()
        raise Missing("\n".join([f"This failed: {' '.join(words)}", *output[-30:]]))
    return done.stdout


@contextmanager
def _alone() -> Iterator[None]:
    with (_home() / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for cut_short in (*_home().glob("run-*"), *_home().glob("debian-*"), *_home().glob("*.new")):
            shutil.rmtree(cut_short) if cut_short.is_dir() else cut_short.unlink()
        yield


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or [name for name in IMAGES if name != "base"]:
            print(archive(wanted, lambda line: print(line, flush=True)), flush=True)
    except Missing as missing:
        sys.exit(str(missing))
