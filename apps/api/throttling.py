"""A brake on wrong tokens.

A token holds 256 bits, so this is not what keeps guesses out: it tells a script with a dead token, or a scanner, to
stop and when to come back. A right token is never braked: nobody pays for a neighbour's script.
"""

from dataclasses import dataclass

from django.core.cache import cache
from django.utils.translation import gettext_lazy as _

from apps.core.errors import PortalError

LIMIT = 30  # wrong tokens of one address in one window
WINDOW_SECONDS = 60


class TooManyWrongTokens(PortalError):
    code = "too_many_requests"
    status = 429
    wait = WINDOW_SECONDS  # becomes Retry-After

    def __init__(self) -> None:
        super().__init__(_("Too many wrong tokens came from this address."))


@dataclass(frozen=True, slots=True)
class FailedTokens:
    """Wrong tokens from one address, counted in the process's cache: a restart forgets them, as a brake may."""

    ip: str

    @property
    def _key(self) -> str:
        return f"api-failed-tokens:{self.ip}"

    def count_one(self) -> bool:
        """Count another failure; whether the limit is now passed."""
        if cache.add(self._key, 1, WINDOW_SECONDS):
            return False
        try:
            return cache.incr(self._key) > LIMIT
        except ValueError:  # the window ended between the two calls
            return False
