"""Account numbers for runs, when the driver runs as root: one for each account key of the portal, for good.

Owns `accounts.json` in the state folder. The numbers have no entry in the machine's user list and no password; they only keep
files and processes apart. A number is never given twice, not even when its account is long gone: files may still bear it.
"""

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from apps.cluster.drivers.local.runner import journal

FIRST = 300_000  # above what Debian gives to people, below what it sets aside for containers' own ranges
_FILE = "accounts.json"


@dataclass(frozen=True, slots=True)
class Identity:
    uid: int
    gid: int


class Accounts:
    """`apart` tells whether runs of different accounts are kept apart at all: only root can give processes away."""

    def __init__(self, state_dir: Path, first: int = FIRST) -> None:
        self._folder = state_dir
        self._first = first
        self.apart = os.geteuid() == 0

    def identity(self, key: str) -> Identity | None:
        """None where everything runs under our own account. One driver at a time asks, so there is no race for a number."""
        if not self.apart:
            return None
        known: dict[str, int] = journal.read(str(self._folder), _FILE) or {}
        if key not in known:
            known[key] = self._next(max(known.values(), default=self._first - 1) + 1)
            journal.write(str(self._folder), _FILE, known)
        return Identity(uid=known[key], gid=known[key])

    @staticmethod
    def own() -> Identity:
        """The account that this process runs under."""
        return Identity(uid=os.geteuid(), gid=os.getegid())

    @staticmethod
    def _next(number: int) -> int:
        while _taken(number):
            number += 1
        return number


def _taken(number: int) -> bool:
    """By somebody of this machine's own lists."""
    for find in (pwd.getpwuid, grp.getgrgid):
        try:
            find(number)
        except KeyError:
            continue
        return True
    return False
