"""A brake on wrong tokens.

A token holds 256 bits, so this is not what keeps guesses out: it tells a script with a dead token, or a scanner, to
stop and when to come back. A right token is never braked: nobody pays for a neighbour's script.
"""

from dataclasses import dataclass

from django.core.cache import cache

LIMIT = 30  # wrong tokens of one address in one window
WINDOW_SECONDS = 60


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
