"""Cursor pages for every list: a stable order, an opaque cursor, at most 200 items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import InvalidInput

if TYPE_CHECKING:
    from rest_framework.views import APIView  # imports this module, by way of the settings

MAX_LIMIT = 200


class Cursor(CursorPagination):
    """`ordering` comes from the view. Its first field must be (nearly) unique, since it is the cursor's position."""

    page_size = 50
    max_page_size = MAX_LIMIT
    page_size_query_param = "limit"
    page_size_query_description = "How many items a page holds, 1 to 200."
    cursor_query_description = "Where the page begins: take it from `next` or `previous` of another page."

    def paginate_queryset(self, queryset: Any, request: Request, view: "APIView | None" = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, ValidationError):
            # A position that the database cannot compare: the cursor was made up, or belongs to another list.
            if self.cursor_query_param not in request.query_params:
                raise
            raise _bad_cursor() from None

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: "APIView | None") -> tuple[str, ...]:
        ordering: tuple[str, ...] = getattr(view, "ordering", ())
        if not ordering:
            raise TypeError(f"{type(view).__name__} has no ordering")
        return ordering

    def get_page_size(self, request: Request) -> int:
        asked = request.query_params.get(self.page_size_query_param)
        if asked is None:
            return self.page_size
        if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked[:10]) <= MAX_LIMIT:
            message = _("A page holds 1 to %(most)d items.") % {"most": MAX_LIMIT}
            raise InvalidInput(message, fields={"limit": message})
        return int(asked)

    def decode_cursor(self, request: Request) -> Any:
        try:
            return super().decode_cursor(request)
        except Exception:  # whatever base64, the query string or the numbers in it may raise
            raise _bad_cursor() from None

    def _get_position_from_instance(self, instance: Any, ordering: Sequence[str]) -> str:
        """As in the base class, and also through a relation (`user__username`)."""
        value: Any = instance
        for name in ordering[0].lstrip("-").split("__"):
            value = getattr(value, name)
        return str(value)

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"items": data, "next": self.get_next_link(), "previous": self.get_previous_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["items", "next", "previous"],
            "properties": {"items": schema, "next": link, "previous": link},
        }

    def get_schema_operation_parameters(self, view: "APIView") -> list[dict[str, Any]]:
        cursor, limit = super().get_schema_operation_parameters(view)
        limit["schema"] = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": self.page_size}
        return [cursor, limit]


def _bad_cursor() -> InvalidInput:
    message = _("This cursor does not belong to this list.")
    return InvalidInput(message, hint=_("Begin again without a cursor."), fields={"cursor": message})
