"""Which backend keeps the limits on this node, and why: the strongest that works here, unless an operator has said otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vcuda.node.backends.base import Backend
from vcuda.node.backends.cgroup_memory import CgroupMemory
from vcuda.node.backends.exclusive import Exclusive
from vcuda.node.backends.interposer import Interposer
from vcuda.node.backends.nvml_limits import NvmlMemoryLimits
from vcuda.node.claims import Claim
from vcuda.node.errors import Unavailable
from vcuda.node.prepare import has_shim

NAMES: Final = ("auto", "interposer", "cgroup-memory", "exclusive")
_PLACES: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


@dataclass(frozen=True, slots=True)
class Backends:
    """`reason` and `whole_reason` are codes of the portal's catalogue."""

    parts: Backend = field(default_factory=Interposer)
    reason: str = "limits_by_library"
    whole: Backend = field(default_factory=Interposer)
    whole_reason: str = "whole_other_cards"

    def of(self, claim: Claim) -> Backend:
        """In pods the library alone: which group a pod's processes will be in is not known when its claim is prepared."""
        if all(part.exclusive for part in claim.parts) and not claim.contained:
            return self.whole
        if self.parts.name == CgroupMemory.name and not claim.group:
            return Interposer()
        return self.parts

    def told(self) -> dict[str, str]:
        """For operators, with each card."""
        return {
            "limits": self.parts.name,
            "limits_reason": self.reason,
            "whole": self.whole.name,
            "whole_reason": self.whole_reason,
        }

    def found(self, folder: Path, claim: Claim) -> Backend:
        """Of a claim that a former agent has made: its programs have what they began with."""
        if not has_shim(folder):
            return Exclusive()
        return self.parts if self.parts.name == CgroupMemory.name and claim.group else Interposer()


def choose(wanted: str, cards: Sequence[str], *, contained: bool) -> Backends:
    """`cards` are UUIDs; `contained`: programs run in pods. Raises Unavailable where `wanted` does not work here."""
    whole, whole_reason = _for_whole(wanted, len(cards), contained=contained)
    if wanted in ("interposer", "exclusive") or contained or not cards:
        reason = "limits_by_library_in_pods" if contained else "limits_by_setting" if cards else "limits_by_library"
        return Backends(Interposer(), reason, whole, whole_reason)
    limits = NvmlMemoryLimits()
    missing = _missing(limits, cards)
    if missing and wanted == "cgroup-memory":
        raise Unavailable(
            f"This node cannot keep memory limits by control groups ({missing}).",
            code=missing,
            hint="Leave --backend away, or use a driver of branch 615 or later as root on control groups of version 2.",
        )
    if missing:
        return Backends(Interposer(), missing, whole, whole_reason)
    reason = "limits_by_setting" if wanted == "cgroup-memory" else "limits_by_driver"
    return Backends(CgroupMemory(limits), reason, whole, whole_reason)


def _for_whole(wanted: str, cards: int, *, contained: bool) -> tuple[Backend, str]:
    if wanted == "exclusive":
        return Exclusive(), "whole_by_setting"
    if wanted == "auto" and cards == 1 and not contained:
        return Exclusive(), "whole_only_card"
    return Interposer(), "whole_other_cards"


def _missing(limits: NvmlMemoryLimits, cards: Sequence[str]) -> str:
    """The code of what stands in the way; empty where nothing does."""
    if os.geteuid() != 0:
        return "limits_need_root"
    root = next((place for place in _PLACES if (place / "cgroup.controllers").exists()), None)
    if root is None:
        return "limits_need_cgroup2"
    return "limits_need_driver" if any(limits.refusal(uuid, root) for uuid in cards) else ""
