"""What a machine must have before a test cluster runs on it, and where such clusters keep what outlives them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

# Debian's packages, each with a file that proves it: the one list of what does not come from the Go modules.
TO_BUILD: Final = {"gcc": "/usr/bin/gcc", "libc6-dev": "/usr/lib/x86_64-linux-gnu/libc.a"}
TO_RUN: Final = {
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iproute2": "/usr/sbin/ip",
    "openssl": "/usr/bin/openssl",
}
FOR_IMAGES: Final = {"debootstrap": "/usr/sbin/debootstrap", "buildah": "/usr/bin/buildah"}
GO: Final = (1, 26)


class Missing(Exception):
    """The machine lacks something; the text says what to do."""


def cache() -> Path:
    """Programs and images, shared by all checkouts: they are made once for each version."""
    chosen = os.environ.get("TESSERA_CLUSTER_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessera" / "cluster"


def state_root() -> Path:
    """Running clusters, one folder each. Not in a checkout: sockets need short paths, and a checkout may be deleted."""
    chosen = os.environ.get("TESSERA_CLUSTER_STATE")
    if chosen:
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/tessera-cluster")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tessera-cluster"


def require(*wanted: Mapping[str, str]) -> None:
    packages = [name for group in wanted for name, proof in group.items() if not Path(proof).exists()]
    if packages:
        raise Missing(
            f"The test cluster needs these Debian packages: {' '.join(packages)}. "
            f"Run: apt-get install --no-install-recommends {' '.join(packages)}"
        )


def require_go() -> str:
    """The path of a Go that can build the modules."""
    go = shutil.which("go")
    if go is None:
        raise Missing(f"The test cluster is built by Go {_dotted(GO)} or newer, and there is no `go` on the PATH.")
    answer = subprocess.run([go, "env", "GOVERSION", "GOTOOLCHAIN"], capture_output=True, text=True, check=True).stdout
    version, toolchain = answer.split("\n")[:2]
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < GO and toolchain == "local":
        raise Missing(f"The test cluster is built by Go {_dotted(GO)} or newer; {go} is {version}.")
    return go


def why_no_node() -> str:
    """Why this machine cannot run a real node; empty when it can."""
    if os.geteuid() != 0:
        return "A node of the test cluster needs root: it makes control groups, mounts and a network bridge."
    try:
        require(TO_RUN)
    except Missing as missing:
        return str(missing)
    if not any(True for _ in control_groups()):
        return "A node of the test cluster needs control groups, and none are mounted that it may write to."
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "A node of the test cluster needs the overlay file system, and this kernel has none."
    return ""


def control_groups() -> Iterable[Path]:
    """Where control groups are mounted: one place with version 2, one for each controller with version 1."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and os.access(place, os.W_OK):
            yield Path(place)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
