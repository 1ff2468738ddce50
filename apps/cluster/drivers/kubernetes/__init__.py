"""Driver for Kubernetes: runs as pods, shares of cards as claims of Dynamic Resource Allocation. Asynchronous, without Django."""

from apps.cluster.drivers.kubernetes.api import Connection
from apps.cluster.drivers.kubernetes.cluster import KubernetesCluster
from apps.cluster.drivers.kubernetes.settings import Rules, Timing

__all__ = ["Connection", "KubernetesCluster", "Rules", "Timing"]
