"""What a person finds in a new home. Only adds what is missing, and only once: a notebook deleted on purpose stays deleted."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

MARK = Path(".local/state/tessera/furnished")
PACKAGES = Path(".local/lib/packages")  # what `pip install` adds; the environment itself belongs to nobody in here


def furnish(home: Path) -> None:
    keep_packages_at_home(home)
    if (home / MARK).exists():
        return
    skeleton = resources.files("tessera_notebook") / "skeleton"
    for name in ("Welcome.ipynb", "bashrc"):
        target = home / (name if name.endswith(".ipynb") else f".{name}")
        if not target.exists():
            target.write_bytes((skeleton / name).read_bytes())
    (home / MARK).parent.mkdir(parents=True, exist_ok=True)
    (home / MARK).touch()


def keep_packages_at_home(home: Path) -> None:
    """`pip install` writes into the home, where it survives, and kernels find it there. The server itself never looks."""
    (home / PACKAGES).mkdir(
        parents=True, exist_ok=True
    )  # Python never again looks into a folder that it has once missed
    os.environ.setdefault("PIP_TARGET", str(home / PACKAGES))
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [path for path in sys.path if path not in known]
    os.environ["PYTHONPATH"] = os.pathsep.join([*known, str(home / PACKAGES)])
