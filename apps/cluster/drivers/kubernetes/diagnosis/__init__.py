"""Whether the cluster is as Tessera needs it: what is seen of it, and what that means. Unknown is never good."""

from apps.cluster.drivers.kubernetes.diagnosis.diagnoser import Diagnoser

__all__ = ["Diagnoser"]
