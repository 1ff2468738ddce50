"""In which language and time zone a person reads."""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.utils import timezone

from apps.accounts.models import User

ZONE_COOKIE = "tessera_zone"  # written by static/js/ui.js


def language_of(user: User | None, otherwise: str) -> str:
    """The language chosen in the account, else `otherwise`, else the platform's."""
    known = dict(settings.LANGUAGES)
    for wanted in (user.language if user else "", otherwise.lower()):
        if wanted in known:
            return wanted
    return str(settings.LANGUAGE_CODE)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def zone_of(cookies: Mapping[str, str]) -> ZoneInfo | None:
    """The browser's zone; None (the platform's) where it told none that exists."""
    name = unquote(cookies.get(ZONE_COOKIE, ""))
    return ZoneInfo(name) if name in _zones() else None


def activate_zone(cookies: Mapping[str, str]) -> None:
    zone = zone_of(cookies)
    if zone is None:
        timezone.deactivate()
    else:
        timezone.activate(zone)
