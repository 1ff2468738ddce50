"""The shape of every error."""

from rest_framework import serializers

from apps.api.serializers.base import Reply


class FieldErrorSerializer(Reply):
    field = serializers.CharField(help_text='Dotted path of the value that is wrong, "" for the request as a whole.')
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(Reply):
    """`application/problem+json`, RFC 9457."""

    type = serializers.URLField(help_text="The kind of problem; the address explains it.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What happened, for people, in the language of Accept-Language.")
    instance = serializers.CharField(help_text="Path of the request.")
    code = serializers.CharField(help_text="Stable, for programs.")
    hint = serializers.CharField(help_text="What to do about it.")
    errors = FieldErrorSerializer(many=True)  # type: ignore[assignment]  # kept apart from Serializer.errors
    evidence = serializers.DictField(help_text="The numbers and facts behind the refusal.")
    request_id = serializers.CharField(help_text="Leads an operator to the log.")
