"""Why those that wait are waiting, and waking the scheduler where it overlooks room.

kube-scheduler 1.36 counts a claim twice for the moment in which its allocation is written and not yet taken off the list of those in
flight. A pod that is looked at in that moment is told that no card fits, and is not looked at again before some claim is given back, or
for five minutes. Any change of a DeviceClass makes the scheduler look again at all that wait for claims, so there is one that nobody
asks for, which the portal may change.
"""

import asyncio
import time
from collections.abc import Callable, Collection

from apps.cluster.drivers.kubernetes import explain
from apps.cluster.drivers.kubernetes.adapters import Choice
from apps.cluster.drivers.kubernetes.ends import Reason
from apps.cluster.drivers.kubernetes.inventory import shown_cards
from apps.cluster.drivers.kubernetes.settings import Timing
from apps.cluster.drivers.kubernetes.world import World
from apps.cluster.specs import RunSpec
from apps.core.share import Resources

_KEPT = 1000  # answers


class Waiting:
    """`who` says which workloads wait now; `look` has them looked at again; `wake` wakes the scheduler."""

    def __init__(
        self,
        world: World,
        timing: Timing,
        choice: Callable[[], Choice],
        *,
        who: Callable[[], Collection[str]],
        look: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._world, self._timing, self._choice = world, timing, choice
        self._who, self._look, self._wake = who, look, wake
        self._explained: dict[tuple[Resources, str], tuple[int, float, Reason]] = {}
        self._overlooked: dict[str, float] = {}  # by workload: since when there is room for it after all
        self._pause = timing.overlooked
        self._timer: asyncio.TimerHandle | None = None

    def why(self, spec: RunSpec, message: str) -> Reason:
        """`message` is the scheduler's. That it finds no place where there is room is worth a word only after a while."""
        reason = self._explain(spec.resources, message)
        if reason[0] != "waiting_scheduler" or explain.NO_CLAIM not in message:
            self._overlooked.pop(spec.uid, None)
            return reason
        now = time.monotonic()
        since = self._overlooked.setdefault(spec.uid, now)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._remind)
        return reason if now - since >= self._timing.noticed else ("placing_pod", {})

    def _explain(self, asked: Resources, message: str) -> Reason:
        """The same question twice within a moment gets the same answer: there may be a thousand that ask."""
        key, now = (asked, message), time.monotonic()
        known = self._explained.get(key)
        if known is not None and (known[0] == self._world.room or now - known[1] < self._timing.room):
            return known[2]
        if len(self._explained) > _KEPT:
            self._explained.clear()
        reason = explain.why_waiting(asked, shown_cards(self._world, self._choice()), message)
        self._explained[key] = (self._world.room, now, reason)
        return reason

    def _remind(self) -> None:
        """Less and less often while it does not help: then something else is in the way."""
        self._timer = None
        waiting = self._who()
        self._overlooked = {uid: since for uid, since in self._overlooked.items() if uid in waiting}
        if not self._overlooked:
            self._pause = self._timing.overlooked
            return
        if time.monotonic() - min(self._overlooked.values()) >= self._timing.overlooked:
            self._wake()
            self._pause = min(self._pause * 2, self._timing.overlooked_longest)
            self._look()
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._remind)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
