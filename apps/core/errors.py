"""The tree of errors that people and programs may see. Services raise them; the API and the pages translate them, once each."""

from collections.abc import Mapping
from typing import Any


class PortalError(Exception):
    """A refusal with a stable code, an HTTP status, a sentence for people, and evidence for programs.

    `message` and `hint` may be lazy translations. `fields` maps a field name to its sentence. Nothing in here may be secret.
    """

    code = "error"
    status = 400

    def __init__(
        self,
        message: Any,
        *,
        code: str | None = None,
        hint: Any = "",
        fields: Mapping[str, Any] | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(str(message))
        self.message = message
        self.hint = hint
        self.fields = dict(fields or {})
        self.evidence = dict(evidence or {})
        if code is not None:
            self.code = code


class InvalidInput(PortalError):
    code = "invalid_input"
    status = 422


class NotPermitted(PortalError):
    code = "not_permitted"
    status = 403


class NotFound(PortalError):
    """Also the answer for what exists but is not visible to the asker: its existence is not told."""

    code = "not_found"
    status = 404


class Conflict(PortalError):
    """The thing is not in a state in which this can be done, or somebody else changed it meanwhile."""

    code = "conflict"
    status = 409


class NeverFits(PortalError):
    """The request is larger than what any card or quota could ever give; evidence holds the numbers and `nearest`, what would fit."""

    code = "never_fits"
    status = 422


class QuotaExceeded(PortalError):
    """Neither room now nor room in the queue; evidence holds the numbers."""

    code = "quota_exceeded"
    status = 409


class Unavailable(PortalError):
    """A part of Tessera (node agent, cluster) does not answer; the fact is unknown, nothing was changed."""

    code = "unavailable"
    status = 503
