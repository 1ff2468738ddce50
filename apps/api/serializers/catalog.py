"""Environments and flavours."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.base import Flag, Reply, Strict, Text, Whole
from apps.api.serializers.explain import ResourcesSerializer


class DescribedReply(Reply):
    slug = serializers.CharField()
    name = serializers.CharField()
    name_zh = serializers.CharField()
    description = serializers.CharField()
    description_zh = serializers.CharField()
    position = serializers.IntegerField(help_text="Its place among the choices.")
    is_active = serializers.BooleanField()


class EnvironmentSerializer(DescribedReply):
    """What runs."""

    kind = serializers.CharField()
    key = serializers.CharField(help_text="Its name for the cluster.")


class FlavourSerializer(DescribedReply):
    """A preset of GPU share, CPU and RAM."""

    resources = ResourcesSerializer()


class DescribedBody(Strict):
    name = Text(max_length=100)
    name_zh = Text(max_length=100, allow_blank=True, default="")
    description = Text(max_length=300, allow_blank=True, default="")
    description_zh = Text(max_length=300, allow_blank=True, default="")
    position = Whole(min_value=0, max_value=2**31 - 1, default=100)
    is_active = Flag(default=True, help_text="False: no longer offered; what runs goes on.")


class EnvironmentPutSerializer(DescribedBody):
    kind = serializers.ChoiceField(choices=["experiment"], default="experiment")
    key = Text(max_length=200)


class FlavourPutSerializer(DescribedBody):
    resources = ResourcesSerializer()

    def flat(self) -> dict[str, Any]:
        """By the names of the catalogue's rows."""
        fields = dict(self.validated_data)
        resources = fields.pop("resources")
        gpu = resources["gpu"] or {"count": 0, "memory": 0, "compute": 0, "ceiling": 0}
        return (
            fields
            | {f"gpu_{name}": value for name, value in gpu.items()}
            | {"cpu_milli": resources["cpu_milli"], "ram": resources["ram"]}
        )
