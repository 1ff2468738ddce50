"""The Cluster protocol: all that the portal may ask of a place where workloads run. One contract suite runs on every driver.

Every call may raise `core.errors.Unavailable`: then nothing is known, and nothing may be concluded. All calls are idempotent.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from apps.cluster.diagnosis import Finding, Report
from apps.cluster.differences import Difference, Row
from apps.cluster.specs import Endpoint, Inventory, LogChunk, Observation, RunSpec, Sample
from apps.core.share import GpuShare


class Cluster(Protocol):
    async def start(self) -> None:
        """Connect, and adopt what already runs. Returns once `observe` and `get` speak the truth."""

    async def close(self) -> None:
        """Let go without stopping anything."""

    async def apply(self, spec: RunSpec) -> Observation:
        """Make this run be. The same `uid` and `run` again changes nothing. A later `run` starts anew, never beside the old one."""

    async def delete(self, uid: str, *, grace_seconds: int) -> Observation:
        """Ask it to end, by force after the grace. Gone only when observed ABSENT or EXITED."""

    async def resize(self, uid: str, run: int, share: GpuShare) -> GpuShare:
        """Other limits for a run that goes on running, on the cards that it has; in force and read back when this returns.

        Where more is in use than `share` allows, nothing is taken away: the next allocation is refused until enough is freed.
        Returns what the cluster keeps for it from now on, never less than `share`. A refusal changes nothing: Conflict with the
        code `resize_card` (no room beside the others), `resize_claim` (more than the cluster keeps for it) or `resize_not_offered`;
        NotFound where this run has no cards now.
        """

    async def get(self, uid: str) -> Observation:
        """What is seen now."""

    async def list(self) -> Sequence[Observation]:
        """All runs of this portal, also those that the portal has no row for."""

    async def specs(self) -> Sequence[RunSpec]:
        """What the runs that are there were made from, without their variables: for a portal that has lost its rows."""

    def observe(self) -> AsyncIterator[Observation]:
        """Changes from now on; after a gap the reader calls `list` again. Ends only by `close`.

        That a run answers (READY) is told at once; another process, or a later driver, may say STARTING for a few seconds more.
        """

    async def logs(self, uid: str, *, offset: int = 0, limit: int = 65536) -> LogChunk:
        """Output of the latest run; a negative offset counts from the end."""

    async def inventory(self) -> Inventory: ...

    def samples(self) -> AsyncIterator[Sequence[Sample]]:
        """One batch a second with the newest figures of all cards and claims."""

    async def dial(self, uid: str, port: str) -> Endpoint:
        """Where the gateway connects. Raises NotFound where there is nothing to connect to."""

    async def remove_volume(self, name: str) -> None:
        """Delete a volume and all in it. Missing is success."""


class Comparer(Protocol):
    """Of a driver whose cluster others can change too: looks at everything there once, for an operator."""

    async def look(self) -> Any:
        """What is there now; only for the other calls."""

    def workloads(self, seen: Any) -> set[str]:
        """Those that have anything there."""

    def differences(self, rows: Iterable[Row], seen: Any) -> Sequence[Difference]:
        """Where the ledger and the cluster do not agree."""

    def spec(self, seen: Any, uid: str) -> RunSpec | None:
        """What its newest run was made from, where it is said readably."""

    async def remove(self, seen: Any, difference: Difference) -> None:
        """The objects of this difference, if they still are those that were seen."""


@runtime_checkable
class Healthy(Protocol):
    """Of a started driver that can say how it is, also while its cluster does not answer."""

    def health(self) -> dict[str, Any]:
        """Plain data, for `Diagnoser`."""


class Diagnoser(Protocol):
    """Of a driver whose cluster is run by others: looks at it once, for an operator. A part that cannot be seen is a finding."""

    async def findings(self, told: Report | None) -> Sequence[Finding]:
        """`told` is what `Healthy.health` of the controller's driver said last."""


class Terminal(Protocol):
    """A program in a running workload, with a screen."""

    exit_code: int | None  # once `output` has ended; None where the connection broke

    async def write(self, content: bytes) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    def output(self) -> AsyncIterator[bytes]:
        """What the program writes, until it ends."""

    async def close(self) -> None: ...


@runtime_checkable
class Terminals(Protocol):
    """Of a driver that can start one more program in a running workload."""

    async def exec(self, uid: str, command: Sequence[str], *, tty: bool = True) -> Terminal:
        """Whoever opens it closes it. Raises NotFound where nothing runs."""
