"""People and their tokens. Owns who somebody is; what they may do in a tenant stands in `tenants`."""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken

from apps.core import ids


class PlatformRole(models.TextChoices):
    NONE = "", _("none")
    AUDITOR = "auditor", _("auditor")  # reads everything
    OPERATOR = "operator", _("operator")  # reads and changes everything


class User(AbstractUser):  # type: ignore[django-manager-missing]  # the tokens come from knox, which has no types
    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    display_name = models.CharField(max_length=150, blank=True)
    platform_role = models.CharField(max_length=16, choices=PlatformRole.choices, blank=True, default=PlatformRole.NONE)
    language = models.CharField(max_length=16, blank=True, default="")  # "" follows the browser
    theme = models.CharField(max_length=8, blank=True, default="")  # "", "light", "dark"

    def __str__(self) -> str:
        return self.display_name or self.username

    @property
    def is_operator(self) -> bool:
        return self.is_active and self.platform_role == PlatformRole.OPERATOR

    @property
    def sees_everything(self) -> bool:
        return self.is_active and self.platform_role in (PlatformRole.OPERATOR, PlatformRole.AUDITOR)


class ApiToken(AbstractAuthToken):  # type: ignore[misc]  # knox has no types
    """A script's key: only its hash is stored. `scopes` limit what it may do, `tenant_id` where (None: wherever its user may)."""

    id = models.UUIDField(default=ids.new_id, editable=False, unique=True)
    name = models.CharField(max_length=100)
    scopes = models.JSONField(default=list)
    tenant_id = models.UUIDField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractAuthToken.Meta):  # type: ignore[misc]
        abstract = False
        ordering: ClassVar = ["-created"]

    def __str__(self) -> str:
        return self.name  # never the digest
