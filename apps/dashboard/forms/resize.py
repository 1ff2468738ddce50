"""Another share for a workload that is there. Checks shape only; what may change is decided by `workloads.resizing`."""

from decimal import Decimal
from typing import Any

from apps.core.share import MIB, GpuShare, Resources
from apps.dashboard.forms.experiment import numbers_of
from apps.dashboard.forms.share import ShareForm
from apps.workloads.models import Workload
from apps.workloads.resizing import Change


class ResizeForm(ShareForm):
    """What is left out stays."""

    def __init__(self, *args: Any, workload: Workload, largest: int, fixed: bool, **kwargs: Any) -> None:
        """`largest` bytes are the most that the memory's slider offers; `fixed`: the guarantee cannot change here."""
        kwargs.setdefault("initial", numbers_of(workload.resources))
        super().__init__(*args, **kwargs)
        self.offer_memory(largest)
        if fixed:
            del self.fields["gpu_compute"]
        self._share = workload.share

    @property
    def change(self) -> Change:
        """Of a valid form. A number that shows what there is, rounded as it is shown, changes nothing."""
        memory, compute, ceiling = (self.cleaned_data.get(f"gpu_{name}") for name in ("memory", "compute", "ceiling"))
        guaranteed = int(compute * 10) if compute is not None else None
        most = int(ceiling * 10) if ceiling is not None else None
        if most is not None and guaranteed is not None:
            most = max(most, guaranteed)
        return Change(self._bytes(memory), guaranteed, most)

    def _bytes(self, gibibytes: Decimal | None) -> int | None:
        shown = numbers_of(Resources(self._share, 0, 0))["gpu_memory"] if isinstance(self._share, GpuShare) else None
        if gibibytes is None or gibibytes == Decimal(shown or -1):
            return None
        return int(gibibytes * 1024) * MIB
