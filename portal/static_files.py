"""Headers of static files."""

from wsgiref.headers import Headers


def add_headers(headers: Headers, _path: str, _url: str) -> None:
    """As Django's SecurityMiddleware sets them on pages: nothing is taken for another type than it is said to be."""
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
