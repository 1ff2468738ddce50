"""May this browser in, and if not, why? Read anew from the rows for every question; headers are never believed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from types import SimpleNamespace

from django.conf import settings
from django.contrib.auth import get_user

from apps.accounts.models import User
from apps.gateway import probe
from apps.gateway.models import Pass
from apps.gateway.services import hashed
from apps.workloads.models import Phase, Workload
from apps.workloads.selectors import reachable


class Kind(StrEnum):
    ALLOWED = "allowed"
    SIGN_IN = "sign_in"  # no pass for this host, or the session behind it has ended
    NO_ACCESS = "no_access"  # signed in, and no longer allowed
    STARTING = "starting"
    STOPPED = "stopped"
    GONE = "gone"  # deleted
    UNREACHABLE = "unreachable"  # should answer, and does not: unknown, not ended


STATUS = {
    Kind.ALLOWED: 204,
    Kind.SIGN_IN: 401,
    Kind.NO_ACCESS: 403,
    Kind.STARTING: 503,
    Kind.STOPPED: 503,
    Kind.GONE: 410,
    Kind.UNREACHABLE: 502,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`workload` is None until the asker is known: a stranger learns nothing, not even whether the host exists."""

    kind: Kind
    workload: Workload | None = None
    user: User | None = None

    @property
    def status(self) -> int:
        return STATUS[self.kind]


_BY_PHASE = {
    Phase.READY: Kind.ALLOWED,
    Phase.STOPPING: Kind.STOPPED,
    Phase.STOPPED: Kind.STOPPED,
    Phase.FAILED: Kind.STOPPED,
}


def judge(slug: str, secrets: Sequence[str]) -> Verdict:
    """For a browser that brings these values of our cookie to the host `slug`."""
    held = _pass_for(slug, secrets)
    user = _signed_in(held) if held else None
    if held is None or user is None:
        return Verdict(Kind.SIGN_IN)
    workload = reachable(user, slug)
    if workload is None:
        kind = Kind.GONE if held.workload.deleted_at else Kind.NO_ACCESS
        return Verdict(kind, held.workload, user)
    return Verdict(_BY_PHASE.get(Phase(workload.phase), Kind.STARTING), workload, user)


def judge_probe(slug: str, proof: str) -> Verdict:
    """For our own visit before "ready" is said: it may in while the workload starts."""
    if not probe.is_genuine(slug, proof):
        return Verdict(Kind.SIGN_IN)
    workload = Workload.objects.filter(slug=slug, deleted_at=None).first()
    if workload is None or workload.phase not in (Phase.STARTING, Phase.READY):
        return Verdict(Kind.STOPPED, workload)
    return Verdict(Kind.ALLOWED, workload)


def _pass_for(slug: str, secrets: Sequence[str]) -> Pass | None:
    if not secrets:
        return None
    hashes = [hashed(secret) for secret in secrets]
    return Pass.objects.filter(secret_hash__in=hashes, workload__slug=slug).select_related("workload").first()


def _signed_in(held: Pass) -> User | None:
    """The pass's user, if the portal itself would still take the session for theirs: neither ended nor disabled."""
    store = import_module(settings.SESSION_ENGINE).SessionStore(held.session_key)
    user = get_user(SimpleNamespace(session=store))  # type: ignore[arg-type]  # reads nothing but the session
    return user if isinstance(user, User) and user.pk == held.user_id else None
