"""The interface, and the rule that holds for every backend: what was written counts only after it was read back and is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from vcuda.node.claims import Claim
from vcuda.node.errors import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What was read back for one card: bytes, per mille. None: this backend keeps no such limit, and need not."""

    memory: int | None = None
    compute: int | None = None
    ceiling: int | None = None


class Backend(Protocol):
    """All calls are idempotent. They may raise Unavailable; then nothing is known to be in force."""

    @property
    def name(self) -> str: ...

    @property
    def shim(self) -> bool:
        """Whether programs meet the limiting library in front of the driver."""

    def enforce(self, folder: Path, claim: Claim) -> None:
        """Write the claim's limits; `folder` is the claim's, whose `config` holds them already."""

    def read_back(self, folder: Path, claim: Claim) -> Mapping[str, Limits]:
        """By card, from where programs and driver will look."""

    def release(self, claim: Claim) -> None:
        """The claim goes: leave nothing behind. Never raises for what is gone."""


def enforced(backend: Backend, folder: Path, claim: Claim) -> None:
    """Write, read back, compare. Raises Unavailable (`not_enforced`) with both where they differ: "configured" is not "enforced"."""
    backend.enforce(folder, claim)
    found = backend.read_back(folder, claim)
    wrong = {
        part.uuid: {"wanted": wanted, "found": asdict(found[part.uuid]) if part.uuid in found else None}
        for part in claim.parts
        if not _matches(
            found.get(part.uuid), wanted := {"memory": part.memory, "compute": part.compute, "ceiling": part.ceiling}
        )
    }
    if wrong:
        raise Unavailable(
            f"The limits of claim {claim.name} were written and are not in force ({backend.name}).",
            code="not_enforced",
            hint="Ask again; if it stays so, see the agent's log.",
            evidence=wrong,
        )


def _matches(found: Limits | None, wanted: Mapping[str, int]) -> bool:
    return found is not None and all(value in (None, wanted[name]) for name, value in asdict(found).items())
