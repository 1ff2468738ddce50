"""What templates need beyond Django: icons, units, times, the navigation."""

import json
from datetime import UTC, datetime
from typing import Any

from django import forms, template
from django.conf import settings
from django.forms import BoundField
from django.templatetags.static import static
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from apps.core import clock, units
from apps.dashboard import timewords
from apps.dashboard.navigation import Navigation, navigation_of

register = template.Library()


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """An icon of the sprite, for decoration: the words beside it say the same."""
    sprite = f"{static('vendor/icons.svg')}#{name}"
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}"/></svg>', classes, sprite
    )


@register.filter
def as_bytes(value: int | None) -> str:
    return "—" if value is None else units.format_bytes(value)


@register.filter
def as_share(value: int | None) -> str:
    """Per mille of a card as per cent."""
    return "—" if value is None else units.format_permille(value)


@register.filter
def as_cores(value: int | None) -> str:
    return "—" if value is None else units.format_milli(value)


@register.filter
def as_length(seconds: float | None) -> str:
    return "—" if seconds is None else timewords.length(seconds)


@register.filter
def as_step(seconds: float) -> str:
    """A stretch of a start: tenths count there."""
    return timewords.words()["second"].replace("{n}", f"{seconds:.1f}") if seconds < 10 else timewords.length(seconds)


@register.filter
def seconds_left(until: datetime) -> str:
    """Whole minutes, so that a bar does not change every second."""
    return str(max(int((until - clock.now()).total_seconds()) // 60 * 60, 0))


@register.filter
def styled(field: BoundField) -> SafeString:
    """The widget with the class that the style sheet knows, and what assistive technology needs to find the error."""
    choice = isinstance(field.field.widget, forms.Select)
    attrs: dict[str, str | bool] = {"class": "form-select" if choice else "form-control"}
    if field.errors:
        attrs |= {"aria-invalid": "true", "aria-describedby": f"{field.name}-error"}
    return field.as_widget(attrs=attrs)


@register.filter
def pretty(value: Any) -> str:
    """JSON of an audit entry on one readable line per field."""
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)


def _absolute(at: datetime) -> str:
    return f"{date_format(localtime(at), 'Y-m-d H:i:s')} {localtime(at).tzname()}"


def _time(at: datetime, say: str, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-say="{}">{}</time>', at.isoformat(), _absolute(at), say, text
    )


@register.simple_tag
def ago(at: datetime | None) -> SafeString | str:
    """How long ago (or in how long), kept current by ui.js; the absolute time on hover."""
    return "—" if at is None else _time(at, "age", timewords.age((clock.now() - at).total_seconds()))


@register.simple_tag
def running(since: datetime) -> SafeString:
    """The length from `since` until now, growing."""
    return _time(since, "length", timewords.length((clock.now() - since).total_seconds()))


@register.simple_tag
def left(until: datetime) -> SafeString:
    """The length from now until `until`, shrinking."""
    return _time(until, "until", timewords.length((until - clock.now()).total_seconds()))


@register.simple_tag
def ago_seconds(at: float) -> SafeString | str:
    """As `ago`, from Unix seconds."""
    return ago(datetime.fromtimestamp(at, UTC))


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """The absolute time in the person's zone."""
    return "—" if at is None else format_html('<time datetime="{}">{}</time>', at.isoformat(), _absolute(at))


@register.simple_tag(takes_context=True)
def list_link(context: template.Context, **changes: Any) -> str:
    """The query string of the list on this page (`filters`) with changes."""
    return str(context["filters"].link(**changes))


@register.filter
def unlocalized(value: float | None) -> str:
    """A number for machines, whatever the language."""
    return "" if value is None else str(value)


@register.simple_tag
def time_words() -> str:
    return json.dumps(timewords.words(), ensure_ascii=False)


@register.simple_tag
def version() -> str:
    return str(settings.VERSION)


@register.simple_tag(takes_context=True)
def navigation(context: template.Context) -> Navigation:
    return navigation_of(context["request"])
