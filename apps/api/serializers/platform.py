"""GPUs, tokens, the audit trail, oneself, and how the service is."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.scopes import SCOPES
from apps.accounts.services import MAX_TOKEN_LIFE
from apps.api.plain import moment
from apps.api.serializers.base import Moment, Reply, Strict, Text, Whole
from apps.api.serializers.explain import EvidenceField, ExplanationSerializer
from apps.cluster.diagnosis import Area, Diagnosis, Level
from apps.core.reasons import Explanation, explain
from apps.tenants.models import Role

SCOPE_CHOICES = [(name, name) for name in SCOPES]
MONTH_SECONDS = 30 * 24 * 3600


class HolderSerializer(Reply):
    """One experiment's share of the GPU. Of those that the asker may not see only the size is told."""

    experiment_id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    memory_bytes = serializers.IntegerField()
    compute_permille = serializers.IntegerField()
    ceiling_permille = serializers.IntegerField()


class GpuUseSerializer(Reply):
    """The newest second; null where there is no figure."""

    at_unix_seconds = serializers.IntegerField(source="at")
    compute_used_permille = serializers.IntegerField(allow_null=True, source="compute_used")
    memory_used_bytes = serializers.IntegerField(allow_null=True, source="memory_used")
    temperature_celsius = serializers.IntegerField(allow_null=True, source="temperature")
    power_watts = serializers.IntegerField(allow_null=True, source="power")


class GpuSerializer(Reply):
    """One physical GPU: what it has, what is promised of it (`allocated`), what is used (`use`)."""

    uuid = serializers.CharField()
    node = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_bytes = serializers.IntegerField(source="memory", help_text="That can be given out.")
    physical_memory_bytes = serializers.IntegerField(source="physical_memory")
    allocated_memory_bytes = serializers.IntegerField(source="allocated_memory")
    allocated_compute_permille = serializers.IntegerField(source="allocated_compute")
    healthy = serializers.BooleanField()
    health_reason = serializers.CharField()
    simulated = serializers.BooleanField()
    holders = serializers.SerializerMethodField()
    use = serializers.SerializerMethodField(help_text="null: no figures in the last minute.")
    observed_at = serializers.SerializerMethodField()

    @extend_schema_field(Moment())
    def get_observed_at(self, _gpu: Any) -> str | None:
        return moment(self.context["observed_at"])

    def get_holders(self, gpu: Any) -> Any:
        names: dict[str, str] = self.context["names"]
        return HolderSerializer([_holder(holder, names) for holder in gpu.holders], many=True).data

    def get_use(self, gpu: Any) -> Any:
        sample = self.context["latest"].get(f"card:{gpu.uuid}")
        return None if sample is None else GpuUseSerializer(sample).data


def _holder(holder: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    seen = holder["uid"] in names
    return {
        "experiment_id": holder["uid"] if seen else None,
        "name": names[holder["uid"]] if seen else None,
        "memory_bytes": holder["memory"],
        "compute_permille": holder["compute"],
        "ceiling_permille": holder["ceiling"],
    }


class FindingSerializer(ExplanationSerializer):
    """What was found of one thing, whether it suffices, and what to do. `code` and `level` are stable."""

    area = serializers.ChoiceField(choices=[(area.value, area.name) for area in Area])
    level = serializers.ChoiceField(
        choices=[(level.value, level.name) for level in Level], help_text="unknown: could not be seen from here."
    )
    command = serializers.CharField(help_text="To run by hand, to check or to mend; may be empty.")
    evidence = EvidenceField()


class CountsSerializer(Reply):
    good = serializers.IntegerField()
    attention = serializers.IntegerField()
    bad = serializers.IntegerField()
    unknown = serializers.IntegerField()


class DiagnosisSerializer(Reply):
    driver = serializers.CharField()
    observed_at = Moment()
    counts = CountsSerializer(help_text="Findings of each level.")
    findings = FindingSerializer(many=True)

    def to_representation(self, instance: Diagnosis) -> Any:
        found = [
            {**_told(explain(one.code, one.evidence)), "area": one.area, "level": one.level}
            | {"command": one.command, "evidence": one.evidence}
            for one in instance.findings
        ]
        counts = {level.value: instance.count(level) for level in Level}
        plain = {"driver": instance.driver, "observed_at": instance.observed_at, "counts": counts, "findings": found}
        return super().to_representation(plain)


def _told(one: Explanation) -> dict[str, str]:
    return {"code": one.code, "severity": one.severity, "title": one.title, "text": one.text, "action": one.action}


class TokenSerializer(Reply):
    id = serializers.UUIDField()
    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPE_CHOICES))
    tenant = serializers.SerializerMethodField(help_text="Slug of the one tenant to which it is restricted.")
    created_at = Moment(source="created")
    expires_at = Moment(source="expiry", allow_null=True)
    last_used_at = Moment(allow_null=True)

    def get_tenant(self, token: Any) -> str | None:
        slugs: dict[Any, str] = self.context["tenant_slugs"]
        return slugs.get(token.tenant_id)


class NewTokenSerializer(TokenSerializer):
    secret = serializers.CharField(
        allow_null=True, help_text="Shown this once, never again: null where a repeated request gets the kept reply."
    )


class TokenCreateSerializer(Strict):
    name = Text(max_length=100)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPE_CHOICES), min_length=1)
    tenant = Text(allow_null=True, default=None, help_text="Slug of a tenant: the token works there only.")
    expires_in_seconds = Whole(min_value=60, max_value=int(MAX_TOKEN_LIFE.total_seconds()), default=MONTH_SECONDS)


class EventSerializer(Reply):
    """Who did what to what, when."""

    id = serializers.UUIDField()
    at = Moment()
    verb = serializers.CharField()
    actor = serializers.CharField(source="actor_label")
    actor_id = serializers.CharField(help_text="Empty for Tessera itself.")
    token_id = serializers.CharField()
    tenant_id = serializers.CharField()
    target_type = serializers.CharField()
    target_id = serializers.CharField()
    target = serializers.CharField(source="target_label")
    before = EvidenceField()
    after = EvidenceField()
    reason = serializers.CharField()
    request_id = serializers.CharField()
    ip = serializers.IPAddressField(allow_null=True)


class MyTenantSerializer(Reply):
    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)


class MeSerializer(Reply):
    """Who asks, by session or token, and where they have which role."""

    id = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    platform_role = serializers.CharField(help_text="operator, auditor, or empty.")
    tenants = MyTenantSerializer(many=True)
    token = TokenSerializer(allow_null=True, help_text="null: signed in by the pages.")


class VersionSerializer(Reply):
    version = serializers.CharField(help_text="Of Tessera.")
    api = serializers.CharField(help_text="Of this interface.")


class ReadySerializer(Reply):
    ready = serializers.BooleanField()
    database = serializers.BooleanField()
    controller = serializers.BooleanField(
        help_text="False: nothing starts or ends at the moment; pages and this API go on."
    )
