"""Where the gateway connects in these tests: the driver named by TESSERA_DRIVER, reduced to what a reader is asked for."""

from apps.cluster.specs import Endpoint
from apps.core.errors import NotFound

endpoints: dict[str, Endpoint] = {}


class Dialler:
    async def dial(self, uid: str, port: str) -> Endpoint:
        if uid not in endpoints or port != "http":
            raise NotFound("nothing listens")
        return endpoints[uid]
