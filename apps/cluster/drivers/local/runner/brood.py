"""The processes of one run, seen by their runner: as its children, or, when an earlier runner died, as strangers."""

import os
from typing import Protocol

from . import processes


class Brood(Protocol):
    main_gone: bool
    status: int | None  # of the main process, as `waitpid` gives it; None while unknown

    def any_left(self) -> bool:
        """Look, and say whether any process of the run is left."""

    def members(self) -> set[int]: ...

    def descriptors(self) -> list[int]:
        """Readable when something may have changed, beside SIGCHLD."""


class Children:
    """All descendants end up as our children (`kernel.adopt_orphans`), so the kernel itself says when none is left."""

    def __init__(self, main: int, groups: list[str]) -> None:
        self._main, self._groups = main, groups
        self.main_gone = False
        self.status: int | None = None

    def any_left(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self.main_gone, self.status = True, status

    def members(self) -> set[int]:
        return processes.descendants(os.getpid()) | processes.in_groups(self._groups)

    def descriptors(self) -> list[int]:
        return []


class Strangers:
    """Found by mark and control group, watched through pid descriptors; how the main process ended cannot be learnt."""

    def __init__(self, main: int, started: int, marker: str, groups: list[str]) -> None:
        self._main, self._started, self._marker, self._groups = main, started, marker, groups
        self._watched: dict[int, int] = {}
        self.main_gone = False
        self.status: int | None = None

    def any_left(self) -> bool:
        found = self.members()
        for pid in set(self._watched) - found:
            os.close(self._watched.pop(pid))
        for pid in found - set(self._watched):
            try:
                self._watched[pid] = os.pidfd_open(pid)
            except OSError:  # gone meanwhile
                continue
        self.main_gone = not processes.lives(self._main, self._started)
        return bool(found)

    def members(self) -> set[int]:
        return processes.of_run(self._marker, self._groups)

    def descriptors(self) -> list[int]:
        return list(self._watched.values())
