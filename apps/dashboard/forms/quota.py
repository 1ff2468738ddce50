"""The quota editor. Amounts as people say them; an empty field is no limit."""

from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.share import GIB
from apps.quotas.models import Quota

# field -> how many of the ledger's units one shown unit is
FACTORS = {
    "gpu_memory": GIB,
    "gpu_compute": 10,
    "cpu_milli": 1000,
    "ram": GIB,
    "running": 1,
    "running_per_user": 1,
    "pending": 1,
}


def _amount(label: Any, unit: str, help_text: Any = "", places: int = 2) -> forms.DecimalField:
    field = forms.DecimalField(
        label=label, min_value=0, max_digits=12, decimal_places=places, required=False, help_text=help_text
    )
    field.unit = unit  # type: ignore[attr-defined]  # read by the template
    return field


class QuotaForm(forms.Form):
    version = forms.IntegerField(widget=forms.HiddenInput)
    gpu_memory = _amount(_("GPU memory"), "GiB")
    gpu_compute = _amount(_("GPU compute"), "%", _("A whole GPU counts 100 %."), places=1)
    cpu_milli = _amount(_("CPU cores"), "", places=3)
    ram = _amount(_("RAM"), "GiB")
    running = _amount(_("Running at once"), "", places=0)
    running_per_user = _amount(_("Running at once per person"), "", places=0)
    pending = _amount(_("Waiting in the queue"), "", _("0 refuses instead of queueing."), places=0)

    @property
    def limits(self) -> dict[str, int | None]:
        """Of a valid form, in the ledger's units."""
        return {
            name: None if self.cleaned_data[name] is None else int(self.cleaned_data[name] * factor)
            for name, factor in FACTORS.items()
        }


def first_values(quota: Quota | None) -> dict[str, Any]:
    if quota is None:
        return {"version": 0}
    shown = {name: _shown(getattr(quota, name), factor) for name, factor in FACTORS.items()}
    return {"version": quota.version, **shown}


def _shown(value: int | None, factor: int) -> str:
    if value is None:
        return ""
    text = f"{(Decimal(value) / factor).quantize(Decimal('0.001')):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
