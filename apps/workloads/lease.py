"""One active controller. On one machine a lock file hands over in the moment the holder's process is gone, however it went;
between machines the row's expiry does. Every taking has a new holder name, and every write of a controller checks it (`Fence`).
"""

import fcntl
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from django.db import IntegrityError, transaction

from apps.core import clock
from apps.workloads.models import Lease

NAME = "controller"
LIFE = timedelta(seconds=30)
RENEW_SECONDS = 10


class LeaseLost(Exception):
    """Somebody else is the controller now: stop at once, write nothing more."""


@dataclass(frozen=True, slots=True)
class Fence:
    holder: str

    def check(self) -> None:
        """Inside a transaction: raises LeaseLost unless the lease is still this holder's; it cannot change before the commit."""
        if not Lease.objects.select_for_update(no_key=True).filter(name=NAME, holder=self.holder).exists():
            raise LeaseLost(self.holder)


def lock_file(folder: Path) -> int:
    """Wait until no other controller of this machine lives on this state folder. The kernel frees the lock with the process.

    Returns the open file, which must be kept open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "controller.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def new_holder(folder: Path) -> str:
    """`place!token`: the place is this machine's state folder, whose lock file the caller holds."""
    return f"{_place(folder)}!{uuid4().hex}"


def _place(folder: Path) -> str:
    return f"{socket.gethostname()}:{folder}"[-60:]


@transaction.atomic
def take(holder: str) -> float | None:
    """Take the lease if it is free, expired, or was held from the same place (whose lock file is now ours).

    Returns None when taken, else the seconds after which it expires.
    """
    now = clock.now()
    lease = Lease.objects.select_for_update().filter(name=NAME).first()
    if lease is None:
        try:
            with transaction.atomic():
                Lease.objects.create(name=NAME, holder=holder, expires_at=now + LIFE)
        except IntegrityError:
            return 1.0
        return None
    same_place = lease.holder.partition("!")[0] == holder.partition("!")[0]
    if not same_place and lease.expires_at > now:
        return (lease.expires_at - now).total_seconds()
    lease.holder, lease.expires_at = holder, now + LIFE
    lease.save(update_fields=["holder", "expires_at"])
    return None


def renew(holder: str) -> None:
    """Raises LeaseLost."""
    if not Lease.objects.filter(name=NAME, holder=holder).update(expires_at=clock.now() + LIFE):
        raise LeaseLost(holder)


def release(holder: str) -> None:
    Lease.objects.filter(name=NAME, holder=holder).delete()
