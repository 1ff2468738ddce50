"""What researchers choose from: environments (what runs) and flavours (how much of a GPU)."""

from typing import ClassVar

from django.db import models
from django.utils.translation import get_language

from apps.core import ids
from apps.core.share import GpuShare, Resources


class Described(models.Model):
    """A choice with a name and one sentence in both languages, shown in the order of `position`."""

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    slug = models.SlugField(max_length=50, unique=True)
    name = models.CharField(max_length=100)
    name_zh = models.CharField(max_length=100, blank=True)
    description = models.CharField(max_length=300, blank=True)
    description_zh = models.CharField(max_length=300, blank=True)
    position = models.PositiveIntegerField(default=100)
    is_active = models.BooleanField(default=True)

    class Meta:
        abstract = True
        ordering: ClassVar = ["position", "name"]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return (self._chinese and self.name_zh) or self.name

    @property
    def summary(self) -> str:
        return (self._chinese and self.description_zh) or self.description

    @property
    def _chinese(self) -> bool:
        return (get_language() or "").startswith("zh")


class Environment(Described):
    """What runs: `key` names it for the driver (a local environment's folder, later an image)."""

    kind = models.CharField(max_length=16, default="experiment")
    key = models.CharField(max_length=200)

    class Meta(Described.Meta):
        abstract = False


class Flavour(Described):
    """A preset of GPU share, CPU and RAM. `gpu_count` 0 is a flavour without a GPU."""

    gpu_count = models.PositiveIntegerField(default=1)
    gpu_memory = models.PositiveBigIntegerField(default=0)  # bytes on each card
    gpu_compute = models.PositiveIntegerField(default=0)  # per mille guaranteed
    gpu_ceiling = models.PositiveIntegerField(default=0)  # per mille
    cpu_milli = models.PositiveIntegerField(default=1000)
    ram = models.PositiveBigIntegerField(default=2 * 1024**3)

    class Meta(Described.Meta):
        abstract = False

    @property
    def resources(self) -> Resources:
        share = (
            GpuShare(self.gpu_count, self.gpu_memory, self.gpu_compute, self.gpu_ceiling) if self.gpu_count else None
        )
        return Resources(gpu=share, cpu_milli=self.cpu_milli, ram=self.ram)
