"""OpenAPI: what drf-spectacular cannot see by itself: problems, the Idempotency-Key, the scope of each operation."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from apps.api.idempotency import HEADER, MAX_LENGTH
from apps.api.permissions import scope_for
from apps.api.problem_kinds import KINDS
from apps.api.problems import MEDIA_TYPE
from apps.api.serializers.problem import ProblemSerializer

EVERYWHERE = (401, 403, 406, 429, 503)
WITH_BODY = (400, 409, 413, 415, 422)
KEY = OpenApiParameter(
    HEADER,
    {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "pattern": r"^[\x20-\x7e]+$"},
    OpenApiParameter.HEADER,
    description="For 24 hours the same key with the same request gets the same reply and changes nothing again.",
)


class Schema(AutoSchema):
    def get_operation_id(self) -> str:
        """`experiments_stop`, `tenants_quota_update`: the fixed words of the path, then what is done."""
        words = [word for word in self.path.removeprefix("/api/v1/").split("/") if not word.startswith("{")]
        action = getattr(self.view, "action", None) or "retrieve"
        return "_".join(words if words[-1] == action else [*words, action])

    def get_override_parameters(self) -> list[Any]:
        return [KEY] if self.method == "POST" else []

    def get_description(self) -> str:  # type: ignore[override]  # as in drf-spectacular
        described = str(super().get_description() or "")
        if self._is_public:
            return described
        return f"{described}\n\nScope: `{scope_for(self.view, self.method)}`.".strip()

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is not None:
            problem = self.resolve_serializer(ProblemSerializer, "response").ref
            for status in self._problem_statuses(operation):
                operation["responses"].setdefault(str(status), self._described(status, problem))
        return operation

    @property
    def _is_public(self) -> bool:
        return not self.view.authentication_classes

    def _problem_statuses(self, operation: dict[str, Any]) -> list[int]:
        places = {parameter["in"] for parameter in operation.get("parameters", [])}
        names = {parameter["name"] for parameter in operation.get("parameters", [])}
        statuses = set() if self._is_public else set(EVERYWHERE)
        if "path" in places or getattr(self.view, "may_be_missing", False):
            statuses.add(404)
        if "query" in places:
            statuses.add(422)
        if self.method not in ("GET", "HEAD"):
            statuses.update(WITH_BODY)
        if "If-Match" in names:
            statuses.update((412, 428))
        return sorted(statuses)

    @staticmethod
    def _described(status: int, problem: dict[str, Any]) -> dict[str, Any]:
        titles = [str(kind.title) for kind in KINDS.values() if kind.status == status]
        return {"description": " / ".join(titles), "content": {MEDIA_TYPE: {"schema": problem}}}
