"""Reasons in words, and shares in numbers: parts of several replies."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from apps.api.names import evidence
from apps.api.serializers.base import Reply, Strict, Whole
from apps.core.reasons import Severity
from apps.core.share import GIB, MIB, WHOLE

MOST = 2**62 - 1


class ExplanationSerializer(Reply):
    """Why something waits, runs, or ended. `code` is stable, the rest for people, in their language."""

    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=[(severity.value, severity.name) for severity in Severity])
    title = serializers.CharField()
    text = serializers.CharField()
    action = serializers.CharField(help_text="What to do about it; empty where nothing needs doing.")


class GpuShareSerializer(Strict):
    """The same on each of `count` GPUs. 1000 ‰ is a whole GPU: exclusive, with all of its memory."""

    count = Whole(min_value=1, max_value=1024, default=1)
    memory_bytes = Whole(min_value=MIB, max_value=MOST, source="memory")
    compute_permille = Whole(min_value=1, max_value=WHOLE, source="compute", help_text="Guaranteed.")
    ceiling_permille = Whole(
        min_value=1,
        max_value=WHOLE,
        source="ceiling",
        required=False,
        help_text="While others are idle; the guarantee if left out.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs.setdefault("ceiling", attrs["compute"])
        if attrs["ceiling"] < attrs["compute"]:
            raise serializers.ValidationError({"ceiling_permille": "The ceiling lies at or above compute_permille."})
        return attrs


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "Half the memory, more compute while others are idle",
            value={"memory_bytes": 4 * GIB, "ceiling_permille": 800},
            request_only=True,
        )
    ]
)
class GpuShareChangeSerializer(Strict):
    """What is left out stays. The number of GPUs, and whether they are whole ones, cannot change."""

    memory_bytes = Whole(min_value=MIB, max_value=MOST, source="memory", required=False)
    compute_permille = Whole(min_value=1, max_value=WHOLE, source="compute", required=False, help_text="Guaranteed.")
    ceiling_permille = Whole(
        min_value=1,
        max_value=WHOLE,
        source="ceiling",
        required=False,
        help_text="While others are idle; rises with the guarantee where it is left out.",
    )


class ResourcesSerializer(Strict):
    gpu = GpuShareSerializer(allow_null=True, help_text="null: no GPU.")
    cpu_milli = Whole(min_value=1, max_value=2**31 - 1, help_text="Thousandths of a core.")
    ram_bytes = Whole(min_value=MIB, max_value=MOST, source="ram")


class EvidenceField(serializers.DictField):
    """Raw numbers with their unit in the name."""

    def to_representation(self, value: Any) -> dict[str, Any]:
        return evidence(value)
