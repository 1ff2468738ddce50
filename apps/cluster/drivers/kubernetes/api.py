"""One API server: dicts in, dicts out, failures as ours. The only module that knows the client library.

Models are never decoded: that costs twenty times the JSON, and they raise on what a real server leaves out.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
from kubernetes.aio import client as library
from kubernetes.aio import config as library_config
from kubernetes.aio.client import rest

from apps.cluster.drivers.kubernetes import names
from apps.cluster.drivers.kubernetes.kinds import Resource, resource_of
from apps.core.errors import Unavailable

Manifest = dict[str, Any]
Params = Mapping[str, str | int | bool]

_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TRIES = 4  # of a request that the server refused for being busy
_LONGEST_WAIT = 5.0  # s that are waited because a busy server asks for it
# s after each attempt to create, where others use up the same ResourceQuota at the same moment
_COLLIDED = (0.05, 0.1, 0.2, 0.4, 0.8)
_IDLE = 50.0  # s that an idle connection is kept, as a TLS handshake costs both sides; API servers close theirs after 90, proxies after 60
_CONNECTIONS = 512  # watches, port-forwards and requests at once
_BREAKS = (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError)
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiError(Exception):
    """What the API server answered instead of doing it. `reason` is the word of its Status, `message` its sentence."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def exists(self) -> bool:
        """There is one of that name."""
        return self.status == 409 and self.reason == "AlreadyExists"


class ClusterUnavailable(Unavailable):
    """The API server does not answer, or answers that it cannot."""

    code = "cluster_unavailable"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is. Everything empty: the pod's own service account where there is one, else the default kubeconfig."""

    kubeconfig: str = ""
    context: str = ""
    host: str = ""  # a URL, with `token_file` and `ca_file`
    token_file: str = ""
    ca_file: str = ""

    @property
    def inside(self) -> bool:
        """We run in a pod of this cluster."""
        return not (self.kubeconfig or self.context or self.host) and "KUBERNETES_SERVICE_HOST" in os.environ


class _Rest(rest.RESTClientObject):
    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=_CONNECTIONS, keepalive_timeout=_IDLE, ssl=self.ssl_context, socket_factory=_watched_socket
        )


def _watched_socket(info: Any) -> socket.socket:
    """The kernel asks a silent peer whether it is still there, so that a half-open connection ends within half a minute."""
    family, kind, protocol = info[0], info[1], info[2]
    made = socket.socket(family, kind, protocol)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 25_000)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


class Token:
    """A token in a file, which the kubelet writes anew long before it expires: read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int] | None = None
        self._text = ""

    def text(self, *, anew: bool = False) -> str:
        try:
            found = self._path.stat()
            mark = (found.st_mtime_ns, found.st_ino)
            if anew or mark != self._mark:
                self._text, self._mark = self._path.read_text().strip(), mark
        except OSError as problem:
            raise ClusterUnavailable(f"The token of the API server cannot be read: {problem}") from problem
        return self._text


class Api:
    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float = 15.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._sleep = sleep
        self._token: Token | None = None
        self._client: library.ApiClient | None = None
        self.sent = 0  # requests, for the count per start of a workload
        self.refused = 0  # of them, because the server was too busy

    # --- Connecting ------------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        configuration = library.Configuration()
        where = self._connection
        if where.host:
            configuration.host = where.host.rstrip("/")
            configuration.ssl_ca_cert = where.ca_file or None
            self._token = Token(Path(where.token_file)) if where.token_file else None
        elif where.inside:
            library_config.load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]
            configuration.api_key = {}  # ours is read anew when it rotates
            self._token = Token(_TOKEN)
        else:
            await self._load_kubeconfig(configuration)
        configuration.client_session_kwargs = {"trust_env": _has_proxy()}
        made = library.ApiClient(configuration)
        made.rest_client = _Rest(configuration)
        self._client = made

    async def _load_kubeconfig(self, configuration: library.Configuration) -> None:
        where = self._connection
        try:
            await library_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=where.kubeconfig or None,
                context=where.context or None,
                client_configuration=configuration,
            )
        except (library_config.ConfigException, OSError) as problem:
            raise ClusterUnavailable(f"No way to a cluster: {problem}") from problem

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()  # type: ignore[no-untyped-call]
            self._client = None

    async def __aenter__(self) -> "Api":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- Asking ----------------------------------------------------------------------------------------------------------
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> Manifest:
        """The answer's JSON. A server that is too busy is asked again after the time that it names: it has done nothing yet."""
        raw = await self.read(method, path, params=params, body=body, content=content, accept=accept)
        try:
            answer: Manifest = orjson.loads(raw)
        except ValueError as problem:
            raise ClusterUnavailable(f"The API server answered {path} with no JSON") from problem
        return answer

    async def read(self, method: str, path: str, **arguments: Any) -> bytes:
        for left in reversed(range(_TRIES)):
            try:
                async with self._sending(
                    method, path, aiohttp.ClientTimeout(total=self._timeout), **arguments
                ) as answer:
                    return await answer.read()
            except ApiError as error:
                if error.status != 429 or not left:
                    raise
                await self._sleep(min(error.retry_after or 1.0, _LONGEST_WAIT))
            except _BREAKS as problem:
                raise broken(problem) from problem
        raise AssertionError("unreachable")

    async def headers(self, path: str) -> Mapping[str, str]:
        """Of the answer, by names in any case."""
        try:
            async with self._sending("GET", path, aiohttp.ClientTimeout(total=self._timeout)) as answer:
                return answer.headers.copy()
        except _BREAKS as problem:
            raise broken(problem) from problem

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params | None = None, silence: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The answer's bytes as they come; `silence` seconds without one end it with TimeoutError."""
        timeout = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=silence)
        async with self._sending("GET", path, timeout, params=params) as answer:
            yield answer.content

    @asynccontextmanager
    async def _sending(
        self,
        method: str,
        path: str,
        limits: aiohttp.ClientTimeout,
        *,
        params: Params | None = None,
        body: Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": accept, "Content-Type": content}
        answer = await self._send(method, path, params, headers, body, limits)
        if answer.status == 401 and self._token is not None:
            answer.close()
            answer = await self._send(method, path, params, headers, body, limits, anew=True)
        try:
            if answer.status >= 400:
                self.refused += answer.status == 429
                raise await _error(answer)
            yield answer
        finally:
            answer.close()

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None,
        headers: dict[str, str],
        body: Any,
        limits: aiohttp.ClientTimeout,
        *,
        anew: bool = False,
    ) -> aiohttp.ClientResponse:
        self.sent += 1
        sent = {**headers, **await self._authorisation(anew=anew)}
        query = f"?{urlencode([(key, _text(value)) for key, value in params.items()])}" if params else ""
        content = None if body is None else orjson.dumps(body)
        return await self._session.request(
            method, self._host + path + query, headers=sent, data=content, timeout=limits, **self._route
        )

    async def _authorisation(self, *, anew: bool = False) -> dict[str, str]:
        if self._token is not None:
            return {"Authorization": f"Bearer {self._token.text(anew=anew)}"}
        assert self._client is not None, "open() comes first"
        known = await self._client.configuration.auth_settings()  # renews what a kubeconfig's programs have given
        return {"Authorization": known["BearerToken"]["value"]} if "BearerToken" in known else {}

    @property
    def _session(self) -> aiohttp.ClientSession:
        assert self._client is not None, "open() comes first"
        rest_client = self._client.rest_client
        if rest_client.pool_manager is None:
            rest_client.pool_manager = rest_client._create_pool_manager()
        return rest_client.pool_manager

    @property
    def _host(self) -> str:
        assert self._client is not None, "open() comes first"
        return str(self._client.configuration.host)

    @property
    def _route(self) -> dict[str, Any]:
        """What a kubeconfig says of the way there."""
        assert self._client is not None, "open() comes first"
        told = self._client.configuration
        found = {"server_hostname": told.tls_server_name, "proxy": told.proxy, "proxy_headers": told.proxy_headers}
        return {name: value for name, value in found.items() if value}

    # --- Objects ---------------------------------------------------------------------------------------------------------
    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """None where there is no such object."""
        try:
            return await self.request("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def find(
        self, resource: Resource, namespace: str = "", *, params: Params | None = None, metadata_only: bool = False
    ) -> list[Manifest]:
        accept = METADATA_ONLY + ",application/json" if metadata_only else "application/json"
        found = await self.request("GET", resource.path(namespace), params=params, accept=accept)
        items: list[Manifest] = found.get("items") or []
        return items

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply: make it so, whatever was there."""
        resource, meta = resource_of(manifest), manifest["metadata"]
        return await self.request(
            "PATCH",
            resource.path(meta.get("namespace", ""), meta["name"]),
            params={"fieldManager": names.FIELD_MANAGER, "force": True},
            body=manifest,
            content=APPLY,
        )

    async def create(self, manifest: Manifest) -> Manifest:
        """For what never changes once made: another of that name is an ApiError that says `exists`.

        A conflict is none of names: of many that are made at the same moment in one namespace the API server gives up counting some.
        Nothing was made, and it is made a moment later.
        """
        resource, meta = resource_of(manifest), manifest["metadata"]
        path, params = resource.path(meta.get("namespace", "")), {"fieldManager": names.FIELD_MANAGER}
        for pause in _COLLIDED:
            try:
                return await self.request("POST", path, params=params, body=manifest)
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
                collision = error
            await self._sleep(pause)
        raise ClusterUnavailable(
            f"Too much is made at the same moment for the API server to count it: {collision.message}"
        )

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Manifest) -> Manifest:
        path, params = resource.path(namespace, name), {"fieldManager": names.FIELD_MANAGER}
        return await self.request("PATCH", path, params=params, body=patch, content=MERGE)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Missing, or another one under that name by now, is success."""
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self.request("DELETE", resource.path(namespace, name), body=options)
        except ApiError as error:
            if error.status == 404 or (error.status == 409 and uid):
                return
            raise

    # --- Tunnels ---------------------------------------------------------------------------------------------------------
    async def websocket(self, path: str, *, params: list[tuple[str, str]], protocols: tuple[str, ...]) -> "Socket":
        """To a pod's exec or port-forward."""
        url, headers = f"{self._host}{path}?{urlencode(params)}", await self._authorisation()
        route = {name: value for name, value in self._route.items() if name != "server_hostname"}
        try:
            opened: Socket = await self._session.ws_connect(
                url, headers=headers, protocols=protocols, heartbeat=30.0, max_msg_size=0, **route
            )
            return opened
        except aiohttp.WSServerHandshakeError as problem:
            raise ApiError(problem.status, "Handshake", problem.message) from problem
        except _BREAKS as problem:
            raise broken(problem) from problem


Socket = aiohttp.ClientWebSocketResponse


def _has_proxy() -> bool:
    """Asking the environment for each request costs more than the request, so it is asked once."""
    return any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def broken(problem: BaseException) -> ClusterUnavailable:
    what = str(problem) or type(problem).__name__
    return ClusterUnavailable(f"The API server does not answer: {what}", evidence={"problem": what})


async def _error(answer: aiohttp.ClientResponse) -> ApiError:
    """From the Status in the body; a proxy in between may send none."""
    try:
        told = orjson.loads(await answer.read())
    except ValueError:
        told = {}
    told = told if isinstance(told, dict) else {}
    after = answer.headers.get("Retry-After", "")
    return ApiError(
        answer.status,
        str(told.get("reason") or answer.reason or ""),
        str(told.get("message") or answer.reason or ""),
        retry_after=float(after) if after.isdecimal() else None,
    )
