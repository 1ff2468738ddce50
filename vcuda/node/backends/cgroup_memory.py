"""The driver's own memory limits of control groups (branch 615 and later), with the library still in front for compute and for books.

The driver counts everything that a group's processes hold, whatever library they come through: this wall nobody gets around. A claim has
one group, in which all its processes are; its hard limit is the claim's memory on each card.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from vcuda.node.backends.base import Limits
from vcuda.node.backends.interposer import Interposer
from vcuda.node.claims import Claim
from vcuda.node.errors import NodeError, Unavailable

log = logging.getLogger(__name__)


class MemoryLimits(Protocol):
    """Of a driver. Raises Unavailable where it refuses or does not answer in time."""

    def set(self, uuid: str, group: Path, hard: int | None) -> None:
        """Bytes; None takes the limit away."""

    def get(self, uuid: str, group: Path) -> int | None:
        """The hard limit, None where there is none."""


class CgroupMemory:
    name: Final = "cgroup-memory"
    shim: Final = True

    def __init__(self, limits: MemoryLimits) -> None:
        self._limits = limits
        self._library = Interposer()

    def enforce(self, folder: Path, claim: Claim) -> None:
        self._library.enforce(folder, claim)
        for part in claim.parts:
            self._limits.set(part.uuid, _group(claim), part.memory)

    def read_back(self, folder: Path, claim: Claim) -> Mapping[str, Limits]:
        """Both have to agree: where the driver's limit is another one, that is what is found."""
        found = dict(self._library.read_back(folder, claim))
        for part in claim.parts:
            hard = self._limits.get(part.uuid, _group(claim))
            if part.uuid in found and hard != found[part.uuid].memory:
                found[part.uuid] = replace(found[part.uuid], memory=-1 if hard is None else hard)
        return found

    def release(self, claim: Claim) -> None:
        """A group that is gone has taken its limits along."""
        for part in claim.parts:
            try:
                self._limits.set(part.uuid, _group(claim), None)
            except NodeError as error:
                log.info("The limit of %s on %s was not taken away: %s", claim.name, part.uuid, error)


def _group(claim: Claim) -> Path:
    if not claim.group:
        raise Unavailable(f"Claim {claim.name} has no control group.", code="not_enforced")
    return Path(claim.group)
