"""Experiments: a workload with JupyterLab and a home folder that survives stop and start."""

from django.db import models

from apps.workloads.models import Workload


class Experiment(models.Model):
    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, primary_key=True, related_name="experiment")
    home = models.CharField(max_length=100)  # volume name; one per experiment
    remove_home = models.BooleanField(default=False)  # said at deletion; done once the run is gone

    def __str__(self) -> str:
        return self.workload.name
