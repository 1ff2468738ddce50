"""What a container needs of a machine's NVIDIA driver: files, devices, hooks. Asked of `nvidia-ctk` where there is one, else found.

The two libraries that the limiting one stands in front of are taken out: they are mounted behind it (`cdi.py`).
Not run on hardware yet.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

from vcuda.node.nvml import CardFacts
from vcuda.node.prepare import CUDA, NVML

_TOOL: Final = "nvidia-ctk"
_TOOL_FOLDERS: Final = ("usr/bin", "usr/local/bin", "usr/local/nvidia/toolkit")
_PATIENCE: Final = 60  # s
_SHARED_DEVICES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_PROGRAMS: Final = ("nvidia-smi",)
_READ: Final = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Edits of a container, in CDI's words. `rest` holds what is passed on as it is."""

    env: list[str] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            env=self.env + other.env,
            mounts=self.mounts + other.mounts,
            nodes=self.nodes + other.nodes,
            hooks=self.hooks + other.hooks,
        )

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            env=list(found.get("env") or ()),
            mounts=list(found.get("mounts") or ()),
            nodes=list(found.get("deviceNodes") or ()),
            hooks=list(found.get("hooks") or ()),
        )

    def as_json(self) -> dict[str, Any]:
        parts = {"env": self.env, "mounts": self.mounts, "deviceNodes": self.nodes, "hooks": self.hooks}
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDriver:
    """`hidden` maps the two libraries to the files on the machine; `place` is the folder where they would lie in a container."""

    place: str
    hidden: Mapping[str, str]
    shared: Edits
    cards: Mapping[str, Edits]  # by UUID

    def common(self) -> Edits:
        return self.shared

    def card(self, uuid: str) -> Edits:
        return self.cards.get(uuid, Edits())


def find(root: Path, hidden: Mapping[str, Path], cards: Sequence[CardFacts]) -> HostDriver:
    """`root` is where the machine's own root folder lies for us; `hidden` the driver's files as we see them."""
    tool = _tool(root)
    if tool is not None:
        try:
            return from_toolkit(_generated(root, tool), cards)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            log.warning("%s is of no use (%s); the driver's files are looked for instead.", tool, error)
    return from_files(root, hidden, cards)


def from_toolkit(spec: Mapping[str, Any], cards: Iterable[CardFacts]) -> HostDriver:
    """A CDI specification that `nvidia-ctk cdi generate` has made. Raises KeyError where it lacks a library or a card."""
    shared = Edits.parse(spec.get("containerEdits") or {})
    theirs = {name: path for path in shared.mounts if (name := _library(path["containerPath"]))}
    place = str(PurePosixPath(theirs[CUDA]["containerPath"]).parent)
    devices = {device["name"]: Edits.parse(device.get("containerEdits") or {}) for device in spec.get("devices") or ()}
    mounts = [mount for mount in shared.mounts if not _library(mount["containerPath"])]
    return HostDriver(
        place=place,
        hidden={name: theirs[name]["hostPath"] for name in (CUDA, NVML)},
        shared=replace(shared, mounts=mounts, env=[entry for entry in shared.env if not _chosen_by_us(entry)]),
        cards={card.uuid: devices[card.uuid if card.uuid in devices else str(card.index)] for card in cards},
    )


def from_files(root: Path, hidden: Mapping[str, Path], cards: Iterable[CardFacts]) -> HostDriver:
    """Every file of the driver's release beside its CUDA library, under every name that leads to it, and its devices."""
    folder = hidden[CUDA].parent
    release = hidden[CUDA].resolve().name.removeprefix(f"{CUDA.removesuffix('.1')}.")
    mounts = [
        _mount(_outside(root, path.resolve()), _outside(root, path))
        for path in sorted(folder.iterdir())
        if not _library(path.name) and path.resolve().name.endswith(f".so.{release}")
    ]
    programs = [root / "usr/bin" / name for name in _PROGRAMS]
    mounts += [_mount(_outside(root, path), _outside(root, path)) for path in programs if path.exists()]
    return HostDriver(
        place=_outside(root, folder),
        hidden={name: _outside(root, path.resolve()) for name, path in hidden.items()},
        shared=Edits(mounts=mounts, nodes=_nodes(root, _SHARED_DEVICES)),
        cards={
            card.uuid: Edits(nodes=_nodes(root, [f"nvidia{card.attributes.get('minor', card.index)}"]))
            for card in cards
        },
    )


def _tool(root: Path) -> Path | None:
    return next((path for folder in _TOOL_FOLDERS if (path := root / folder / _TOOL).exists()), None)


def _generated(root: Path, tool: Path) -> Mapping[str, Any]:
    command = [str(tool)] if root == Path("/") else ["chroot", str(root), _outside(root, tool)]
    command += ["cdi", "generate", "--format=json", "--device-name-strategy=uuid"]
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(command[0])
    made = subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE)
    found: Mapping[str, Any] = json.loads(made.stdout)
    return found


def _library(path: str) -> str | None:
    """Which of the two libraries a file is, whatever its release."""
    found = re.fullmatch(r"(lib(?:cuda|nvidia-ml)\.so)(\.[\d.]+)?", PurePosixPath(path).name)
    return f"{found[1]}.1" if found else None


def _chosen_by_us(entry: str) -> bool:
    return entry.split("=")[0] in ("NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


def _nodes(root: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"path": f"/dev/{name}"} for name in names if _is_device(root / "dev" / name)]


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _mount(source: str, target: str) -> dict[str, Any]:
    return {"hostPath": source, "containerPath": target, "options": _READ}


def _outside(root: Path, path: Path) -> str:
    """A path as the machine itself names it."""
    return str(path) if root == Path("/") else f"/{path.relative_to(root)}"
