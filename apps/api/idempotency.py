"""Idempotency-Key: a POST sent twice happens once.

The kept reply commits together with the change, so neither exists without the other. A refusal changes nothing and is
not kept: the same key may be tried again. A duplicate that arrives while the first is at work waits for it, at the locks
of the change or at the unique index; its own change comes to nothing, and it gets the first one's reply.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_lazy as _
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import ApiToken
from apps.api.models import KeptReply
from apps.api.plain import plain
from apps.api.problems import IdempotencyKeyReused
from apps.core import clock
from apps.core.errors import InvalidInput, PortalError

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEPT_FOR = timedelta(hours=24)
MAX_LENGTH = 255
KEY = re.compile(rf"[\x20-\x7e]{{1,{MAX_LENGTH}}}")  # printable ASCII
KEPT_HEADERS = ("Location", "ETag")
SECRETS = frozenset({"secret"})  # fields of a reply that are shown once and never stored

_FORGET_EVERY = 100  # requests
_looks = count(1)

P = ParamSpec("P")


Change = Callable[[], Response]
Action = Callable[Concatenate[Any, Request, P], Change]


def idempotent(action: Action[P]) -> Callable[Concatenate[Any, Request, P], Response]:
    """For methods of views that change something. They look up and check what needs no lock, and return the change: only that runs
    in the transaction, for which others wait. Without the header the change simply runs."""

    @wraps(action)
    def once(view: Any, request: Request, /, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = key_of(request)
        if key is None:
            return action(view, request, *args, **kwargs)()
        kept = _find(request, key)
        if kept is not None:
            return _replay(kept, request)
        change = action(view, request, *args, **kwargs)
        try:
            with transaction.atomic():
                response = change()
                _keep(request, key, response)
        except (PortalError, IntegrityError):
            kept = _find(request, key)
            if kept is None:
                raise
            return _replay(kept, request)
        return response

    return once


def key_of(request: Request) -> str | None:
    """The request's key, if it has one; raises InvalidInput where it is none."""
    key = request.headers.get(HEADER)
    if key is not None and not KEY.fullmatch(key):
        message = _("An Idempotency-Key is 1 to 255 printable ASCII characters; a random UUID is a good one.")
        raise InvalidInput(message, fields={HEADER: message})
    return key


def _find(request: Request, key: str) -> KeptReply | None:
    """Of this key; what is too old goes, and from time to time with it whatever else is."""
    kept = KeptReply.objects.filter(actor=_actor_key(request), key=key).first()
    if (kept is not None and kept.expires_at <= clock.now()) or next(_looks) % _FORGET_EVERY == 0:
        KeptReply.objects.filter(expires_at__lte=clock.now()).delete()
    return kept if kept is not None and kept.expires_at > clock.now() else None


def _actor_key(request: Request) -> str:
    if isinstance(request.auth, ApiToken):
        return f"token:{request.auth.id}"
    return f"user:{request.user.pk}"


def _fingerprint(request: Request) -> str:
    """The same for the same request; spacing and order of a JSON body do not matter."""
    body = json.dumps(request.data, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{request.method} {request.get_full_path()}\n{body}".encode()).hexdigest()


def _replay(kept: KeptReply, request: Request) -> Response:
    if kept.fingerprint != _fingerprint(request):
        raise IdempotencyKeyReused(
            _("This Idempotency-Key was used for a different request."), evidence={"first_used_at": kept.created_at}
        )
    return Response(kept.body, status=kept.status, headers={**kept.headers, REPLAYED: "true"})


def _keep(request: Request, key: str, response: Response) -> None:
    """Raises IntegrityError where another request with this key was faster."""
    KeptReply.objects.create(
        actor=_actor_key(request),
        key=key,
        fingerprint=_fingerprint(request),
        status=response.status_code,
        headers={name: response[name] for name in KEPT_HEADERS if name in response},
        body=_without_secrets(plain(response.data)),
        expires_at=clock.now() + KEPT_FOR,
    )


def _without_secrets(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {name: None if name in SECRETS else value for name, value in body.items()}
