"""How a cluster cuts its cards, chosen by what its API server offers."""

from apps.cluster.drivers.kubernetes.adapters.base import Slice, SliceAdapter
from apps.cluster.drivers.kubernetes.adapters.choose import Choice, Offers, choose

__all__ = ["Choice", "Offers", "Slice", "SliceAdapter", "choose"]
