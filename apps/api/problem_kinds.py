"""The kinds of problems that the API tells of: what `type` names, and where its address leads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Kind:
    """One `type` of problem: its status, a title of a few words, and what a caller should do about it."""

    status: int
    title: Any
    advice: Any


KINDS: Mapping[str, Kind] = {
    "parse_error": Kind(
        400, _("The request cannot be read"), _("Send JSON in UTF-8 with Content-Type: application/json.")
    ),
    "not_authenticated": Kind(
        401, _("Who are you?"), _("Send `Authorization: Bearer <token>`; tokens are made on your account page.")
    ),
    "not_permitted": Kind(
        403,
        _("Not permitted"),
        _("Ask a manager of the tenant, or an operator, for the role or the scope that is named."),
    ),
    "not_found": Kind(
        404, _("Not found"), _("Check the address. What you may not see is answered like what does not exist.")
    ),
    "method_not_allowed": Kind(405, _("Not possible here"), _("Use one of the methods in the Allow header.")),
    "not_acceptable": Kind(406, _("No such format"), _("Ask for application/json.")),
    "conflict": Kind(
        409, _("Not in this state"), _("Read the resource again: it is not in a state in which this can be done.")
    ),
    "idempotency_key_reused": Kind(
        409,
        _("Key used before"),
        _("An Idempotency-Key belongs to one request. Use a new key for a different request."),
    ),
    "quota_exceeded": Kind(
        409, _("No quota left"), _("Stop something, ask for less, or wait; the evidence holds the numbers.")
    ),
    "precondition_failed": Kind(
        412, _("Changed by somebody else"), _("Read it again, and repeat the change with the new ETag.")
    ),
    "payload_too_large": Kind(413, _("Too much data"), _("No request of this API needs a body of that size.")),
    "unsupported_media_type": Kind(
        415, _("Format not understood"), _("Send JSON with Content-Type: application/json.")
    ),
    "invalid_input": Kind(
        422, _("Something in the request is wrong"), _("Mend what `errors` names and send it again.")
    ),
    "never_fits": Kind(
        422, _("This can never fit"), _("Ask for at most what `evidence` names; waiting does not help.")
    ),
    "precondition_required": Kind(
        428, _("If-Match is needed"), _("Send If-Match with the ETag of what you read, or * to overwrite.")
    ),
    "too_many_requests": Kind(429, _("Too many attempts"), _("Wait for as many seconds as Retry-After says.")),
    "internal_error": Kind(500, _("A fault in Tessera"), _("Tell your operator the request_id; it leads to the log.")),
    "unavailable": Kind(
        503, _("A part of Tessera does not answer"), _("Nothing was changed. Try again in a few seconds.")
    ),
}


def type_uri(kind: str) -> str:
    return f"{settings.PORTAL_URL}/api/problems/{kind}"
