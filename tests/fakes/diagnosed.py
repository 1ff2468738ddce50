"""A driver whose cluster has one finding of each level, for pages."""

from collections.abc import Sequence
from typing import ClassVar

from apps.cluster.diagnosis import Area, Finding, Level, Report
from tests.fakes.cluster import FakeCluster


class Diagnosed(FakeCluster):
    found: ClassVar[list[Finding]] = [
        Finding(
            Area.SERVER, "server_answers", Level.GOOD, {"version": "v1.36.3", "took_milliseconds": 9, "needed": "1.36"}
        ),
        Finding(
            Area.LIMITS,
            "volumes_limit_low",
            Level.ATTENTION,
            {"queries_per_second": 20, "wanted": 100, "wanted_burst": 200},
        ),
        Finding(Area.CARDS, "cards_not_offered", Level.BAD, {}, "kubectl logs <agents>"),
        Finding(Area.LIMITS, "scheduler_limit_unknown", Level.UNKNOWN, {"stock_per_second": 15.0}, "curl configz"),
    ]

    def diagnoser(self) -> "Diagnosed":
        return self

    async def findings(self, told: Report | None) -> Sequence[Finding]:
        return self.found
