"""Lets people in: a ticket from the portal, swapped once for the cookie of one workload's host."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.audit.context import Actor
from apps.audit.services import record
from apps.core import clock
from apps.core.errors import Conflict
from apps.gateway import addresses
from apps.gateway.models import TICKET_LIFE, Pass
from apps.workloads.models import Workload

_signer = signing.Signer(salt="tessera.gateway.ticket")
_LOOP = 5  # tickets for one workload in one session ...
_LOOP_WINDOW = timedelta(seconds=10)  # ... within this: the browser comes back because it keeps no cookie


@dataclass(frozen=True, slots=True)
class Entry:
    """What a redeemed ticket gives: the cookie's value and the page to go on to."""

    secret: str
    page: str


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def issue_ticket(*, actor: Actor, user: User, workload: Workload, session_key: str, page: str) -> str:
    """A ticket for `workload`, which the caller has found reachable. Entering somebody else's session is audited."""
    now = clock.now()
    mine = Pass.objects.filter(user=user)
    mine.filter(redeemed_at=None, created_at__lt=now - TICKET_LIFE).delete()
    mine.filter(created_at__lt=now - timedelta(seconds=settings.SESSION_COOKIE_AGE)).delete()
    if mine.filter(workload=workload, session_key=session_key, created_at__gt=now - _LOOP_WINDOW).count() >= _LOOP:
        raise Conflict(
            _("Your browser does not keep the cookie of this notebook's address, so it cannot be let in."),
            code="cookie_refused",
            hint=_("Allow cookies for %(origin)s and open the notebook again.")
            % {"origin": addresses.origin(workload.slug)},
        )
    made = Pass.objects.create(user=user, workload=workload, session_key=session_key)
    if workload.owner_id != user.id:
        record(actor=actor, verb="workload.enter", target=workload, tenant=workload.tenant_id)
    return _signer.sign_object({"pass": str(made.id), "page": addresses.safe_page(page)})


def redeem_ticket(*, slug: str, ticket: str) -> Entry | None:
    """Swap a ticket for a cookie. None for anything but a fresh ticket of this very host that nobody has used."""
    try:
        content = _signer.unsign_object(ticket)
    except signing.BadSignature:
        return None
    now = clock.now()
    secret = secrets.token_urlsafe(32)
    fresh = Pass.objects.filter(
        id=UUID(content["pass"]), workload__slug=slug, redeemed_at=None, created_at__gt=now - TICKET_LIFE
    )
    # One conditional update: of two that bring the same ticket, to whichever process, one gets in.
    if fresh.update(redeemed_at=now, secret_hash=hashed(secret)) != 1:
        return None
    return Entry(secret=secret, page=content["page"])
