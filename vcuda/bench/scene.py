"""Tenants on one simulated card in virtual time, and somebody who looks at what each gets every 50 ms of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vcuda.bench.limiters import Limiter, Off, Ours, Stage
from vcuda.bench.programs import Programs
from vcuda.bench.simnode import Participant, SimNode, in_virtual_time
from vcuda.bench.windows import Series

STEP: Final = 0.05  # seconds of card time between two looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Processes of one claim, or (share 0) without any limiter. They launch from `begin` until `end`, in seconds of card time.

    `how` is a word of programs/busy.c. Shares in per mille. Tenants that name the same `claim` are in it together.
    """

    name: str
    kernels: str
    how: str = "async"
    count: int = 1
    share: int = 0
    ceiling: int | None = None
    begin: float = 0
    end: float | None = None
    claim: str = ""

    def words(self, seconds: float) -> list[str]:
        """A kernel without a limit has another name, so that an act on the limited ones leaves it as it is."""
        return ["busy", self.kernels, self.how, str(seconds), *([] if self.share else ["other"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is done at a moment: a new share for a tenant, or another length for the kernels of all tenants with a share."""

    at: float
    tenant: str = ""
    share: int = 0
    kernel_ns: int = 0


@dataclass(slots=True)
class Recorder:
    """Inside the observer: it has the turn while it acts, so the node's clock stands still."""

    node: SimNode
    stage: Stage
    environments: Mapping[str, Mapping[str, str]]
    running: dict[str, Programs]
    tenants: Sequence[Tenant]
    acts: Sequence[Act]
    seconds: float
    series: dict[str, Series] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)

    def __call__(self, participant: Participant) -> dict[str, Series]:
        self.series = {tenant.name: Series(STEP) for tenant in self.tenants}
        due = sorted(
            [(tenant.begin, tenant.name, "begin") for tenant in self.tenants if tenant.begin > 0]
            + [(tenant.end, tenant.name, "end") for tenant in self.tenants if tenant.end is not None]
            + [(act.at, str(index), "act") for index, act in enumerate(self.acts)]
        )
        try:
            for number in range(round(self.seconds / STEP) + 1):
                participant.until(number * STEP)
                self._look(participant)
                while due and due[0][0] <= number * STEP + STEP / 2:
                    self._do(*due.pop(0)[1:])
        finally:
            for tenant in self.tenants:
                if tenant.begin > 0 and tenant.name in self.running:
                    self.running[tenant.name].kill()
        return self.series

    def _look(self, participant: Participant) -> None:
        for tenant in self.tenants:
            programs = self.running.get(tenant.name)
            for process in programs.processes if programs else ():
                self._last[process.pid] = max(self._last.get(process.pid, 0), participant.busy(process.pid))
            pids = [process.pid for process in programs.processes] if programs else []
            self.series[tenant.name].busy_ns.append(sum(self._last.get(pid, 0) for pid in pids))

    def _do(self, name: str, what: str) -> None:
        if what == "act":
            act = self.acts[int(name)]
            if act.kernel_ns:
                self.node.tool("kernel", "tessera_busy", str(act.kernel_ns))
            else:
                self.stage.change(act.tenant, act.share)
        elif what == "begin":
            tenant = next(tenant for tenant in self.tenants if tenant.name == name)
            self.running[name] = Programs(
                self.node, dict(self.environments[name]), tenant.words(self.seconds + 10), count=tenant.count
            )
            self.running[name].go()
        else:
            for process in self.running[name].processes:
                os.kill(process.pid, signal.SIGKILL)  # the parent's child: Popen in this process takes it for dead


def record(
    build: Path,
    tenants: Sequence[Tenant],
    seconds: float,
    *,
    limiter: Limiter | None = None,
    acts: Sequence[Act] = (),
    seed: int = 1,
) -> dict[str, Series]:
    """GPU time of each tenant from the first launch on. `limiter` is that of all tenants with a share; ours by default."""
    limiter = limiter or Ours()
    limited = any(tenant.share for tenant in tenants)
    if not limited:
        limiter = Off()
    early = [tenant for tenant in tenants if tenant.begin == 0]
    participants = sum(tenant.count for tenant in early) + limiter.agents + 1
    options = ("--time", "virtual", "--seed", str(seed), "--jitter-permille", "50", "--stall-ms", "30000")
    with ExitStack() as stack:
        node = stack.enter_context(SimNode(build, "h100", *options, "--hold", str(participants)))
        stage = limiter.enter(node, stack)
        nothing = Off().enter(node, stack)
        environments = {
            tenant.name: (stage if tenant.share else nothing).tenant(
                tenant.claim or tenant.name, tenant.share, tenant.ceiling
            )
            for tenant in tenants
        }

        running: dict[str, Programs] = {}
        try:
            for tenant in early:
                running[tenant.name] = Programs(
                    node, environments[tenant.name], tenant.words(seconds + 10), count=tenant.count
                )

            def go() -> None:
                for programs in running.values():
                    programs.go()

            look = Recorder(node, stage, environments, running, tenants, acts, seconds)
            return in_virtual_time(node, go, look)
        finally:
            for programs in running.values():
                programs.kill()
