"""The tree of departments and tenants, and who has which role in it."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from apps.core import clock, ids


class TenantKind(models.TextChoices):
    DEPARTMENT = "department", _("department")
    TENANT = "tenant", _("tenant")


class Tenant(models.Model):
    """A department holds tenants and a quota over their sum; workloads belong to tenants only."""

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    kind = models.CharField(max_length=16, choices=TenantKind.choices, default=TenantKind.TENANT)
    slug = models.SlugField(max_length=50, unique=True)
    name = models.CharField(max_length=150)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    VIEWER = "viewer", _("viewer")  # sees the tenant's workloads
    MEMBER = "member", _("member")  # runs own workloads
    MANAGER = "manager", _("manager")  # members, quota of child tenants, everybody's workloads


class Membership(models.Model):
    """A role in a department holds in each of its tenants too."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering: ClassVar = ["user__username"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "tenant"], name="one_role_per_user_and_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.tenant}"
