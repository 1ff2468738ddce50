"""Refusals of the node agent, as its callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NodeError(Exception):
    """Says what happened (`message`) and what to do (`hint`); `code` is stable, `evidence` holds the numbers."""

    code = "error"
    status = 400

    def __init__(
        self, message: str, *, code: str | None = None, hint: str = "", evidence: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint
        self.evidence = dict(evidence or {})
        self.code = code or self.code

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint, "evidence": self.evidence}


class Invalid(NodeError):
    code = "invalid_input"
    status = 422


class Missing(NodeError):
    code = "not_found"
    status = 404


class Conflict(NodeError):
    code = "conflict"
    status = 409


class Unauthorised(NodeError):
    code = "unauthorised"
    status = 401


class Unavailable(NodeError):
    """The agent cannot work here: no node, no libraries, no access. Nothing was changed."""

    code = "unavailable"
    status = 503
