"""The one cookie that the gateway sets, and how it is kept from user code."""

from django.conf import settings

MAX_TRIED = 4  # a sibling host may have planted cookies of our name beside ours; so many are looked at


def name() -> str:
    """With TLS the browser itself refuses the `__Host-` name to every other host (RFC 6265bis)."""
    return "__Host-tessera_pass" if settings.GATEWAY_SCHEME == "https" else "tessera_pass"


def split(header: str, own: str) -> tuple[tuple[str, ...], str]:
    """The values of the cookies named `own` in a Cookie header, and the header without them."""
    values: list[str] = []
    others: list[str] = []
    for pair in filter(None, (part.strip() for part in header.split(";"))):
        key, _, value = pair.partition("=")
        if key.strip() == own:
            values.append(value.strip())
        else:
            others.append(pair)
    return tuple(values[:MAX_TRIED]), "; ".join(others)


def setting(secret: str) -> str:
    """The Set-Cookie header: this host only, hidden from scripts and other sites' forms, gone with the browser."""
    secure = "; Secure" if settings.GATEWAY_SCHEME == "https" else ""
    return f"{name()}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}"
