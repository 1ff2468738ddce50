"""Questions and answers of the authoriser, over ASGI. Knows HTTP, and nothing of workloads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from asgiref.typing import ASGISendCallable, HTTPScope

from apps.gateway import pages

_ALWAYS = (("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff"))


@dataclass(frozen=True, slots=True)
class Question:
    """`slug` is the host name as nginx matched it; header names are in small letters."""

    slug: str
    headers: Mapping[str, str]
    arguments: Mapping[str, str]

    @classmethod
    def of(cls, scope: HTTPScope) -> "Question":
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = parse_qs(scope["query_string"].decode("latin-1"))
        return cls(headers.get("x-tessera-slug", ""), headers, {name: values[0] for name, values in given.items()})

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def argument(self, name: str) -> str:
        return self.arguments.get(name, "")

    @property
    def wants_page(self) -> bool:
        """A person opens an address; not a program, nor a script of a page that is already open."""
        mode = self.header("sec-fetch-mode")
        return mode == "navigate" if mode else "text/html" in self.header("accept")

    def language(self, preferred: str = "") -> str:
        return pages.language_of(self.header("accept-language"), preferred)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Sequence[tuple[str, str]] = field(default_factory=tuple)
    body: bytes = b""

    @classmethod
    def redirect(cls, address: str, *headers: tuple[str, str]) -> "Answer":
        return cls(303, [("Location", address), *headers])


async def send_answer(send: ASGISendCallable, answer: Answer) -> None:
    headers = [*_ALWAYS, *answer.headers]
    if answer.status != 204:
        headers.append(("Content-Length", str(len(answer.body))))
    if answer.status == 503:
        headers.append(("Retry-After", "5"))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
