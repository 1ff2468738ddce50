"""Tenants, their members and their quotas."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rest_framework import serializers

from apps.api.names import DIMENSIONS
from apps.api.serializers.base import Moment, Reply, Strict, Switch, Text, Whole
from apps.tenants.models import Role, Tenant, TenantKind

MOST = 2**62 - 1  # what a quota can hold


class TenantRefSerializer(Reply):
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class TenantSerializer(Reply):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=TenantKind.choices)
    slug = serializers.CharField()
    name = serializers.CharField()
    parent = TenantRefSerializer(allow_null=True)
    role = serializers.SerializerMethodField(help_text="The asker's highest role here, by membership here or above.")
    created_at = Moment()

    def get_role(self, tenant: Tenant) -> Role | None:
        roles: Mapping[UUID, Role] = self.context["roles"]
        return roles.get(tenant.id)


class TenantCreateSerializer(Strict):
    name = Text(max_length=150)
    kind = serializers.ChoiceField(choices=TenantKind.choices, default=TenantKind.TENANT)
    parent = Text(  # type: ignore[assignment]  # the class keeps it apart from Field.parent
        allow_null=True, default=None, help_text="Slug of the department above it."
    )


class TenantPatchSerializer(Strict):
    name = Text(max_length=150)


class MemberSerializer(Reply):
    username = serializers.CharField(source="user.username")
    display_name = serializers.CharField(source="user.display_name")
    role = serializers.ChoiceField(choices=Role.choices)
    tenant = TenantRefSerializer(help_text="Where the role was given: here, or in a department above.")
    since = Moment(source="created_at")


class MemberPutSerializer(Strict):
    role = serializers.ChoiceField(choices=Role.choices)


class MemberQuery(Strict):
    inherited = Switch(default=False, help_text="Show instead who has a role here because of a department above.")


class LimitsSerializer(Strict):
    """null is "no limit here"."""

    gpu_memory_bytes = Whole(allow_null=True, min_value=0, max_value=MOST, help_text="Over all GPUs.")
    gpu_compute_permille = Whole(
        allow_null=True, min_value=0, max_value=MOST, help_text="1000 is one whole GPU; summed."
    )
    cpu_milli = Whole(allow_null=True, min_value=0, max_value=MOST, help_text="Thousandths of a core.")
    ram_bytes = Whole(allow_null=True, min_value=0, max_value=MOST)
    running = Whole(allow_null=True, min_value=0, max_value=MOST, help_text="Workloads that hold a share.")
    running_per_user = Whole(allow_null=True, min_value=0, max_value=MOST)
    pending = Whole(
        allow_null=True, min_value=0, max_value=MOST, help_text="Workloads that wait; 0 refuses instead of queueing."
    )


class LineSerializer(Reply):
    """One dimension of the quota."""

    dimension = serializers.SerializerMethodField()
    used = serializers.IntegerField()
    limit = serializers.IntegerField(allow_null=True)
    free = serializers.IntegerField(allow_null=True)
    tenant = serializers.SerializerMethodField(help_text="Whose limit this is.")

    def get_dimension(self, line: Any) -> str:
        return DIMENSIONS[line.dimension]

    def get_tenant(self, line: Any) -> str:
        return str(line.of_tenant)


class QuotaSerializer(Reply):
    tenant = TenantRefSerializer()
    version = serializers.IntegerField(help_text="Rises with every change; also the ETag. 0: no quota was set yet.")
    limits = LimitsSerializer()
    lines = LineSerializer(many=True, help_text="What is held here and below, against these limits.")
    above = serializers.ListField(
        child=serializers.CharField(),
        help_text="Dimensions held above their limit. Nothing is stopped; nothing new is admitted.",
    )
    dry_run = serializers.BooleanField(help_text="True: shown as it would be, nothing was changed.")


class QuotaPutSerializer(Strict):
    limits = LimitsSerializer()


class DryRunQuery(Strict):
    dry_run = Switch(default=False, help_text="Show what would happen, change nothing.")
