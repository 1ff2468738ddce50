"""What can be read about one experiment beside itself: steps, explanation, metrics."""

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.scopes import EXPERIMENTS_WRITE
from apps.api.serializers import experiments as shapes
from apps.api.views.base import ResourceView, reads
from apps.api.views.lookup import experiment_at
from apps.telemetry import selectors as telemetry
from apps.workloads import selectors
from apps.workloads.models import Step

# Figures of `telemetry` by the names of the API.
COLUMNS = {
    "compute_used": "compute_used_permille",
    "compute_limit": "compute_limit_permille",
    "compute_peak": "compute_peak_permille",
    "memory_used": "memory_used_bytes",
    "memory_limit": "memory_limit_bytes",
    "throttled_ms": "throttled_ms",
    "denied_bytes": "denied_bytes",
    "uncounted_bytes": "uncounted_bytes",
    "borrowed": "borrowed_permille",
    "temperature": "temperature_celsius",
    "power": "power_watts",
}


class StepView(ResourceView):
    write_scope = EXPERIMENTS_WRITE
    ordering: ClassVar[tuple[str, ...]] = ("id",)
    queryset = Step.objects.none()  # names the model for the schema; rows come from the selectors

    @reads(shapes.StepQuery)
    @extend_schema(summary="List the steps of a run", responses=shapes.StepSerializer(many=True))
    def list(self, request: Request, pk: UUID) -> Response:
        """Each with its times and why it was so: where the start's seconds went."""
        steps = selectors.steps(experiment_at(self.actor, pk), self.query.get("run"))
        return self.page(steps, shapes.StepSerializer)


class ExplanationView(ResourceView):
    write_scope = EXPERIMENTS_WRITE

    @extend_schema(summary="Explain an experiment's state", responses=shapes.WhySerializer)
    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Why it waits, what it does now, or why it ended, with numbers."""
        workload = experiment_at(self.actor, pk)
        why = {
            "explanation": selectors.explanation(workload),
            "evidence": workload.evidence,
            "queue_position": selectors.position(workload),
            "is_unknown": selectors.is_unknown(workload),
            "notices": selectors.notices(workload),
        }
        return self.reply(shapes.WhySerializer, why)


class MetricsView(ResourceView):
    write_scope = EXPERIMENTS_WRITE

    @reads(shapes.MetricsQuery)
    @extend_schema(summary="Show an experiment's figures over time", responses=shapes.MetricsSerializer)
    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Of its own share, and of each GPU that it shares, as columns."""
        workload = experiment_at(self.actor, pk)
        subjects = telemetry.subjects_of(workload)
        shares = zip(workload.cards, subjects.runs, strict=True)
        gpus = zip(workload.cards, subjects.cards, strict=True)
        found = [self._series("share", *pair) for pair in shares] + [self._series("gpu", *pair) for pair in gpus]
        step = self.query.get("step") or telemetry.step_for(self.query["seconds"])
        return self.reply(shapes.MetricsSerializer, {"step_seconds": int(step), "series": found})

    def _series(self, of: str, gpu: str, subject: str) -> dict[str, Any]:
        columns = telemetry.series(subject, **self.query)
        named = {here: columns[there] for there, here in COLUMNS.items()}
        return {"of": of, "gpu": gpu, "at_unix_seconds": columns["at"], **named}
