"""Driver for one machine: experiments as processes, for evaluation and single workstations. Asynchronous, without Django."""

from apps.cluster.drivers.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
