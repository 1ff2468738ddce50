"""What the agent asks of the Kubernetes API server, as plain JSON. The only place that imports the Kubernetes client.

Every request has a time limit of its own: a connection that is half open must not stop the agent from asking again.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config

from vcuda.node.errors import NodeError

Json = dict[str, Any]

FIELD_MANAGER: Final = "tessera-node-agent"
_ANSWER: Final = aiohttp.ClientTimeout(total=10)  # s
_WATCH: Final = (
    60,
    90,
)  # s that a watch lasts, drawn anew each time so that the nodes of a cluster do not return together
_GRACE: Final = 15  # s beyond that the server may take to end it
_LINE: Final = 8 * 1024**2  # bytes of one event


class ApiError(NodeError):
    """The API server refuses or does not answer; `status` is 503 where it does not."""

    code = "api_server"

    def __init__(self, message: str, status: int = 503) -> None:
        super().__init__(message)
        self.status = status


class KubeApi:
    """Raises ApiError from every call."""

    def __init__(self, configuration: client.Configuration) -> None:
        self._client = client.ApiClient(configuration)
        self._client.user_agent = FIELD_MANAGER

    @classmethod
    async def connect(cls) -> Self:
        """The account of our pod, or the KUBECONFIG of whoever starts us by hand."""
        configuration = client.Configuration()
        try:
            if os.environ.get("KUBECONFIG"):
                await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError) as error:
            raise ApiError(f"There is no way to the API server: {error} Run in a pod, or set KUBECONFIG.") from None
        return cls(configuration)

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, path: str, **query: str) -> Json:
        return await self._answer("GET", path, query)

    async def apply(self, path: str, body: Json) -> Json:
        """Server-side apply: made or brought into this shape, whoever had another one in mind."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._answer("PATCH", path, query, body)

    async def delete(self, path: str) -> None:
        """Missing is success."""
        try:
            await self._answer("DELETE", path, {})
        except ApiError as error:
            if error.status != 404:
                raise

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Json, None]:
        """Events after `version`, until the server ends the watch (it is asked to, after a minute or so)."""
        lasts = random.randint(*_WATCH)  # noqa: S311
        query |= {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(lasts),
        }
        limits = aiohttp.ClientTimeout(total=lasts + _GRACE, sock_connect=10)
        async with aclosing(self._lines("GET", path, query, limits)) as lines:
            async for line in lines:
                event = _parse(line)
                if event.get("type") == "ERROR":
                    raise _refused(event.get("object", {}).get("code", 410), path, line)
                yield event

    async def _answer(self, method: str, path: str, query: Mapping[str, str], body: Json | None = None) -> Json:
        try:
            response = await self._send(method, path, query, _ANSWER, body)
            text = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _silent(path, error) from None
        if response.status >= 400:
            raise _refused(response.status, path, text)
        return _parse(text)

    async def _lines(
        self, method: str, path: str, query: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> AsyncGenerator[bytes, None]:
        try:
            response = await self._send(method, path, query, limits)
            try:
                if response.status >= 400:
                    raise _refused(response.status, path, await response.read())
                while line := await response.content.readuntil(b"\n"):
                    yield line
            finally:
                response.close()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise _silent(path, error) from None

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
        body: Json | None = None,
    ) -> aiohttp.ClientResponse:
        headers = dict(self._client.default_headers) | {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/apply-patch+yaml"
        auth = await self._client.configuration.auth_settings()
        headers |= {entry["key"]: entry["value"] for entry in auth.values() if entry["value"]}
        url = f"{self._client.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = await self._client.call_api(method, url, headers, body, _request_timeout=limits)
        response: aiohttp.ClientResponse = answer.response
        return response


def _parse(text: bytes) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ApiError("The API server answered something that is not JSON.")
    return found


def _refused(status: int, path: str, text: bytes) -> ApiError:
    """With the server's own words where it has any."""
    try:
        said = str(json.loads(text).get("message", "")) or str(json.loads(text).get("object", {}).get("message", ""))
    except (ValueError, AttributeError):
        said = ""
    return ApiError(f"The API server answers {status} for {path}: {said or 'no reason given'}", status)


def _silent(path: str, error: Exception) -> ApiError:
    return ApiError(f"The API server does not answer for {path}: {error or type(error).__name__}")
