"""What bodies, queries and replies have in common. Bodies are strict: an unknown or mistyped field is never ignored."""

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from apps.api.plain import moment


class Strict(serializers.Serializer[Any]):
    """For request bodies and queries."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(name) for name in data if name not in self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {
                        name: serializers.ErrorDetail(str(_("There is no such field.")), code="unknown")
                        for name in unknown
                    }
                )
        return super().to_internal_value(data)


class Reply(serializers.Serializer[Any]):
    """For answers only: built from dictionaries, never written to."""


_shapes: threading.local = threading.local()
_Shape = TypeVar("_Shape", Strict, Reply)


def _kept(kind: type[_Shape]) -> _Shape:
    """The fields, all of which Django REST framework copies for every serializer, are made once for each thread."""
    kept: dict[type[Any], Any] = vars(_shapes).setdefault("kept", {})
    shape: _Shape = kept.get(kind) or kept.setdefault(kind, kind())
    return shape


def checked(kind: type[Strict], data: Any) -> dict[str, Any]:
    """A body or a query, validated. Raises what `is_valid(raise_exception=True)` does."""
    return dict(_kept(kind).run_validation(data))


def fields_of(kind: type[Strict]) -> set[str]:
    return set(_kept(kind).fields)


def shown(reply: type[Reply], row: Any, context: dict[str, Any]) -> dict[str, Any]:
    """One row's answer."""
    shape = _kept(reply)
    shape._context = context
    try:
        answer: dict[str, Any] = shape.to_representation(row)
    finally:
        shape._context = {}
    return answer


class Text(serializers.CharField):
    """A JSON string; numbers are not taken for text. NUL is refused since PostgreSQL cannot hold it."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A JSON integer; neither text nor 1.0."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Flag(serializers.BooleanField):
    """A JSON boolean; neither 0 nor "yes"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Switch(serializers.BooleanField):
    """`true` or `false` in a query."""

    def to_internal_value(self, data: Any) -> bool:
        if data not in ("true", "false"):
            self.fail("invalid", input=data)
        return bool(data == "true")


class Moment(serializers.DateTimeField):
    """RFC 3339 in UTC with milliseconds."""

    def to_representation(self, value: datetime | None) -> str | None:  # type: ignore[override]
        return moment(value)
