"""One look, judged part by part."""

from collections.abc import Sequence

from apps.cluster.diagnosis import Area, Finding, Level, Report
from apps.cluster.drivers.kubernetes.diagnosis import agents, cards, limits, order, rights, server
from apps.cluster.drivers.kubernetes.diagnosis.looking import look
from apps.cluster.drivers.kubernetes.reading import Reader
from apps.cluster.drivers.kubernetes.settings import Rules
from apps.core import clock
from apps.core.errors import PortalError


class Diagnoser:
    def __init__(self, reader: Reader, rules: Rules) -> None:
        self._reader, self._rules = reader, rules

    async def findings(self, told: Report | None) -> Sequence[Finding]:
        now = clock.now()
        try:
            async with self._reader.api() as api:
                seen = await look(api, self._rules)
        except PortalError as error:
            away = Finding(Area.SERVER, "server_away", Level.BAD, {"problem": str(error.message)})
            return (away, *server.watches(told, now))
        return (
            *server.version(seen),
            *server.watches(told, now),
            *rights.judged(seen),
            *cards.judged(seen, self._reader.adapter),
            *limits.judged(seen),
            *order.judged(seen),
            *server.requests(told, now),
            *agents.judged(seen, told, now),
        )
