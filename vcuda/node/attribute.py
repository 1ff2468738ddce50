"""Which claim a process of this machine belongs to. Reads /proc; knows nothing of cards.

Asked in this order: does the process hold a slot of a claim's books (the kernel says so); does its control group belong to a
pod that has exactly one claim; is the control group of the process or an ancestor named after a claim; does the environment of
the process or an ancestor carry the claim's name; does its account run exactly one claim. A program can write anything into its
environment: what that says counts only where nothing that it cannot change says otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vcuda.node.prepare import MARKER

_DEPTH: Final = 64  # ancestors; a longer chain is not a program's family
_PREFIX: Final = f"{MARKER}=".encode()
_POD: Final = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")  # systemd's groups have "_" for "-"


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, told apart from a later one with the same number."""

    pid: int
    started: int  # clock ticks since boot


@dataclass(slots=True)
class Attribution:
    """Finds claims of processes and remembers them. `accounts` maps a claim's name to the account that it is for."""

    proc: Path = Path("/proc")
    own_account: int = field(default_factory=os.geteuid)
    pods: dict[str, frozenset[str]] = field(default_factory=dict)  # claim -> uids of the pods that may use it
    _known: dict[Identity, str] = field(default_factory=dict)

    def claim_of(self, pid: int, accounts: Mapping[str, int], holders: Mapping[int, str] | None = None) -> str | None:
        """The claim's name; None for a stranger, and for a process that has ended. `holders` maps process ids to the claims whose
        books they hold a slot of."""
        if holders and pid in holders:
            return holders[pid]
        identity = self._identity(pid)
        if identity is None:
            return None
        known = self._known.get(identity)
        if known in accounts:
            return known
        found = self._find(pid, accounts)
        if found is not None:
            self._known[identity] = found
        return found

    def _find(self, pid: int, accounts: Mapping[str, int]) -> str | None:
        pods = set(_POD.findall(self._read(pid, "cgroup").decode("utf-8", "replace").replace("_", "-")))
        possible = [name for name, uids in self.pods.items() if uids & pods and name in accounts]
        if len(possible) == 1:
            return possible[0]
        found = self._family_claim(pid, possible or accounts)
        return found or (None if possible else self._account_claim(pid, accounts))

    def forget_ended(self, alive: Collection[int]) -> None:
        self._known = {identity: claim for identity, claim in self._known.items() if identity.pid in alive}

    def _family_claim(self, pid: int, names: Collection[str]) -> str | None:
        family = list(self._ancestry(pid))
        by_group = (self._group_claim(member, names) for member in family)
        by_marker = (self._marked_claim(member, names) for member in family)
        return next(filter(None, by_group), None) or next(filter(None, by_marker), None)

    def _group_claim(self, pid: int, names: Collection[str]) -> str | None:
        for line in self._read(pid, "cgroup").decode("utf-8", "replace").splitlines():
            for step in line.split(":", 2)[-1].split("/"):
                name = step.removeprefix("tessera-").removesuffix(".scope")
                if name in names:
                    return name
        return None

    def _marked_claim(self, pid: int, names: Collection[str]) -> str | None:
        for entry in self._read(pid, "environ").split(b"\0"):
            if entry.startswith(_PREFIX):
                name = entry.removeprefix(_PREFIX).decode("utf-8", "replace")
                return name if name in names else None
        return None

    def _account_claim(self, pid: int, accounts: Mapping[str, int]) -> str | None:
        """Not for the agent's own account: strangers run under it, too."""
        try:
            owner = (self.proc / str(pid)).stat().st_uid
        except OSError:
            return None
        claims = [name for name, account in accounts.items() if account == owner]
        return claims[0] if len(claims) == 1 and owner != self.own_account else None

    def _ancestry(self, pid: int) -> Iterator[int]:
        for _ in range(_DEPTH):
            if pid <= 1:
                return
            yield pid
            fields = self._stat(pid)
            if fields is None:
                return
            pid = int(fields[1])

    def _identity(self, pid: int) -> Identity | None:
        fields = self._stat(pid)
        return None if fields is None else Identity(pid, int(fields[19]))

    def _stat(self, pid: int) -> list[bytes] | None:
        """What follows the program's name, which may hold spaces and brackets: state, parent, ..."""
        text = self._read(pid, "stat")
        return text[text.rindex(b")") + 2 :].split() if text else None

    def _read(self, pid: int, name: str) -> bytes:
        try:
            return (self.proc / str(pid) / name).read_bytes()
        except OSError:
            return b""

    def command(self, pid: int) -> str:
        """The program's short name, for people."""
        return self._read(pid, "comm").decode("utf-8", "replace").strip()
