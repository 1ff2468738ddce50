"""What every resource shares: the actor, strict queries, no caching, ETags. Views read selectors and call services."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from django.utils.translation import gettext_lazy as _
from django_filters import MultipleChoiceFilter
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.actors import actor_of
from apps.api.problems import PreconditionFailed, PreconditionRequired
from apps.api.requests import check_query, request_id
from apps.api.serializers.base import Reply, Strict, checked, fields_of, shown
from apps.audit.context import Actor

Action = TypeVar("Action", bound=Callable[..., Any])
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag of what you read; `*` overwrites whatever is there."
)
PAGE = frozenset({"cursor", "limit"})


def reads(query: type[Strict]) -> Callable[[Action], Action]:
    """The query parameters of an action: validated into `view.query`, shown in the schema, anything else refused."""

    def decorate(action: Action) -> Action:
        described: Action = extend_schema(parameters=[query])(action)
        described.reads = query  # type: ignore[attr-defined]
        return described

    return decorate


class ResourceView(GenericViewSet[Any]):
    """Subclasses name `write_scope`, and for lists `ordering` and `filterset_class`."""

    http_method_names: ClassVar[list[str]] = ["get", "head", "post", "put", "patch", "delete"]  # type: ignore[misc]
    lookup_value_converter = "uuid"
    write_scope: ClassVar[str]
    ordering: ClassVar[tuple[str, ...]] = ()
    query: dict[str, Any]

    @cached_property
    def actor(self) -> Actor:
        return actor_of(self.request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.query = self._checked_query(request)

    def _checked_query(self, request: Request) -> dict[str, Any]:
        reader: type[Strict] | None = getattr(getattr(self, self.action or "", None), "reads", None)
        own = fields_of(reader) if reader else set()
        filters: dict[str, Any] = getattr(getattr(self, "filterset_class", None), "base_filters", {})
        known = own | (PAGE | set(filters) if self.action == "list" else set())
        repeatable = {name for name, found in filters.items() if isinstance(found, MultipleChoiceFilter)}
        check_query(request.query_params, known, repeatable)
        if reader is None:
            return {}
        return checked(reader, {name: request.query_params[name] for name in own & set(request.query_params)})

    def body(self, shape: type[Strict]) -> dict[str, Any]:
        """The request's body, validated."""
        return checked(shape, self.request.data)

    def page(self, queryset: Any, reply: type[Reply], **context: Any) -> Response:
        """One page of `queryset`, after its filters."""
        rows = self.paginate_queryset(self.filter_queryset(queryset))
        assert rows is not None, "every list has pages"
        return self.get_paginated_response(reply(rows, many=True, context=self.context(**context)).data)

    def reply(
        self, reply: type[Reply], row: Any, *, status: int = 200, headers: dict[str, str] | None = None, **context: Any
    ) -> Response:
        return Response(shown(reply, row, self.context(**context)), status=status, headers=headers)

    def context(self, **more: Any) -> dict[str, Any]:
        return {"actor": self.actor, "request": self.request, **more}

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.setdefault("Cache-Control", "private, no-store")
        answer.setdefault("X-Request-ID", request_id())
        return answer


def etag(version: object) -> str:
    return f'"{version}"'


def check_if_match(request: Request, version: object, *, required: bool) -> None:
    """Refuse a change that was made on an older state than `version`. `*` matches everything."""
    given = request.headers.get("If-Match")
    if given is None:
        if required:
            raise PreconditionRequired(_("This change needs If-Match, so that nobody's change is lost unseen."))
        return
    tags = {tag.strip() for tag in given.split(",")}
    if "*" not in tags and etag(version) not in tags:
        raise PreconditionFailed(
            _("It has changed since you read it."), evidence={"current_etag": etag(version), "sent": sorted(tags)}
        )
