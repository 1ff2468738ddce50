"""Experiments: what is asked, what is answered."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import OpenApiExample, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from apps.api.serializers.base import Moment, Reply, Strict, Switch, Text, Whole
from apps.api.serializers.explain import (
    EvidenceField,
    ExplanationSerializer,
    GpuShareSerializer,
    ResourcesSerializer,
)
from apps.api.serializers.tenants import LineSerializer, TenantRefSerializer
from apps.core.reasons import explain
from apps.core.share import GIB
from apps.experiments.services import Verdict
from apps.experiments.verdict import VerdictKind
from apps.workloads import selectors
from apps.workloads.models import Desired, Notice, Phase, Step, Workload
from apps.workloads.resizing import Verdict as ResizeVerdict
from apps.workloads.services import MAX_NAME, MAX_TIME_LIMIT, MIN_TIME_LIMIT


class OwnerSerializer(Reply):
    username = serializers.CharField()
    display_name = serializers.CharField()


class EnvironmentRefSerializer(Reply):
    slug = serializers.CharField()
    name = serializers.CharField()


class ExperimentSerializer(Reply):
    id = serializers.UUIDField()
    name = serializers.CharField()
    tenant = TenantRefSerializer()
    owner = OwnerSerializer()
    environment = EnvironmentRefSerializer()
    resources = ResourcesSerializer()
    resize_from = GpuShareSerializer(
        allow_null=True, help_text="The share in force while the one in `resources` is on its way; else null."
    )
    desired = serializers.ChoiceField(choices=Desired.choices, help_text="What is wanted.")
    phase = serializers.ChoiceField(choices=Phase.choices, help_text="What is.")
    phase_since = Moment()
    is_unknown = serializers.SerializerMethodField(
        help_text="True: nothing was heard for a while; `phase` is the last that was seen."
    )
    explanation = serializers.SerializerMethodField()
    run = serializers.IntegerField(help_text="Rises with every start.")
    generation = serializers.IntegerField(help_text="Rises with every change of what is wanted; the ETag.")
    time_limit_seconds = serializers.IntegerField(allow_null=True)
    expires_at = Moment(allow_null=True)
    gpus = serializers.ListField(
        child=serializers.CharField(), source="cards", help_text="UUIDs of the GPUs on which it holds a share."
    )
    node = serializers.CharField()
    exit_code = serializers.IntegerField(allow_null=True)
    created_at = Moment()
    observed_at = Moment(allow_null=True, help_text="When the cluster was last asked about it, or up to 5 s before.")
    open_url = serializers.SerializerMethodField(help_text="For a browser that is signed in.")

    def get_is_unknown(self, workload: Workload) -> bool:
        return selectors.is_unknown(workload)

    @extend_schema_field(ExplanationSerializer)
    def get_explanation(self, workload: Workload) -> Any:
        return ExplanationSerializer(selectors.explanation(workload)).data

    @extend_schema_field(serializers.URLField())
    def get_open_url(self, workload: Workload) -> str:
        return f"{settings.PORTAL_URL}/open/{workload.id}/"


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A preset",
            value={"tenant": "vision-lab", "name": "First steps", "environment": "notebook", "flavour": "medium"},
            request_only=True,
        ),
        OpenApiExample(
            "A share of one's own",
            value={
                "tenant": "vision-lab",
                "name": "微调实验",
                "environment": "notebook",
                "resources": {
                    "gpu": {"count": 1, "memory_bytes": 8 * GIB, "compute_permille": 300, "ceiling_permille": 500},
                    "cpu_milli": 2000,
                    "ram_bytes": 8 * GIB,
                },
                "time_limit_seconds": 14400,
            },
            request_only=True,
        ),
    ]
)
class ExperimentCreateSerializer(Strict):
    """Either `flavour`, a preset, or `resources`."""

    tenant = Text(help_text="Slug of the tenant whose quota it uses.")
    name = Text(max_length=MAX_NAME, help_text="Any script; on one line.")
    environment = Text(help_text="Slug of what runs.")
    flavour = Text(required=False, help_text="Slug of a preset.")
    resources = ResourcesSerializer(required=False)
    time_limit_seconds = Whole(
        allow_null=True,
        default=None,
        min_value=MIN_TIME_LIMIT,
        max_value=MAX_TIME_LIMIT,
        help_text="Counts from ready; null is no limit.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("flavour" in attrs) == ("resources" in attrs):
            raise serializers.ValidationError("Name either a flavour or resources.")
        return attrs


class ExperimentPatchSerializer(Strict):
    name = Text(max_length=MAX_NAME)


class ResizeVerdictSerializer(Reply):
    """What would come of another share. Nothing that is in use is ever taken away: above the limit, only what comes next is refused."""

    allowed = serializers.BooleanField()
    explanation = serializers.SerializerMethodField()
    evidence = EvidenceField()
    before = GpuShareSerializer()
    after = GpuShareSerializer()
    memory_used_bytes = serializers.IntegerField(
        source="used", allow_null=True, help_text="On the fullest of its GPUs; null where nobody knows."
    )
    memory_over_bytes = serializers.IntegerField(
        source="over", help_text="So much is in use above the new limit; nothing new is given until it is freed."
    )
    nearest = GpuShareSerializer(allow_null=True, help_text="What would be allowed, where this is not.")

    @extend_schema_field(ExplanationSerializer)
    def get_explanation(self, verdict: ResizeVerdict) -> Any:
        return ExplanationSerializer(explain(verdict.reason, verdict.evidence)).data


class StopSerializer(Strict):
    reason = Text(allow_blank=True, default="", max_length=500, help_text="Shown to its owner.")


class NothingSerializer(Strict):
    """An empty body, or {}."""


class ExtendSerializer(Strict):
    seconds = Whole(min_value=1, max_value=MAX_TIME_LIMIT)


class DeleteQuery(Strict):
    remove_home = Switch(default=False, help_text="Remove its home folder too, for good.")


class VerdictSerializer(Reply):
    """What would come of the request. `nearest` would start now (where it waits) or could ever (where refused)."""

    kind = serializers.ChoiceField(choices=[(kind.value, kind.name) for kind in VerdictKind])
    explanation = serializers.SerializerMethodField()
    evidence = EvidenceField()
    nearest = ResourcesSerializer(allow_null=True)
    nearest_flavour = serializers.SerializerMethodField(help_text="Slug of the largest preset within `nearest`.")
    lines_after = LineSerializer(many=True, help_text="My quota with this request in it.")

    def get_nearest_flavour(self, verdict: Verdict) -> str | None:
        return verdict.nearest_flavour.slug if verdict.nearest_flavour else None

    @extend_schema_field(ExplanationSerializer)
    def get_explanation(self, verdict: Verdict) -> Any:
        return ExplanationSerializer(explain(verdict.reason, verdict.evidence)).data


class StepSerializer(Reply):
    """One stretch of one run in one phase."""

    run = serializers.IntegerField()
    phase = serializers.ChoiceField(choices=Phase.choices)
    began_at = Moment()
    ended_at = Moment(allow_null=True)
    explanation = serializers.SerializerMethodField()
    evidence = EvidenceField()

    @extend_schema_field(ExplanationSerializer)
    def get_explanation(self, step: Step) -> Any:
        return ExplanationSerializer(explain(step.reason or step.phase, step.evidence)).data


class StepQuery(Strict):
    run = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="The latest if left out."
    )


class NoticeSerializer(Reply):
    """Something about a run that its people should know."""

    run = serializers.IntegerField()
    began_at = Moment()
    ended_at = Moment(allow_null=True, help_text="null: it still holds.")
    explanation = serializers.SerializerMethodField()
    evidence = EvidenceField()

    @extend_schema_field(ExplanationSerializer)
    def get_explanation(self, notice: Notice) -> Any:
        return ExplanationSerializer(explain(notice.code, notice.evidence)).data


class WhySerializer(Reply):
    """The explanation with its evidence."""

    explanation = ExplanationSerializer()
    evidence = EvidenceField()
    queue_position = serializers.IntegerField(
        allow_null=True, help_text="From 1, in its tenant; null where it does not wait for quota."
    )
    is_unknown = serializers.BooleanField()
    notices = NoticeSerializer(many=True, help_text="Of the latest run, the newest first.")


class LogQuery(Strict):
    offset = serializers.IntegerField(
        default=0, min_value=-(2**40), max_value=2**40, help_text="Bytes; negative counts from the end."
    )
    limit = serializers.IntegerField(default=65536, min_value=1, max_value=1024**2, help_text="At most so many bytes.")


class LogSerializer(Reply):
    run = serializers.IntegerField()
    text = serializers.CharField()
    offset = serializers.IntegerField(help_text="Where `text` begins, in bytes.")
    next = serializers.IntegerField(help_text="The offset to go on with.")
    eof = serializers.BooleanField(help_text="The run has ended and all was read.")


class MetricsQuery(Strict):
    seconds = serializers.IntegerField(default=600, min_value=1, max_value=90 * 24 * 3600, help_text="How far back.")
    step = serializers.ChoiceField(
        choices=[1, 10, 300], required=False, help_text="Seconds between points; chosen by the span if left out."
    )
    since = serializers.IntegerField(
        required=False, min_value=0, max_value=2**40, help_text="Only points newer than this Unix second."
    )


def _column() -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(allow_null=True))


class SeriesSerializer(Reply):
    """Columns of equal length, oldest first. null is "no data", never zero."""

    of = serializers.ChoiceField(
        choices=["share", "gpu"], help_text="The experiment's own part of a GPU, or the GPU as a whole."
    )
    gpu = serializers.CharField(help_text="UUID")
    at_unix_seconds = serializers.ListField(child=serializers.IntegerField())
    compute_used_permille = _column()
    compute_limit_permille = _column()
    compute_peak_permille = _column()
    memory_used_bytes = _column()
    memory_limit_bytes = _column()
    throttled_ms = _column()
    denied_bytes = _column()
    uncounted_bytes = _column()
    borrowed_permille = _column()
    temperature_celsius = _column()
    power_watts = _column()


class MetricsSerializer(Reply):
    step_seconds = serializers.IntegerField()
    series = SeriesSerializer(many=True)
