"""What all runs of one driver share: folders, accounts, agent, control groups, and whom to tell."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from apps.cluster.drivers.local.accounts import Accounts
from apps.cluster.drivers.local.agent import Agent
from apps.cluster.drivers.local.folders import Folders
from apps.cluster.drivers.local.link import Link
from apps.cluster.drivers.local.nursery import Nursery
from apps.cluster.drivers.local.records import Record, Store, uid_of_claim
from apps.core.errors import Conflict, Unavailable

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Site:
    store: Store
    folders: Folders
    accounts: Accounts
    environments: Path
    agent: Agent
    link: Link
    tell: Callable[[Record], None]  # something about this run has changed
    nursery: Nursery = field(default_factory=Nursery)
    node: str = field(default_factory=socket.gethostname)
    boot: str = field(default_factory=lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    group_bases: list[str] = field(default_factory=list)

    async def sweep(self) -> None:
        """Take back the claims of runs that are no more: the agent was away when they ended, or we were."""
        held = {record.claim for record in self.store.all() if record.grants}
        for name in await self.agent.claims():
            if name not in held and uid_of_claim(name) != name:
                await self.drop_claim(name)

    async def drop_claim(self, name: str) -> bool:
        """False where the agent is away or sees a process in it; it is swept at the next contact."""
        try:
            await self.agent.drop_claim(name)
        except (Unavailable, Conflict) as error:
            log.warning("claim_kept", claim=name, problem=str(error.message))
            return False
        self.link.forget_claim(name)
        return True


def machine_ram() -> int:
    """Bytes of memory of this machine, or of the control group that we are in, whichever is less."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    limits = [pages * size]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(limits)


def machine_cpu_milli() -> int:
    return 1000 * len(os.sched_getaffinity(0))
