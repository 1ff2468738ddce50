"""An image with this machine's Python and nothing else, made without a builder: what the tests' CUDA programs run in."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAME: Final = "tessera.dev/test-python:1"
_PROGRAMS: Final = ("/usr/bin/python3", "/bin/sh", "/usr/bin/env", "/usr/bin/sleep", "/usr/bin/cat", "/usr/bin/id")
_LEFT_OUT: Final = re.compile(
    r"/(test|tests|idlelib|lib2to3|dist-packages|site-packages|__pycache__|ensurepip|tkinter|config-[^/]*)$"
)
_FOLDERS: Final = ("tmp", "proc", "sys", "dev", "etc", "run")


def write(target: Path) -> None:
    """A tar as `docker save` writes it, with one layer."""
    layer = _layer()
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as tar:
        _add(tar, "layer.tar", layer)
        _add(tar, "config.json", json.dumps(configuration).encode())
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in _FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        libraries = Path(f"/usr/lib/{_python()}")
        tar.add(
            libraries, str(libraries).lstrip("/"), filter=lambda entry: None if _LEFT_OUT.search(entry.name) else entry
        )
        for path in _files(libraries):
            tar.add(path.resolve(), str(path).lstrip("/"))
    return buffer.getvalue()


def _files(libraries: Path) -> Iterator[Path]:
    """The programs, and every library that one of them or of Python's own modules needs, under the name that the loader asks for."""
    programs = [Path(name) for name in _PROGRAMS]
    modules = sorted((libraries / "lib-dynload").glob("*.so"))
    needed = {Path(found) for path in [*programs, *modules] for found in _needed(path)}
    yield from programs
    yield from sorted(needed)


def _needed(path: Path) -> list[str]:
    listed = subprocess.run(["ldd", path.resolve()], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def _python() -> str:
    return Path("/usr/bin/python3").resolve().name


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
