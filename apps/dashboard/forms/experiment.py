"""The request for an experiment. Checks shape only; what may start is decided by `experiments.services`."""

from decimal import Decimal
from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from apps.audit.context import Actor
from apps.catalog import selectors as catalog
from apps.catalog.models import Environment, Flavour
from apps.cluster import selectors as cluster
from apps.core import ids
from apps.core.share import GIB, MIB, WHOLE, GpuShare, Resources
from apps.dashboard.forms.share import ShareForm
from apps.tenants import selectors as tenants
from apps.tenants.models import Tenant
from apps.workloads.models import Workload

CUSTOM = "custom"
NO_LIMIT = "0"
TIME_LIMITS = (
    ("3600", _("1 hour")),
    ("14400", _("4 hours")),
    ("28800", _("8 hours")),
    ("86400", _("1 day")),
    ("259200", _("3 days")),
    ("604800", _("1 week")),
    (NO_LIMIT, _("never")),
)
_NUMBERS = ("gpu_memory", "gpu_compute", "gpu_ceiling", "gpu_count", "cpu", "ram")


class ExperimentForm(ShareForm):
    """Memory in GiB and compute in per cent: as people say it. `resources` has them in bytes and per mille."""

    field_order = ("key", "tenant", "environment", "flavour", "name", "time_limit")
    key = forms.UUIDField(widget=forms.HiddenInput)
    tenant = forms.ModelChoiceField(queryset=Tenant.objects.none(), to_field_name="slug")
    environment = forms.ModelChoiceField(queryset=Environment.objects.none(), to_field_name="slug")
    flavour = forms.CharField(max_length=50)
    name = forms.CharField(max_length=200, error_messages={"required": _("Give it a name, so that you find it again.")})
    time_limit = forms.ChoiceField(choices=TIME_LIMITS)
    gpu_count = forms.IntegerField(label=_("GPUs"), min_value=0, max_value=16, required=False)
    cpu = forms.DecimalField(
        label=_("CPU cores"), min_value=Decimal("0.1"), max_value=256, decimal_places=3, required=False
    )
    ram = forms.DecimalField(
        label=_("RAM"), min_value=Decimal("0.25"), max_value=4096, decimal_places=2, required=False
    )

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].queryset = tenants.runs_in(actor)  # type: ignore[attr-defined]  # a ModelChoiceField
        self.fields["environment"].queryset = catalog.environments("experiment")  # type: ignore[attr-defined]
        largest = max((gpu.memory for gpu in cluster.gpus()), default=80 * GIB)
        self.offer_memory(largest)
        self.fields["gpu_compute"].help_text = _("You always get this much. At 100 % the GPU is yours alone.")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("flavour") == CUSTOM:
            self._clean_numbers(cleaned)
        elif cleaned.get("flavour") and self.chosen_flavour is None:
            self.add_error("flavour", _("This share is no longer offered. Choose another."))
        return cleaned

    def _clean_numbers(self, cleaned: dict[str, Any]) -> None:
        needed = _NUMBERS if cleaned.get("gpu_count") else ("cpu", "ram")
        for name in needed:
            if cleaned.get(name) is None and name not in self.errors and name != "gpu_ceiling":
                self.add_error(name, _("A number is needed here."))
        compute, ceiling = cleaned.get("gpu_compute"), cleaned.get("gpu_ceiling")
        if cleaned.get("gpu_count") and compute and ceiling and ceiling < compute:
            self.add_error("gpu_ceiling", _("This must not be below what is guaranteed."))

    @cached_property
    def chosen_flavour(self) -> Flavour | None:
        return catalog.flavours().filter(slug=self.cleaned_data.get("flavour", "")).first()

    @property
    def resources(self) -> Resources:
        """Of a valid form."""
        flavour = self.chosen_flavour
        return flavour.resources if flavour is not None else resources_from(self.cleaned_data)

    @property
    def time_limit_seconds(self) -> int | None:
        return int(self.cleaned_data["time_limit"]) or None


def resources_from(numbers: dict[str, Any]) -> Resources:
    gpu = None
    if numbers.get("gpu_count"):
        compute = int(numbers["gpu_compute"] * 10)
        ceiling = max(int((numbers.get("gpu_ceiling") or 0) * 10), compute)
        memory = int(numbers["gpu_memory"] * 1024) * MIB
        gpu = GpuShare(numbers["gpu_count"], memory, compute, min(ceiling, WHOLE))
    return Resources(gpu, int(numbers["cpu"] * 1000), int(numbers["ram"] * 1024) * MIB)


def numbers_of(resources: Resources) -> dict[str, Any]:
    """The custom fields that ask for `resources`; without a GPU the GPU fields keep useful values for when one is wanted."""
    gpu = resources.gpu
    return {
        "gpu_memory": _plain(Decimal(gpu.memory) / GIB if gpu else Decimal(4)),
        "gpu_compute": _plain(Decimal(gpu.compute) / 10 if gpu else Decimal(10)),
        "gpu_ceiling": _plain(Decimal(gpu.ceiling) / 10 if gpu else Decimal(10)),
        "gpu_count": gpu.count if gpu else 0,
        "cpu": _plain(Decimal(resources.cpu_milli) / 1000),
        "ram": _plain(Decimal(resources.ram) / GIB),
    }


def _plain(value: Decimal) -> str:
    """Rounded down, so that what is offered fits; without trailing zeros."""
    text = f"{value.quantize(Decimal('0.01'), rounding='ROUND_DOWN'):f}"
    return text.rstrip("0").rstrip(".")


def first_values(
    *, tenant_slug: str, last: Workload | None, flavours: list[Flavour], environments: list[Environment], name: str
) -> dict[str, Any]:
    """What the form begins with: the last choice of this person, else the first of everything; and a fresh key."""
    start: Flavour | None = next((f for f in flavours if last and f.resources == last.resources), None)
    resources = last.resources if last else (flavours[0].resources if flavours else Resources(None, 1000, 2 * GIB))
    flavour = start.slug if start else (CUSTOM if last or not flavours else flavours[0].slug)
    environment = next((e.slug for e in environments if last and e.id == last.environment_id), None)
    limit = str((last.time_limit_seconds if last else 28800) or NO_LIMIT)
    return {
        "key": str(ids.new_id()),
        "tenant": tenant_slug,
        "flavour": flavour,
        "environment": environment or (environments[0].slug if environments else ""),
        "name": name,
        "time_limit": limit if limit in dict(TIME_LIMITS) else "28800",
        **numbers_of(resources),
    }
