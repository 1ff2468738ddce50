"""A few calls to the API server, with the standard library alone: enough for the harness, which must not depend on the product."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

_SECONDS: Final = 10.0  # that an answer may take


class Refused(Exception):
    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"The API server answered {status}: {body}")
        self.status = status


class Api:
    """One connection a call. Raises OSError or http.client.HTTPException where the server does not answer, Refused where it does."""

    def __init__(self, kubeconfig: Path) -> None:
        content = json.loads(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self._host = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as both:  # ssl reads client certificates from files only
            for name in ("client-certificate-data", "client-key-data"):
                both.write(base64.b64decode(user[name]))
            both.flush()
            self._tls.load_cert_chain(both.name)

    def get(self, path: str, *, timeout: float = _SECONDS, **query: str) -> Any:
        return json.loads(self.call("GET", path, query=query, timeout=timeout))

    def find(self, path: str) -> Any | None:
        """None where there is no such object."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status != http.client.NOT_FOUND:
                raise
            return None

    def post(self, path: str, body: Any) -> Any:
        return json.loads(self.call("POST", path, body=body))

    def merge(self, path: str, patch: Any) -> None:
        """Of an object, by a merge patch."""
        self.call("PATCH", path, body=patch, content="application/merge-patch+json")

    def delete(self, path: str, **query: str) -> None:
        """An object, or all of a collection."""
        self.call("DELETE", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content: str = "application/json",
        timeout: float = _SECONDS,
    ) -> bytes:
        with closing(self._connection(timeout)) as connection:
            return self._answer(connection, method, path, query, body, content).read()

    def watch(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Events until the server ends the watch, within half a minute."""
        query = {"watch": "1", "timeoutSeconds": "30"} | query
        with closing(self._connection(timeout=40)) as connection:
            for line in self._answer(connection, "GET", path, query, None):
                yield json.loads(line)

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: dict[str, str] | None,
        body: Any,
        content: str = "application/json",
    ) -> http.client.HTTPResponse:
        target = f"{path}?{urlencode(query)}" if query else path
        payload = None if body is None else json.dumps(body)
        connection.request(method, target, payload, {"Content-Type": content})
        response = connection.getresponse()
        if response.status >= 300:
            raise Refused(response.status, response.read().decode("utf-8", "replace"))
        return response

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        assert self._host.hostname
        return http.client.HTTPSConnection(self._host.hostname, self._host.port, timeout=timeout, context=self._tls)
