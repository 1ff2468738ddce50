"""A share of a GPU as people say it: memory in GiB and compute in per cent, on each card."""

from decimal import Decimal

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.share import GIB

_STEP = Decimal("0.25")  # GiB


class ShareForm(forms.Form):
    gpu_memory = forms.DecimalField(
        label=_("GPU memory"), min_value=_STEP, decimal_places=2, step_size=0.25, required=False
    )
    gpu_compute = forms.DecimalField(
        label=_("Compute, guaranteed"),
        help_text=_("You always get this much."),
        min_value=1, max_value=100, decimal_places=1, required=False,
    )  # fmt: skip
    gpu_ceiling = forms.DecimalField(
        label=_("Compute, at most"),
        help_text=_("While others are idle you may borrow up to this much."),
        min_value=1, max_value=100, decimal_places=1, required=False,
    )  # fmt: skip

    def offer_memory(self, most: int) -> None:
        """The slider ends at `most` bytes, rounded down to whole steps."""
        self.fields["gpu_memory"].max_value = Decimal(most) / GIB // _STEP * _STEP  # type: ignore[attr-defined]
