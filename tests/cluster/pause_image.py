"""An image of one file, made without a builder: the first process of every pod."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write(target: Path, program: Path, name: str) -> None:
    """A tar as `docker save` writes it, with one layer in which `program` is all there is."""
    layer = _tar({"pause": program.read_bytes()}, mode=0o755)
    digest = hashlib.sha256(layer).hexdigest()
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": layer,
        "config.json": json.dumps(configuration).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    target.write_bytes(_tar(files))


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
