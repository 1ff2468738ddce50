"""The harness's way to the API server, and a connection of it that is kept: a handshake for each request would be counted against whoever does it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.cluster.api import Api

# Of many that are made at once the API server gives up counting some against the namespace's quota, and they are sent again.
_TRIES, _PAUSE = 5, 0.05  # s


class Connected(Api):
    @contextmanager
    def kept(self) -> Iterator[Callable[[str, dict[str, Any]], None]]:
        """A function that posts an object to a path, over one connection that is open already."""
        with closing(self._connection(30)) as connection:
            connection.request("GET", "/readyz")
            connection.getresponse().read()

            def post(path: str, thing: dict[str, Any]) -> None:
                told = b""
                for _ in range(_TRIES):
                    connection.request("POST", path, json.dumps(thing), {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    told = answer.read()
                    if answer.status < 300:
                        return
                    if b'"reason":"Conflict"' not in told:
                        break
                    time.sleep(_PAUSE)
                raise RuntimeError(f"{path}: {told.decode()}")

            yield post
