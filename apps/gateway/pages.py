"""What the gateway says to people who cannot be let in, in their language, on the notebook's own origin.

Pages are complete in themselves (style and script inside, allowed by their hashes), because nothing else of ours is
served there.
"""

import base64
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.template.loader import get_template, render_to_string
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation.trans_real import parse_accept_lang_header

from apps.gateway import addresses
from apps.gateway.verdicts import Kind, Verdict
from apps.workloads.models import Workload
from apps.workloads.selectors import explanation


def _source(name: str) -> str:
    source: str = get_template(f"gateway/{name}").template.source  # type: ignore[attr-defined]  # Django's own engine
    return source


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


STYLE = _source("page.css")
SCRIPT = _source("page.js")
POLICY = (
    f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Link:
    address: str
    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """One explanation: what happened, why, what to do. With `follow` the page renews itself."""

    title: str
    text: str
    action: str = ""
    link: Link | None = None
    follow: bool = False


def language_of(accept_language: str, preferred: str = "") -> str:
    """The person's own choice, else the first of the browser's languages that we speak, else English."""
    wanted = (preferred, *(code for code, _weight in parse_accept_lang_header(accept_language.lower())))
    for code in filter(None, wanted):
        with suppress(LookupError):
            return translation.get_supported_language_variant(code)
    return "en"


def words(verdict: Verdict, *, unreachable: bool) -> Words:
    """In the current language. `unreachable`: the workload's own server could not be reached."""
    workload = verdict.workload
    kind = Kind.UNREACHABLE if verdict.kind is Kind.ALLOWED and unreachable else verdict.kind
    if workload is None or kind is Kind.SIGN_IN:
        return Words(
            _("Sign in to open this"),
            _("Your session has ended, or you have not opened this from Tessera yet."),
            link=_home(),
        )
    name = {"name": workload.name}
    if kind is Kind.NO_ACCESS:
        return Words(
            _("You may not open this any more"),
            _("“%(name)s” belongs to a tenant in which you have no role now.") % name,
            _("Ask a manager of the tenant if you need it."),
            _home(),
        )
    if kind is Kind.GONE:
        return Words(_("“%(name)s” was deleted") % name, _("There is nothing left to open here."), link=_home())
    return _of_its_owner(kind, workload)


def _of_its_owner(kind: Kind, workload: Workload) -> Words:
    name = {"name": workload.name}
    link = Link(f"{settings.PORTAL_URL}/experiments/{workload.id}/", _("Show it in Tessera"))
    if kind is Kind.UNREACHABLE:
        return Words(
            _("“%(name)s” does not answer just now") % name,
            _("It should be running, and the connection to it failed. Nothing of yours is lost by that."),
            _("Load the page again in a moment; if it stays like this, look at its logs."),
            link,
        )
    told = explanation(workload)
    if kind is Kind.STOPPED:
        return Words(_("“%(name)s” is not running") % name, told.text, told.action, link)
    opens = _("This page opens it by itself when it is ready.")
    return Words(_("“%(name)s” is starting") % name, told.text, opens, link, follow=True)


def _home() -> Link:
    return Link(settings.PORTAL_URL, _("Go to Tessera"))


def spent_ticket(slug: str) -> Words:
    return Words(
        _("This way in is used up"),
        _("The link that led here works once, within a minute."),
        _("Open the notebook again from Tessera."),
        Link(addresses.sign_in(slug, addresses.DEFAULT_PAGE), _("Open it again")),
    )


def html(said: Words, *, version: int = 0) -> str:
    """A whole page in the current language."""
    context: dict[str, Any] = {"said": said, "version": version, "style": STYLE, "script": SCRIPT}
    return render_to_string("gateway/page.html", {**context, "language": translation.get_language()})


def problem(said: Words, *, status: int, code: str) -> bytes:
    """The same for programs (RFC 9457)."""
    content = {
        "type": "about:blank",
        "title": said.title,
        "status": status,
        "detail": said.text,
        "hint": said.action,
        "code": code,
    }
    return json.dumps(content, ensure_ascii=False).encode()


def down() -> dict[str, str]:
    """For each language the page that nginx shows by itself when the authoriser cannot be asked."""
    made = {}
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            said = Words(
                _("Tessera is restarting"),
                _("Whether you may open this cannot be checked just now. What runs goes on running."),
                _("This page tries again by itself."),
                follow=True,
            )
            made[language] = html(said)
    return made
