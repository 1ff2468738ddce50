"""Folders that runs see: homes that outlive them, scratch that does not. And the doors of the state folder, closed to all others."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from apps.cluster.drivers.local.accounts import Identity
from apps.cluster.specs import Volume
from apps.core.errors import InvalidInput

# Other accounts may walk through these, but not list them; what they meet there has its own doors. `sim` holds a simulated
# node, open to everybody as the device files of a real driver are, `run` the folder of the gateway's own account.
_OPEN = ("homes", "scratch", "environments", "claims", "sim", "run")
_LONGEST = 200  # bytes of a file name that all file systems take, with room for a prefix


@dataclass(frozen=True, slots=True)
class Places:
    """Where one run finds its home and its scratch."""

    home: Path
    scratch: Path

    @property
    def temporary(self) -> Path:
        return self.scratch / "tmp"

    @property
    def runtime(self) -> Path:
        return self.scratch / "run"


class Folders:
    def __init__(self, state_dir: Path) -> None:
        self.state = state_dir
        self.runs = state_dir / "runs"
        self._homes = state_dir / "homes"
        self._scratch = state_dir / "scratch"

    def prepare(self) -> None:
        """Make the driver's folders. As root also: only what accounts must reach stays open to them."""
        self.state.mkdir(parents=True, exist_ok=True)
        for folder in (self.runs, self._homes, self._scratch):
            folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            self.state.chmod(0o711)
            self._close_the_rest()

    def _close_the_rest(self) -> None:
        for entry in self.state.iterdir():
            if entry.is_dir() and entry.name in _OPEN:
                entry.chmod(0o711)
            elif not entry.is_symlink():
                entry.chmod(entry.stat().st_mode & 0o700)

    def volume(self, name: str) -> Path:
        """One folder for one name, whatever is in the name."""
        encoded = quote(name, safe="")
        if not name or encoded.startswith(".") or len(encoded) > _LONGEST:
            raise InvalidInput(f"{name!r} cannot name a volume: 1 to {_LONGEST} characters, not beginning with a dot.")
        return self._homes / encoded

    def make(self, run: str, volumes: Sequence[Volume], identity: Identity | None) -> Places:
        """Folders of one run, belonging to its account; scratch begins empty.

        All of them lie in folders of ours, where the account cannot put something else in their place.
        """
        scratch = self._scratch / run
        places = Places(home=self._home(volumes) or scratch / "home", scratch=scratch)
        self.drop_scratch(run)
        scratch.mkdir()
        scratch.chmod(0o711)
        for folder in (places.temporary, places.runtime, places.home):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
            if identity is not None:
                os.chown(folder, identity.uid, identity.gid)
        return places

    def _home(self, volumes: Sequence[Volume]) -> Path | None:
        elsewhere = [volume.path for volume in volumes if volume.path != "~"]
        if elsewhere or len(volumes) > 1:
            raise InvalidInput(f"The local driver knows one volume, the home “~”, not {', '.join(elsewhere)!r}.")
        return self.volume(volumes[0].name) if volumes else None

    def drop_scratch(self, run: str) -> None:
        shutil.rmtree(self._scratch / run, ignore_errors=True)

    def remove_volume(self, name: str) -> None:
        """Out of sight in one step, then file by file. Blocking."""
        folder = self.volume(name)
        gone = folder.with_name(f".gone-{folder.name}")
        shutil.rmtree(gone, ignore_errors=True)
        try:
            folder.rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone)
