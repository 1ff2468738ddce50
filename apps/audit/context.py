"""Who acts: the first argument of every service."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from django.contrib.auth.models import _User  # the configured user model; accounts lies above audit


@dataclass(frozen=True, slots=True)
class Actor:
    """A person in a browser (`scopes` None: everything that the person may), a person's token, or Tessera itself (`user` None)."""

    user: "_User | None"
    label: str
    token_id: str = ""
    scopes: frozenset[str] | None = None
    tenant_id: UUID | None = None  # the one tenant to which a token is restricted
    request_id: str = ""
    ip: str | None = None

    @classmethod
    def system(cls, label: str = "Tessera") -> "Actor":
        return cls(user=None, label=label)

    @classmethod
    def person(cls, user: "_User") -> "Actor":
        """For commands and tests; requests have `accounts.actors.actor_of`."""
        return cls(user=user, label=str(user))

    @property
    def is_system(self) -> bool:
        return self.user is None

    @property
    def user_id(self) -> UUID | None:
        return self.user.id if self.user is not None else None

    def has_scope(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes

    @property
    def is_operator(self) -> bool:
        """Changes everything: an operator in a browser, an operator's unrestricted token with the scope `platform`, Tessera itself."""
        return self.is_system or (self.user is not None and self.user.is_operator and self._whole_platform)

    @property
    def sees_everything(self) -> bool:
        return self.is_system or (self.user is not None and self.user.sees_everything and self._whole_platform)

    @property
    def _whole_platform(self) -> bool:
        return self.tenant_id is None and self.has_scope("platform")
