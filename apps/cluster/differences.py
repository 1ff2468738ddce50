"""The words of a comparison of the portal's ledger with a cluster that others can change too. Plain data, no Django, no driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from apps.core.share import Resources


class Repair(StrEnum):
    ADOPT = "adopt"  # make the portal's row from what the cluster says
    REPAIR = "repair"  # make the one agree with the other without ending anything
    REMOVE = "remove"  # end or delete what should not be


class Kind(StrEnum):
    ORPHAN_POD = "orphan_pod"  # runs, and the portal has no row for it
    PHANTOM_ROW = "phantom_row"  # holds quota, and nothing is in the cluster
    ENDED_ROW_RUNS = "ended_row_runs"  # the portal says that it has ended, and it runs
    OTHER_RUN = "other_run"  # the row and the pod are of different runs
    OTHER_SHARE = "other_share"  # the ledger and the claim give different amounts
    NO_CLAIM = "no_claim"  # a pod with a share that runs without an allocated claim
    ORPHAN_CLAIM = "orphan_claim"  # holds a part of a card for a pod that is no more
    FOREIGN_CLAIM = "foreign_claim"  # holds a part of a card and is none of this portal's
    LEFT_OVER = "left_over"  # a secret, or a claim that holds nothing, without its pod


@dataclass(frozen=True, slots=True)
class Row:
    """What the portal's ledger says of one run."""

    uid: str
    run: int
    name: str
    resources: Resources
    ended: bool  # by its phase
    holds: bool  # a claim on the quota is open
    held_at: datetime | None = None  # since when


@dataclass(frozen=True, slots=True)
class Option:
    """One way to repair a difference. `effects` are sentences for the preview, in order."""

    repair: Repair
    effects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    kind: Kind
    uid: str  # of the workload; empty for what is nobody's
    objects: tuple[str, ...]  # "Pod namespace/name"
    evidence: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
