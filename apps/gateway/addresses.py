"""The addresses between portal and gateway: a workload's origin, where its ticket is swapped, where to sign in."""

from urllib.parse import quote, urlencode

from django.conf import settings

DEFAULT_PAGE = "/lab"
_USUAL_PORTS = {"http": 80, "https": 443}
_LONGEST_PAGE = 2000  # characters; longer ones do not fit a redirect


def origin(slug: str) -> str:
    """`http://<slug>.localhost:8001`, without the port where the scheme implies it."""
    scheme, port = settings.GATEWAY_SCHEME, settings.GATEWAY_PUBLIC_PORT
    suffix = "" if _USUAL_PORTS.get(scheme) == port else f":{port}"
    return f"{scheme}://{slug}.{settings.GATEWAY_DOMAIN}{suffix}"


def enter(slug: str, ticket: str) -> str:
    return f"{origin(slug)}/_tessera/enter?{urlencode({'ticket': ticket})}"


def sign_in(slug: str, page: str) -> str:
    """The portal's way in to `slug`, alike for names that do not exist: only the portal tells, to whom it may."""
    return f"{settings.PORTAL_URL}/open/{quote(slug)}/?{urlencode({'next': safe_page(page)})}"


def safe_page(page: str) -> str:
    """`page` if it is a path on the same host that a browser cannot read as another address, else the default page."""
    plain = page.isascii() and page.isprintable() and len(page) <= _LONGEST_PAGE
    inside = page.startswith("/") and not page.startswith(("//", "/\\", "/_tessera/"))
    return page if plain and inside and "\\" not in page and page != "/" else DEFAULT_PAGE
