"""Errors as `application/problem+json` (RFC 9457): the one place where the API turns exceptions into answers.

`code` is stable and may be more exact than `type`, which names a kind of `problem_kinds`. Words follow Accept-Language.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import OperationalError
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from drf_standardized_errors.formatter import flatten_errors
from rest_framework import exceptions
from rest_framework.response import Response

from apps.api.names import evidence
from apps.api.problem_kinds import KINDS, type_uri
from apps.api.requests import request_id
from apps.core.errors import InvalidInput, PortalError, Unavailable

MEDIA_TYPE = "application/problem+json"
logger = logging.getLogger(__name__)


# Codes of REST framework's exceptions that have another name here.
RENAMED = {
    "authentication_failed": "not_authenticated",
    "permission_denied": "not_permitted",
    "throttled": "too_many_requests",
}


class PreconditionFailed(PortalError):
    code = "precondition_failed"
    status = 412


class PreconditionRequired(PortalError):
    code = "precondition_required"
    status = 428


class IdempotencyKeyReused(PortalError):
    code = "idempotency_key_reused"
    status = 409


def handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """REST framework's EXCEPTION_HANDLER. Never None: what nobody foresaw is logged and answered with 500."""
    error = known(exc)
    if error.status >= 500:
        _report(exc, context)
    return respond(error, instance=context["request"].path, headers=_headers(exc))


def respond(error: "Answer", *, instance: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(error.body(instance), status=error.status, headers=headers, content_type=MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class Answer:
    """A problem ready to be told. `kind` is a key of KINDS."""

    kind: str
    code: str
    status: int
    detail: Any
    hint: Any = ""
    errors: tuple[Mapping[str, Any], ...] = ()
    evidence: Mapping[str, Any] | None = None

    def body(self, instance: str) -> dict[str, Any]:
        kind = KINDS[self.kind]
        return {
            "type": type_uri(self.kind),
            "title": str(kind.title),
            "status": self.status,
            "detail": str(self.detail),
            "instance": instance,
            "code": self.code,
            "hint": str(self.hint or kind.advice),
            "errors": list(self.errors),
            "evidence": evidence(self.evidence),
            "request_id": request_id(),
        }


def known(exc: Exception) -> Answer:
    """What is told about `exc`. The order matters: the most exact class first."""
    if isinstance(exc, PortalError):
        return _from_portal(exc)
    if isinstance(exc, exceptions.APIException):
        return _from_rest_framework(exc)
    if isinstance(exc, Http404):
        return _from_rest_framework(exceptions.NotFound())
    if isinstance(exc, PermissionDenied):
        return _from_rest_framework(exceptions.PermissionDenied())
    if isinstance(exc, RequestDataTooBig):
        return Answer("payload_too_large", "payload_too_large", 413, _("The body of this request is too large."))
    if isinstance(exc, SuspiciousOperation):
        return Answer("parse_error", "parse_error", 400, _("This request was refused because it looks malformed."))
    if isinstance(exc, OperationalError):
        return _from_portal(Unavailable(_("The database does not answer at the moment.")))
    return Answer(
        "internal_error", "internal_error", 500, _("Tessera made a mistake while it answered. It has been logged.")
    )


def _from_portal(error: PortalError) -> Answer:
    kind = type(error).code if type(error).code in KINDS else _kind_of(error.status)
    errors = tuple(
        {"field": name, "code": error.code, "message": str(message)} for name, message in error.fields.items()
    )
    return Answer(kind, error.code, error.status, error.message, error.hint, errors, error.evidence)


def _from_rest_framework(exc: exceptions.APIException) -> Answer:
    if isinstance(exc, exceptions.ValidationError):
        return Answer(
            "invalid_input",
            "invalid_input",
            InvalidInput.status,
            _("Some of the values are not valid."),
            errors=tuple(_flattened(exc)),
        )
    code = exc.get_codes() if isinstance(exc.get_codes(), str) else exc.default_code
    code = RENAMED.get(str(code), str(code))
    kind = code if code in KINDS else _kind_of(exc.status_code)
    return Answer(kind, code, exc.status_code, exc.detail)


def _flattened(exc: exceptions.ValidationError) -> Iterator[Mapping[str, Any]]:
    """One entry a message; `field` is the dotted path into the body, "" the body as a whole."""
    for error in flatten_errors(exc.detail):
        field = (error.attr or "").removesuffix("non_field_errors").strip(".")
        yield {"field": field, "code": error.code, "message": error.detail}


def _kind_of(status: int) -> str:
    matching = [code for code, kind in KINDS.items() if kind.status == status]
    return matching[0] if matching else ("internal_error" if status >= 500 else "invalid_input")


def _headers(exc: Exception) -> dict[str, str]:
    headers = {}
    if getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = str(getattr(exc, "auth_header"))  # noqa: B009 - set by REST framework, unknown to its types
    wait = getattr(exc, "wait", None)
    if wait:
        headers["Retry-After"] = str(max(1, round(wait)))
    elif isinstance(exc, Unavailable | OperationalError):
        headers["Retry-After"] = "2"
    return headers


def _report(exc: Exception, context: Mapping[str, Any]) -> None:
    """As Django does with its own 500s: the traceback goes to the log and to the signal, never to the caller."""
    request = getattr(context["request"], "_request", None)
    logger.error("The API failed: %s %s", context["request"].method, context["request"].path, exc_info=exc)
    if not isinstance(exc, PortalError | OperationalError):
        got_request_exception.send(sender=handler, request=request)
